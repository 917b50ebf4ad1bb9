/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_bench.c: the time of an exchange between neighbours, by several methods:
 *
 * - Isend and Irecv
 * - persistent requests
 * - MPI_Neighbor_alltoallv, MPI_Put with fences, MPI_Put with passive targets (bench/halo_ways.h)
 * - the halo library
 * - the halo library with packed buffers (bench/halo_packed.h; experiments B and C)
 * - copies alone (bench/halo_copies.h)
 *
 *     --experiment A   two ranks send each other --doubles numbers, each from and to one block
 *     --experiment B   the exchange of a product with the 27-point matrix on -n cubed; the parts
 * are blocks of rows
 *     --experiment C   the same, with parts by METIS
 *     --matrix FILE    B and C: the matrix of a Matrix Market file in place of the 27-point matrix
 *     --experiment D   two ranks play ping-pong by MPI alone, in a form that the promoter cannot
 *                      promote: sizes do not repeat, and the answer's receive is a wildcard
 *
 * In each of --rounds every method runs for about --sample-ms, in an order that rotates. A sample
 * is the time of one exchange of the slowest rank. `halo-setup` is the time of a set-up. Rank 0
 * prints one JSON object a line: experiment, method, bytes (of the rank that receives most), value
 * (µs).
 *
 * With --line FILE, for two ranks on one machine, each object also has line_ns, the time of a cache
 * line between their cores (bench/line.h). The method copies needs another such file, --copies
 * FILE.
 */
#include "bench/halo_copies.h"
#include "bench/halo_packed.h"
#include "bench/halo_pair.h"
#include "bench/halo_ways.h"
#include "examples/spmv/problem.h"
#include "hikyaku/halo.h"
#include "line.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct exchange_kind *const kinds[METHODS] = {
	[PLAIN_MPI] = &exchange_mpi,     [PERSISTENT] = &exchange_persistent,
	[NEIGHBOR] = &exchange_neighbor, [FENCE] = &exchange_fence,
	[LOCK] = &exchange_lock,         [HALO] = &exchange_halo,
	[PACKED] = &exchange_packed,     [COPIES] = &exchange_copies,
};
static int rank, size, rounds = 5, sample_ms = 30, cube = 32;
static int chosen[METHODS] = {1, 1, 1, 1, 1, 1, 1, 0};
static const char *matrix_file; /* NULL: the cube */
static struct hk_line line;

void bench_fail(const char *what)
{
	fprintf(stderr, "halo_bench: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

void *bench_need(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		bench_fail("no memory");
	return p;
}

static void row(const char *experiment, const char *method, long long bytes, double seconds)
{
	double apart = hk_line_ns(&line, (unsigned)rank);
	char beside[40] = "";

	if (rank != 0)
		return;
	if (apart > 0)
		snprintf(beside, sizeof(beside), ",\"line_ns\":%.1f", apart);
	printf("{\"experiment\":\"%s\",\"method\":\"%s\",\"bytes\":%lld,\"value\":%.3f%s}\n",
	       experiment, method, bytes, 1e6 * seconds, beside);
}

/* ---- experiments B and C ----------------------------------------------------------------------
 */

struct spmv {
	void *e;
	const struct exchange_kind *kind;
	double *x;
	int rows, ghosts, *local;
	const struct matrix *m;
};

static struct spmv *spmv_new(const struct matrix *m, int method)
{
	struct spmv *s = bench_need(sizeof(*s));

	s->kind = kinds[method];
	s->m = m;
	s->rows = m->rows;
	s->local = bench_need(sizeof(int) * (size_t)m->start[m->rows]);
	s->e = s->kind->plan(MPI_COMM_WORLD, m->rows, m->start[m->rows], m->column, s->local,
			     &s->ghosts);
	s->x = bench_need(sizeof(double) * (size_t)(m->rows + s->ghosts));
	for (int k = 0; k < m->rows; k++)
		s->x[k] = (double)(m->first + k);
	return s;
}

static void spmv_close(struct spmv *s)
{
	for (int k = 0; k < s->m->start[s->rows]; k++)
		if (s->x[s->local[k]] != (double)s->m->column[k])
			bench_fail("wrong data came");
	s->kind->close(s->e);
	free(s->local);
	free(s->x);
	free(s);
}

/* ---- experiment D: no size repeats ------------------------------------------------------------
 */

#define BALL_DOUBLES 64 /* at most */

struct ball {
	double there[BALL_DOUBLES], back[BALL_DOUBLES];
	uint32_t random;
};

/* Both ranks draw the same sizes. */
static void ball_once(struct ball *b)
{
	MPI_Status s;
	int doubles, got;

	b->random = b->random * 1664525U + 1013904223U;
	doubles = 1 + (int)(b->random >> 16) % BALL_DOUBLES;
	if (rank == 0) {
		MPI_Send(b->there, doubles, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(b->back, BALL_DOUBLES, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &s);
		doubles = BALL_DOUBLES;
	} else {
		MPI_Recv(b->there, BALL_DOUBLES, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &s);
		MPI_Send(b->back, BALL_DOUBLES, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
	}
	MPI_Get_count(&s, MPI_DOUBLE, &got);
	if (got != doubles)
		bench_fail("a message of another size came");
}

/* ---- measuring --------------------------------------------------------------------------------
 */

enum what { PAIR, SPMV, BALL };

struct run {
	void *state[METHODS];
	enum what what;
	int count[METHODS];
};

static void once(const struct run *r, int method)
{
	if (r->what == BALL) {
		ball_once(r->state[method]);
	} else if (r->what == SPMV) {
		struct spmv *s = r->state[method];

		s->kind->start(s->e);
		s->kind->finish(s->e);
	} else {
		pair_start(r->state[method], method);
		pair_finish(r->state[method], method);
	}
}

/* Seconds of one exchange, of the slowest rank. */
static double sample(const struct run *r, int method, int count)
{
	double took, slowest;

	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();

	for (int k = 0; k < count; k++)
		once(r, method);
	took = (MPI_Wtime() - start) / count;
	MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

static long long most_of(long long bytes)
{
	long long most;

	MPI_Allreduce(&bytes, &most, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
	return most;
}

/* The number of exchanges that take about --sample-ms. Among few exchanges, one lost frame would
 * decide the result. */
static int count_for_sample(const struct run *r, int method)
{
	double wanted = 1e-3 * sample_ms, took;
	int count = 10;

	do {
		count *= 2;
		took = count * sample(r, method, count);
	} while (took < wanted / 4 && count < INT_MAX / 4);
	return (int)(count * wanted / took) + 1;
}

static void measure(struct run *r, const char *experiment, long long bytes)
{
	long long most = most_of(bytes);

	for (int m = 0; m < METHODS; m++)
		if (chosen[m])
			r->count[m] = count_for_sample(r, m);
	for (int round = 0; round < rounds; round++)
		for (int k = 0; k < METHODS; k++) {
			int m = (round + k) % METHODS;

			if (chosen[m])
				row(experiment, kinds[m]->name, most, sample(r, m, r->count[m]));
		}
}

static double since(double start)
{
	double took = MPI_Wtime() - start, slowest;

	MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

static void experiment_a(int doubles)
{
	struct run r = {.what = PAIR};

	chosen[PACKED] = 0; /* nothing to pack */
	for (int round = 0; chosen[HALO] && round < rounds; round++) {
		struct pair *p = pair_new(rank, doubles);

		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();

		pair_open(p, HALO);
		row("A", "halo-setup", 8LL * doubles, since(start));
		pair_start(p, HALO);
		pair_finish(p, HALO);
		pair_close(p, HALO);
	}
	for (int m = 0; m < METHODS; m++)
		if (chosen[m]) {
			r.state[m] = pair_new(rank, doubles);
			pair_open(r.state[m], m);
		}
	measure(&r, "A", 8LL * doubles);
	for (int m = 0; m < METHODS; m++)
		if (chosen[m])
			pair_close(r.state[m], m);
}

static void experiment_spmv(int metis)
{
	const char *why, *name = metis ? "C" : "B";
	struct matrix *m = matrix_file ? matrix_read(MPI_COMM_WORLD, matrix_file, metis, &why)
				       : matrix_make(MPI_COMM_WORLD, cube, metis, &why);
	struct run r = {.what = SPMV};
	int ghosts = 0;

	if (!m)
		bench_fail(why);
	for (int k = 0; k < METHODS; k++) {
		if (!chosen[k])
			continue;
		struct spmv *s = spmv_new(m, k);

		ghosts = s->ghosts;
		s->kind->connect(s->e, s->x);
		r.state[k] = s;
	}
	for (int round = 0; chosen[HALO] && round < rounds; round++) {
		struct spmv *s = spmv_new(m, HALO);

		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();

		s->kind->connect(s->e, s->x);
		row(name, "halo-setup", most_of(8LL * ghosts), since(start));
		s->kind->start(s->e);
		s->kind->finish(s->e);
		spmv_close(s);
	}
	measure(&r, name, 8LL * ghosts);
	for (int k = 0; k < METHODS; k++)
		if (chosen[k])
			spmv_close(r.state[k]);
	matrix_free(m);
}

static void experiment_d(void)
{
	static struct ball ball;
	struct run r = {.what = BALL, .state = {&ball}};

	for (int m = 0; m < METHODS; m++)
		chosen[m] &= m == PLAIN_MPI;
	measure(&r, "D", (long long)sizeof(ball.back));
}

static bool copies_by(const char *file)
{
	chosen[COPIES] = size == 2 && hk_copies_open(file, rank);
	return chosen[COPIES];
}

static int positive(const char *text)
{
	int v = atoi(text);

	if (v < 1)
		bench_fail("an option needs a number of 1 or more");
	return v;
}

int main(int argc, char **argv)
{
	const char *experiment = "A";
	char *doubles = NULL, all[] = "100,1000,10000,100000";

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];

		if (strcmp(name, "--experiment") == 0)
			experiment = value;
		else if (strcmp(name, "--doubles") == 0)
			doubles = argv[i + 1]; /* strtok() writes to it */
		else if (strcmp(name, "-n") == 0)
			cube = positive(value);
		else if (strcmp(name, "--matrix") == 0)
			matrix_file = value;
		else if (strcmp(name, "--rounds") == 0)
			rounds = positive(value);
		else if (strcmp(name, "--sample-ms") == 0)
			sample_ms = positive(value);
		else if (strcmp(name, "--line") == 0 && !hk_line_open(&line, value))
			bench_fail("the file of --line cannot be mapped");
		else if (strcmp(name, "--copies") == 0 && !copies_by(value))
			bench_fail("--copies needs two ranks, and a file that can be mapped");
		else if (strcmp(name, "--methods") == 0)
			for (int m = 0; m < COPIES; m++)
				chosen[m] = strstr(value, kinds[m]->name) != NULL;
		else if (strcmp(name, "--line") != 0 && strcmp(name, "--copies") != 0)
			bench_fail("an option is unknown");
	}
	int two = strcmp(experiment, "A") == 0 || strcmp(experiment, "D") == 0;

	if (size != 2 && (two || line.word))
		bench_fail("experiments A and D, and --line, need two ranks");
	if (strcmp(experiment, "A") == 0) {
		for (char *d = strtok(doubles ? doubles : all, ","); d; d = strtok(NULL, ","))
			experiment_a(positive(d));
	} else if (strcmp(experiment, "B") == 0 || strcmp(experiment, "C") == 0) {
		experiment_spmv(experiment[0] == 'C');
	} else if (strcmp(experiment, "D") == 0) {
		experiment_d();
	} else {
		bench_fail("the experiment must be A, B, C or D");
	}
	MPI_Finalize();
	return 0;
}

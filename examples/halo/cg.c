/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/halo/cg.c: the method of conjugate gradients (Hestenes and Stiefel 1952) with threads of
 * OpenMP. It solves with the 27-point matrix of examples/spmv on n³ points twice: the exchange is
 * by MPI's Isend and Irecv, and by the halo library. A file of Matrix Market can take the place of
 * that matrix; it must be symmetric and positive definite. cg_threads.f90 is the same in Fortran.
 *
 *     mpirun -np 2 halo_cg_threads [-n 40] [--matrix FILE.mtx] [--partition rows|metis]
 *                                  [--solves 3]
 *
 * Only the main thread exchanges. Sums do not depend on the number of threads, so both solutions
 * are equal bit by bit. It prints `PASS cg …` with the least time of a whole solve by each.
 */
#include "examples/spmv/problem.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE     "halo_cg_threads [-n N] [--matrix FILE.mtx] [--partition rows|metis] [--solves N]"
#define STEPS     500
#define TOLERANCE 1e-10 /* of the residual, relative to the right side */
#define CHUNK     1024  /* elements that one thread sums */

struct solver {
	const struct matrix *m;
	const struct exchange_kind *kind;
	void *e;
	int *local;
	double *x, *r, *q, *p, *part; /* [rows]; p also has the ghosts, part a sum for each chunk */
	double residual, seconds;
	int steps;
};

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "cg: %s%s\n", what, strstr(what, "; fix: ") ? "" : "; fix: " USAGE);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

static void *need(size_t count, size_t size)
{
	void *p = calloc(count + 1, size);

	if (!p)
		fail("no memory");
	return p;
}

static double dot(struct solver *s, const double *a, const double *b)
{
	int rows = s->m->rows, chunks = (rows + CHUNK - 1) / CHUNK;
	double mine = 0, all;

#pragma omp parallel for schedule(static)
	for (int c = 0; c < chunks; c++) {
		int end = (c + 1) * CHUNK < rows ? (c + 1) * CHUNK : rows;

		s->part[c] = 0;
		for (int k = c * CHUNK; k < end; k++)
			s->part[c] += a[k] * b[k];
	}
	for (int c = 0; c < chunks; c++)
		mine += s->part[c];
	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* q = A p */
static void multiply(struct solver *s)
{
	const struct matrix *m = s->m;

	s->kind->start(s->e);
	s->kind->finish(s->e);
#pragma omp parallel for schedule(static)
	for (int r = 0; r < m->rows; r++) {
		double sum = 0;

		for (int k = m->start[r]; k < m->start[r + 1]; k++)
			sum += m->value[k] * s->p[s->local[k]];
		s->q[r] = sum;
	}
}

/* a = b + f * c, where a may be b or c. */
static void combine(int rows, double *a, const double *b, double f, const double *c)
{
#pragma omp parallel for schedule(static)
	for (int k = 0; k < rows; k++)
		a[k] = b[k] + f * c[k];
}

static void solve(struct solver *s)
{
	int rows = s->m->rows;
	double rr, first, next;

	for (int k = 0; k < rows; k++) {
		s->x[k] = 0;
		s->r[k] = s->p[k] = 1 + (double)(s->m->original[k] % 7);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();

	rr = first = dot(s, s->r, s->r);
	for (s->steps = 0; s->steps < STEPS && rr > TOLERANCE * TOLERANCE * first; s->steps++) {
		multiply(s);
		double curvature = dot(s, s->p, s->q), alpha = rr / curvature;
		if (!(curvature > 0))
			fail("the matrix is not symmetric and positive definite; fix: conjugate "
			     "gradients need one that is");

		combine(rows, s->x, s->x, alpha, s->p);
		combine(rows, s->r, s->r, -alpha, s->q);
		next = dot(s, s->r, s->r);
		combine(rows, s->p, s->r, next / rr, s->p);
		rr = next;
	}
	double took = MPI_Wtime() - start;

	if (rr > TOLERANCE * TOLERANCE * first)
		fail("too many steps; fix: use a matrix that is symmetric, positive definite and "
		     "well conditioned");
	MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (s->seconds == 0 || took < s->seconds)
		s->seconds = took;
	/* the residual of the solution itself, not that of the recurrence */
	memcpy(s->p, s->x, sizeof(double) * (size_t)rows);
	multiply(s);
	for (int k = 0; k < rows; k++)
		s->r[k] = 1 + (double)(s->m->original[k] % 7) - s->q[k];
	s->residual = sqrt(dot(s, s->r, s->r) / first);
}

static struct solver *solver_new(const struct matrix *m, const struct exchange_kind *kind)
{
	struct solver *s = need(1, sizeof(*s));
	size_t rows = (size_t)m->rows;
	int ghosts;

	s->m = m;
	s->kind = kind;
	s->local = need((size_t)m->start[m->rows], sizeof(int));
	s->e = kind->plan(MPI_COMM_WORLD, m->rows, m->start[m->rows], m->column, s->local, &ghosts);
	s->x = need(rows, sizeof(double));
	s->r = need(rows, sizeof(double));
	s->q = need(rows, sizeof(double));
	s->p = need(rows + (size_t)ghosts, sizeof(double));
	s->part = need(rows / CHUNK + 1, sizeof(double));
	kind->connect(s->e, s->p);
	return s;
}

static void solver_free(struct solver *s)
{
	s->kind->close(s->e);
	free(s->local);
	free(s->x);
	free(s->r);
	free(s->q);
	free(s->p);
	free(s->part);
	free(s);
}

static int number(const char *text, int most)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (*end || end == text || v < 1 || v > most)
		fail("an option has a wrong number");
	return (int)v;
}

int main(int argc, char **argv)
{
	int n = 40, metis = 0, solves = 3, rank, size, level, differ;
	const char *why, *file = NULL;
	char problem[32] = "matrix of a file";

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts(USAGE);
		return 0;
	}
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (level < MPI_THREAD_FUNNELED)
		fail("this MPI allows no threads");
	for (int i = 1; i < argc; i += 2) {
		const char *v = argv[i + 1] ? argv[i + 1] : "";

		if (strcmp(argv[i], "-n") == 0)
			n = number(v, MATRIX_EDGE_MAX);
		else if (strcmp(argv[i], "--solves") == 0)
			solves = number(v, 1000);
		else if (strcmp(argv[i], "--matrix") == 0 && *v)
			file = v;
		else if (strcmp(argv[i], "--partition") == 0 &&
			 (strcmp(v, "metis") == 0 || strcmp(v, "rows") == 0))
			metis = *v == 'm';
		else
			fail("an option is unknown");
	}
	struct matrix *m = file ? matrix_read(MPI_COMM_WORLD, file, metis, &why)
				: matrix_make(MPI_COMM_WORLD, n, metis, &why);

	if (!m)
		fail(why);
	struct solver *by_mpi = solver_new(m, &exchange_mpi),
		      *by_halo = solver_new(m, &exchange_halo);

	for (int k = 0; k < solves; k++) {
		solve(by_mpi);
		solve(by_halo);
	}
	differ = memcmp(by_mpi->x, by_halo->x, sizeof(double) * (size_t)m->rows) != 0;
	MPI_Allreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	bool wrong = differ || !(by_halo->residual < 100 * TOLERANCE);

	if (!file)
		snprintf(problem, sizeof(problem), "%d^3 points", n);
	if (rank == 0)
		printf("%s cg: %d ranks of %d threads, %s, %s, %d steps, residual %.1e; "
		       "solutions %s; %.3f ms by MPI, %.3f ms by halo\n",
		       wrong ? "FAIL" : "PASS", size, omp_get_max_threads(), problem,
		       metis ? "METIS" : "rows", by_halo->steps, by_halo->residual,
		       differ ? "differ" : "are equal", 1e3 * by_mpi->seconds,
		       1e3 * by_halo->seconds);
	solver_free(by_mpi);
	solver_free(by_halo);
	matrix_free(m);
	MPI_Finalize();
	return wrong;
}

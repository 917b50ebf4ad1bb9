/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/spmv.c: products with a sparse matrix, again and again, as an iterative solver does
 * them.
 *
 *     mpirun -np 2 spmv [-n 100] [--partition rows|metis] [--exchange mpi|persistent|halo]
 * [--products 20]
 *
 * The result is compared, bit by bit, with that of one process: `PASS spmv …`.
 */
#include "problem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "spmv [-n N] [--partition rows|metis] [--exchange mpi|persistent|halo] [--products N]"

static const struct exchange_kind *const kinds[] = {&exchange_mpi, &exchange_persistent,
						    &exchange_halo};

struct options {
	int n, metis, products;
	const struct exchange_kind *kind;
};

/* @name: the word that @what tells about, or NULL. */
__attribute__((noreturn)) static void usage(const char *what, const char *name)
{
	fprintf(stderr, "spmv: %s%s%s%s; fix: " USAGE "\n", what, name ? " '" : "",
		name ? name : "", name ? "'" : "");
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

static int number(const char *text)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (*end || v < 1 || v > 500)
		usage("not a number from 1 to 500:", text);
	return (int)v;
}

static struct options options(int argc, char **argv)
{
	struct options o = {100, 0, 20, &exchange_halo};

	for (int i = 1; i < argc; i += 2) {
		const char *v = argv[i + 1] ? argv[i + 1] : "";

		if (strcmp(argv[i], "-n") == 0) {
			o.n = number(v);
		} else if (strcmp(argv[i], "--products") == 0) {
			o.products = number(v);
		} else if (strcmp(argv[i], "--partition") == 0) {
			o.metis = strcmp(v, "metis") == 0;
			if (!o.metis && strcmp(v, "rows") != 0)
				usage("there is no partition", v);
		} else if (strcmp(argv[i], "--exchange") == 0) {
			o.kind = NULL;
			for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
				if (strcmp(kinds[k]->name, v) == 0)
					o.kind = kinds[k];
			if (!o.kind)
				usage("there is no exchange", v);
		} else {
			usage("there is no option", argv[i]);
		}
	}
	return o;
}

static double first_guess(long long original)
{
	return (double)(original % 17) / 16 - 0.5;
}

/* Scales the product after each step, so that numbers stay in range. */
static double next(double y)
{
	return y / 52;
}

static void product(const struct matrix *m, const int *local, const double *x, double *y)
{
	for (int r = 0; r < m->rows; r++) {
		y[r] = 0;
		for (int k = m->start[r]; k < m->start[r + 1]; k++)
			y[r] += m->value[k] * x[local[k]];
	}
}

static long long compare(const struct options *o, const struct matrix *m, const double *x)
{
	size_t all = (size_t)o->n * (size_t)o->n * (size_t)o->n;
	double *want = malloc(all * sizeof(*want)), *y = malloc(all * sizeof(*y));
	long long differ = 0;

	if (!want || !y)
		usage("no memory for the serial product", NULL);
	for (size_t k = 0; k < all; k++)
		want[k] = first_guess((long long)k);
	for (int p = 0; p < o->products; p++) {
		matrix_serial(o->n, want, y);
		for (size_t k = 0; k < all; k++)
			want[k] = next(y[k]);
	}
	for (int r = 0; r < m->rows; r++)
		differ += memcmp(&want[m->original[r]], &x[r], sizeof(*x)) != 0;
	free(want);
	free(y);
	return differ;
}

int main(int argc, char **argv)
{
	const char *why;
	int rank, size, ghosts;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts(USAGE);
		return 0;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	struct options o = options(argc, argv);
	struct matrix *m = matrix_make(MPI_COMM_WORLD, o.n, o.metis, &why);

	if (!m)
		usage(why, NULL);
	int *local = malloc(((size_t)m->start[m->rows] + 1) * sizeof(*local));
	void *e = local ? o.kind->plan(MPI_COMM_WORLD, m->rows, m->start[m->rows], m->column, local,
				       &ghosts)
			: NULL;
	double *x = e ? malloc(((size_t)(m->rows + ghosts) + 1) * sizeof(*x)) : NULL;
	double *y = malloc(((size_t)m->rows + 1) * sizeof(*y));

	if (!x || !y)
		usage("no memory for the vectors", NULL);
	for (int r = 0; r < m->rows; r++)
		x[r] = first_guess(m->original[r]);
	o.kind->connect(e, x);
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime();

	for (int p = 0; p < o.products; p++) {
		o.kind->start(e);
		o.kind->finish(e);
		product(m, local, x, y);
		for (int r = 0; r < m->rows; r++)
			x[r] = next(y[r]);
	}
	double took = (MPI_Wtime() - begin) * 1e3 / o.products, slowest;

	o.kind->close(e);

	long long differ = compare(&o, m, x), sum, most, mine = ghosts;

	MPI_Reduce(&differ, &sum, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &most, 1, MPI_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s spmv: %d products on %d^3, %d ranks, %s, exchange by %s; at most %lld "
		       "ghosts; %lld of %lld elements differ; %.3g ms a product\n",
		       sum ? "FAIL" : "PASS", o.products, o.n, size, o.metis ? "METIS" : "rows",
		       o.kind->name, most, sum, (long long)o.n * o.n * o.n, slowest);
	matrix_free(m);
	free(local);
	free(x);
	free(y);
	MPI_Bcast(&sum, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return sum != 0;
}

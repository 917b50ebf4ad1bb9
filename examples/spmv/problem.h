/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/problem.h: the paper's matrix (Poisson's equation, 27 points, on n * n * n), its partition, and
 * three ways to exchange what a product with it needs.
 */
#ifndef SPMV_PROBLEM_H
#define SPMV_PROBLEM_H

#include <mpi.h>

/* A rank's rows, as CSR. Rows are numbered anew from rank to rank, so that each rank has a block of them. */
struct matrix {
	int n, rows;         /* of the cube's edge; of this rank */
	long long first;     /* number of its first row */
	long long *original; /* [rows]: the numbers before, x fastest */
	int *start;          /* [rows + 1]: where a row's entries begin … */
	long long *column;   /* … their columns, in the order of the original numbers … */
	double *value;       /* … and values */
};

/* 27 entries of so many rows can be numbered by an int, ours and METIS'. */
#define MATRIX_EDGE_MAX 430

/* Collective. @metis: parts by METIS instead of blocks of rows. NULL, and *@why, if that failed. */
struct matrix *matrix_make(MPI_Comm comm, int n, int metis, const char **why);
void matrix_free(struct matrix *m);

/* y = A x by one process, in the original numbers. */
void matrix_serial(int n, const double *x, double *y);

/* One way to exchange: the vector has @rows elements of its own and then *@ghosts that come from others; @local
 * says where the element of each entry's column lies. All collective. */
struct exchange_kind {
	const char *name;
	void *(*plan)(MPI_Comm comm, int rows, int entries, const long long *column, int *local,
		      int *ghosts);
	void (*connect)(void *e, double *x);
	void (*start)(void *e);
	void (*finish)(void *e);
	void (*close)(void *e);
};

extern const struct exchange_kind exchange_mpi, exchange_persistent, exchange_halo;

#endif

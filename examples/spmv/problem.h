/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/problem.h: the paper's matrix (Poisson's equation, 27 points, on n * n * n), its
 * partition, and three methods for the exchange that a product with it needs.
 */
#ifndef SPMV_PROBLEM_H
#define SPMV_PROBLEM_H

#include <mpi.h>

/* The rows of a rank, in CSR. Rows have new numbers, so that each rank has a contiguous block. */
struct matrix {
	int n, rows;         /* of the cube's edge; of this rank */
	long long first;     /* number of its first row */
	long long *original; /* [rows]: the numbers before, x fastest */
	int *start;          /* [rows + 1]: index of the first entry of each row */
	long long *column;   /* column of each entry, in the order of the original numbers */
	double *value;       /* value of each entry */
};

/* The largest edge whose 27 entries for each row an int can number, here and in METIS. */
#define MATRIX_EDGE_MAX 430

/* Collective. @metis: partition by METIS instead of blocks of rows. NULL: failed; *@why has the
 * reason. */
struct matrix *matrix_make(MPI_Comm comm, int n, int metis, const char **why);
/* The same for the square matrix of a Matrix Market file, which each rank reads (market.h). Its
 * `n` is 0. *@why is valid until the next call. */
struct matrix *matrix_read(MPI_Comm comm, const char *path, int metis, const char **why);
void matrix_free(struct matrix *m);

/* The messages of an exchange between @parts ranks. @elements[from * parts + to]: those of the
 * vector that one rank sends to another. Needs no MPI. Returns the reason if it failed, or NULL. */
const char *matrix_messages(int n, int parts, int metis, long long *elements);

/* Computes y = A x in one process, with the original numbers. */
void matrix_serial(int n, const double *x, double *y);

/* A method of exchange. The vector has @rows elements of its own, followed by *@ghosts elements of
 * other ranks. @local is the place of each entry's column in the vector. All functions are
 * collective. */
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

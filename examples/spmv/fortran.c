/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/fortran.c: the matrix for programs in Fortran (matrix.f90). They have integers in
 * place of MPI's handles.
 */
#include "problem.h"

struct matrix *spmv_matrix_f(int comm, int n, const char *path, int metis, const char **why);

/* The matrix of the file @path, or that of @n points along an edge if @path is empty. */
struct matrix *spmv_matrix_f(int comm, int n, const char *path, int metis, const char **why)
{
	MPI_Comm c = MPI_Comm_f2c(comm);

	return *path ? matrix_read(c, path, metis, why) : matrix_make(c, n, metis, why);
}

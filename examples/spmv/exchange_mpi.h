/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/exchange_mpi.h: what the exchange by MPI keeps. (bench/halo_packed.c moves the same buffers otherwise.)
 */
#ifndef EXAMPLES_SPMV_EXCHANGE_MPI_H
#define EXAMPLES_SPMV_EXCHANGE_MPI_H

#include "examples/spmv/problem.h"

struct exchange {
	MPI_Comm comm;
	int size, rank, rows, ghosts, persistent, requests;
	long long *first, *ghost;
	int *from, *to;   /* by rank: how many come, how many go */
	int *send, sends; /* local indices of what goes */
	double *x, *packed;
	MPI_Request *request;
};

/* Copies what goes to the buffer that is sent. */
void exchange_mpi_pack(struct exchange *e);

#endif

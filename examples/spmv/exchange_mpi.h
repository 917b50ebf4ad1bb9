/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/exchange_mpi.h: the state of the exchange by MPI. (bench/halo_packed.c moves the
 * same buffers otherwise.)
 */
#ifndef EXAMPLES_SPMV_EXCHANGE_MPI_H
#define EXAMPLES_SPMV_EXCHANGE_MPI_H

#include "problem.h"

struct exchange {
	MPI_Comm comm;
	int size, rank, rows, ghosts, persistent, requests;
	long long *first, *ghost;
	int *from, *to;   /* by rank: elements received, elements sent */
	int *send, sends; /* local indices of the elements sent */
	double *x, *packed;
	MPI_Request *request;
};

/* Copies the elements to the send buffer. */
void exchange_mpi_pack(struct exchange *e);

#endif

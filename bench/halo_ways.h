/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_ways.h: three more ways in which a program of MPI can exchange data with its
 * neighbours, in each step from and to the same memory:
 *
 * - MPI_Neighbor_alltoallv on a distributed graph communicator
 * - MPI_Put between two fences
 * - MPI_Put with passive targets: puts, a flush, a number at each target, and another flush
 *
 * The last has two places for the data of each neighbour, as the halo library has, and copies from
 * them. Otherwise a neighbour that is ahead would write to data that its target still reads.
 */
#ifndef HK_BENCH_HALO_WAYS_H
#define HK_BENCH_HALO_WAYS_H

#include "examples/spmv/problem.h"

#include <mpi.h>
#include <stdbool.h>

enum hk_way_kind { HK_WAY_NEIGHBOR, HK_WAY_FENCE, HK_WAY_LOCK };

struct hk_way;

/* Collective. @to and @from: doubles by rank, which are copied. @out and @in hold them in the order
 * of ranks. Aborts the job without memory. */
struct hk_way *hk_way_open(enum hk_way_kind kind, MPI_Comm comm, const int *to, const int *from,
			   const double *out, double *in);

/* Sends @out and receives @in. False: a neighbour has not put for a minute. */
bool hk_way_exchange(struct hk_way *w);

/* Collective. */
void hk_way_close(struct hk_way *w);

/* The same as exchanges of experiments B and C, from packed buffers. */
extern const struct exchange_kind exchange_neighbor, exchange_fence, exchange_lock;

#endif

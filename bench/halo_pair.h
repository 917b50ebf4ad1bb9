/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_pair.h: experiment A of halo_bench: two ranks send each other one block.
 */
#ifndef HK_BENCH_HALO_PAIR_H
#define HK_BENCH_HALO_PAIR_H

#include <stddef.h>

enum method { PLAIN_MPI, PERSISTENT, NEIGHBOR, FENCE, LOCK, HALO, PACKED, COPIES, METHODS };

/* Ends the job with this text. */
__attribute__((noreturn)) void bench_fail(const char *what);
/* Zeroed memory. */
void *bench_need(size_t bytes);

struct pair;

/* Blocks of @doubles numbers. @rank: 0 or 1 of MPI_COMM_WORLD. */
struct pair *pair_new(int rank, int doubles);
/* Collective. */
void pair_open(struct pair *p, int method);
void pair_start(struct pair *p, int method);
void pair_finish(struct pair *p, int method);
/* Collective. Ends the job if wrong data came. */
void pair_close(struct pair *p, int method);

#endif

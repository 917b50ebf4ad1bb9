/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_packed.h: the halo library moves the buffers that an MPI program has packed: the same
 * bytes, from one block to one block for each neighbour. All further time of the promoter is its
 * own.
 */
#ifndef HK_BENCH_HALO_PACKED_H
#define HK_BENCH_HALO_PACKED_H

#include "examples/spmv/problem.h"

extern const struct exchange_kind exchange_packed;

#endif

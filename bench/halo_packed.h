/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_packed.h: the halo library moves what a program for MPI has packed: so many bytes, from one piece to one
 * piece for each neighbour. What the interposer takes longer is its own.
 */
#ifndef BENCH_HALO_PACKED_H
#define BENCH_HALO_PACKED_H

#include "examples/spmv/problem.h"

extern const struct exchange_kind exchange_packed;

#endif

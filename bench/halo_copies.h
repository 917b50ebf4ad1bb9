/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_copies.h: the lower bound of an exchange over memif: its copies alone.
 *
 * Data that goes over a memif is copied three times. The driver copies it from the program's memory
 * to the ring, and from the peer's ring to a packet buffer. The worker copies it from there to its
 * target. While both ranks send, one core does all three. Data in many blocks is first gathered to
 * a packet buffer. Here two ranks of one machine do these copies, frame by frame, through rings as
 * long as a wire's, without headers, acknowledgements or matching. All further time of an exchange
 * is the worker's.
 */
#ifndef HK_BENCH_HALO_COPIES_H
#define HK_BENCH_HALO_COPIES_H

#include "examples/spmv/problem.h"
#include "hikyaku/layout.h"

#include <stdbool.h>
#include <stddef.h>

/* Maps @file, which was empty and which ranks 0 and 1 share. False: it cannot, with errno. Call it
 * once in a process. */
bool hk_copies_open(const char *file, int rank);

/* Sends the data of @out and receives @bytes to @in. False: the other rank has not taken part for
 * ten seconds. */
bool hk_copies_exchange(const struct hk_layout *out, void *in, size_t bytes);

/* The same as an exchange of experiments B and C. */
extern const struct exchange_kind exchange_copies;

#endif

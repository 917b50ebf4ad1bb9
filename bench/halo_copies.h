/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_copies.h: the floor under an exchange over memif: its copies, and nothing else.
 *
 * What goes over a memif is copied three times, and a core does all three while both ranks send: out of the program's memory into
 * the ring (the driver), out of the peer's ring into a packet buffer (the driver), out of that to its place. What lies in many
 * places is gathered into a packet buffer first. Here two ranks of one machine do just that, frame by frame, through rings as
 * long as a wire's: no headers, no packets, no acknowledgements, no matching. What an exchange takes longer is the fabric's own.
 */
#ifndef BENCH_HALO_COPIES_H
#define BENCH_HALO_COPIES_H

#include "examples/spmv/problem.h"
#include "fabric/layout.h"

#include <stdbool.h>
#include <stddef.h>

/* Maps @file, which both ranks (0 and 1) have, and which was empty. False: it cannot; errno says why. Once a process. */
bool hk_copies_open(const char *file, int rank);

/* Sends what @out describes and takes in @bytes, to @in. False: the other rank has not come for ten seconds. */
bool hk_copies_exchange(const struct hk_layout *out, void *in, size_t bytes);

/* The same as an exchange of a matrix (B and C). */
extern const struct exchange_kind exchange_copies;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_copies.h: the floor under an exchange over memif: its copies, and nothing else.
 *
 * What goes over a memif is copied three times, and a core does all three while both ranks send: out of the program's memory into
 * the ring (the driver), out of the peer's ring into a packet buffer (the driver), out of that to its place. Here two ranks of one
 * machine do just that by memcpy(), frame by frame, through rings as long as a wire's: no headers, no packets, no acknowledgements, no
 * matching. What an exchange takes longer is the fabric's own.
 */
#ifndef BENCH_HALO_COPIES_H
#define BENCH_HALO_COPIES_H

#include <stdbool.h>
#include <stddef.h>

/* Maps @file, which both ranks (0 and 1) have, and which was empty. False: it cannot; errno says why. Once a process. */
bool hk_copies_open(const char *file, int rank);

/* Sends @bytes of @out and takes in as many, to @in. False: the other rank has not come for ten seconds. */
bool hk_copies_exchange(const void *out, void *in, size_t bytes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/alloc.h: hands out pieces of a range, by their offsets, without touching it.
 *
 * Two-level segregated fit (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator
 * for real-time systems", 2004), with what it knows of blocks kept aside: the range may be slow
 * to read, and devices write there.
 *
 * What is promised:
 *  - A block takes its size rounded up to 64 bytes, and nothing more: no header, and what alignment
 *    skips stays free. So two blocks never share a cache line.
 *  - Two free pieces never touch: what is freed joins its neighbours at once, and when all is
 *    freed there is one piece.
 *  - A request of @size with @align succeeds whenever a free piece of (size + align - 64) * 33/32
 *    bytes is there (both rounded up to 64; no more than 64 for align).
 *  - So with blocks of at most s bytes, n of them in use, it refuses only if the free bytes are less than
 *    (n + 1) times the piece above: at most n + 1 pieces, each too small.
 *  - alloc and free take constant time, but for the table of blocks growing.
 *
 * Memory: 32 bytes for each piece, and 8 to 16 for each block, in ordinary memory. Threads: none; the caller locks.
 */
#ifndef HK_POP_ALLOC_H
#define HK_POP_ALLOC_H

#include "base/common.h"

#define HK_ALLOC_GRAIN     64u
#define HK_ALLOC_NONE      UINT64_MAX
#define HK_ALLOC_ALIGN_MAX (UINT64_C(1) << 30)
#define HK_ALLOC_SIZE_MAX  (UINT64_C(1) << 46)

struct hk_alloc;

struct hk_alloc_usage {
	uint64_t used, free, largest_free; /* bytes */
	uint64_t blocks, free_pieces;
};

/* @size: at most HK_ALLOC_SIZE_MAX; a rest of less than 64 bytes is not used. NULL: no memory, or no size. */
struct hk_alloc *hk_alloc_new(uint64_t size);
void hk_alloc_delete(struct hk_alloc *a); /* NULL is allowed */

/* HK_ALLOC_NONE: no piece is large enough, no memory for the tables, @size 0, or @align no power of two */
uint64_t hk_alloc_take(struct hk_alloc *a, uint64_t size, uint64_t align);

/* -EINVAL: no block starts at @offset */
int hk_alloc_give(struct hk_alloc *a, uint64_t offset);

/* The size of the block at @offset, as it was rounded; 0: none starts there */
uint64_t hk_alloc_size(const struct hk_alloc *a, uint64_t offset);

void hk_alloc_usage(const struct hk_alloc *a, struct hk_alloc_usage *out);

/* For tests: every invariant, in time proportional to the pieces. NULL: all hold; else which does not. */
const char *hk_alloc_check(const struct hk_alloc *a);

#endif

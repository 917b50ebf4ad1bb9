/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/alloc.h: allocates pieces of a range, named by their offsets, without touching it.
 *
 * DESIGN NOTES
 *
 * Problem: allocate in memory that may be slow to read, and to which devices write.
 *
 * Approach: two-level segregated fit (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory
 * allocator for real-time systems", 2004). All its tables are in ordinary memory, not in the range.
 *
 * Invariants:
 *  - A block takes its size rounded up to 64 bytes, nothing else. It has no header, and the bytes
 *    that alignment skips stay free. So two blocks never share a cache line.
 *  - Two free pieces never touch: a freed piece is joined to its free neighbours at once. When all
 *    is freed there is one piece.
 *  - A request of @size with @align succeeds if a free piece has (size + align - 64) * 33/32 bytes.
 *    Both terms are rounded up to 64, and @align counts as at least 64.
 *  - Take blocks of at most s bytes, n of them in use. A request is then refused only if fewer
 *    bytes are free than (n + 1) times the piece above. The free pieces are at most n + 1, and each
 *    is too small.
 *  - Allocating and freeing take constant time, except when the table of blocks grows.
 *
 * Memory: 32 bytes for each piece, and 8 to 16 for each block. Threads: the caller locks.
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

/* @size is at most HK_ALLOC_SIZE_MAX; a remainder of less than 64 bytes is not used. NULL: no
 * memory, or @size is out of range. */
struct hk_alloc *hk_alloc_new(uint64_t size);
void hk_alloc_delete(struct hk_alloc *a); /* NULL is allowed */

/* HK_ALLOC_NONE: no piece is large enough, there is no memory for the tables, @size is 0, or @align
 * is not a power of two. */
uint64_t hk_alloc_take(struct hk_alloc *a, uint64_t size, uint64_t align);

/* -EINVAL: no block starts at @offset */
int hk_alloc_give(struct hk_alloc *a, uint64_t offset);

/* The rounded size of the block at @offset; 0: no block starts there. */
uint64_t hk_alloc_size(const struct hk_alloc *a, uint64_t offset);

void hk_alloc_usage(const struct hk_alloc *a, struct hk_alloc_usage *out);

/* For tests: checks every invariant, in time proportional to the number of pieces. Returns NULL, or
 * a text that names the broken invariant. */
const char *hk_alloc_check(const struct hk_alloc *a);

#endif

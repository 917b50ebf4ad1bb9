/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/layout.c: copies between a message and the memory blocks that hold it.
 */
#include "hikyaku/layout.h"

#include "base/common.h"

#include <string.h>

/* The block with byte @at, which lies within the message. */
static const struct hk_block *find(const struct hk_layout *l, uint64_t at)
{
	size_t low = 0, high = l->count;

	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (l->block[mid].at <= at)
			low = mid;
		else
			high = mid;
	}
	return &l->block[low];
}

#define STEP    16u  /* bytes that a processor moves at once */
#define BY_STEP 256u /* bytes; above, memcpy() is faster */

/* Blocks are mostly a few elements long, each of another length, and the branches of memcpy()
 * are predicted wrongly for each of them. Here the last step moves bytes of the step before
 * again. So lengths differ only in the number of steps. */
static inline void copy(char *to, const char *from, size_t len)
{
	if (len < STEP || len > BY_STEP) {
		if (len == 8)
			memcpy(to, from, 8);
		else if (len == 4)
			memcpy(to, from, 4);
		else
			memcpy(to, from, len);
		return;
	}
	size_t last = len - STEP;

	for (size_t k = 0; k < last; k += STEP)
		memcpy(to + k, from + k, STEP);
	memcpy(to + last, from + last, STEP);
}

void hk_layout_gather(const struct hk_layout *l, uint64_t at, size_t len, void *to)
{
	char *out = to;

	if (len == 0)
		return;
	for (const struct hk_block *b = find(l, at); len > 0; b++) {
		uint64_t skip = at - b->at;
		size_t n = (size_t)HK_MIN(b->len - skip, len);

		copy(out, b->base + skip, n);
		out += n;
		at += n;
		len -= n;
	}
}

void hk_layout_scatter(const struct hk_layout *l, uint64_t at, size_t len, const void *from)
{
	const char *in = from;

	if (len == 0)
		return;
	for (const struct hk_block *b = find(l, at); len > 0; b++) {
		uint64_t skip = at - b->at;
		size_t n = (size_t)HK_MIN(b->len - skip, len);

		copy(b->base + skip, in, n);
		in += n;
		at += n;
		len -= n;
	}
}

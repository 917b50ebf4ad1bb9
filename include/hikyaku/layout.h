/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/layout.h: memory blocks that hold a message in order.
 *
 * A layout tells for any stretch of the message where its bytes lie. So frames are filled from the
 * application's memory, and their bytes are placed there, without a bounce buffer.
 *
 * Pure: no state, no allocation. The blocks belong to the caller and must outlive the layout.
 */
#ifndef HIKYAKU_LAYOUT_H
#define HIKYAKU_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

struct hk_block {
	char *base;
	uint64_t at;  /* offset in the message: the sum of the lengths of the blocks before */
	uint64_t len; /* bytes */
};

struct hk_layout {
	const struct hk_block *block;
	size_t count;
	uint64_t len; /* bytes of the message */
};

/* Copies bytes [@at, @at + @len), which lie within the message, out of its blocks. */
void hk_layout_gather(const struct hk_layout *l, uint64_t at, size_t len, void *to);

/* Copies them into its blocks. */
void hk_layout_scatter(const struct hk_layout *l, uint64_t at, size_t len, const void *from);

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/layout.h: where the bytes of a message lie in memory, when they do not lie in one piece.
 *
 * A layout is a list of blocks in the order of the message. It tells for any stretch of the message where its
 * bytes are, so frames are filled from where the application keeps them, and placed there, without a
 * buffer in between.
 *
 * Pure: no state, no allocation. The blocks are the caller's and must outlive what uses them.
 */
#ifndef HK_FABRIC_LAYOUT_H
#define HK_FABRIC_LAYOUT_H

#include "base/common.h"

struct hk_block {
	char *base;
	uint64_t at; /* where in the message it begins: the sum of the lengths before */
	uint64_t len;
};

struct hk_layout {
	const struct hk_block *block;
	size_t count;
	uint64_t len; /* of the message */
};

/* Copies bytes [@at, @at + @len) of the message out of, or into, memory. They lie within it. */
void hk_layout_gather(const struct hk_layout *l, uint64_t at, size_t len, void *to);
void hk_layout_scatter(const struct hk_layout *l, uint64_t at, size_t len, const void *from);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/ends.h: the numbers by which other ranks name a rank's ends of channels. What names one comes from a wire: so
 * a number is of a sender or a receiver, and of one rank, the other end; whoever else names it finds nothing, nor does who
 * names an end that is gone, though its place has another now. Pure: no MPI.
 */
#ifndef HK_HALO_ENDS_H
#define HK_HALO_ENDS_H

#include "base/common.h"

#include <stdint.h>

#define HK_ENDS_BITS 22 /* of a number: the place; the others count how often it was used */
#define HK_ENDS_MOST (1U << HK_ENDS_BITS)

enum hk_end_kind { HK_END_SENDER, HK_END_RECEIVER };

struct hk_ends { /* empty: all zero */
	struct hk_ends_slot {
		void *end; /* NULL: unused */
		enum hk_end_kind kind;
		int world;     /* rank of the other end */
		uint32_t uses; /* in a number */
		uint32_t next; /* unused place; 0: it is the last */
	} * at;
	uint32_t count, room; /* places are 1 … count */
	uint32_t first, last; /* unused places; the first has been so for longest; 0: none */
};

/* The number of @end, never 0. 0: there is no memory, or there are HK_ENDS_MOST. */
uint32_t hk_ends_add(struct hk_ends *t, enum hk_end_kind kind, int world, void *end);

/* NULL: @world may name nothing of this kind by it. */
void *hk_ends_find(const struct hk_ends *t, uint32_t number, enum hk_end_kind kind, int world);

void hk_ends_drop(struct hk_ends *t, uint32_t number); /* one that hk_ends_add() gave */

void hk_ends_free(struct hk_ends *t);

#endif

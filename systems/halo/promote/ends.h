/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/ends.h: the numbers by which other ranks name a rank's ends of channels.
 *
 * Such a number comes from another process, so it is checked. It belongs to one kind of end, sender
 * or receiver, and to one rank, the other end. Any other rank that uses it finds nothing. Nor does
 * a rank that uses the number of an end that is gone, even if a new end has its index. Pure: no
 * MPI.
 */
#ifndef HK_HALO_ENDS_H
#define HK_HALO_ENDS_H

#include "base/common.h"

#include <stdint.h>

#define HK_ENDS_BITS 22 /* bits of a number for the index; the others are the generation */
#define HK_ENDS_MAX  (1U << HK_ENDS_BITS)

enum hk_end_kind { HK_END_SENDER, HK_END_RECEIVER };

/* Empty: all zero. */
struct hk_ends {
	struct hk_ends_entry {
		void *end; /* NULL: unused */
		enum hk_end_kind kind;
		int world_rank;      /* of the other end */
		uint32_t generation; /* number of earlier ends with this index */
		uint32_t next_free;  /* the next unused index; 0: none */
	} * at;
	uint32_t count, capacity;       /* indices are 1 to count */
	uint32_t first_free, last_free; /* unused indices, the oldest first; 0: none */
};

/* The number of @end. 0: out of memory, or there are HK_ENDS_MAX. */
uint32_t hk_ends_add(struct hk_ends *t, enum hk_end_kind kind, int world_rank, void *end);

/* NULL: the number does not name an end of this kind to @world_rank. */
void *hk_ends_find(const struct hk_ends *t, uint32_t number, enum hk_end_kind kind, int world_rank);

/* @number: a result of hk_ends_add(). */
void hk_ends_remove(struct hk_ends *t, uint32_t number);

void hk_ends_free(struct hk_ends *t);

#endif

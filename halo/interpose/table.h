/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/table.h: finds what belongs to (peer, tag). Grows by itself, so that a look meets one or two entries
 * however many there are; nothing is taken out but all. Pure: no MPI.
 */
#ifndef HK_HALO_TABLE_H
#define HK_HALO_TABLE_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

struct hk_table_entry {
	int peer, tag;
	void *end; /* NULL: free */
};

struct hk_table { /* empty: all zero */
	struct hk_table_entry *at;
	uint32_t room, count; /* room: a power of two, or 0 */
};

static inline uint32_t hk_table_hash(int peer, int tag)
{
	uint64_t key = (uint64_t)(uint32_t)peer << 32 | (uint32_t)tag;

	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* NULL: nothing. */
static inline void *hk_table_find(const struct hk_table *t, int peer, int tag)
{
	if (HK_UNLIKELY(t->room == 0))
		return NULL;
	for (uint32_t k = hk_table_hash(peer, tag);; k++) {
		const struct hk_table_entry *e = &t->at[k & (t->room - 1)];

		if (!e->end || (e->peer == peer && e->tag == tag))
			return e->end;
	}
}

/* @end is not NULL, and (peer, tag) not in it. False: there is no memory. */
bool hk_table_add(struct hk_table *t, int peer, int tag, void *end);

void hk_table_free(struct hk_table *t); /* not what it points to */

/* Next of all, in no order: NULL when @*k, first 0, has gone through. */
static inline void *hk_table_next(const struct hk_table *t, uint32_t *k)
{
	while (*k < t->room) {
		void *end = t->at[(*k)++].end;

		if (end)
			return end;
	}
	return NULL;
}

#endif

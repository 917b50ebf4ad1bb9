/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/table.h: a hash table by (peer, tag), with open addressing. It grows, so that a
 * search reads one or two entries however many there are. Single entries cannot be removed. Pure:
 * no MPI.
 */
#ifndef HK_HALO_TABLE_H
#define HK_HALO_TABLE_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

struct hk_table_entry {
	int peer, tag;
	void *end; /* NULL: unused */
};

/* Empty: all zero. */
struct hk_table {
	struct hk_table_entry *at;
	uint32_t capacity; /* a power of two, or 0 */
	uint32_t count;
};

static inline uint32_t hk_table_hash(int peer, int tag)
{
	uint64_t key = (uint64_t)(uint32_t)peer << 32 | (uint32_t)tag;

	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* NULL: not in the table. */
static inline void *hk_table_find(const struct hk_table *t, int peer, int tag)
{
	if (HK_UNLIKELY(t->capacity == 0))
		return NULL;
	for (uint32_t k = hk_table_hash(peer, tag);; k++) {
		const struct hk_table_entry *e = &t->at[k & (t->capacity - 1)];

		if (!e->end || (e->peer == peer && e->tag == tag))
			return e->end;
	}
}

/* @end is not NULL, and (peer, tag) is not in the table. False: out of memory. */
bool hk_table_add(struct hk_table *t, int peer, int tag, void *end);

/* Frees the table, but not what it points to. */
void hk_table_free(struct hk_table *t);

/* Iterates over the table in any order. *@k is 0 at first. NULL: no further entry. */
static inline void *hk_table_next(const struct hk_table *t, uint32_t *k)
{
	while (*k < t->capacity) {
		void *end = t->at[(*k)++].end;

		if (end)
			return end;
	}
	return NULL;
}

#endif

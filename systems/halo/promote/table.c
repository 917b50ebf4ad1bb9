/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/table.c: a table by peer and tag (table.h). It is at most half full.
 */
#include "halo/promote/table.h"

#include <stdlib.h>

#define FIRST 64U

static void put(struct hk_table *t, struct hk_table_entry e)
{
	uint32_t k = hk_table_hash(e.peer, e.tag);

	while (t->at[k & (t->capacity - 1)].end)
		k++;
	t->at[k & (t->capacity - 1)] = e;
}

bool hk_table_add(struct hk_table *t, int peer, int tag, void *end)
{
	if (2 * t->count >= t->capacity) {
		struct hk_table more = {NULL, HK_MAX(2 * t->capacity, FIRST), t->count};

		more.at = calloc(more.capacity, sizeof(*more.at));
		if (!more.at)
			return false;
		for (uint32_t k = 0; k < t->capacity; k++)
			if (t->at[k].end)
				put(&more, t->at[k]);
		free(t->at);
		*t = more;
	}
	put(t, (struct hk_table_entry){peer, tag, end});
	t->count++;
	return true;
}

void hk_table_free(struct hk_table *t)
{
	free(t->at);
	*t = (struct hk_table){0};
}

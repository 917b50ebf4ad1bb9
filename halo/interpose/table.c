/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/table.c: a table by peer and tag: open addressing, at most half full.
 */
#include "halo/interpose/table.h"

#include <stdlib.h>

#define FIRST 64U

static void put(struct hk_table *t, struct hk_table_entry e)
{
	uint32_t k = hk_table_hash(e.peer, e.tag);

	while (t->at[k & (t->room - 1)].end)
		k++;
	t->at[k & (t->room - 1)] = e;
}

bool hk_table_add(struct hk_table *t, int peer, int tag, void *end)
{
	if (2 * t->count >= t->room) {
		struct hk_table more = {NULL, HK_MAX(2 * t->room, FIRST), t->count};

		more.at = calloc(more.room, sizeof(*more.at));
		if (!more.at)
			return false;
		for (uint32_t k = 0; k < t->room; k++)
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

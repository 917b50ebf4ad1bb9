/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/ends.c: the numbers of ends (ends.h). The index that has been unused for the longest
 * time is used again first, with a new generation.
 */
#include "halo/promote/ends.h"

#include <stdbool.h>
#include <stdlib.h>

#define FIRST 64U

/* Indices count from 1, so that no number is 0. */
static uint32_t number_of(const struct hk_ends *t, uint32_t index)
{
	return t->at[index].generation << HK_ENDS_BITS | index;
}

static struct hk_ends_entry *entry_of(const struct hk_ends *t, uint32_t number)
{
	uint32_t index = number & (HK_ENDS_MAX - 1);

	return index >= 1 && index <= t->count && number_of(t, index) == number ? &t->at[index]
										: NULL;
}

static bool grow(struct hk_ends *t)
{
	uint32_t capacity = HK_MAX(2 * t->capacity, FIRST);
	struct hk_ends_entry *more = capacity > HK_ENDS_MAX
					     ? NULL
					     : realloc(t->at, capacity * sizeof(*more));

	if (!more)
		return false;
	t->at = more;
	t->capacity = capacity;
	return true;
}

uint32_t hk_ends_add(struct hk_ends *t, enum hk_end_kind kind, int world_rank, void *end)
{
	uint32_t index = t->first_free;

	if (index) {
		t->first_free = t->at[index].next_free;
		if (!t->first_free)
			t->last_free = 0;
	} else {
		if (t->count + 1 >= t->capacity && !grow(t))
			return 0;
		index = ++t->count;
		t->at[index].generation = 0;
	}
	t->at[index] = (struct hk_ends_entry){end, kind, world_rank, t->at[index].generation, 0};
	return number_of(t, index);
}

void *hk_ends_find(const struct hk_ends *t, uint32_t number, enum hk_end_kind kind, int world_rank)
{
	const struct hk_ends_entry *s = entry_of(t, number);

	return s && s->kind == kind && s->world_rank == world_rank ? s->end : NULL;
}

void hk_ends_remove(struct hk_ends *t, uint32_t number)
{
	struct hk_ends_entry *s = entry_of(t, number);
	uint32_t index = number & (HK_ENDS_MAX - 1);

	s->end = NULL;
	s->next_free = 0;
	s->generation = (s->generation + 1) & (UINT32_MAX >> HK_ENDS_BITS);
	if (t->last_free)
		t->at[t->last_free].next_free = index;
	else
		t->first_free = index;
	t->last_free = index;
}

void hk_ends_free(struct hk_ends *t)
{
	free(t->at);
	*t = (struct hk_ends){0};
}

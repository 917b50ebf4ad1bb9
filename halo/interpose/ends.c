/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/ends.c: the numbers of ends (ends.h). A place is used again when all others that are unused have been so for
 * less time, and its number is another then.
 */
#include "halo/interpose/ends.h"

#include <stdbool.h>
#include <stdlib.h>

#define FIRST 64U

/* Places count from 1 in numbers, so that none is 0. */
static uint32_t number_of(const struct hk_ends *t, uint32_t place)
{
	return t->at[place].uses << HK_ENDS_BITS | place;
}

static struct hk_ends_slot *slot_of(const struct hk_ends *t, uint32_t number)
{
	uint32_t place = number & (HK_ENDS_MOST - 1);

	return place >= 1 && place <= t->count && number_of(t, place) == number ? &t->at[place]
										: NULL;
}

static bool grow(struct hk_ends *t)
{
	uint32_t room = HK_MAX(2 * t->room, FIRST);
	struct hk_ends_slot *more = room > HK_ENDS_MOST ? NULL
							: realloc(t->at, room * sizeof(*more));

	if (!more)
		return false;
	t->at = more;
	t->room = room;
	return true;
}

uint32_t hk_ends_add(struct hk_ends *t, enum hk_end_kind kind, int world, void *end)
{
	uint32_t place = t->first;

	if (place) {
		t->first = t->at[place].next;
		if (!t->first)
			t->last = 0;
	} else {
		if (t->count + 1 >= t->room && !grow(t))
			return 0;
		place = ++t->count;
		t->at[place].uses = 0;
	}
	t->at[place] = (struct hk_ends_slot){end, kind, world, t->at[place].uses, 0};
	return number_of(t, place);
}

void *hk_ends_find(const struct hk_ends *t, uint32_t number, enum hk_end_kind kind, int world)
{
	const struct hk_ends_slot *s = slot_of(t, number);

	return s && s->kind == kind && s->world == world ? s->end : NULL;
}

void hk_ends_drop(struct hk_ends *t, uint32_t number)
{
	struct hk_ends_slot *s = slot_of(t, number);
	uint32_t place = number & (HK_ENDS_MOST - 1);

	s->end = NULL;
	s->next = 0;
	s->uses = (s->uses + 1) & (UINT32_MAX >> HK_ENDS_BITS);
	if (t->last)
		t->at[t->last].next = place;
	else
		t->first = place;
	t->last = place;
}

void hk_ends_free(struct hk_ends *t)
{
	free(t->at);
	*t = (struct hk_ends){0};
}

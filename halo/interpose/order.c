/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/order.c: the log of what was sent to a rank, and what is told of it (order.h).
 */
#include "halo/interpose/order.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 1024U
#define EACH  16U /* messages of each tag, if all are used alike */

void hk_log_init(struct hk_log *l)
{
	*l = (struct hk_log){.turn = UINT64_MAX};
}

bool hk_log_fit(struct hk_log *l, int tags)
{
	uint32_t room = l->slot ? l->mask + 1 : FIRST, old = l->slot ? room : 0;

	while (room < EACH * (uint32_t)tags && room < HK_LOG_MOST)
		room *= 2;
	if (tags < 2 || room == old)
		return true;
	uint16_t *more = calloc(room, sizeof(*more));

	if (!more)
		return false;
	l->from = HK_MAX(l->from, l->sent - HK_MIN(l->sent, (uint64_t)old));
	for (uint64_t k = l->from; k < l->sent; k++)
		more[k & (room - 1)] = l->slot[k & l->mask];
	free(l->slot);
	l->slot = more;
	l->mask = room - 1;
	l->turn = HK_MIN(l->turn, l->sent + room / 4);
	return true;
}

void hk_log_free(struct hk_log *l)
{
	free(l->slot);
	l->slot = NULL;
}

uint64_t hk_log_turn(struct hk_log *l, uint64_t *soon)
{
	uint64_t quarter = (l->mask + 1) / 4;

	l->turn = l->sent + quarter;
	*soon = l->sent - HK_MIN(l->sent, 2 * quarter);
	return l->sent - HK_MIN(l->sent, 3 * quarter);
}

/* ---- a past ---------------------------------------------------------------------------------------------- */

struct hk_past_tag *hk_past_tags(struct hk_past *p)
{
	return (struct hk_past_tag *)(void *)p->rest;
}

static const uint16_t *log_of(const struct hk_past *p)
{
	return (const uint16_t *)(const void *)(p->rest + p->tags * sizeof(struct hk_past_tag));
}

size_t hk_past_bytes(uint32_t tags, uint32_t logged)
{
	return sizeof(struct hk_past) + tags * sizeof(struct hk_past_tag) +
	       logged * sizeof(uint16_t);
}

size_t hk_past_make(struct hk_past *p, const struct hk_log *l, uint64_t first, uint32_t tags)
{
	uint64_t logged = l->sent - HK_MIN(l->sent, HK_MAX(first, l->from));

	if (logged > (uint64_t)l->mask + 1)
		return 0;
	*p = (struct hk_past){.tags = tags, .logged = (uint32_t)logged, .now = l->sent};
	uint16_t *log = (uint16_t *)(uintptr_t)log_of(p);

	for (uint32_t k = 0; k < p->logged; k++)
		log[k] = l->slot[(l->sent - p->logged + k) & l->mask];
	return hk_past_bytes(p->tags, p->logged);
}

bool hk_past_valid(const struct hk_past *p, size_t bytes)
{
	if (bytes < sizeof(*p) || p->tags > HK_PAIR_TAGS || p->logged > HK_LOG_MOST ||
	    p->logged > p->now || bytes != hk_past_bytes(p->tags, p->logged))
		return false;
	for (uint32_t k = 0; k < p->logged; k++)
		if (log_of(p)[k] >= p->tags)
			return false;
	return true;
}

void hk_past_before(const struct hk_past *p, uint64_t at, uint64_t *before)
{
	const struct hk_past_tag *tag = hk_past_tags((struct hk_past *)(uintptr_t)p);

	for (uint32_t t = 0; t < p->tags; t++)
		before[t] = tag[t].sent;
	for (uint64_t from = p->now - p->logged, i = HK_MAX(at, from); i < p->now; i++) {
		uint16_t slot = log_of(p)[i - from];

		if (before[slot])
			before[slot]--;
	}
}

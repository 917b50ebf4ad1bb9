/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/send_log.c: the log of the messages to a rank, and the send order (send_log.h).
 */
#include "halo/promote/send_log.h"

#include <stdlib.h>
#include <string.h>

#define FIRST   1024U /* messages of the first log */
#define PER_TAG 16U   /* messages of each tag, if all tags are used equally often */

void hk_send_log_init(struct hk_send_log *l)
{
	*l = (struct hk_send_log){.check_at = UINT64_MAX};
}

bool hk_send_log_resize(struct hk_send_log *l, int tags)
{
	uint32_t capacity = l->tag_index ? l->mask + 1 : FIRST, old = l->tag_index ? capacity : 0;

	while (capacity < PER_TAG * (uint32_t)tags && capacity < HK_SEND_LOG_MAX)
		capacity *= 2;
	if (tags < 2 || capacity == old)
		return true;
	uint16_t *more = calloc(capacity, sizeof(*more));

	if (!more)
		return false;
	l->first = HK_MAX(l->first, l->sent - HK_MIN(l->sent, (uint64_t)old));
	for (uint64_t k = l->first; k < l->sent; k++)
		more[k & (capacity - 1)] = l->tag_index[k & l->mask];
	free(l->tag_index);
	l->tag_index = more;
	l->mask = capacity - 1;
	l->check_at = HK_MIN(l->check_at, l->sent + capacity / 4);
	return true;
}

void hk_send_log_free(struct hk_send_log *l)
{
	free(l->tag_index);
	l->tag_index = NULL;
}

uint64_t hk_send_log_check(struct hk_send_log *l, uint64_t *soon)
{
	uint64_t quarter = (l->mask + 1) / 4;

	l->check_at = l->sent + quarter;
	*soon = l->sent - HK_MIN(l->sent, 2 * quarter);
	return l->sent - HK_MIN(l->sent, 3 * quarter);
}

/* ---- a send order
 * ---------------------------------------------------------------------------------- */

struct hk_send_order_tag *hk_send_order_tags(struct hk_send_order *p)
{
	return (struct hk_send_order_tag *)(void *)p->data;
}

static const uint16_t *log_of(const struct hk_send_order *p)
{
	return (const uint16_t *)(const void *)(p->data +
						p->tags * sizeof(struct hk_send_order_tag));
}

size_t hk_send_order_bytes(uint32_t tags, uint32_t logged)
{
	return sizeof(struct hk_send_order) + tags * sizeof(struct hk_send_order_tag) +
	       logged * sizeof(uint16_t);
}

size_t hk_send_order_encode(struct hk_send_order *p, const struct hk_send_log *l, uint64_t first,
			    uint32_t tags)
{
	uint64_t logged = l->sent - HK_MIN(l->sent, HK_MAX(first, l->first));

	if (logged > (uint64_t)l->mask + 1)
		return 0;
	*p = (struct hk_send_order){.tags = tags, .logged = (uint32_t)logged, .sent = l->sent};
	uint16_t *log = (uint16_t *)(uintptr_t)log_of(p);

	for (uint32_t k = 0; k < p->logged; k++)
		log[k] = l->tag_index[(l->sent - p->logged + k) & l->mask];
	return hk_send_order_bytes(p->tags, p->logged);
}

bool hk_send_order_valid(const struct hk_send_order *p, size_t bytes)
{
	if (bytes < sizeof(*p) || p->tags > HK_PAIR_TAGS || p->logged > HK_SEND_LOG_MAX ||
	    p->logged > p->sent || bytes != hk_send_order_bytes(p->tags, p->logged))
		return false;
	for (uint32_t k = 0; k < p->logged; k++)
		if (log_of(p)[k] >= p->tags)
			return false;
	return true;
}

void hk_send_order_before(const struct hk_send_order *p, uint64_t position, uint64_t *before)
{
	const struct hk_send_order_tag *tag = hk_send_order_tags(
		(struct hk_send_order *)(uintptr_t)p);

	for (uint32_t t = 0; t < p->tags; t++)
		before[t] = tag[t].sent;
	for (uint64_t from = p->sent - p->logged, i = HK_MAX(position, from); i < p->sent; i++) {
		uint16_t tag_index = log_of(p)[i - from];

		if (before[tag_index])
			before[tag_index]--;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/delivery.c: see delivery.h.
 *
 * An index finds the entries of both tables (open requests, stored replies) by number. Each
 * destination and type has HK_RTC_WINDOW index entries; number n has entry n modulo HK_RTC_WINDOW.
 */
#include "rtc/delivery.h"

#include <stdlib.h>
#include <string.h>

bool hk_rtc_latest_init(struct hk_rtc_latest *l, uint16_t nodes)
{
	l->number = calloc(nodes, sizeof(*l->number));
	return l->number != NULL;
}

/* ---- index by number ------------------------------------------------------------------------- */

static bool add_index(uint16_t **index, uint16_t nodes)
{
	size_t bytes = (size_t)nodes * HK_RTC_WINDOW * sizeof(**index);
	if (*index)
		return true;
	*index = malloc(bytes);
	if (*index)
		memset(*index, 0xff, bytes); /* sets HK_RTC_NO_INDEX */
	return *index != NULL;
}

static uint16_t *index_of(uint16_t *const *index, uint16_t node, uint8_t type, uint32_t number)
{
	return type < HK_RTC_MAX_TYPES && index[type]
		       ? &index[type][(size_t)node * HK_RTC_WINDOW + number % HK_RTC_WINDOW]
		       : NULL;
}

static void free_index(uint16_t **index)
{
	for (unsigned t = 0; t < HK_RTC_MAX_TYPES; t++) {
		free(index[t]);
		index[t] = NULL;
	}
}

/* ---- requests ------------------------------------------------------------------------------- */

bool hk_rtc_requests_init(struct hk_rtc_requests *a, uint16_t nodes, unsigned capacity)
{
	*a = (struct hk_rtc_requests){.due = UINT64_MAX, .nodes = nodes, .capacity = capacity};
	a->q = calloc(capacity, sizeof(*a->q));
	for (unsigned i = 0; a->q && i < capacity; i++)
		a->q[i].next = i + 1 < capacity ? (uint16_t)(i + 1) : HK_RTC_NO_INDEX;
	return a->q != NULL;
}

bool hk_rtc_requests_add_type(struct hk_rtc_requests *a, uint8_t type)
{
	return add_index(&a->index[type], a->nodes);
}

void hk_rtc_requests_free(struct hk_rtc_requests *a)
{
	free(a->q);
	a->q = NULL;
	free_index(a->index);
}

bool hk_rtc_requests_available(const struct hk_rtc_requests *a, uint16_t dst, uint8_t type,
			       uint32_t number)
{
	const uint16_t *at = index_of(a->index, dst, type, number);
	return a->free != HK_RTC_NO_INDEX && at && *at == HK_RTC_NO_INDEX;
}

void hk_rtc_requests_add(struct hk_rtc_requests *a, uint16_t dst, uint8_t type, uint32_t number,
			 uint32_t buf, uint64_t now, uint64_t timeout, unsigned tries)
{
	uint16_t place = a->free;
	struct hk_rtc_request *q = &a->q[place];

	a->free = q->next;
	*q = (struct hk_rtc_request){.due = now + timeout,
				     .timeout = timeout,
				     .number = number,
				     .buf = buf,
				     .dst = dst,
				     .type = type,
				     .open = true,
				     .tries = tries - 1};
	*index_of(a->index, dst, type, number) = place;
	a->open++;
	a->due = HK_MIN(a->due, q->due);
}

static void close_request(struct hk_rtc_requests *a, struct hk_rtc_request *q)
{
	*index_of(a->index, q->dst, q->type, q->number) = HK_RTC_NO_INDEX;
	q->open = false;
	q->next = a->free;
	a->free = (uint16_t)(q - a->q);
	a->open--;
}

uint32_t hk_rtc_requests_answered(struct hk_rtc_requests *a, uint16_t src, uint8_t type,
				  uint32_t number)
{
	const uint16_t *at = index_of(a->index, src, type, number);
	if (!at || *at == HK_RTC_NO_INDEX || a->q[*at].number != number)
		return HK_RTC_NO_BUF;
	struct hk_rtc_request *q = &a->q[*at];
	close_request(a, q);
	return q->buf;
}

enum hk_rtc_requests_task hk_rtc_requests_poll(struct hk_rtc_requests *a, uint64_t now,
					       struct hk_rtc_request *out)
{
	if (now < a->due)
		return HK_RTC_REQUESTS_NOTHING;
	for (; a->cursor < a->capacity; a->cursor++) {
		struct hk_rtc_request *q = &a->q[a->cursor];
		if (!q->open || q->due > now)
			continue;
		*out = *q;
		if (q->tries == 0) {
			close_request(a, q);
			a->cursor++;
			return HK_RTC_REQUESTS_GIVEN_UP;
		}
		q->tries--;
		q->timeout *= 2;
		q->due = now + q->timeout;
		a->cursor++;
		return HK_RTC_REQUESTS_RESEND;
	}
	a->cursor = 0;
	a->due = UINT64_MAX;
	for (unsigned i = 0; i < a->capacity; i++)
		if (a->q[i].open)
			a->due = HK_MIN(a->due, a->q[i].due);
	return HK_RTC_REQUESTS_NOTHING;
}

bool hk_rtc_requests_drop_peer(struct hk_rtc_requests *a, uint16_t dst, struct hk_rtc_request *out)
{
	for (unsigned i = 0; a->open && i < a->capacity; i++) {
		struct hk_rtc_request *q = &a->q[i];
		if (!q->open || q->dst != dst)
			continue;
		*out = *q;
		close_request(a, q);
		return true;
	}
	return false;
}

/* ---- handled once ---------------------------------------------------------------------------- */

bool hk_rtc_once_init(struct hk_rtc_once *o, uint16_t nodes)
{
	o->peer = calloc(nodes, sizeof(*o->peer));
	return o->peer != NULL;
}

void hk_rtc_once_forget(struct hk_rtc_once *o, uint16_t src)
{
	memset(&o->peer[src], 0, sizeof(o->peer[src]));
}

static uint64_t bit_of(uint32_t number)
{
	return UINT64_C(1) << (number % 64);
}

bool hk_rtc_once_is_new(const struct hk_rtc_once *o, uint16_t src, uint32_t number)
{
	const struct hk_rtc_once_peer *p = &o->peer[src];
	if (p->high == 0 || hk_rtc_number_before(p->high, number))
		return true;
	return p->high - number < HK_RTC_WINDOW &&
	       !(p->seen[number % HK_RTC_WINDOW / 64] & bit_of(number));
}

void hk_rtc_once_mark(struct hk_rtc_once *o, uint16_t src, uint32_t number)
{
	struct hk_rtc_once_peer *p = &o->peer[src];

	if (p->high == 0 ||
	    (hk_rtc_number_before(p->high, number) && number - p->high >= HK_RTC_WINDOW)) {
		memset(p->seen, 0, sizeof(p->seen));
		p->high = number;
	}
	while (hk_rtc_number_before(p->high, number)) {
		p->high++;
		p->seen[p->high % HK_RTC_WINDOW / 64] &= ~bit_of(p->high);
	}
	p->seen[number % HK_RTC_WINDOW / 64] |= bit_of(number);
}

void hk_rtc_once_unmark(struct hk_rtc_once *o, uint16_t src, uint32_t number)
{
	struct hk_rtc_once_peer *p = &o->peer[src];
	if (p->high - number < HK_RTC_WINDOW)
		p->seen[number % HK_RTC_WINDOW / 64] &= ~bit_of(number);
}

/* ---- stored replies -------------------------------------------------------------------------- */

bool hk_rtc_replies_init(struct hk_rtc_replies *a, uint16_t nodes, unsigned capacity)
{
	*a = (struct hk_rtc_replies){.nodes = nodes, .capacity = capacity};
	a->ring = calloc(capacity, sizeof(*a->ring));
	for (unsigned i = 0; a->ring && i < capacity; i++)
		a->ring[i].buf = HK_RTC_NO_BUF;
	return a->ring != NULL;
}

bool hk_rtc_replies_add_type(struct hk_rtc_replies *a, uint8_t type)
{
	return add_index(&a->index[type], a->nodes);
}

void hk_rtc_replies_free(struct hk_rtc_replies *a)
{
	free(a->ring);
	a->ring = NULL;
	free_index(a->index);
}

uint32_t hk_rtc_replies_store(struct hk_rtc_replies *a, uint16_t src, uint8_t type, uint32_t number,
			      uint32_t buf)
{
	struct hk_rtc_reply *e = &a->ring[a->next];
	uint32_t old = e->buf;

	if (old != HK_RTC_NO_BUF) {
		uint16_t *at = index_of(a->index, e->src, e->type, e->number);
		if (at && *at == a->next)
			*at = HK_RTC_NO_INDEX;
	}
	*e = (struct hk_rtc_reply){number, buf, src, type};
	*index_of(a->index, src, type, number) = (uint16_t)a->next;
	a->next = a->next + 1 < a->capacity ? a->next + 1 : 0;
	return old;
}

uint32_t hk_rtc_replies_find(const struct hk_rtc_replies *a, uint16_t src, uint8_t type,
			     uint32_t number)
{
	const uint16_t *at = index_of(a->index, src, type, number);
	if (!at || *at == HK_RTC_NO_INDEX)
		return HK_RTC_NO_BUF;
	const struct hk_rtc_reply *e = &a->ring[*at];
	return e->number == number ? e->buf : HK_RTC_NO_BUF;
}

void hk_rtc_replies_forget(struct hk_rtc_replies *a, uint16_t src)
{
	for (unsigned t = 0; t < HK_RTC_MAX_TYPES; t++)
		if (a->index[t])
			memset(&a->index[t][(size_t)src * HK_RTC_WINDOW], 0xff,
			       HK_RTC_WINDOW * sizeof(uint16_t));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/delivery.c: see delivery.h.
 *
 * Both tables (open questions, kept answers) are found by number: of each destination and type, the place of number n
 * stands at n modulo HK_WINDOW.
 */
#include "rtc/delivery.h"

#include <stdlib.h>
#include <string.h>

bool hk_latest_init(struct hk_latest *l, uint16_t nodes)
{
	l->number = calloc(nodes, sizeof(*l->number));
	return l->number != NULL;
}

/* ---- places by number ------------------------------------------------------------------------ */

static bool add_slots(uint16_t **slot, uint16_t nodes)
{
	size_t bytes = (size_t)nodes * HK_WINDOW * sizeof(**slot);
	if (*slot)
		return true;
	*slot = malloc(bytes);
	if (*slot)
		memset(*slot, 0xff, bytes); /* HK_NO_SLOT */
	return *slot != NULL;
}

static uint16_t *slot_of(uint16_t *const *slot, uint16_t node, uint8_t type, uint32_t number)
{
	return type < HK_RTC_MAX_TYPES && slot[type]
		       ? &slot[type][(size_t)node * HK_WINDOW + number % HK_WINDOW]
		       : NULL;
}

static void free_slots(uint16_t **slot)
{
	for (unsigned t = 0; t < HK_RTC_MAX_TYPES; t++) {
		free(slot[t]);
		slot[t] = NULL;
	}
}

/* ---- questions ------------------------------------------------------------------------------- */

bool hk_asker_init(struct hk_asker *a, uint16_t nodes, unsigned places)
{
	*a = (struct hk_asker){.due = UINT64_MAX, .nodes = nodes, .places = places};
	a->q = calloc(places, sizeof(*a->q));
	for (unsigned i = 0; a->q && i < places; i++)
		a->q[i].next = i + 1 < places ? (uint16_t)(i + 1) : HK_NO_SLOT;
	return a->q != NULL;
}

bool hk_asker_add_type(struct hk_asker *a, uint8_t type)
{
	return add_slots(&a->slot[type], a->nodes);
}

void hk_asker_free(struct hk_asker *a)
{
	free(a->q);
	a->q = NULL;
	free_slots(a->slot);
}

bool hk_asker_room(const struct hk_asker *a, uint16_t dst, uint8_t type, uint32_t number)
{
	const uint16_t *at = slot_of(a->slot, dst, type, number);
	return a->free != HK_NO_SLOT && at && *at == HK_NO_SLOT;
}

void hk_asker_ask(struct hk_asker *a, uint16_t dst, uint8_t type, uint32_t number, uint32_t buf,
		  uint64_t now, uint64_t timeout, unsigned tries)
{
	uint16_t place = a->free;
	struct hk_question *q = &a->q[place];

	a->free = q->next;
	*q = (struct hk_question){.due = now + timeout,
				  .timeout = timeout,
				  .number = number,
				  .buf = buf,
				  .dst = dst,
				  .type = type,
				  .open = true,
				  .tries = tries - 1};
	*slot_of(a->slot, dst, type, number) = place;
	a->open++;
	a->due = HK_MIN(a->due, q->due);
}

static void close_question(struct hk_asker *a, struct hk_question *q)
{
	*slot_of(a->slot, q->dst, q->type, q->number) = HK_NO_SLOT;
	q->open = false;
	q->next = a->free;
	a->free = (uint16_t)(q - a->q);
	a->open--;
}

uint32_t hk_asker_answered(struct hk_asker *a, uint16_t src, uint8_t type, uint32_t number)
{
	const uint16_t *at = slot_of(a->slot, src, type, number);
	if (!at || *at == HK_NO_SLOT || a->q[*at].number != number)
		return HK_NO_BUF;
	struct hk_question *q = &a->q[*at];
	close_question(a, q);
	return q->buf;
}

enum hk_asker_task hk_asker_poll(struct hk_asker *a, uint64_t now, struct hk_question *out)
{
	if (now < a->due)
		return HK_ASKER_NOTHING;
	for (; a->cursor < a->places; a->cursor++) {
		struct hk_question *q = &a->q[a->cursor];
		if (!q->open || q->due > now)
			continue;
		*out = *q;
		if (q->tries == 0) {
			close_question(a, q);
			a->cursor++;
			return HK_ASKER_GIVEN_UP;
		}
		q->tries--;
		q->timeout *= 2;
		q->due = now + q->timeout;
		a->cursor++;
		return HK_ASKER_AGAIN;
	}
	a->cursor = 0;
	a->due = UINT64_MAX;
	for (unsigned i = 0; i < a->places; i++)
		if (a->q[i].open)
			a->due = HK_MIN(a->due, a->q[i].due);
	return HK_ASKER_NOTHING;
}

bool hk_asker_gone(struct hk_asker *a, uint16_t dst, struct hk_question *out)
{
	for (unsigned i = 0; a->open && i < a->places; i++) {
		struct hk_question *q = &a->q[i];
		if (!q->open || q->dst != dst)
			continue;
		*out = *q;
		close_question(a, q);
		return true;
	}
	return false;
}

/* ---- handled once ---------------------------------------------------------------------------- */

bool hk_once_init(struct hk_once *o, uint16_t nodes)
{
	o->peer = calloc(nodes, sizeof(*o->peer));
	return o->peer != NULL;
}

void hk_once_forget(struct hk_once *o, uint16_t src)
{
	memset(&o->peer[src], 0, sizeof(o->peer[src]));
}

static uint64_t bit_of(uint32_t number)
{
	return UINT64_C(1) << (number % 64);
}

bool hk_once_is_new(const struct hk_once *o, uint16_t src, uint32_t number)
{
	const struct hk_once_peer *p = &o->peer[src];
	if (p->high == 0 || hk_number_before(p->high, number))
		return true;
	return p->high - number < HK_WINDOW && !(p->seen[number % HK_WINDOW / 64] & bit_of(number));
}

void hk_once_mark(struct hk_once *o, uint16_t src, uint32_t number)
{
	struct hk_once_peer *p = &o->peer[src];

	if (p->high == 0 || (hk_number_before(p->high, number) && number - p->high >= HK_WINDOW)) {
		memset(p->seen, 0, sizeof(p->seen));
		p->high = number;
	}
	while (hk_number_before(p->high, number)) {
		p->high++;
		p->seen[p->high % HK_WINDOW / 64] &= ~bit_of(p->high);
	}
	p->seen[number % HK_WINDOW / 64] |= bit_of(number);
}

void hk_once_unmark(struct hk_once *o, uint16_t src, uint32_t number)
{
	struct hk_once_peer *p = &o->peer[src];
	if (p->high - number < HK_WINDOW)
		p->seen[number % HK_WINDOW / 64] &= ~bit_of(number);
}

/* ---- answers ----------------------------------------------------------------------------------- */

bool hk_answers_init(struct hk_answers *a, uint16_t nodes, unsigned places)
{
	*a = (struct hk_answers){.nodes = nodes, .places = places};
	a->ring = calloc(places, sizeof(*a->ring));
	for (unsigned i = 0; a->ring && i < places; i++)
		a->ring[i].buf = HK_NO_BUF;
	return a->ring != NULL;
}

bool hk_answers_add_type(struct hk_answers *a, uint8_t type)
{
	return add_slots(&a->slot[type], a->nodes);
}

void hk_answers_free(struct hk_answers *a)
{
	free(a->ring);
	a->ring = NULL;
	free_slots(a->slot);
}

uint32_t hk_answers_keep(struct hk_answers *a, uint16_t src, uint8_t type, uint32_t number,
			 uint32_t buf)
{
	struct hk_answer *e = &a->ring[a->next];
	uint32_t old = e->buf;

	if (old != HK_NO_BUF) {
		uint16_t *at = slot_of(a->slot, e->src, e->type, e->number);
		if (at && *at == a->next)
			*at = HK_NO_SLOT;
	}
	*e = (struct hk_answer){number, buf, src, type};
	*slot_of(a->slot, src, type, number) = (uint16_t)a->next;
	a->next = a->next + 1 < a->places ? a->next + 1 : 0;
	return old;
}

uint32_t hk_answers_find(const struct hk_answers *a, uint16_t src, uint8_t type, uint32_t number)
{
	const uint16_t *at = slot_of(a->slot, src, type, number);
	if (!at || *at == HK_NO_SLOT)
		return HK_NO_BUF;
	const struct hk_answer *e = &a->ring[*at];
	return e->number == number ? e->buf : HK_NO_BUF;
}

void hk_answers_forget(struct hk_answers *a, uint16_t src)
{
	for (unsigned t = 0; t < HK_RTC_MAX_TYPES; t++)
		if (a->slot[t])
			memset(&a->slot[t][(size_t)src * HK_WINDOW], 0xff,
			       HK_WINDOW * sizeof(uint16_t));
}

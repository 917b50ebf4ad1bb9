/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/past.c: who tells whom which messages were sent before which (order.h). Channels to a rank that end
 * with no message between them share one past: it goes with the first that has puts which may not be taken, and the others
 * name it by its number.
 */
#include "halo/interpose/interpose.h"

#include <stdlib.h>
#include <string.h>

/* ---- the sender's ------------------------------------------------------------------------------------------ */

size_t hk_past_tell(const struct hk_sender *o, const struct hk_order *order, uint32_t orders,
		    struct hk_past *past)
{
	struct hk_pair *p = o->pair;
	uint64_t first = UINT64_MAX;

	for (uint32_t k = 0; k < orders; k++)
		first = HK_MIN(first, order[k].at);
	if (p->past && p->past_at == p->log.sent && p->past_tags == p->tags &&
	    p->past_first <= first)
		return 0;
	for (int k = 0; k < p->tags; k++)
		if (p->out[k]->state == HK_OUT_PUT)
			first = HK_MIN(first, hk_out_oldest(p->out[k]));
	size_t bytes = hk_past_make(past, &p->log, first, (uint32_t)p->tags);

	if (!bytes)
		hk_broken("it has forgotten which messages were sent before a put");
	for (int k = 0; k < p->tags; k++)
		hk_past_tags(past)[k] = (struct hk_past_tag){.tag = p->out[k]->tag,
							     .sent = p->out[k]->sent};
	p->past = p->past + 1 ? p->past + 1 : 1;
	p->past_at = p->log.sent;
	p->past_tags = p->tags;
	p->past_first = first;
	return bytes;
}

/* ---- the receiver's ---------------------------------------------------------------------------------------- */

bool hk_past_told(struct hk_in_pair *p, uint32_t number, const struct hk_past *past, size_t bytes)
{
	if (!hk_past_valid(past, bytes))
		return false;
	hk_past_drop(p->past);
	p->past = hk_need(bytes);
	memcpy(p->past, past, bytes);
	p->past->holders = 1;
	p->past->counted = 0;
	p->number = number;
	return true;
}

struct hk_past *hk_past_take(struct hk_in_pair *p, uint32_t number)
{
	if (number == 0)
		return NULL;
	if (!p->past || p->number != number)
		hk_broken("a rank names an order of messages that it has not told");
	p->past->holders++;
	return p->past;
}

void hk_past_drop(struct hk_past *past)
{
	if (past && --past->holders == 0)
		free(past);
}

void hk_past_count(struct hk_receiver *n)
{
	if (!n->past || n->past->counted)
		return;
	n->past->counted = 1;
	for (uint32_t k = 0; k < n->past->tags; k++)
		hk_in_need(n->comm, n->peer, hk_past_tags(n->past)[k].tag);
}

uint64_t hk_past_at(const struct hk_receiver *n)
{
	for (uint32_t k = 0; k < n->orders; k++)
		if (n->order[k].index == n->posted)
			return n->order[k].at;
	return 0;
}

bool hk_past_lacks(const struct hk_receiver *n)
{
	static uint64_t sent[HK_PAIR_TAGS];

	if (!n->past)
		return false;
	hk_past_before(n->past, hk_past_at(n), sent);
	for (uint32_t t = 0; t < n->past->tags; t++) {
		int tag = hk_past_tags(n->past)[t].tag;
		const struct hk_receiver *other = hk_in_known(n->comm, n->peer, tag);

		if (tag != n->tag && sent[t] > (other ? other->posted : 0))
			return true;
	}
	return false;
}

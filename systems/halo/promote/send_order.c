/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/send_order.c: how a sender reports the order of sending, and how the receiver uses
 * it (send_log.h).
 *
 * Channels to one rank may end without a message between them. They share one send order. The first
 * of them that has untaken puts sends it, and the others give its number.
 */
#include "halo/promote/promote.h"

#include <stdlib.h>
#include <string.h>

/* ---- the sender's ---------------------------------------------------------------------------- */

size_t hk_send_order_report(const struct hk_sender *o, const struct hk_put_position *untaken,
			    uint32_t count, struct hk_send_order *send_order)
{
	struct hk_send_pair *p = o->pair;
	uint64_t first = UINT64_MAX;

	for (uint32_t k = 0; k < count; k++)
		first = HK_MIN(first, untaken[k].position);
	if (p->order_number && p->order_at == p->log.sent && p->order_tags == p->tags &&
	    p->order_first <= first)
		return 0;
	for (int k = 0; k < p->tags; k++)
		if (p->sender[k]->state == HK_SENDER_PROMOTED)
			first = HK_MIN(first, hk_sender_oldest(p->sender[k]));
	size_t bytes = hk_send_order_encode(send_order, &p->log, first, (uint32_t)p->tags);

	if (!bytes)
		hk_promote_abort("the log no longer has the messages before a put");
	for (int k = 0; k < p->tags; k++)
		hk_send_order_tags(send_order)[k] = (struct hk_send_order_tag){
			.tag = p->sender[k]->tag, .sent = p->sender[k]->sent};
	p->order_number = p->order_number + 1 ? p->order_number + 1 : 1;
	p->order_at = p->log.sent;
	p->order_tags = p->tags;
	p->order_first = first;
	return bytes;
}

/* ---- the receiver's -------------------------------------------------------------------------- */

bool hk_send_order_reported(struct hk_receive_pair *p, uint32_t number,
			    const struct hk_send_order *send_order, size_t bytes)
{
	if (!hk_send_order_valid(send_order, bytes))
		return false;
	hk_send_order_release(p->send_order);
	p->send_order = hk_promote_alloc(bytes);
	memcpy(p->send_order, send_order, bytes);
	p->send_order->references = 1;
	p->send_order->counted = 0;
	p->order_number = number;
	return true;
}

struct hk_send_order *hk_send_order_acquire(struct hk_receive_pair *p, uint32_t number)
{
	if (number == 0)
		return NULL;
	if (!p->send_order || p->order_number != number)
		hk_promote_abort("a rank names a send order that it has not sent");
	p->send_order->references++;
	return p->send_order;
}

void hk_send_order_release(struct hk_send_order *send_order)
{
	if (send_order && --send_order->references == 0)
		free(send_order);
}

void hk_send_order_count(struct hk_receiver *n)
{
	if (!n->send_order || n->send_order->counted)
		return;
	n->send_order->counted = 1;
	for (uint32_t k = 0; k < n->send_order->tags; k++)
		hk_receiver_require(n->comm, n->peer, hk_send_order_tags(n->send_order)[k].tag);
}

uint64_t hk_send_order_position(const struct hk_receiver *n)
{
	for (uint32_t k = 0; k < n->untaken_count; k++)
		if (n->untaken[k].index == n->posted)
			return n->untaken[k].position;
	return 0;
}

bool hk_send_order_has_earlier(const struct hk_receiver *n)
{
	static uint64_t sent[HK_PAIR_TAGS];

	if (!n->send_order)
		return false;
	hk_send_order_before(n->send_order, hk_send_order_position(n), sent);
	for (uint32_t t = 0; t < n->send_order->tags; t++) {
		int tag = hk_send_order_tags(n->send_order)[t].tag;
		const struct hk_receiver *other = hk_receiver_lookup(n->comm, n->peer, tag);

		if (tag != n->tag && sent[t] > (other ? other->posted : 0))
			return true;
	}
	return false;
}

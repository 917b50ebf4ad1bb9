/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/send_queue.c: what waits for a peer until its window has space.
 *
 * DESIGN NOTES
 *
 * Messages and puts leave in the order of their calls. A put that serves a get has no order with
 * them, and may be long. In one queue the application's next message would wait for all of it. If
 * two peers get from each other, the request of one would wait behind what the other one gets. The
 * two directions of the wire would take turns. So there are two queues, which have the window in
 * turn. A turn ends when something has left: otherwise one of them would have each small piece of
 * the window, and the other one none. The fragments of a message have consecutive packet numbers,
 * so nothing comes between them.
 */
#include "worker/tx.h"
#include "worker/peers.h"
#include "worker/rma_internal.h"
#include "worker/wakeup.h"

#include <limits.h>

#define TURN 8 /* messages, or frames of a reply; a put takes what there is */

/* The sum of `len` of packets in @item that need a grant. */
static uint64_t bulk_of(const struct hk_worker *w, struct hk_item *item)
{
	if (hk_link_is_put(item))
		return hk_put_bulk(w, hk_put_of(item));
	uint16_t len = hk_note(hk_buf_of(item))->len;

	return len >= HK_LONG_FRAME ? len : 0;
}

static bool is_reply(struct hk_item *item)
{
	return hk_link_is_put(item) && hk_put_of(item)->is_get_reply;
}

void hk_send_queue_add(struct hk_worker *w, hk_peer p, struct hk_item *item)
{
	struct hk_send_queue *q = &w->peer[p].tx.queue;
	/* the poller cannot send a put */
	bool wake = !hk_link_is_put(item) && !q->head;

	q->bulk += bulk_of(w, item);
	w->n.queued++;
	if (is_reply(item)) {
		hk_items_append(&q->replies, &hk_put_of(item)->item);
	} else {
		hk_item_of(item)->next = NULL;
		if (q->head)
			hk_item_of(q->tail)->next = item;
		else
			q->head = item;
		q->tail = item;
		q->len++;
	}
	hk_peer_list_add(w, HK_LIST_SEND_QUEUE, p);
	if (wake)
		hk_wakeup_own_poller(w);
}

static bool waits(const struct hk_send_queue *q)
{
	return q->head || q->replies.head;
}

/* Removes the first message or put, after it was sent or to drop it. */
static void pop(struct hk_worker *w, hk_peer p)
{
	struct hk_worker_peer *peer = &w->peer[p];
	struct hk_item *item = peer->tx.queue.head;

	peer->tx.queue.bulk -= bulk_of(w, item);
	peer->tx.queue.head = hk_item_of(item)->next;
	peer->tx.queue.len--;
	if (hk_link_is_put(item))
		hk_put_unqueued(w, hk_put_of(item));
	else if (hk_note(hk_buf_of(item))->refusal)
		peer->rma.refusals_queued--;
	else if (hk_note(hk_buf_of(item))->atomic_reply)
		peer->atomic.replies_queued--;
}

/* @op has left the queue of replies. */
static void reply_out(struct hk_worker *w, struct hk_op *op)
{
	w->peer[op->peer].tx.queue.bulk -= hk_put_bulk(w, op);
	hk_put_unqueued(w, op);
}

static void pop_reply(struct hk_worker *w, hk_peer p)
{
	struct hk_item_list *replies = &w->peer[p].tx.queue.replies;
	struct hk_op *op = (struct hk_op *)replies->head;

	replies->head = op->item.next;
	reply_out(w, op);
}

void hk_send_queue_remove(struct hk_worker *w, struct hk_op *reply)
{
	struct hk_item_list *replies = &w->peer[reply->peer].tx.queue.replies;
	struct hk_item *before = NULL, *item = replies->head;

	for (; item != &reply->item; item = item->next)
		before = item;
	*(before ? &before->next : &replies->head) = item->next;
	if (replies->tail == item)
		replies->tail = before;
	reply_out(w, reply);
}

/* Sends some of the first reply. False: nothing left. */
static bool send_reply(struct hk_worker *w, hk_peer p, uint64_t now)
{
	struct hk_send_queue *q = &w->peer[p].tx.queue;
	struct hk_item *head = q->head, *reply = q->replies.head;

	if (!reply || w->by_poller ||
	    (head && !hk_link_is_put(head) && hk_note(hk_buf_of(head))->frag))
		return false;
	struct hk_op *op = (struct hk_op *)reply;
	uint64_t sent = op->sent;

	w->gather++;
	bool all = hk_put_run(w, op, TURN, now);

	if (--w->gather == 0)
		hk_txqs_flush(w);
	if (!all && op->sent == sent)
		return false;
	if (all)
		pop_reply(w, p);
	q->reply_next = false;
	return true;
}

/* Sends the first message, or what the window takes of the first put. False: not all of it left. */
static bool send_first(struct hk_worker *w, hk_peer p, uint64_t now)
{
	struct hk_send_queue *q = &w->peer[p].tx.queue;
	struct hk_item *item = q->head;
	bool all;

	if (!item || (hk_link_is_put(item) && w->by_poller))
		return false;
	if (hk_link_is_put(item)) {
		struct hk_op *op = hk_put_of(item);
		uint64_t sent = op->sent;

		all = hk_put_run(w, op, UINT_MAX, now);
		q->sent = op->sent != sent ? TURN : q->sent;
	} else {
		all = hk_tx_now(w, p, hk_buf_of(item), now);
		q->sent += all;
	}
	if (q->sent >= TURN) {
		q->sent = 0;
		q->reply_next = true;
	}
	if (all)
		pop(w, p);
	return all;
}

/* Tells the engine how much bulk waits. A grant takes a round trip, so it asks in time, even if
 * something else holds the queue up now. */
static void want(struct hk_worker *w, hk_peer p, uint64_t now)
{
	uint64_t bulk = w->peer[p].tx.queue.bulk;

	if (HK_UNLIKELY(w->cfg.engine.link_mbps != 0) && bulk)
		hk_engine_want(w->engine, p, (uint32_t)HK_MIN(bulk, 1u << 30), now);
}

/* Sends what it can of the queue to @p. Returns whether it sent anything. */
static bool send_queue(struct hk_worker *w, hk_peer p, uint64_t now)
{
	struct hk_worker_peer *peer = &w->peer[p];
	uint64_t bulk = peer->tx.queue.bulk;
	bool any = false;

	while (waits(&peer->tx.queue) && !peer->ended_unseen) {
		bool sent = peer->tx.queue.reply_next
				    ? send_reply(w, p, now) || send_first(w, p, now)
				    : send_first(w, p, now) || send_reply(w, p, now);

		if (!sent)
			break;
		any = true;
	}
	want(w, p, now);
	return any || peer->tx.queue.bulk != bulk;
}

/* Peers that something was sent to go behind the others. Behind a network switch the engine gives
 * the NIC little bulk at a time. The same peers would have all of that otherwise, and the grants of
 * the others would end. */
void hk_send_queues_run(struct hk_worker *w, uint64_t now)
{
	uint32_t *link = &w->list[HK_LIST_SEND_QUEUE];
	hk_peer served = HK_PEER_NONE, *served_end = &served;

	while (*link != HK_PEER_NONE) {
		hk_peer p = *link;
		struct hk_worker_peer *peer = &w->peer[p];
		bool sent = send_queue(w, p, now), left = waits(&peer->tx.queue);

		if (!left || !sent) {
			link = hk_peer_list_step(w, HK_LIST_SEND_QUEUE, link, left);
			continue;
		}
		*link = peer->next[HK_LIST_SEND_QUEUE];
		peer->next[HK_LIST_SEND_QUEUE] = HK_PEER_NONE;
		*served_end = p;
		served_end = &peer->next[HK_LIST_SEND_QUEUE];
	}
	*link = served;
}

void hk_send_queue_ask(struct hk_worker *w, hk_peer p, uint64_t now)
{
	want(w, p, now);
	if (hk_engine_deadline(w->engine) <= now) /* the request must not wait for a poll */
		hk_tx_poll(w, now, NULL, 0);
}

bool hk_worker_peers_not_polling(struct hk_worker *w)
{
	if (!hk_peers_listed(w, HK_LIST_SEND_QUEUE)) /* the poller only removes from it */
		return false;
	hk_biased_enter(&w->lock);
	hk_peer p = w->list[HK_LIST_SEND_QUEUE];
	bool any = p != HK_PEER_NONE;

	while (p != HK_PEER_NONE && hk_engine_zero_credit(w->engine, p))
		p = w->peer[p].next[HK_LIST_SEND_QUEUE];
	hk_biased_leave(&w->lock);
	return any && p == HK_PEER_NONE;
}

void hk_send_queue_drop(struct hk_worker *w, hk_peer p)
{
	struct hk_worker_peer *peer = &w->peer[p];

	while (peer->tx.queue.replies.head)
		pop_reply(w, p);
	while (peer->tx.queue.head) {
		struct hk_item *item = peer->tx.queue.head;

		pop(w, p);
		if (!hk_link_is_put(item))
			hk_buf_release(w, hk_buf_of(item));
	}
}

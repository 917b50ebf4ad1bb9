/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/get.c: one-sided reads, ours and our peers'.
 *
 * DESIGN NOTES
 *
 * A get is a message to the owner, which replies with a put into a region that was made for the
 * destination. The get is complete when all bytes have arrived. At most HK_GETS_MAX gets to one
 * peer are in flight; the others wait in the peer's list.
 *
 * The owner serves HK_GET_REPLIES gets at once, and one more of each peer. A peer with r replies
 * in progress gets another one while at least r of the common ones are free. So peers with many
 * wait first ("dynamic thresholds", Choudhury and Hahne 1998). It refuses the others as busy,
 * and their sender asks again after HK_GET_RETRY.
 *
 * The owner limits what a peer can make it store. Replies with bytes to send, and refusals that
 * wait, are at most HK_GETS_MAX each. A peer that keeps to the protocol never exceeds that; further
 * requests are dropped and counted.
 */
#include "worker/paths.h"
#include "worker/peers.h"
#include "worker/pending_reply.h"
#include "worker/rma_internal.h"
#include "worker/tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HK_GET_RETRY (100 * HK_USEC) /* a busy owner is asked again after this */

static void on_get(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count);

static unsigned replies_max(const struct hk_worker *w)
{
	return HK_GET_REPLIES + w->cfg.engine.max_peers;
}

int hk_gets_open(struct hk_worker *w)
{
	struct hk_get_replies *r = &w->get_replies;

	r->op = calloc(replies_max(w), sizeof(*r->op));
	if (!r->op)
		return -ENOMEM;
	r->available = HK_GET_REPLIES;
	w->am[HK_WIRE_AM_GET].fn = on_get;
	w->am[HK_WIRE_AM_GET].arg = w;
	return 0;
}

void hk_gets_close(struct hk_worker *w)
{
	free(w->get_replies.op);
}

/* ---- ours ------------------------------------------------------------------------------------ */

bool hk_peer_connected(const struct hk_worker *w, hk_peer p)
{
	enum hk_peer_state state = hk_engine_peer_state(w->engine, p);

	if (HK_UNLIKELY(atomic_load_explicit(&w->lock.broken, memory_order_relaxed)))
		return false;
	return state == HK_PEER_ACTIVE || state == HK_PEER_PASSIVE;
}

/* Callbacks may issue operations, which may end at once. */
void hk_rma_report(struct hk_worker *w)
{
	while (w->completions.head) {
		struct hk_op *op = (struct hk_op *)w->completions.head;

		w->completions.head = op->item.next;
		op->done(op->arg, op->status);
	}
}

static void get_wait(struct hk_worker *w, struct hk_op *op)
{
	struct hk_worker_peer *peer = &w->peer[op->peer];

	hk_items_append(&peer->rma.gets, &op->item);
	hk_peer_list_add(w, HK_LIST_GETS, op->peer);
}

/* Requests a get. False: it must wait. */
static bool get_request(struct hk_worker *w, struct hk_op *op)
{
	struct hk_worker_peer *peer = &w->peer[op->peer];
	size_t len = HK_WIRE_GET_LEN;
	hk_buf *b;

	if (peer->rma.gets_in_flight >= HK_GETS_MAX)
		return false;
	if (op->local == HK_REGION_NONE)
		op->local = hk_region_new(w, op->base, op->len, HK_REGION_WRITE, op->peer, op);
	if (HK_UNLIKELY(op->local ==
			HK_REGION_NONE)) /* other gets have all regions, and free them */
		return false;
	b = hk_buf_take(w);
	if (!b)
		return false;
	hk_wire_get_encode(hk_buf_data(b), &(struct hk_wire_get){
						   .region = op->remote,
						   .offset = op->offset,
						   .len = op->len,
						   .to_region = op->local,
					   });
	/* if the connection has just ended, hk_gets_forget() ends this operation */
	(void)hk_tx_message(w, op->peer, HK_WIRE_AM_GET, &b, &len, 1, !peer->tx.paths);
	peer->rma.gets_in_flight++;
	op->asked = true;
	return true;
}

static void peer_gets_run(struct hk_worker *w, hk_peer p, uint64_t now)
{
	struct hk_worker_peer *peer = &w->peer[p];

	while (peer->rma.gets.head && now >= peer->rma.gets_not_before && !peer->ended_unseen) {
		struct hk_item *item = peer->rma.gets.head, *next = item->next;

		if (!get_request(w, (struct hk_op *)item))
			break;
		peer->rma.gets.head = next;
	}
}

void hk_gets_run(struct hk_worker *w, uint64_t now)
{
	for (uint32_t *link = &w->list[HK_LIST_GETS]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;

		peer_gets_run(w, p, now);
		link = hk_peer_list_step(w, HK_LIST_GETS, link, w->peer[p].rma.gets.head != NULL);
	}
}

void hk_get_end(struct hk_worker *w, struct hk_op *op, int status)
{
	struct hk_worker_peer *peer = &w->peer[op->peer];

	hk_region_end(w, op->local);
	op->status = status;
	peer->rma.gets_in_flight--;
	hk_op_complete(w, op);
	if (HK_UNLIKELY(peer->rma.gets.head != NULL))
		peer_gets_run(w, op->peer, hk_now(w));
}

/* The owner was busy. */
static void get_retry(struct hk_worker *w, struct hk_op *op)
{
	struct hk_worker_peer *peer = &w->peer[op->peer];

	op->asked = false;
	peer->rma.gets_in_flight--;
	peer->rma.gets_not_before = hk_now(w) + HK_GET_RETRY;
	get_wait(w, op);
}

int hk_worker_get(struct hk_worker *w, hk_peer p, struct hk_op *op, void *dst, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done, void *arg)
{
	int rc = -ENOTCONN;

	if (HK_UNLIKELY(len == 0))
		return -EINVAL;
	hk_op_init(op, p, dst, len, remote, offset, done, arg);
	hk_biased_enter(&w->lock);
	if (HK_LIKELY(hk_peer_connected(w, p))) {
		hk_peer_forget_ended(w, p);
		w->n.gets++;
		if (w->peer[p].rma.gets.head || !get_request(w, op))
			get_wait(w, op);
		rc = 0;
	}
	hk_biased_leave(&w->lock);
	return rc;
}

void hk_gets_forget(struct hk_worker *w, hk_peer p)
{
	struct hk_worker_peer *peer = &w->peer[p];

	for (struct hk_item *item = peer->rma.gets.head, *next; item; item = next) {
		struct hk_op *op = (struct hk_op *)item;

		next = item->next;
		if (op->local != HK_REGION_NONE)
			continue; /* found by its region below, like those in flight */
		op->status = -ENOTCONN;
		hk_op_complete(w, op);
	}
	peer->rma.gets.head = NULL;
	for (unsigned i = 0; i < w->regions.count; i++) {
		struct hk_op *op = w->regions.slot[i].access ? w->regions.slot[i].get : NULL;

		if (!op || op->peer != p)
			continue;
		hk_region_end(w, op->local);
		op->status = -ENOTCONN;
		hk_op_complete(w, op);
	}
	peer->rma.gets_in_flight = 0;
}

/* ---- our peers' ------------------------------------------------------------------------------ */

/* Refuses a get, in a buffer from the reserve, because the peer waits for an answer. */
static void refuse_in(struct hk_worker *w, hk_peer p, const void *bytes, size_t len, hk_buf *b)
{
	memcpy(hk_buf_data(b), bytes, len);
	if (hk_tx_message(w, p, HK_WIRE_AM_GET, &b, &len, 1, true) == 1) {
		hk_note(b)->refusal = true;
		w->peer[p].rma.refusals_queued++;
	}
}

static void refuse(struct hk_worker *w, hk_peer p, struct hk_wire_get g,
		   enum hk_wire_get_status status)
{
	char head[HK_WIRE_GET_LEN];
	hk_buf *b;

	if (HK_UNLIKELY(w->peer[p].rma.refusals_queued == HK_GETS_MAX)) {
		w->n.get_excess++;
		return;
	}
	w->n.get_refused++;
	g.status = status;
	hk_wire_get_encode(head, &g);
	if (HK_LIKELY((b = hk_pending_reply_buf(w, p)) != NULL))
		refuse_in(w, p, head, sizeof(head), b);
	else if (!hk_pending_reply_add(w, p, refuse_in, head, sizeof(head)))
		w->n.get_excess++;
}

void hk_get_replies_cancel(struct hk_worker *w, hk_region r)
{
	for (unsigned i = 0; i < w->get_replies.fresh; i++) {
		struct hk_op *op = &w->get_replies.op[i];

		if (!op->is_get_reply || op->local != r)
			continue;
		struct hk_wire_get g = {.len = op->len, .to_region = op->remote};
		bool unsent = op->sent < op->len;
		hk_peer p = op->peer;

		hk_put_detach(w, op);
		/* before the refusal: the peer may ask for more at once, in place of this one */
		if (op->queued)
			hk_send_queue_remove(w, op);
		if (unsent)
			refuse(w, p, g, HK_WIRE_GET_DENIED);
	}
}

/* There is one for each get that is allowed. */
static struct hk_op *get_reply_take(struct hk_get_replies *r)
{
	struct hk_op *op = (struct hk_op *)r->free;

	if (!op)
		return &r->op[r->fresh++];
	r->free = op->item.next;
	return op;
}

/* Serves a get. Returns the refusal, or 0. */
static enum hk_wire_get_status serve(struct hk_worker *w, hk_peer p, const struct hk_wire_get *g)
{
	struct hk_region_slot *s = hk_region_find(&w->regions, g->region);
	struct hk_worker_peer *peer = &w->peer[p];

	if (!hk_region_allows(s, p, HK_REGION_READ, g->offset, g->len))
		return HK_WIRE_GET_DENIED;
	if (peer->rma.get_replies && peer->rma.get_replies > w->get_replies.available)
		return HK_WIRE_GET_BUSY;
	struct hk_op *op = get_reply_take(&w->get_replies);

	w->get_replies.available -= peer->rma.get_replies++ > 0;
	peer->rma.get_replies_unsent++;
	w->get_replies.unsent++;
	s->get_replies++;
	w->n.gets_served++;
	*op = (struct hk_op){
		.peer = p,
		.remote = g->to_region,
		.local = g->region,
		.is_get_reply = true,
		.base = s->base + g->offset,
		.len = g->len,
		.offset = g->to_offset,
	};
	/* Frames that came with this one may make us get from the peer, too. The long reply would
	 * delay our request by as long as it takes. */
	if (w->more_frames || (w->in_burst && op->len > HK_FEW_FRAMES * w->frame_payload)) {
		op->queued = true;
		hk_send_queue_add(w, p, hk_put_link(op));
	} else {
		hk_put_start(w, op);
	}
	return 0;
}

void hk_get_reply_sent(struct hk_worker *w, const struct hk_op *op)
{
	w->peer[op->peer].rma.get_replies_unsent--;
	w->get_replies.unsent--;
}

void hk_get_reply_end(struct hk_worker *w, struct hk_op *op)
{
	struct hk_region_slot *s = hk_region_find(&w->regions, op->local);

	if (s)
		s->get_replies--;
	op->is_get_reply = false;
	w->get_replies.available += --w->peer[op->peer].rma.get_replies > 0;
	op->item.next = w->get_replies.free;
	w->get_replies.free = &op->item;
}

/* Our get was refused. */
static void refused(struct hk_worker *w, hk_peer p, const struct hk_wire_get *g)
{
	struct hk_region_slot *s = hk_region_find(&w->regions, g->to_region);

	/* a get that was not requested, or is answered, waits for nothing */
	if (!s || !s->get || !s->get->asked || s->peer != p)
		return;
	if (g->status == HK_WIRE_GET_BUSY) {
		s->arrived = 0;
		get_retry(w, s->get);
	} else
		hk_get_end(w, s->get, -EACCES);
}

static void on_get(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hk_worker *w = arg;
	struct hk_wire_get g;

	(void)am;
	if (count != 1 || !hk_wire_get_parse(iov[0].base, iov[0].len, &g)) {
		w->n.get_refused++;
		return;
	}
	if (g.status != HK_WIRE_GET_REQUEST) {
		refused(w, p, &g);
		return;
	}
	if (HK_UNLIKELY(!hk_peer_connected(w, p)))
		return; /* it has left meanwhile */
	if (HK_UNLIKELY(w->peer[p].rma.get_replies_unsent == HK_GETS_MAX)) {
		w->n.get_excess++; /* a peer that keeps to the protocol does not ask for so much */
		return;
	}
	enum hk_wire_get_status no = serve(w, p, &g);

	if (no)
		refuse(w, p, g, no);
}

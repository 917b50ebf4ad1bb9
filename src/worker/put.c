/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/put.c: one-sided writes, ours and our peers'.
 *
 * DESIGN NOTES
 *
 * Sending. A put is an item in its peer's send queue. It makes frames as the window has space, so
 * nothing is copied or allocated ahead. On a port that copies at transmit, a frame points to the
 * source (lend.h). It stays so until it is acknowledged, because it may have to be sent again. So
 * the source belongs to the worker until then.
 *
 * Poller. The source is the application's memory, which hikyakud's poller does not map. The poller
 * never sends or reads such a frame. Lost ones wait in the engine until the application polls
 * again (hk_engine_set_proxy()). The poller may flush a transmit queue, so hk_txqs_flush() leaves
 * no such frame there.
 *
 * Buffers. Puts leave frame buffers to messages when these run low. But messages behind a put in
 * the send queue hold their buffers until it is sent. So a few frames of each peer's puts go in any
 * case (PUTS_WHEN_LOW).
 */
#include "worker/lend.h"
#include "worker/paths.h"
#include "worker/peers.h"
#include "worker/rma_internal.h"
#include "worker/tx.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define PUTS_WHEN_LOW 8 /* frames in flight of a peer's puts, although buffers are low */
/* The last bytes of a notifying put are copied: cheaper than waiting for their acknowledgement,
 * before which the source is not free. */
#define NOTIFY_TAIL 8192

/* ---- frames of a put ------------------------------------------------------------------------- */

/* Has @op frames to send? */
static bool unsent(const struct hk_op *op)
{
	return op->sent < op->len || (op->number && !op->begun);
}

uint64_t hk_put_bulk(const struct hk_worker *w, const struct hk_op *op)
{
	uint64_t left = op->len - op->sent, last = left % w->frame_payload;
	uint64_t bulk = left / w->frame_payload * (w->frame_payload + HK_WIRE_PUT_LEN);

	return last + HK_WIRE_PUT_LEN >= HK_LONG_FRAME ? bulk + last + HK_WIRE_PUT_LEN : bulk;
}

/* The bytes that @op sends next; NULL if they do not lie in one piece. */
static char *source(const struct hk_op *op)
{
	if (!op->from)
		return op->base + op->sent;
	return op->from->count == 1 ? op->from->block[0].base + op->sent : NULL;
}

/* Makes @b one mbuf again, without the bytes of its source. */
static void detach_source(hk_buf *b)
{
	if (b->nb_segs == 1)
		return;
	hk_buf_drop_source(b);
	hk_note(b)->op->zero_copy--;
}

/* Makes and sends the next frame of @op. False if there is no space. */
static bool put_frame(struct hk_worker *w, struct hk_op *op, uint64_t now)
{
	const struct hk_worker_peer *peer = &w->peer[op->peer];
	uint16_t len = (uint16_t)HK_MIN(op->len - op->sent, w->frame_payload);
	struct hk_tx_route route = hk_tx_route(w, op->peer,
					       !peer->tx.paths || op->len >= w->cfg.stripe_min,
					       op->len > HK_FEW_FRAMES * w->frame_payload, now);
	struct hk_packet pkt = {
		.len = HK_WIRE_PUT_LEN + len, .type = HK_WIRE_PUT, .path = route.path};
	size_t bytes = HK_WIRE_PUT_OVERHEAD;

	bool low = hk_worker_tx_low(w);

	if (hk_txq_stuck(w, route.txq) || !hk_engine_available(w->engine, op->peer) ||
	    !hk_engine_granted(w->engine, op->peer, pkt.len, now) ||
	    (low && hk_engine_unacked(w->engine, op->peer) >= PUTS_WHEN_LOW))
		return false;
	hk_buf *b = low ? hk_buf_take_reserved(w) : hk_buf_take(w);

	if (HK_UNLIKELY(!b))
		return false;
	char *frame = (char *)b->buf_addr + HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	char *from = source(op);
	uint64_t after = op->len - op->sent - len;

	pkt.token = (uintptr_t)b;
	pkt.borrowed = w->txq[route.txq]->zero_copy && len >= HK_LEND_MIN && from &&
		       (!op->number || after >= NOTIFY_TAIL);
	/* a caller that waits for its source waits for the last frame on each path that points
	 * there */
	size_t last = w->frame_payload;

	if (HK_UNLIKELY(peer->tx.paths != NULL))
		last *= peer->tx.paths->count;
	pkt.ack_now = pkt.borrowed && op->number && after < NOTIFY_TAIL + last;
	if (HK_UNLIKELY(!hk_engine_send(w->engine, op->peer, &pkt, now, frame + HK_ETH_HLEN))) {
		hk_buf_release(w, b);
		return false;
	}
	*hk_note(b) = (struct hk_buf_note){.peer = op->peer,
					   .len = len,
					   .bulk = true,
					   .op = op,
					   .function = peer->tx.function,
					   .path = route.path};
	if (HK_UNLIKELY(peer->tx.paths != NULL))
		hk_path_sent(w, peer->tx.paths, route.path, len);
	else
		w->n.tx_bulk += route.path;
	hk_tx_eth(frame, route.eth, peer->tx.function);
	hk_wire_put_encode(frame + HK_WIRE_DATA_OVERHEAD,
			   &(struct hk_wire_put){.region = op->remote,
						 .xfer = op->number,
						 .offset = op->offset + op->sent});
	if (HK_LIKELY(pkt.borrowed)) {
		hk_buf_attach(b, from, len);
		b->pkt_len = (uint32_t)(bytes + len);
	} else {
		if (op->from)
			hk_layout_gather(op->from, op->sent, len, frame + bytes);
		else
			memcpy(frame + bytes, from, len);
		bytes += len;
		b->pkt_len = (uint32_t)bytes;
	}
	b->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	b->data_len = (uint16_t)bytes;
	if (op->queued && pkt.len >= HK_LONG_FRAME)
		w->peer[op->peer].tx.queue.bulk -= pkt.len;
	op->sent += len;
	op->begun = true;
	op->in_flight++;
	op->zero_copy += pkt.borrowed;
	w->n.put_bytes += len;
	hk_tx_frame(w, route.txq, op->peer, b);
	return true;
}

static void detach_if_of(struct rte_mempool *mp, void *op, void *obj, unsigned i)
{
	hk_buf *b = obj;

	(void)mp;
	(void)i;
	if (rte_mbuf_refcnt_read(b) > 0 && b->nb_segs > 1 && hk_note(b)->op == op)
		hk_buf_detach(b);
}

void hk_put_detach(struct hk_worker *w, const struct hk_op *op)
{
	rte_mempool_obj_iter(w->bufs.pool, detach_if_of, (void *)(uintptr_t)op);
}

/* ---- the end of a put ------------------------------------------------------------------------ */

static void end_if_complete(struct hk_worker *w, struct hk_op *op)
{
	if (op->in_flight || op->queued)
		return;
	if (op->is_get_reply)
		hk_get_reply_end(w, op);
	else
		hk_op_complete(w, op);
}

void hk_put_frame_end(struct hk_worker *w, hk_buf *b, bool lost)
{
	struct hk_op *op = hk_note(b)->op;

	if (HK_UNLIKELY(rte_mbuf_refcnt_read(b) > 1))
		hk_buf_detach(b); /* a resend waits in our queue: it must not read the source */
	else
		detach_source(b);
	hk_note(b)->op = NULL;
	hk_buf_release(w, b);
	op->in_flight--;
	if (HK_UNLIKELY(lost))
		op->status = -ENOTCONN;
	end_if_complete(w, op);
}

void hk_puts_acked(struct hk_worker *w)
{
	while (w->puts_acked) {
		hk_buf *b = w->puts_acked;
		struct hk_item *next = hk_note(b)->item.next;

		w->puts_acked = next ? hk_buf_of(next) : NULL;
		hk_put_frame_end(w, b, hk_note(b)->lost);
	}
}

void hk_put_unqueued(struct hk_worker *w, struct hk_op *op)
{
	op->queued = false;
	if (op->is_get_reply)
		hk_get_reply_sent(w, op);
	if (unsent(op))
		op->status = -ENOTCONN;
	end_if_complete(w, op);
}

/* ---- starting a put -------------------------------------------------------------------------- */

bool hk_put_run(struct hk_worker *w, struct hk_op *op, unsigned most, uint64_t now)
{
	while (unsent(op) && most && put_frame(w, op, now))
		most--;
	return !unsent(op);
}

void hk_put_start(struct hk_worker *w, struct hk_op *op)
{
	struct hk_worker_peer *peer = &w->peer[op->peer];

	w->gather++;
	if (peer->tx.queue.head || (op->is_get_reply && peer->tx.queue.replies.head) ||
	    !hk_put_run(w, op, UINT_MAX, hk_now(w))) {
		op->queued = true;
		hk_send_queue_add(w, op->peer, hk_put_link(op));
		hk_send_queue_ask(w, op->peer, hk_now(w));
	} else if (op->is_get_reply) {
		hk_get_reply_sent(w, op);
	}
	if (--w->gather == 0)
		hk_txqs_flush(w);
}

/* Starts the put @op; -ENOTCONN: the connection has ended. */
static int put_begin(struct hk_worker *w, struct hk_op *op)
{
	int rc = -ENOTCONN;

	hk_biased_enter(&w->lock);
	if (HK_LIKELY(hk_peer_connected(w, op->peer))) {
		hk_peer_forget_ended(w, op->peer);
		w->n.puts++;
		hk_put_start(w, op);
		rc = 0;
	}
	hk_biased_leave(&w->lock);
	return rc;
}

int hk_worker_put(struct hk_worker *w, hk_peer p, struct hk_op *op, const void *src, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done, void *arg)
{
	if (HK_UNLIKELY(len == 0))
		return -EINVAL;
	hk_op_init(op, p, (void *)(uintptr_t)src, len, remote, offset, done, arg);
	return put_begin(w, op);
}

int hk_worker_put_notify(struct hk_worker *w, hk_peer p, struct hk_op *op,
			 const struct hk_layout *from, hk_region remote, uint32_t number,
			 hk_done_fn done, void *arg)
{
	hk_op_init(op, p, NULL, from->len, remote, 0, done, arg);
	op->from = from;
	op->number = number | HK_NOTIFY_MARK;
	return put_begin(w, op);
}

/* ---- peers' puts ----------------------------------------------------------------------------- */

void hk_put_receive(struct hk_worker *w, hk_peer p, const struct hk_frame *frame)
{
	const struct hk_wire_put *put = &frame->put;
	struct hk_region_slot *s = hk_region_find(&w->regions, put->region);
	uint16_t len = frame->payload_len;

	if (HK_UNLIKELY(!hk_region_allows(s, p, HK_REGION_WRITE, put->offset, len) ||
			(s->get && !s->get->asked) || (put->xfer != 0) != (s->notify != NULL))) {
		w->n.put_refused++;
		return;
	}
	if (s->notify) {
		if (HK_LIKELY(hk_notify_place(s->notify, put, frame->payload, len)))
			w->n.put_bytes_in += len;
		else
			w->n.put_refused++;
		return;
	}
	memcpy(s->base + put->offset, frame->payload, len);
	s->arrived += len;
	w->n.put_bytes_in += len;
	if (s->get && s->arrived >= s->len)
		hk_get_end(w, s->get, 0);
}

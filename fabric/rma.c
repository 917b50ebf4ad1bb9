/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/rma.c: our own one-sided operations.
 *
 * A put is an item in its peer's backlog that makes frames as the window has room: nothing is copied
 * or allocated ahead. On a port that copies at transmit, a frame is two mbufs: one of ours with the
 * headers, and in its private area one that points into the source. Both stay until the frame is
 * acknowledged, since it may have to be sent again; so the source is the fabric's until then.
 *
 * The source is the application's own memory, which a polling process does not have: it never sends or reads
 * such a frame. What is lost of them waits in the engine until the application is back
 * (hk_engine_stand_in()), and in the queue before a port, which a stand-in may empty, none is left
 * behind (hk_tx_flush()).
 *
 * A get is a message to the owner, who answers by a put into a region made for the destination. It is
 * done when all bytes have arrived.
 */
#include "fabric/internal.h"

#include <errno.h>
#include <string.h>

/* ---- frames of a put ------------------------------------------------------------------------- */

bool hk_peer_talks(const struct hk_fabric *f, hk_peer p)
{
	enum hk_peer_state state = hk_engine_peer_state(f->engine, p);

	if (HK_UNLIKELY(atomic_load_explicit(&f->lock.broken, memory_order_relaxed)))
		return false;
	return state == HK_PEER_ACTIVE || state == HK_PEER_HEARD;
}

/* Has @op frames to send yet? */
static bool unsent(const struct hk_op *op)
{
	return op->sent < op->len || (op->number && !op->begun);
}

/* The bytes that @op sends next; NULL if they do not lie in one piece. */
static char *source(const struct hk_op *op)
{
	if (!op->from)
		return op->base + op->sent;
	return op->from->count == 1 ? op->from->block[0].base + op->sent : NULL;
}

/* Hangs @len bytes at @from to the headers in @b. */
static void lend(hk_buf *b, char *from, uint16_t len)
{
	struct rte_mbuf *data = hk_lent(b);

	data->pool = b->pool;
	data->buf_addr = from;
	data->buf_len = len;
	data->data_off = 0;
	data->data_len = len;
	data->pkt_len = len;
	data->nb_segs = 1;
	data->next = NULL;
	data->ol_flags = 0;
	rte_mbuf_refcnt_set(data, 2); /* the driver's and ours */
	b->next = data;
	b->nb_segs = 2;
}

/* It is one mbuf again, without those bytes. */
static void take_back(hk_buf *b)
{
	if (b->nb_segs == 1)
		return;
	b->next = NULL;
	b->nb_segs = 1;
	hk_note(b)->op->lent--;
}

/* Copies what @b points to into its own room, which is large enough. Not for a stand-in. */
void hk_buf_unlend(hk_buf *b)
{
	const struct rte_mbuf *data = b->next;

	if (!data)
		return;
	memcpy(rte_pktmbuf_mtod_offset(b, char *, b->data_len), data->buf_addr, data->data_len);
	b->data_len = (uint16_t)(b->data_len + data->data_len);
	take_back(b);
}

/* Makes and sends the next frame of @op. False if there is no room. */
static bool put_frame(struct hk_fabric *f, struct hk_op *op, uint64_t now)
{
	const struct hk_peer_tx *t = &f->peer[op->peer];
	uint16_t len = (uint16_t)HK_MIN(op->len - op->sent, f->frame_payload);
	struct hk_way way = hk_tx_way(f, op->peer, !t->rails || op->len >= f->cfg.stripe_min, now);
	struct hk_packet pkt = {
		.len = HK_WIRE_PUT_LEN + len, .type = HK_WIRE_PUT, .path = way.path};
	size_t bytes = HK_WIRE_PUT_OVERHEAD;

	/* Messages need buffers too. But those that wait behind this put hold theirs until it has gone: so a
	 * few frames of each peer go in any case. */
	bool low = hk_fabric_low(f);

	if (hk_tx_stuck(f, way.lane) || !hk_engine_room(f->engine, op->peer) ||
	    (low && hk_engine_unacked(f->engine, op->peer) >= HK_PUTS_WHEN_LOW))
		return false;
	hk_buf *b = low ? hk_tx_take_reserved(f) : hk_tx_take(f);

	if (HK_UNLIKELY(!b))
		return false;
	char *frame = (char *)b->buf_addr + HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	char *from = source(op);
	uint64_t after = op->len - op->sent - len;

	pkt.token = (uintptr_t)b;
	pkt.lent = f->lane[way.lane]->lend && len >= HK_LEND_MIN && from &&
		   (!op->number || after >= HK_INBOX_TAIL);
	/* who waits until its memory is its own again waits for the last frame that points there, by each rail */
	size_t last = f->frame_payload;

	if (HK_UNLIKELY(t->rails != NULL))
		last *= t->rails->count;
	pkt.ack_now = pkt.lent && op->number && after < HK_INBOX_TAIL + last;
	if (HK_UNLIKELY(!hk_engine_send(f->engine, op->peer, &pkt, now, frame + HK_ETH_HLEN))) {
		hk_tx_give(f, b);
		return false;
	}
	*hk_note(b) = (struct hk_buf_note){.peer = op->peer,
					   .len = len,
					   .bulk = true,
					   .op = op,
					   .function = t->function,
					   .path = way.path};
	if (HK_UNLIKELY(t->rails != NULL))
		hk_rail_sent(f, t->rails, way.path, len);
	else
		f->n.tx_bulk += way.path;
	hk_tx_eth(frame, way.eth, t->function);
	hk_wire_put_ext(frame + HK_WIRE_DATA_OVERHEAD,
			&(struct hk_wire_put){.region = op->remote,
					      .xfer = op->number,
					      .offset = op->offset + op->sent});
	if (HK_LIKELY(pkt.lent)) {
		lend(b, from, len);
		b->pkt_len = (uint32_t)(bytes + len);
	} else {
		if (op->from)
			hk_layout_gather(op->from, op->sent, len, frame + bytes);
		else
			memcpy(frame + bytes, from, len);
		bytes += len;
		if (HK_UNLIKELY(f->cfg.engine.crc))
			bytes += hk_wire_seal(frame + HK_ETH_HLEN);
		b->pkt_len = (uint32_t)bytes;
	}
	b->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	b->data_len = (uint16_t)bytes;
	rte_mbuf_refcnt_set(b, 2); /* the driver's and ours */
	op->sent += len;
	op->begun = true;
	op->flying++;
	op->lent += pkt.lent;
	f->n.put_bytes += len;
	hk_tx_frame(f, way.lane, b);
	return true;
}

static void unlend_if(struct rte_mempool *mp, void *op, void *obj, unsigned i)
{
	hk_buf *b = obj;

	(void)mp;
	(void)i;
	if (rte_mbuf_refcnt_read(b) > 0 && b->nb_segs > 1 && hk_note(b)->op == op)
		hk_buf_unlend(b);
}

/* Makes what is under way of @op independent of its source. Walks all buffers: for rare cases. */
void hk_put_unlend(struct hk_fabric *f, const struct hk_op *op)
{
	rte_mempool_obj_iter(f->tx_pool, unlend_if, (void *)(uintptr_t)op);
}

/* ---- the end of an operation ------------------------------------------------------------------- */

static void put_end_if_done(struct hk_fabric *f, struct hk_op *op)
{
	if (op->flying || op->queued)
		return;
	if (op->serves)
		hk_serve_end(f, op);
	else
		hk_op_done(f, op);
}

/* A frame of a put is acknowledged, or @lost with its peer. */
void hk_put_frame_free(struct hk_fabric *f, hk_buf *b, bool lost)
{
	struct hk_op *op = hk_note(b)->op;

	if (HK_UNLIKELY(rte_mbuf_refcnt_read(b) > 1))
		hk_buf_unlend(b); /* a resend waits in our queue: it must not read the source */
	else
		take_back(b);
	hk_note(b)->op = NULL;
	hk_tx_give(f, b);
	op->flying--;
	if (HK_UNLIKELY(lost))
		op->status = -ENOTCONN;
	put_end_if_done(f, op);
}

/* What a stand-in took back for us. */
void hk_puts_acked(struct hk_fabric *f)
{
	while (f->put_acked) {
		hk_buf *b = f->put_acked;
		struct hk_item *next = hk_note(b)->item.next;

		f->put_acked = next ? hk_buf_of(next) : NULL;
		hk_put_frame_free(f, b, hk_note(b)->lost);
	}
}

/* It has left the backlog: all of it is sent, or its peer is gone. */
void hk_put_unqueued(struct hk_fabric *f, struct hk_op *op)
{
	op->queued = false;
	if (op->serves)
		hk_serve_sent(f, op);
	if (unsent(op))
		op->status = -ENOTCONN;
	put_end_if_done(f, op);
}

/* Calls the application back. Its callbacks issue operations, and these may end at once. */
void hk_rma_tell(struct hk_fabric *f)
{
	while (f->done_head) {
		struct hk_op *op = (struct hk_op *)f->done_head;

		f->done_head = op->item.next;
		op->done(op->arg, op->status);
	}
}

static void op_init(struct hk_op *op, hk_peer p, void *base, size_t len, hk_region remote,
		    uint64_t offset, hk_done_fn done_fn, void *arg)
{
	*op = (struct hk_op){
		.peer = p,
		.remote = remote,
		.base = base,
		.len = len,
		.offset = offset,
		.done = done_fn,
		.arg = arg,
	};
}

/* ---- put ----------------------------------------------------------------------------------------- */

/* Sends what there is room for; true if that is all of it. */
bool hk_put_go(struct hk_fabric *f, struct hk_op *op, uint64_t now)
{
	while (unsent(op))
		if (!put_frame(f, op, now))
			return false;
	return true;
}

void hk_put_start(struct hk_fabric *f, struct hk_op *op)
{
	struct hk_peer_tx *t = &f->peer[op->peer];

	f->gather++;
	if (t->backlog_head || !hk_put_go(f, op, hk_now(f))) {
		op->queued = true;
		hk_tx_wait(f, op->peer, hk_put_link(op));
	} else if (op->serves) {
		hk_serve_sent(f, op);
	}
	if (--f->gather == 0)
		hk_tx_flush(f);
}

/* Starts the put that @op says; -ENOTCONN: its peer is gone. */
static int put_begin(struct hk_fabric *f, struct hk_op *op)
{
	int rc = -ENOTCONN;

	hk_biased_enter(&f->lock);
	if (HK_LIKELY(hk_peer_talks(f, op->peer))) {
		hk_peer_settle(f, op->peer);
		f->n.puts++;
		hk_put_start(f, op);
		rc = 0;
	}
	hk_biased_leave(&f->lock);
	return rc;
}

int hk_fabric_put(struct hk_fabric *f, hk_peer p, struct hk_op *op, const void *src, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done_fn, void *arg)
{
	op_init(op, p, (void *)(uintptr_t)src, len, remote, offset, done_fn, arg);
	return put_begin(f, op);
}

int hk_fabric_put_notify(struct hk_fabric *f, hk_peer p, struct hk_op *op,
			 const struct hk_layout *from, hk_region remote, uint32_t number,
			 hk_done_fn done_fn, void *arg)
{
	op_init(op, p, NULL, from->len, remote, 0, done_fn, arg);
	op->from = from;
	op->number = number | HK_INBOX_MARK;
	return put_begin(f, op);
}

/* ---- get ----------------------------------------------------------------------------------------- */

static void get_wait(struct hk_fabric *f, struct hk_op *op)
{
	struct hk_peer_tx *t = &f->peer[op->peer];

	hk_items_append(&t->gets_head, &t->gets_tail, &op->item);
	hk_list_add(f, HK_LIST_GETS, op->peer);
}

static bool get_ask(struct hk_fabric *f, struct hk_op *op)
{
	struct hk_peer_tx *t = &f->peer[op->peer];
	size_t len = HK_WIRE_GET_LEN;
	hk_buf *b;

	if (t->gets_out >= HK_GETS_MAX)
		return false;
	if (op->local == HK_REGION_NONE)
		op->local = hk_region_new(f, op->base, op->len, HK_REGION_WRITE, op->peer, op);
	if (HK_UNLIKELY(op->local ==
			HK_REGION_NONE)) /* other gets have them all, and give them back */
		return false;
	b = hk_tx_take(f);
	if (!b)
		return false;
	hk_wire_put_get(hk_buf_data(b), &(struct hk_wire_get){
						.region = op->remote,
						.offset = op->offset,
						.len = op->len,
						.to_region = op->local,
					});
	/* if the peer has just gone, its verdict ends this operation: see hk_rma_forget() */
	(void)hk_tx_message(f, op->peer, HK_WIRE_AM_GET, &b, &len, 1, !t->rails);
	t->gets_out++;
	op->asked = true;
	return true;
}

static void peer_gets_go(struct hk_fabric *f, hk_peer p, uint64_t now)
{
	struct hk_peer_tx *t = &f->peer[p];

	while (t->gets_head && now >= t->gets_at && !t->gone) {
		struct hk_item *item = t->gets_head, *next = item->next;

		if (!get_ask(f, (struct hk_op *)item))
			break;
		t->gets_head = next;
	}
}

/* Asks for what waited. */
void hk_gets_go(struct hk_fabric *f, uint64_t now)
{
	for (uint32_t *link = &f->list[HK_LIST_GETS]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;

		peer_gets_go(f, p, now);
		link = hk_list_step(f, HK_LIST_GETS, link, f->peer[p].gets_head != NULL);
	}
}

void hk_get_end(struct hk_fabric *f, struct hk_op *op, int status)
{
	struct hk_peer_tx *t = &f->peer[op->peer];

	hk_region_end(f, op->local);
	op->status = status;
	t->gets_out--;
	hk_op_done(f, op);
	if (HK_UNLIKELY(t->gets_head != NULL))
		peer_gets_go(f, op->peer, hk_now(f));
}

/* The owner was busy: later. */
void hk_get_again(struct hk_fabric *f, struct hk_op *op)
{
	struct hk_peer_tx *t = &f->peer[op->peer];

	op->asked = false;
	t->gets_out--;
	t->gets_at = hk_now(f) + HK_GET_AGAIN;
	get_wait(f, op);
}

int hk_fabric_get(struct hk_fabric *f, hk_peer p, struct hk_op *op, void *dst, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done_fn, void *arg)
{
	int rc = -ENOTCONN;

	op_init(op, p, dst, len, remote, offset, done_fn, arg);
	hk_biased_enter(&f->lock);
	if (HK_LIKELY(hk_peer_talks(f, p))) {
		hk_peer_settle(f, p);
		f->n.gets++;
		if (f->peer[p].gets_head || !get_ask(f, op))
			get_wait(f, op);
		rc = 0;
	}
	hk_biased_leave(&f->lock);
	return rc;
}

/* The peer is lost or gone: so are our gets of it. (Puts end with their frames and their place in the
 * backlog.) */
void hk_rma_forget(struct hk_fabric *f, hk_peer p)
{
	struct hk_peer_tx *t = &f->peer[p];

	for (struct hk_item *item = t->gets_head, *next; item; item = next) {
		struct hk_op *op = (struct hk_op *)item;

		next = item->next;
		if (op->local != HK_REGION_NONE)
			continue; /* found by its region, like those under way */
		op->status = -ENOTCONN;
		hk_op_done(f, op);
	}
	t->gets_head = NULL;
	for (unsigned i = 0; i < f->regions; i++) {
		struct hk_op *op = f->region[i].access ? f->region[i].get : NULL;

		if (!op || op->peer != p)
			continue;
		hk_region_end(f, op->local);
		op->status = -ENOTCONN;
		hk_op_done(f, op);
	}
	t->gets_out = 0;
	hk_atoms_forget(f, p);
	hk_later_forget(f, p);
}

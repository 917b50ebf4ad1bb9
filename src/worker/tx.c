/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/tx.c: frame buffers, transmit queues, send queues, and what the engine wants sent.
 *
 * DESIGN NOTES
 *
 * A frame buffer's life:
 *   1. hk_worker_alloc() gives it to the caller, who fills it.
 *   2. hk_worker_sendv() numbers it, writes its headers and transmits it. The worker holds one
 *      reference to it beside the driver's.
 *   3. It stays until it is acknowledged: the engine returns its token, and the buffer is free.
 *
 * A resend transmits the same buffer again, with its headers rewritten in place. If the driver
 * still holds the buffer, a copy is sent.
 *
 * Gathering. Frames that the application sends leave at once, because it may not call again for
 * long. Those of one message leave in one burst. Frames that handlers send inside progress are
 * gathered, and leave in one burst at its end.
 */
#include "worker/tx.h"
#include "worker/bundles.h"
#include "worker/lend.h"
#include "worker/paths.h"
#include "worker/peers.h"
#include "worker/protect.h"
#include "worker/rma_internal.h"
#include "worker/rx.h"
#include "port/priority.h"
#include "wire/atomic.h"

#include <errno.h>
#include <rte_cycles.h>

_Static_assert(offsetof(struct rte_mbuf, buf_addr) == 0, "hk_buf_data() reads it there");
_Static_assert(HK_FRAGS_MAX == HK_WIRE_MAX_FRAGS, "buffers of a message");
_Static_assert(HK_PORT_SMALL_FRAME ==
		       HK_WIRE_DATA_OVERHEAD + HK_WIRE_GRANT_LEN + HK_LONG_FRAME + HK_WIRE_SEAL_LEN,
	       "what is not bulk to the engine is small to the port");

/* hk_worker_tx_low() is true below this share of the buffers. */
#define HK_LOW_DIVISOR 8

hk_buf *hk_buf_take_reserved(struct hk_worker *w)
{
	hk_buf *b = HK_LIKELY(w->bufs.spares) ? w->bufs.spare[--w->bufs.spares]
					      : rte_pktmbuf_alloc(w->bufs.pool);

	if (HK_LIKELY(b != NULL))
		w->bufs.in_use++;
	return b;
}

hk_buf *hk_buf_take(struct hk_worker *w)
{
	hk_buf *b = NULL;

	if (HK_UNLIKELY(w->bufs.in_use >= w->cfg.tx_buffers))
		hk_tx_reap(w); /* buffers may be acknowledged and not yet reaped */
	if (HK_LIKELY(w->bufs.in_use < w->cfg.tx_buffers))
		b = hk_buf_take_reserved(w);
	if (HK_UNLIKELY(!b))
		w->n.no_buffer++;
	return b;
}

void hk_buf_release(struct hk_worker *w, hk_buf *b)
{
	w->bufs.in_use--;
	/* only ours, as it came from the pool; sending sets its other fields */
	if (HK_LIKELY(w->bufs.spares < HK_SPARES && rte_mbuf_refcnt_read(b) == 1 && !b->next))
		w->bufs.spare[w->bufs.spares++] = b;
	else
		rte_pktmbuf_free_seg(b);
}

hk_buf *hk_worker_alloc(struct hk_worker *w)
{
	hk_biased_enter(&w->lock);
	hk_buf *b = hk_buf_take(w);

	hk_biased_leave(&w->lock);
	return b;
}

void hk_worker_free(struct hk_worker *w, hk_buf *b)
{
	hk_biased_enter(&w->lock);
	hk_buf_drop_source(b);
	hk_buf_release(w, b);
	hk_biased_leave(&w->lock);
}

bool hk_worker_tx_low(const struct hk_worker *w)
{
	return hk_worker_tx_available(w) <=
	       HK_MAX(w->cfg.tx_buffers / HK_LOW_DIVISOR, HK_WIRE_MAX_FRAGS);
}

unsigned hk_worker_tx_available(const struct hk_worker *w)
{
	return w->cfg.tx_buffers - HK_MIN(w->bufs.in_use, w->cfg.tx_buffers);
}

unsigned hk_worker_backlog(const struct hk_worker *w, hk_peer p)
{
	return w->peer[p].tx.queue.len;
}

/* ---- transmit queues ------------------------------------------------------------------------- */

#define STUCK (HK_TX_QUEUE / 2)

/* Call this if the queue is not empty after a flush. A queue that was emptied and filled again
 * is noted before it is half full. */
static void note_if_stuck(const struct hk_worker *w, struct hk_txq *q, uint16_t sent)
{
	if (sent || q->waiting < STUCK) {
		q->stuck_since = q->stuck_for = 0;
		return;
	}
	uint64_t now = hk_now(w);

	if (!q->stuck_since)
		q->stuck_since = now;
	q->stuck_for = now - q->stuck_since;
}

/* The port has accepted the first @sent frames, and the others wait. */
static HK_NOINLINE void keep_waiting(const struct hk_worker *w, struct hk_txq *q, uint16_t sent)
{
	note_if_stuck(w, q, sent);
	memmove(q->queue, q->queue + sent, q->waiting * sizeof(q->queue[0]));
	/* the poller may flush this queue next, and it cannot read the source of a put */
	for (uint16_t i = 0; w->shared && q->zero_copy && i < q->waiting; i++)
		hk_buf_detach(q->queue[i]);
}

static inline void txq_flush(const struct hk_worker *w, struct hk_txq *q)
{
	uint16_t sent = hk_port_tx(q->port, q->pair, q->queue, q->waiting);

	q->sent = true;
	q->waiting -= sent;
	if (HK_UNLIKELY(q->waiting))
		keep_waiting(w, q, sent);
}

/* The driver takes no empty burst. */
static void flush_waiting(const struct hk_worker *w, struct hk_txq *q)
{
	if (q->waiting)
		txq_flush(w, q);
}

void hk_txqs_flush(struct hk_worker *w)
{
	w->tx_waiting = false;
	for (unsigned i = 0; i < w->txqs; i++) {
		flush_waiting(w, w->txq[i]);
		w->tx_waiting |= w->txq[i]->waiting > 0;
	}
}

static inline void txq_send(struct hk_worker *w, struct hk_txq *q, struct rte_mbuf *m)
{

	if (HK_UNLIKELY(q->waiting == HK_TX_QUEUE)) {
		txq_flush(w, q);
		if (q->waiting == HK_TX_QUEUE) { /* the port is stuck: the engine resends it */
			w->n.tx_dropped++;
			rte_pktmbuf_free(m);
			return;
		}
	}
	q->queue[q->waiting++] = m;
	if (!w->gather || q->waiting >= q->burst)
		txq_flush(w, q);
	if (HK_UNLIKELY(q->waiting))
		w->tx_waiting = true;
}

/* Sends a frame that its peer acknowledges. The buffer itself stays ours beside the driver. */
static inline void send_protected(struct hk_worker *w, struct hk_txq *q, hk_peer p, hk_buf *b)
{
	hk_buf *out = HK_LIKELY(w->cfg.engine.protection == HK_PROTECTION_OFF)
			      ? b
			      : hk_protect_out(w, p, b);

	if (HK_LIKELY(out == b))
		rte_mbuf_refcnt_set(b, 2); /* the driver's and ours */
	if (HK_LIKELY(out != NULL))
		txq_send(w, q, out);
}

void hk_tx_bare(struct hk_worker *w, uint16_t txq, struct rte_mbuf *m)
{
	txq_send(w, w->txq[txq], m);
}

void hk_tx_frame(struct hk_worker *w, uint16_t txq, hk_peer p, hk_buf *b)
{
	send_protected(w, w->txq[txq], p, b);
}

void hk_tx_once(struct hk_worker *w, uint16_t txq, hk_peer p, struct rte_mbuf *m)
{
	if (HK_UNLIKELY(w->cfg.engine.protection != HK_PROTECTION_OFF))
		m = hk_protect_out_once(w, p, m);
	if (HK_LIKELY(m != NULL))
		txq_send(w, w->txq[txq], m);
}

bool hk_txq_stuck(const struct hk_worker *w, uint16_t txq)
{
	return w->txq[txq]->waiting >= STUCK;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Numbers and transmits one buffer. False if the window has no space. */
static inline bool send_now(struct hk_worker *w, hk_peer p, hk_buf *b, uint64_t now)
{
	struct hk_buf_note *note = hk_note(b);
	const struct hk_worker_peer *peer = &w->peer[p];
	struct hk_tx_route route = hk_tx_route(w, p, note->bulk, note->frags > HK_FEW_FRAMES, now);
	struct hk_txq *q = w->txq[route.txq];
	struct hk_packet pkt = {
		.token = (uintptr_t)b,
		.len = note->len,
		.type = HK_WIRE_DATA,
		.am = note->am,
		.frag = note->frag,
		.frags = note->frags,
		.path = route.path,
	};
	char *frame = (char *)b->buf_addr + HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	size_t len = HK_WIRE_DATA_OVERHEAD + note->len;

	if (HK_UNLIKELY(q->waiting >= STUCK) ||
	    !hk_engine_send(w->engine, p, &pkt, now, frame + HK_ETH_HLEN))
		return false;
	if (HK_UNLIKELY(b->nb_segs > 1 && !q->zero_copy))
		hk_buf_detach(b);
	if (HK_UNLIKELY(peer->tx.paths != NULL)) {
		note->path = route.path;
		hk_path_sent(w, peer->tx.paths, route.path, note->len);
	} else {
		w->n.tx_bulk += route.path;
	}
	hk_tx_eth(frame, route.eth, note->function);
	if (HK_LIKELY(b->nb_segs == 1)) {
		b->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
		b->data_len = (uint16_t)len;
	}
	b->pkt_len = (uint32_t)len;
	send_protected(w, q, p, b);
	return true;
}

bool hk_tx_now(struct hk_worker *w, hk_peer p, hk_buf *b, uint64_t now)
{
	return send_now(w, p, b, now);
}

/* The frames of a message have left: keeps what they point to. */
static void keep_lent(hk_buf *const *bufs, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (bufs[i]->nb_segs > 1)
			hk_buf_detach(bufs[i]);
}

static int refuse(struct hk_worker *w, hk_buf *const *bufs, unsigned count)
{
	keep_lent(bufs, count);
	for (unsigned i = 0; i < count; i++)
		hk_buf_release(w, bufs[i]);
	return -ENOTCONN;
}

static inline bool may_send(struct hk_worker *w, hk_peer p)
{
	enum hk_peer_state state = hk_engine_peer_state(w->engine, p);

	return HK_LIKELY(state == HK_PEER_ACTIVE || state == HK_PEER_PASSIVE) &&
	       HK_LIKELY(!atomic_load_explicit(&w->lock.broken, memory_order_relaxed) ||
			 !hk_worker_broken(w));
}

int hk_tx_message(struct hk_worker *w, hk_peer p, uint8_t am, hk_buf *const *bufs,
		  const size_t *len, unsigned count, bool bulk)
{
	int rc = 0;
	struct hk_worker_peer *peer = &w->peer[p];

	for (unsigned i = 0; i < count; i++) {
		*hk_note(bufs[i]) = (struct hk_buf_note){
			.peer = p,
			.len = (uint16_t)len[i],
			.am = am,
			.frag = (uint8_t)i,
			.frags = (uint8_t)count,
			.bulk = bulk,
			.function = peer->tx.function,
		};
	}
	if (HK_UNLIKELY(!may_send(w, p))) {
		rc = refuse(w, bufs, count);
	} else {
		uint64_t now = hk_now(w);
		unsigned i = 0;

		hk_peer_forget_ended(w, p);
		w->gather += count > 1;
		if (HK_LIKELY(!peer->tx.queue.head))
			while (i < count && send_now(w, p, bufs[i], now))
				i++;
		w->gather -= count > 1;
		if (count > 1 && !w->gather) {
			if (HK_UNLIKELY(peer->tx.paths != NULL))
				hk_txqs_flush(w);
			else
				flush_waiting(w, w->txq[bulk ? peer->tx.bulk_txq : peer->tx.txq]);
		}
		keep_lent(bufs, count);
		rc = i < count;
		for (; i < count; i++)
			if (!hk_bundle_join(w, p, bufs[i]))
				hk_send_queue_add(w, p, &hk_note(bufs[i])->item);
		if (HK_UNLIKELY(rc))
			hk_send_queue_ask(w, p, now);
		w->n.messages_sent++;
	}
	return rc;
}

int hk_worker_sendv(struct hk_worker *w, hk_peer p, uint8_t am, hk_buf *const *bufs,
		    const size_t *len, unsigned count)
{
	hk_biased_enter(&w->lock);
	int rc = hk_tx_message(w, p, am, bufs, len, count, false);

	hk_biased_leave(&w->lock);
	return rc;
}

int hk_worker_sendv_bulk(struct hk_worker *w, hk_peer p, uint8_t am, hk_buf *const *bufs,
			 const size_t *len, unsigned count)
{
	hk_biased_enter(&w->lock);
	int rc = hk_tx_message(w, p, am, bufs, len, count, true);

	hk_biased_leave(&w->lock);
	return rc;
}

#define QUEUE_SHARE 4 /* short messages to one peer leave other peers this part of the buffers */

static int tx_short(struct hk_worker *w, hk_peer p, uint8_t am, const void *header,
		    size_t header_len, const void *data, size_t len)
{
	struct hk_worker_peer *peer = &w->peer[p];

	if (HK_UNLIKELY(!may_send(w, p)))
		return -ENOTCONN;
	hk_peer_forget_ended(w, p);
	bool waits = peer->tx.queue.head != NULL;

	if (HK_UNLIKELY(hk_worker_tx_low(w) ||
			peer->tx.queue.len > w->cfg.tx_buffers / QUEUE_SHARE))
		return -EAGAIN;
	hk_buf *b = hk_buf_take(w);

	if (HK_UNLIKELY(!b))
		return -EAGAIN;
	char *to = hk_buf_data(b);
	uint64_t now = hk_now(w);

	memcpy(to, header, header_len);
	memcpy(to + header_len, data, len);
	*hk_note(b) = (struct hk_buf_note){
		.peer = p,
		.len = (uint16_t)(header_len + len),
		.am = am,
		.frags = 1,
		.function = peer->tx.function,
	};
	w->n.messages_sent++;
	if (HK_LIKELY(!waits && send_now(w, p, b, now)))
		return 0;
	if (!hk_bundle_join(w, p, b))
		hk_send_queue_add(w, p, &hk_note(b)->item);
	hk_send_queue_ask(w, p, now);
	return 1;
}

int hk_worker_send_short(struct hk_worker *w, hk_peer p, uint8_t am, const void *header,
			 size_t header_len, const void *data, size_t len)
{
	hk_biased_enter(&w->lock);
	int rc = tx_short(w, p, am, header, header_len, data, len);

	hk_biased_leave(&w->lock);
	return rc;
}

/* ---- what the engine wants sent -------------------------------------------------------------- */

void hk_tx_reap(struct hk_worker *w)
{
	uint64_t tokens[64];
	unsigned n;

	while ((n = hk_engine_reap(w->engine, tokens, HK_ARRAY_LEN(tokens))) > 0) {
		for (unsigned i = 0; i < n; i++) {
			bool lost = tokens[i] & HK_TOKEN_LOST;
			hk_buf *b = hk_mbuf_of(tokens[i] & ~HK_TOKEN_LOST);

			if (HK_UNLIKELY(w->has_paths) && !lost)
				hk_path_acked(w, hk_note(b));
			if (HK_LIKELY(hk_note(b)->op == NULL)) {
				/* the loss of a reply is not reported: its requester has gone */
				if (HK_UNLIKELY(lost && hk_note(b)->am < HK_WIRE_AM_ATOMIC))
					hk_peer_disconnect(w, hk_note(b)->peer,
							   HK_DISCONNECT_RESTARTED);
				hk_buf_release(w, b);
			} else if (!w->by_poller) {
				hk_put_frame_end(w, b, lost);
			} else {
				hk_note(b)->lost = lost;
				hk_note(b)->item.next = w->puts_acked
								? &hk_note(w->puts_acked)->item
								: NULL;
				w->puts_acked = b;
			}
		}
		if (n < HK_ARRAY_LEN(tokens))
			break;
	}
}

/* A copy of @b as it was sent. A NIC returns buffers late, so a packet may have to be sent again
 * before. Slow path. */
static hk_buf *copy_of(struct hk_worker *w, const hk_buf *b)
{
	hk_buf *c = rte_pktmbuf_alloc(w->bufs.pool);

	if (!c)
		return NULL;
	c->data_off = b->data_off;
	for (const hk_buf *s = b; s; s = s->next) {
		memcpy(rte_pktmbuf_mtod_offset(c, char *, c->data_len),
		       rte_pktmbuf_mtod(s, const char *), s->data_len);
		c->data_len = (uint16_t)(c->data_len + s->data_len);
	}
	c->pkt_len = c->data_len;
	return c;
}

static void resend(struct hk_worker *w, const struct hk_out *o)
{
	hk_buf *b = hk_mbuf_of(o->token);
	struct hk_worker_peer *peer = &w->peer[o->peer];
	struct hk_buf_note *note = hk_note(b);
	uint16_t txq = note->bulk ? peer->tx.bulk_txq : peer->tx.txq, was = txq;
	const uint8_t *eth = NULL; /* of another path */

	if (HK_UNLIKELY(peer->tx.paths != NULL)) {
		was = peer->tx.paths->path[note->path].txq;
		hk_path_lost(w, o->peer, note, o->path);
		txq = peer->tx.paths->path[note->path].txq;
		eth = peer->tx.paths->path[note->path].eth;
	}
	if (HK_UNLIKELY(b->nb_segs > 1 && !w->txq[txq]->zero_copy))
		hk_buf_detach(b); /* the peer has moved to a port that does not copy at transmit */
	bool copied = rte_mbuf_refcnt_read(b) > 1; /* the driver or our queue still has it */

	if (HK_UNLIKELY(copied)) {
		if (b->nb_segs > 1 && txq == was)
			return; /* zero-copy: the port copies at once, so it waits in our queue */
		b = copy_of(w, b);
		if (!b) /* the same as one more loss */
			return;
	}
	char *hdr = rte_pktmbuf_mtod(b, char *) + HK_ETH_HLEN;

	if (HK_UNLIKELY(eth != NULL))
		hk_tx_eth(hdr - HK_ETH_HLEN, eth, note->function);
	memcpy(hdr, o->bytes, HK_WIRE_HLEN);
	if (HK_UNLIKELY(copied)) {
		hk_tx_once(w, txq, o->peer, b);
		return;
	}
	if (b->nb_segs > 1)
		rte_mbuf_refcnt_set(b->next, 2); /* as that of the frame buffer */
	send_protected(w, w->txq[txq], o->peer, b);
}

static void control(struct hk_worker *w, const struct hk_out *o, const uint8_t *eth, uint16_t txq)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(w->bufs.pool);

	if (!m) /* the same as a loss on the wire; timers send another */
		return;
	m->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	char *frame = rte_pktmbuf_mtod(m, char *);
	size_t len = HK_ETH_HLEN + o->len;

	memcpy(frame, eth, HK_ETH_HLEN);
	memcpy(frame + HK_ETH_HLEN, o->bytes, o->len);
	m->data_len = (uint16_t)len;
	m->pkt_len = (uint32_t)len;
	hk_tx_once(w, txq, o->peer, m);
}

static void answer_peer(struct hk_worker *w, const struct hk_out *o)
{
	const struct hk_worker_peer *peer = &w->peer[o->peer];

	if (HK_UNLIKELY(peer->tx.paths != NULL)) {
		const struct hk_tx_path *path = hk_path_for_reply(w, &peer->tx);

		control(w, o, path->eth, path->txq);
	} else if (o->kind == HK_OUT_TAIL_PROBE) {
		control(w, o, peer->tx.eth, o->path ? peer->tx.bulk_txq : peer->tx.txq);
	} else {
		control(w, o, peer->tx.eth, peer->tx.reply_txq);
	}
}

void hk_tx_poll(struct hk_worker *w, uint64_t now, const struct rte_ether_hdr *answer,
		uint16_t received_txq)
{
	struct hk_out out[HK_OUT_BURST];
	unsigned n;

	do {
		n = hk_engine_poll(w->engine, now, out, HK_OUT_BURST);
		for (unsigned i = 0; i < n; i++) {
			const struct hk_out *o = &out[i];
			uint8_t eth[HK_ETH_HLEN];

			if (o->kind == HK_OUT_RESEND) {
				resend(w, o);
			} else if (o->peer != HK_PEER_NONE) {
				answer_peer(w, o);
			} else if (answer) {
				hk_wire_eth_encode(eth, answer->src_addr.addr_bytes,
						   w->txq[received_txq]->port->info.mac);
				control(w, o, eth, received_txq);
			}
		}
	} while (n == HK_OUT_BURST);
}

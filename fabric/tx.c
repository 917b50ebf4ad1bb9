/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/tx.c: buffers out.
 *
 * A buffer's life: hk_fabric_alloc → filled by the caller → hk_fabric_sendv numbers it and writes
 * its headers → transmitted with one more reference than the driver's → kept until the engine
 * hands its token back (acknowledged) → freed. A resend transmits the same buffer again, with its
 * headers rewritten in place; a copy of it if the driver has not let go of it yet.
 *
  * Frames sent by the application leave at once, since it may not come back for long; those of one
 * message leave in one burst. Frames sent by handlers inside progress are gathered and leave in
 * one burst at its end.
 */
#include "fabric/internal.h"
#include "wire/atomic.h"

#include <errno.h>
#include <rte_cycles.h>

/* Below this many free buffers hk_fabric_low() says so. */
#define HK_LOW_DIVISOR 8

/* Beyond the limit, for the few that must not fail. */
hk_buf *hk_tx_take_reserved(struct hk_fabric *f)
{
	hk_buf *b = HK_LIKELY(f->spares) ? f->spare[--f->spares] : rte_pktmbuf_alloc(f->tx_pool);

	if (HK_LIKELY(b != NULL))
		f->tx_out++;
	return b;
}

hk_buf *hk_tx_take(struct hk_fabric *f)
{
	hk_buf *b = NULL;

	if (HK_UNLIKELY(f->tx_out >= f->cfg.tx_buffers))
		hk_tx_reap(f); /* acknowledged ones may not have been taken back yet */
	if (HK_LIKELY(f->tx_out < f->cfg.tx_buffers))
		b = hk_tx_take_reserved(f);
	if (HK_UNLIKELY(!b))
		f->n.no_buffer++;
	return b;
}

void hk_tx_give(struct hk_fabric *f, hk_buf *b)
{
	f->tx_out--;
	/* ours alone again, as it came from the pool: its other fields are set when it is sent */
	if (HK_LIKELY(f->spares < HK_SPARES && rte_mbuf_refcnt_read(b) == 1 && !b->next))
		f->spare[f->spares++] = b;
	else
		rte_pktmbuf_free_seg(b);
}

hk_buf *hk_fabric_alloc(struct hk_fabric *f)
{
	hk_biased_enter(&f->lock);
	hk_buf *b = hk_tx_take(f);

	hk_biased_leave(&f->lock);
	return b;
}

void hk_fabric_free(struct hk_fabric *f, hk_buf *b)
{
	hk_biased_enter(&f->lock);
	hk_tx_give(f, b);
	hk_biased_leave(&f->lock);
}

bool hk_fabric_low(const struct hk_fabric *f)
{
	return hk_fabric_room(f) <= HK_MAX(f->cfg.tx_buffers / HK_LOW_DIVISOR, HK_WIRE_MAX_FRAGS);
}

unsigned hk_fabric_room(const struct hk_fabric *f)
{
	return f->cfg.tx_buffers - HK_MIN(f->tx_out, f->cfg.tx_buffers);
}

unsigned hk_fabric_backlog(const struct hk_fabric *f, hk_peer p)
{
	return f->peer[p].backlog_len;
}

/* ---- the port's transmit queue ------------------------------------------------------------- */

#define STUCK (HK_TX_QUEUE / 2)

/* Of a queue that was not emptied. One that is emptied and filled anew comes by here before it is half full. */
static HK_NOINLINE void note_if_stuck(const struct hk_fabric *f, struct hk_lane *l, uint16_t sent)
{
	if (sent || l->waiting < STUCK) {
		l->stuck_since = l->stuck_for = 0;
		return;
	}
	uint64_t now = hk_now(f);

	if (!l->stuck_since)
		l->stuck_since = now;
	l->stuck_for = now - l->stuck_since;
}

static void lane_flush(const struct hk_fabric *f, struct hk_lane *l)
{
	uint16_t sent = hk_port_tx(l->port, l->pair, l->queue, l->waiting);

	l->waiting -= sent;
	if (HK_LIKELY(l->waiting == 0))
		return;
	note_if_stuck(f, l, sent);
	memmove(l->queue, l->queue + sent, l->waiting * sizeof(l->queue[0]));
	/* a stand-in may be the next who comes by, and it cannot read what is lent */
	for (uint16_t i = 0; f->shared && l->lend && i < l->waiting; i++)
		hk_buf_unlend(l->queue[i]);
}

void hk_tx_flush(struct hk_fabric *f)
{
	f->unsent = false;
	for (unsigned i = 0; i < f->lanes; i++) {
		if (f->lane[i]->waiting)
			lane_flush(f, f->lane[i]);
		f->unsent |= f->lane[i]->waiting > 0;
	}
}

/* Takes one reference of @m. */
void hk_tx_frame(struct hk_fabric *f, uint16_t lane, struct rte_mbuf *m)
{
	struct hk_lane *l = f->lane[lane];

	if (HK_UNLIKELY(l->waiting == HK_TX_QUEUE)) {
		lane_flush(f, l);
		if (l->waiting == HK_TX_QUEUE) { /* the ring is stuck: it is lost, and resent */
			f->n.tx_dropped++;
			rte_pktmbuf_free(m);
			return;
		}
	}
	l->queue[l->waiting++] = m;
	if (!f->gather || l->waiting >= l->burst)
		lane_flush(f, l);
	if (HK_UNLIKELY(l->waiting))
		f->unsent = true;
}

bool hk_tx_stuck(const struct hk_fabric *f, uint16_t lane)
{
	return f->lane[lane]->waiting >= STUCK;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Numbers and transmits one buffer; false if the window has no room. */
static bool send_now(struct hk_fabric *f, hk_peer p, hk_buf *b, uint64_t now)
{
	struct hk_buf_note *note = hk_note(b);
	const struct hk_peer_tx *t = &f->peer[p];
	struct hk_way way = hk_tx_way(f, p, note->bulk, now);
	struct hk_packet pkt = {
		.token = (uintptr_t)b,
		.len = note->len,
		.type = HK_WIRE_DATA,
		.am = note->am,
		.frag = note->frag,
		.frags = note->frags,
		.path = way.path,
	};
	char *frame = (char *)b->buf_addr + HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	size_t len = HK_WIRE_DATA_OVERHEAD + note->len;

	if (HK_UNLIKELY(hk_tx_stuck(f, way.lane)) ||
	    !hk_engine_send(f->engine, p, &pkt, now, frame + HK_ETH_HLEN))
		return false;
	if (HK_UNLIKELY(t->rails != NULL)) {
		note->path = way.path;
		hk_rail_sent(f, t->rails, way.path, note->len);
	} else {
		f->n.tx_bulk += way.path;
	}
	hk_tx_eth(frame, way.eth, note->function);
	if (HK_UNLIKELY(f->cfg.engine.crc))
		len += hk_wire_seal(frame + HK_ETH_HLEN);
	b->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	b->data_len = (uint16_t)len;
	b->pkt_len = (uint32_t)len;
	rte_mbuf_refcnt_set(b, 2); /* the driver's and ours */
	hk_tx_frame(f, way.lane, b);
	return true;
}

/* Puts a buffer or an operation to what waits for room in the peer's window. */
void hk_tx_wait(struct hk_fabric *f, hk_peer p, struct hk_item *item)
{
	struct hk_peer_tx *t = &f->peer[p];

	hk_item_of(item)->next = NULL;
	if (t->backlog_head)
		hk_item_of(t->backlog_tail)->next = item;
	else
		t->backlog_head = item;
	t->backlog_tail = item;
	t->backlog_len++;
	f->n.queued++;
	bool first = !hk_listed(f, HK_LIST_BACKLOG);

	hk_list_add(f, HK_LIST_BACKLOG, p);
	if (first && !hk_link_is_put(item)) /* which no stand-in can send */
		hk_ring_own(f);
}

static bool item_go(struct hk_fabric *f, hk_peer p, struct hk_item *item, uint64_t now)
{
	if (hk_link_is_put(item))
		return !f->stand_in && hk_put_go(f, hk_put_of(item), now);
	return send_now(f, p, hk_buf_of(item), now);
}

/* Takes the first off the backlog, which has sent it or must drop it. */
static void backlog_pop(struct hk_fabric *f, hk_peer p)
{
	struct hk_peer_tx *t = &f->peer[p];
	struct hk_item *item = t->backlog_head;

	t->backlog_head = hk_item_of(item)->next;
	t->backlog_len--;
	if (hk_link_is_put(item))
		hk_put_unqueued(f, hk_put_of(item));
	else if (hk_note(hk_buf_of(item))->refusal)
		t->refusals_wait--;
	else if (hk_note(hk_buf_of(item))->answer)
		t->answers_wait--;
}

/* Sends what the windows have room for now. */
void hk_tx_backlog(struct hk_fabric *f, uint64_t now)
{
	for (uint32_t *link = &f->list[HK_LIST_BACKLOG]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;
		struct hk_peer_tx *t = &f->peer[p];

		while (t->backlog_head && !t->gone) {
			struct hk_item *item = t->backlog_head;

			if (!item_go(f, p, item, now))
				break;
			backlog_pop(f, p);
		}
		link = hk_list_step(f, HK_LIST_BACKLOG, link, t->backlog_head != NULL);
	}
}

bool hk_fabric_held(struct hk_fabric *f)
{
	if (!hk_listed(f, HK_LIST_BACKLOG)) /* a stand-in only empties it */
		return false;
	hk_biased_enter(&f->lock);
	hk_peer p = f->list[HK_LIST_BACKLOG];
	bool any = p != HK_PEER_NONE;

	while (p != HK_PEER_NONE && hk_engine_held(f->engine, p))
		p = f->peer[p].next[HK_LIST_BACKLOG];
	hk_biased_leave(&f->lock);
	return any && p == HK_PEER_NONE;
}

/* The peer is gone: so is what waited for it. */
void hk_tx_backlog_drop(struct hk_fabric *f, hk_peer p)
{
	struct hk_peer_tx *t = &f->peer[p];

	while (t->backlog_head) {
		struct hk_item *item = t->backlog_head;

		backlog_pop(f, p);
		if (!hk_link_is_put(item))
			hk_tx_give(f, hk_buf_of(item));
	}
}

static int refuse(struct hk_fabric *f, hk_buf *const *bufs, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		hk_tx_give(f, bufs[i]);
	return -ENOTCONN;
}

/* hk_fabric_sendv() for who holds the lock. */
int hk_tx_message(struct hk_fabric *f, hk_peer p, uint8_t am, hk_buf *const *bufs,
		  const size_t *len, unsigned count, bool bulk)
{
	int rc = 0;
	struct hk_peer_tx *t = &f->peer[p];

	for (unsigned i = 0; i < count; i++) {
		*hk_note(bufs[i]) = (struct hk_buf_note){
			.peer = p,
			.len = (uint16_t)len[i],
			.am = am,
			.frag = (uint8_t)i,
			.frags = (uint8_t)count,
			.bulk = bulk,
			.function = t->function,
		};
	}
	enum hk_peer_state state = hk_engine_peer_state(f->engine, p);

	if (HK_UNLIKELY((state != HK_PEER_ACTIVE && state != HK_PEER_HEARD) ||
			(atomic_load_explicit(&f->lock.broken, memory_order_relaxed) &&
			 hk_broken(f)))) {
		rc = refuse(f, bufs, count);
	} else {
		uint64_t now = hk_now(f);
		unsigned i = 0;

		hk_peer_settle(f, p);
		f->gather += count > 1;
		if (HK_LIKELY(!t->backlog_head))
			while (i < count && send_now(f, p, bufs[i], now))
				i++;
		f->gather -= count > 1;
		if (count > 1 && !f->gather) {
			if (HK_UNLIKELY(t->rails != NULL))
				hk_tx_flush(f);
			else
				lane_flush(f, f->lane[bulk ? t->bulk : t->lane]);
		}
		rc = i < count;
		for (; i < count; i++)
			hk_tx_wait(f, p, &hk_note(bufs[i])->item);
		f->n.am_sent++;
	}
	return rc;
}

int hk_fabric_sendv(struct hk_fabric *f, hk_peer p, uint8_t am, hk_buf *const *bufs,
		    const size_t *len, unsigned count)
{
	hk_biased_enter(&f->lock);
	int rc = hk_tx_message(f, p, am, bufs, len, count, false);

	hk_biased_leave(&f->lock);
	return rc;
}

int hk_fabric_sendv_bulk(struct hk_fabric *f, hk_peer p, uint8_t am, hk_buf *const *bufs,
			 const size_t *len, unsigned count)
{
	hk_biased_enter(&f->lock);
	int rc = hk_tx_message(f, p, am, bufs, len, count, true);

	hk_biased_leave(&f->lock);
	return rc;
}

/* ---- what the engine wants out ------------------------------------------------------------- */

void hk_tx_reap(struct hk_fabric *f)
{
	uint64_t tokens[64];
	unsigned n;

	while ((n = hk_engine_reap(f->engine, tokens, HK_ARRAY_LEN(tokens))) > 0) {
		for (unsigned i = 0; i < n; i++) {
			bool lost = tokens[i] & HK_TOKEN_LOST;
			hk_buf *b = hk_mbuf_of(tokens[i] & ~HK_TOKEN_LOST);

			if (HK_UNLIKELY(f->railed) && !lost)
				hk_rail_acked(f, hk_note(b));
			if (HK_LIKELY(hk_note(b)->op == NULL)) {
				/* of an answer nobody is told: who asked is gone */
				if (HK_UNLIKELY(lost && hk_note(b)->am < HK_WIRE_AM_ATOMIC))
					hk_peer_owe(f, hk_note(b)->peer, HK_VERDICT_RESTARTED);
				hk_tx_give(f, b);
			} else if (!f->stand_in) {
				hk_put_frame_free(f, b, lost);
			} else {
				hk_note(b)->lost = lost;
				hk_note(b)->item.next = f->put_acked ? &hk_note(f->put_acked)->item
								     : NULL;
				f->put_acked = b;
			}
		}
		if (n < HK_ARRAY_LEN(tokens))
			break;
	}
}

/* A private copy of @b as it was sent: NICs give buffers back lazily, and a packet may have to be
 * sent again before. Slow path. */
static hk_buf *copy_of(struct hk_fabric *f, const hk_buf *b)
{
	hk_buf *c = rte_pktmbuf_alloc(f->tx_pool);

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

static void resend(struct hk_fabric *f, const struct hk_out *o)
{
	hk_buf *b = hk_mbuf_of(o->token);
	struct hk_peer_tx *t = &f->peer[o->peer];
	struct hk_buf_note *note = hk_note(b);
	uint16_t lane = note->bulk ? t->bulk : t->lane, was = lane;
	const uint8_t *eth = NULL; /* of another rail */

	if (HK_UNLIKELY(t->rails != NULL)) {
		was = t->rails->rail[note->path].lane;
		hk_rail_lost(f, o->peer, note, o->path);
		lane = t->rails->rail[note->path].lane;
		eth = t->rails->rail[note->path].eth;
	}
	if (HK_UNLIKELY(b->nb_segs > 1 && !f->lane[lane]->lend))
		hk_buf_unlend(b); /* its peer has moved to another port */
	if (HK_LIKELY(rte_mbuf_refcnt_read(b) == 1)) {
		for (hk_buf *s = b; s; s = s->next)
			rte_mbuf_refcnt_set(s, 2); /* the driver's and ours */
	} else if (b->nb_segs > 1 && lane == was) {
		return; /* lent: the port copies at once, so it waits in our own queue still */
	} else {
		b = copy_of(f, b);
		if (!b) /* as good as lost once more */
			return;
	}
	char *hdr = rte_pktmbuf_mtod(b, char *) + HK_ETH_HLEN;

	if (HK_UNLIKELY(eth != NULL))
		hk_tx_eth(hdr - HK_ETH_HLEN, eth, note->function);
	memcpy(hdr, o->bytes, HK_WIRE_HLEN);
	if (f->cfg.engine.crc)
		hk_wire_seal(hdr);
	hk_tx_frame(f, lane, b);
}

static void control(struct hk_fabric *f, const struct hk_out *o, const uint8_t *eth, uint16_t lane)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(f->tx_pool);

	if (!m) /* as good as lost on the wire; timers send another */
		return;
	m->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	char *frame = rte_pktmbuf_mtod(m, char *);
	size_t len = HK_ETH_HLEN + o->len;

	memcpy(frame, eth, HK_ETH_HLEN);
	memcpy(frame + HK_ETH_HLEN, o->bytes, o->len);
	if (f->cfg.engine.crc)
		len += hk_wire_seal(frame + HK_ETH_HLEN);
	m->data_len = (uint16_t)len;
	m->pkt_len = (uint32_t)len;
	hk_tx_frame(f, lane, m);
}

static void answer_peer(struct hk_fabric *f, const struct hk_out *o)
{
	const struct hk_peer_tx *t = &f->peer[o->peer];

	if (HK_UNLIKELY(t->rails != NULL)) {
		const struct hk_rail *rail = hk_rail_answer(f, t);

		control(f, o, rail->eth, rail->lane);
	} else if (o->kind == HK_OUT_QUESTION) {
		control(f, o, t->eth, o->path ? t->bulk : t->lane);
	} else {
		control(f, o, t->eth, t->answer);
	}
}

/* Runs the engine's timers. @answer is the framing of the frame that was just received, for the
 * answers that go to no known peer. */
void hk_tx_poll(struct hk_fabric *f, uint64_t now, const struct rte_ether_hdr *answer,
		uint16_t answer_lane)
{
	struct hk_out out[HK_OUT_BURST];
	unsigned n;

	do {
		n = hk_engine_poll(f->engine, now, out, HK_OUT_BURST);
		for (unsigned i = 0; i < n; i++) {
			const struct hk_out *o = &out[i];
			uint8_t eth[HK_ETH_HLEN];

			if (o->kind == HK_OUT_RESEND) {
				resend(f, o);
			} else if (o->peer != HK_PEER_NONE) {
				answer_peer(f, o);
			} else if (answer) {
				hk_wire_put_eth(eth, answer->src_addr.addr_bytes,
						f->lane[answer_lane]->port->info.mac);
				control(f, o, eth, answer_lane);
			}
		}
	} while (n == HK_OUT_BURST);
}

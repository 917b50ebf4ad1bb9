/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/send.c: packets out. Numbering, headers, and how many more may go.
 */
#include "engine/internal.h"

void hk_done_push(struct hk_engine *e, uint64_t token)
{
	uint64_t *ring = hk_at(e, e->done_off);
	uint32_t i = e->done_head + e->done_count;

	ring[i >= e->done_cap ? i - e->done_cap : i] = token;
	e->done_count++;
}

unsigned hk_engine_reap(struct hk_engine *e, uint64_t *tokens, unsigned max)
{
	const uint64_t *ring = hk_at(e, e->done_off);
	unsigned n = HK_MIN(max, e->done_count);

	for (unsigned i = 0; i < n; i++) {
		tokens[i] = ring[e->done_head];
		if (++e->done_head == e->done_cap)
			e->done_head = 0;
	}
	e->done_count -= n;
	return n;
}

/* Not while the message sent last lacks fragments: its receiver holds an rx block for it, and
 * peers that wait for each other's blocks would wait for ever. */
void hk_tx_block_release(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->tx_block == HK_NIL || r->tx_mid)
		return;
	hk_tx_block(e, r->tx_block)->token = e->tx_free;
	e->tx_free = r->tx_block;
	r->tx_block = HK_NIL;
	r->tx_others = 0;
}

/* All of a header but type, len and fragment, which are 0. Says all we know of what the
 * peer sent: so any frame is an acknowledgement, and takes the place of a pure one. Written field by
 * field where it leaves from: a copy of what was just stored piecemeal waits for those stores. */
void hk_fill_hdr(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, hk_wire_hdr_in_frame *h)
{
	/* the peer measures the network, not how long we sat on its packet: RFC 7323 echoes the
	 * timestamp as it was, we move it by the time it was held */
	uint32_t echo = 0;

	if (r->ts_recent) {
		echo = r->ts_recent + (uint32_t)((now - r->ts_at) >> HK_WIRE_TS_SHIFT);
		echo += echo == 0;
	}
	uint32_t tsval = (uint32_t)(now >> HK_WIRE_TS_SHIFT);

	h->version = HK_WIRE_VERSION;
	h->type = 0;
	h->len = 0;
	h->flags = (uint16_t)((e->cfg.crc ? HK_WIRE_F_CRC : 0) | (r->ts_away ? HK_WIRE_F_AWAY : 0));
	h->window = hk_credit(e, r);
	h->key = e->cfg.key;
	h->src = e->cfg.endpoint;
	h->dst = r->endpoint;
	h->src_epoch = e->cfg.epoch;
	h->dst_epoch = r->epoch;
	h->psn = r->tx_next;
	h->ack = r->rx_next;
	h->tsval = tsval + (tsval == 0);
	h->tsecr = echo;
	h->am = h->frag = h->frags = h->zero = 0;
}

static unsigned room(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	uint32_t used = r->tx_next - r->tx_una;
	uint32_t slots = e->cfg.window - used;
	uint32_t credit = r->tx_edge - r->tx_next;
	uint32_t cwnd = r->cwnd >> 8;
	uint32_t load = (uint32_t)r->in_flight + r->lost;

	if (HK_UNLIKELY(!hk_talks(r)) || cwnd <= load || r->tx_bytes >= e->cfg.window_bytes)
		return 0;
	if (r->tx_block == HK_NIL && e->tx_free == HK_NIL)
		return 0;
	uint32_t n = HK_MIN(slots, credit);

	n = HK_MIN(n, cwnd - load);
	/* a caller that never reaps must not overrun the ring of tokens */
	return HK_MIN(n, e->done_cap - HK_MIN(e->done_cap, e->done_count + e->unacked));
}

unsigned hk_engine_room(const struct hk_engine *e, hk_peer p)
{
	return p < e->peers ? room(e, hk_rec(e, p)) : 0;
}

bool hk_engine_held(const struct hk_engine *e, hk_peer p)
{
	if (p >= e->peers)
		return false;
	const struct hk_peer_rec *r = hk_rec(e, p);

	return hk_talks(r) && r->tx_una == r->tx_next && r->tx_edge == r->tx_next;
}

static void count_refusal(struct hk_engine *e, const struct hk_peer_rec *r)
{
	if (r->tx_edge == r->tx_next)
		e->n.no_credit++;
	else if ((r->cwnd >> 8) <= (uint32_t)r->in_flight + r->lost ||
		 r->tx_bytes >= e->cfg.window_bytes)
		e->n.no_cwnd++;
	else
		e->n.no_block++;
}

bool hk_engine_send(struct hk_engine *e, hk_peer p, const struct hk_packet *pkt, uint64_t now,
		    void *hdr)
{
	if (HK_UNLIKELY(p >= e->peers))
		return false;
	struct hk_peer_rec *r = hk_rec(e, p);
	unsigned left = room(e, r);

	if (HK_UNLIKELY(left == 0)) {
		count_refusal(e, r);
		return false;
	}
	if (HK_UNLIKELY(r->tx_block == HK_NIL)) {
		r->tx_block = e->tx_free;
		e->tx_free = (uint32_t)hk_tx_block(e, r->tx_block)->token;
	}

	if (HK_UNLIKELY(pkt->path))
		hk_path_used(e, r, pkt->path & 7u);

	hk_wire_hdr_in_frame *h = hdr;

	hk_fill_hdr(e, r, now, h);
	h->type = pkt->type;
	h->len = pkt->len;
	h->am = pkt->am;
	h->frag = pkt->frag;
	h->frags = pkt->frags;
	/* we shall wait for the answer to this one */
	if (HK_UNLIKELY(left == 1 || pkt->ack_now || r->tx_bytes + pkt->len >= e->cfg.window_bytes))
		h->flags |= HK_WIRE_F_ACK_NOW;
	hk_wire_order(h);

	struct hk_tx_slot *s = hk_tx_slot(e, r, r->tx_next);

	s->token = pkt->token;
	s->sent_at = now;
	s->len = pkt->len;
	s->type = pkt->type;
	s->am = pkt->am;
	s->frag = pkt->frag;
	s->frags = pkt->frags;
	s->state = HK_SLOT_FLYING;
	s->path = pkt->path & 7u;
	s->lent = pkt->lent;
	s->resent = 0;
	if (r->tx_next == r->tx_una)
		r->progress_at = now;
	r->tx_next++;
	r->tx_mid = pkt->frag + 1 < pkt->frags;
	r->in_flight++;
	r->tx_bytes += pkt->len;
	e->unacked++;
	e->n.tx_packets++;
	e->n.tx_bytes += pkt->len;
	/* the header told all but gaps, which only a bitmap can tell */
	if (r->rx_gaps == 0)
		hk_ack_cancel(e, r);
	if (r->timer == HK_TIMER_NONE || r->timer >= HK_TIMER_CREDIT)
		hk_timer_rearm(e, r, now);
	return true;
}

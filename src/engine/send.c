/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/send.c: sending packets: their numbers, their headers, and how many more may be sent.
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

/* Takes the block that was given back last, because it is in the cache, or a fresh one. */
static void tx_block_take(struct hk_engine *e, struct hk_peer_rec *r, hk_peer p)
{
	if (e->tx_free != HK_NIL) {
		r->tx_block = e->tx_free;
		e->tx_free = (uint32_t)hk_tx_block(e, r->tx_block)->token;
	} else {
		r->tx_block = e->tx_fresh++;
	}
	*hk_tx_owner(e, r->tx_block) = p;
}

/* Gives the peer's tx block back, except while the message sent last lacks fragments. Its receiver
 * has an rx block for that message; two peers that waited for each other's blocks would wait for
 * ever. */
void hk_tx_block_release(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->tx_block == HK_NIL || r->tx_mid)
		return;
	hk_tx_block(e, r->tx_block)->token = e->tx_free;
	*hk_tx_owner(e, r->tx_block) = HK_NIL;
	e->tx_free = r->tx_block;
	r->tx_block = HK_NIL;
	r->tx_others = 0;
}

/* Fills in a header except its type; len and the fragment fields become 0. Each header carries all
 * acknowledgements except gaps, so any frame replaces a pure acknowledgement. The function writes
 * each field directly into the frame, because copying a header just after storing its fields would
 * wait for those stores. */
void hk_hdr_fill(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, hk_wire_hdr_in_frame *h)
{
	/* The peer shall measure the network without the time that its packet waited here. RFC 7323
	 * echoes the timestamp unchanged; we add that time. */
	uint32_t echo = 0;

	if (r->ts_recent) {
		echo = r->ts_recent + (uint32_t)((now - r->ts_at) >> HK_WIRE_TS_SHIFT);
		echo += echo == 0;
	}
	uint32_t tsval = (uint32_t)(now >> HK_WIRE_TS_SHIFT);

	h->version = e->version;
	h->key_index = 0;
	h->len = 0;
	h->job = e->cfg.key;
	h->src = e->cfg.endpoint;
	h->dst = r->endpoint;
	h->src_epoch = e->cfg.epoch;
	h->dst_epoch = r->epoch;
	h->flags = r->ts_not_polling ? HK_WIRE_F_NOT_POLLING : 0;
	h->credit = hk_credit_grant(e, r);
	h->psn = r->tx_next;
	h->ack = r->rx_next;
	h->tsval = tsval + (tsval == 0);
	h->tsecr = echo;
	h->am = h->frag = h->frags = 0;
	h->marks = r->rx_marks;
}

static unsigned available(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	uint32_t used = r->tx_next - r->tx_una;
	uint32_t slots = e->cfg.window - used;
	uint32_t credit = r->tx_edge - r->tx_next;
	uint32_t cwnd = hk_cc_packets(r);
	uint32_t load = (uint32_t)r->in_flight + r->lost;

	if (HK_UNLIKELY(!hk_peer_connected(r)) || cwnd <= load ||
	    r->tx_bytes >= e->cfg.window_bytes)
		return 0;
	if (r->tx_block == HK_NIL && !hk_tx_block_left(e))
		return 0;
	uint32_t n = HK_MIN(slots, credit);

	n = HK_MIN(n, cwnd - load);
	/* a caller that never reaps must not overflow the ring of tokens */
	return HK_MIN(n, e->done_cap - HK_MIN(e->done_cap, e->done_count + e->unacked));
}

unsigned hk_engine_available(const struct hk_engine *e, hk_peer p)
{
	return p < e->peers ? available(e, hk_rec(e, p)) : 0;
}

bool hk_engine_zero_credit(const struct hk_engine *e, hk_peer p)
{
	if (p >= e->peers)
		return false;
	const struct hk_peer_rec *r = hk_rec(e, p);

	return hk_peer_connected(r) && r->tx_una == r->tx_next && r->tx_edge == r->tx_next;
}

static void count_refusal(struct hk_engine *e, const struct hk_peer_rec *r)
{
	if (r->tx_edge == r->tx_next)
		e->n.no_credit++;
	else if (hk_cc_packets(r) <= (uint32_t)r->in_flight + r->lost ||
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
	unsigned left = available(e, r);

	if (HK_UNLIKELY(left == 0)) {
		count_refusal(e, r);
		return false;
	}
	bool bulk = hk_is_bulk(e, pkt->len);

	if (bulk) {
		if (!hk_grant_allows(e, r, now)) {
			e->n.no_grant++;
			return false;
		}
		hk_grant_used(e, r, pkt->len, now);
	}
	if (HK_UNLIKELY(r->tx_block == HK_NIL)) {
		tx_block_take(e, r, p);
	}

	if (HK_UNLIKELY(pkt->path))
		hk_path_used(e, r, pkt->path & 7u);

	hk_wire_hdr_in_frame *h = hdr;

	hk_hdr_fill(e, r, now, h);
	h->type = pkt->type;
	h->len = pkt->len;
	h->am = pkt->am;
	h->frag = pkt->frag;
	h->frags = pkt->frags;
	/* no further packet fits, so the next send waits for this one's acknowledgement */
	if (HK_UNLIKELY(left == 1 || pkt->ack_now || r->tx_bytes + pkt->len >= e->cfg.window_bytes))
		h->flags |= HK_WIRE_F_ACK_NOW;
	if (bulk)
		h->flags |= HK_WIRE_F_BULK;
	hk_wire_hdr_to_wire(h);

	struct hk_tx_slot *s = hk_tx_slot(e, r, r->tx_next);

	s->token = pkt->token;
	s->sent_at = now;
	s->len = pkt->len;
	s->type = pkt->type;
	s->am = pkt->am;
	s->frag = pkt->frag;
	s->frags = pkt->frags;
	s->state = HK_SLOT_IN_FLIGHT;
	s->path = pkt->path & 7u;
	s->borrowed = pkt->borrowed;
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
	/* the header acknowledges everything except gaps, which need the bitmap of an ACK */
	if (r->rx_gaps == 0 && !r->grant_due)
		hk_ack_cancel(e, r);
	if (r->timer == HK_TIMER_NONE || r->timer >= HK_TIMER_PACE)
		hk_timer_rearm(e, r, now);
	return true;
}

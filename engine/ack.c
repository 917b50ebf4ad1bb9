/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ack.c: when and how we acknowledge, and how much credit we give.
 *
 * An ack waits up to ack_delay for a packet to ride on. It goes at once when the peer asks
 * (ACK_NOW), when something arrived out of order or twice (the peer is about to resend for
 * nothing), and after ack_every packets. The list of waiting acks is ordered by due time without
 * sorting: all wait equally long, and those due at once go to the front.
 */
#include "engine/internal.h"

static void unlink_ack(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->ack_prev == HK_NIL)
		e->ack_head = r->ack_next;
	else
		hk_rec(e, r->ack_prev)->ack_next = r->ack_next;
	if (r->ack_next == HK_NIL)
		e->ack_tail = r->ack_prev;
	else
		hk_rec(e, r->ack_next)->ack_prev = r->ack_prev;
	r->in_ack_list = 0;
}

void hk_ack_cancel(struct hk_engine *e, struct hk_peer_rec *r)
{
	r->ack_pending = 0;
	if (r->in_ack_list)
		unlink_ack(e, r);
}

void hk_ack_schedule(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, bool at_once)
{
	uint32_t p = hk_index(e, r);

	if (r->in_ack_list) {
		if (!at_once || r->ack_due <= now)
			return;
		unlink_ack(e, r);
	}
	r->in_ack_list = 1;
	if (at_once) {
		r->ack_due = now;
		r->ack_prev = HK_NIL;
		r->ack_next = e->ack_head;
		if (e->ack_head == HK_NIL)
			e->ack_tail = p;
		else
			hk_rec(e, e->ack_head)->ack_prev = p;
		e->ack_head = p;
		return;
	}
	r->ack_due = now + e->cfg.ack_delay;
	r->ack_next = HK_NIL;
	r->ack_prev = e->ack_tail;
	if (e->ack_tail == HK_NIL)
		e->ack_head = p;
	else
		hk_rec(e, e->ack_tail)->ack_next = p;
	e->ack_tail = p;
}

/* The right edge we would grant @r: its share of the buffers we can still hold, never beyond the
 * window, and never taking back what was promised (RFC 9293, 3.8.6). */
static uint32_t credit_edge(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	uint32_t w = e->cfg.window;
	uint32_t free_all = e->cfg.rx_budget > e->rx_held ? e->cfg.rx_budget - e->rx_held : 0;
	uint32_t grant = r->held < w ? w - r->held : 0;

	if (HK_UNLIKELY(free_all < grant * e->talking)) {
		uint32_t share = free_all / HK_MAX(e->talking, 1u);

		/* with budget left, everybody may send something */
		if (share == 0 && free_all > 0)
			share = 1;
		grant = HK_MIN(grant, share);
	}
	/* whoever began a message can finish it, or half messages would fill the budget for ever */
	if (HK_UNLIKELY(r->rx_frags && grant < HK_WIRE_MAX_FRAGS))
		grant = HK_MIN(w, HK_WIRE_MAX_FRAGS);
	uint32_t edge = r->rx_next + grant;

	return hk_psn_before(r->rx_edge, edge) ? edge : r->rx_edge;
}

uint16_t hk_credit(const struct hk_engine *e, struct hk_peer_rec *r)
{
	r->rx_edge = credit_edge(e, r);
	return (uint16_t)(r->rx_edge - r->rx_next);
}

void hk_ack_emit(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, uint16_t flags,
		 struct hk_out *o)
{
	struct hk_wire_hdr h;
	struct hk_wire_sack sack = {{0}};

	hk_fill_hdr(e, r, now, &h);
	h.type = HK_WIRE_ACK;
	h.flags |= flags;
	h.len = HK_WIRE_SACK_LEN;
	for (uint32_t i = 1, left = r->rx_gaps; left && i < e->cfg.window; i++) {
		uint32_t bit = (r->rx_next + i) & (e->cfg.window - 1u);

		if (r->rx_map[bit / 64] >> (bit % 64) & 1) {
			sack.bits[i / 64] |= UINT64_C(1) << (i % 64);
			left--;
		}
	}
	o->kind = HK_OUT_CONTROL;
	o->peer = hk_index(e, r);
	o->token = 0;
	o->len = HK_WIRE_HLEN + HK_WIRE_SACK_LEN;
	hk_wire_put_hdr(o->bytes, &h);
	hk_wire_put_sack(o->bytes + HK_WIRE_HLEN, &sack);
	hk_ack_cancel(e, r);
	if (flags & HK_WIRE_F_ACK_NOW)
		e->n.tx_probes++;
	else
		e->n.tx_acks++;
}

void hk_engine_rx_held(struct hk_engine *e, hk_peer p, int delta)
{
	if (p >= e->peers)
		return;
	struct hk_peer_rec *r = hk_rec(e, p);

	delta = HK_MAX(delta, -(int)r->held); /* no caller can let go of more than it holds */
	r->held = (uint16_t)(r->held + delta);
	e->rx_held = (uint32_t)((int64_t)e->rx_held + delta);
	if (!hk_talks(r))
		return;

	/* tell a peer that is stopped, or nearly, that it can go on: a quarter window at a time */
	uint32_t told = r->rx_edge - r->rx_next, quarter = e->cfg.window / 4u;

	if (delta < 0 && told < quarter) {
		uint32_t now_free = credit_edge(e, r) - r->rx_next;

		if (now_free >= told + quarter || (told == 0 && now_free > 0))
			hk_ack_schedule(e, r, r->last_heard, true);
	}
}

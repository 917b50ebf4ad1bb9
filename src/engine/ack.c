/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/ack.c: when and how we acknowledge.
 *
 * DESIGN NOTES
 *
 * Problem: every packet must be acknowledged, but an acknowledgement frame for each costs too much.
 *
 * Approach: an acknowledgement waits up to ack_delay, because a packet in the same direction can
 * carry it. The engine sends it at once in three cases:
 *  - the peer asks for it (ACK_NOW);
 *  - a packet arrived out of order or twice, so the peer is about to resend needlessly;
 *  - ack_every packets have arrived.
 *
 * Invariant: the list of pending acknowledgements is ordered by due time. It needs no sorting: all
 * wait equally long and join at the end, and those due at once go to the front.
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

void hk_ack_emit(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, uint8_t flags,
		 struct hk_out *o)
{
	struct hk_wire_hdr h;
	struct hk_wire_sack sack = {{0}};
	uint8_t *ext = o->bytes + HK_WIRE_HLEN;

	hk_hdr_fill(e, r, now, &h);
	h.type = HK_WIRE_ACK;
	h.flags |= flags;
	if (r->has_bulk) {
		struct hk_wire_grant grant;

		hk_grant_fill(r, &grant, now);
		hk_wire_grant_encode(ext, &grant);
		h.flags |= HK_WIRE_F_GRANT;
		ext += HK_WIRE_GRANT_LEN;
	}
	for (uint32_t i = 1, left = r->rx_gaps; left && i < e->cfg.window; i++) {
		uint32_t bit = (r->rx_next + i) & (e->cfg.window - 1u);

		if (r->rx_map[bit / 64] >> (bit % 64) & 1) {
			sack.bits[i / 64] |= UINT64_C(1) << (i % 64);
			left--;
		}
	}
	o->kind = HK_OUT_CONTROL;
	o->peer = hk_index(e, r);
	ext += hk_wire_sack_encode(ext, &sack);
	o->len = (uint16_t)(ext - o->bytes);
	h.len = (uint16_t)(o->len - HK_WIRE_HLEN);
	hk_wire_hdr_encode(o->bytes, &h);
	hk_ack_cancel(e, r);
	if (flags & HK_WIRE_F_ACK_NOW)
		e->n.tx_probes++;
	else
		e->n.tx_acks++;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/budget.c: the receive buffers: which packets get one, and how much credit peers get.
 *
 * DESIGN NOTES
 *
 * Problem: buffers are finite, and many peers send at once. Frames are lost then, so messages wait
 * for packets before them, and fragments for the rest of their message. If those fill all buffers,
 * no resend finds one, and nothing ends.
 *
 * Approach: a packet that could wait in its buffer gets one only if enough are left. Three kinds
 * of buffers count against cfg.rx_budget:
 *  - held: the caller has them, and says so (hk_engine_rx_held());
 *  - reserved: for all fragments of each message that has begun to arrive, present or not;
 *  - deferred: messages that are complete, but wait for packets before them.
 * The last quarter of the budget is for packets that are next in order. Others are refused if that
 * quarter would shrink: they stay unacknowledged, and their sender sends them again.
 *
 * Invariant: while the caller frees what it holds, some peer can always go on. A single packet that
 * is next is accepted always, since it does not wait. A message of fragments that is next finds the
 * last quarter, which only such messages use. Each of these has all its buffers, and the credit for
 * them (see credit_edge()), so it becomes complete and frees them.
 *
 * Credit. Peers that sent in this slot of time, or in the one before, share the free buffers. One
 * that spoke once costs the others nothing. Should all who have credit send at once, the rules
 * above protect the buffers. A peer without credit waits in a list, and hears of it when buffers
 * of any peer come free.
 *
 * The deferred count of a peer may be too large for a moment. When a gap closes, the engine does
 * not look up which messages that frees. It knows that no more are deferred than have arrived
 * behind the next gap.
 */
#include "engine/internal.h"

static uint32_t used(const struct hk_engine *e)
{
	return e->rx_held + e->rx_reserved + e->rx_deferred;
}

bool hk_budget_room(const struct hk_engine *e, const struct hk_peer_rec *r, unsigned buffers,
		    bool is_next)
{
	uint32_t budget = e->cfg.rx_budget;
	uint32_t kept = is_next ? 0 : HK_MAX(budget / 4, HK_WIRE_MAX_FRAGS);

	/* The messages that touch a window of packets have no more fragments than this. A peer
	 * whose fragments contradict each other could name more. */
	uint32_t most = e->cfg.window + 2u * (HK_WIRE_MAX_FRAGS - 1);

	return used(e) + buffers + kept <= budget && r->rx_reserved + buffers <= most;
}

/* ---- credit ---------------------------------------------------------------------------------- */

void hk_budget_seen_first(struct hk_engine *e, struct hk_peer_rec *r, uint32_t slot)
{
	if (slot != e->slot) {
		e->last_peers = slot == e->slot + 1 ? e->slot_peers : 0;
		e->slot_peers = 0;
		e->slot = slot;
	}
	r->slot = (uint8_t)slot;
	e->slot_peers++;
}

/* The right edge of the credit that we can give @r: its share of the receive buffers that are still
 * free. The edge stays within the window and never moves back (RFC 9293, 3.8.6). */
static uint32_t credit_edge(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	uint32_t w = e->cfg.window;
	uint32_t free_all = e->cfg.rx_budget > used(e) ? e->cfg.rx_budget - used(e) : 0;
	uint32_t active = HK_MAX(HK_MAX(e->slot_peers, e->last_peers), 1u);
	uint32_t grant = r->held < w ? w - r->held : 0;

	if (HK_UNLIKELY(free_all < grant * active)) {
		uint32_t share = free_all / active;

		/* while buffers are left, every peer may send at least one packet */
		if (share == 0 && free_all > 0)
			share = 1;
		grant = HK_MIN(grant, share);
	}
	/* a peer that has begun a message may finish it: otherwise incomplete messages could fill
	 * the budget and stay for ever */
	if (HK_UNLIKELY(r->rx_reserved && grant < HK_WIRE_MAX_FRAGS))
		grant = HK_MIN(w, HK_WIRE_MAX_FRAGS);
	uint32_t edge = r->rx_next + grant;

	return hk_psn_before(r->rx_edge, edge) ? edge : r->rx_edge;
}

uint16_t hk_credit_grant(struct hk_engine *e, struct hk_peer_rec *r)
{
	r->rx_edge = credit_edge(e, r);
	if (HK_UNLIKELY(r->rx_edge == r->rx_next) && !r->in_wait_list) {
		uint32_t p = hk_index(e, r);

		r->in_wait_list = 1;
		r->wait_next = HK_NIL;
		if (e->wait_head == HK_NIL)
			e->wait_head = p;
		else
			hk_rec(e, e->wait_tail)->wait_next = p;
		e->wait_tail = p;
	}
	return (uint16_t)(r->rx_edge - r->rx_next);
}

/* @buffers of the budget came free: as many peers without credit hear of it. */
static void wake(struct hk_engine *e, unsigned buffers)
{
	while (HK_UNLIKELY(e->wait_head != HK_NIL) && buffers && used(e) < e->cfg.rx_budget) {
		struct hk_peer_rec *r = hk_rec(e, e->wait_head);

		e->wait_head = r->wait_next;
		if (e->wait_head == HK_NIL)
			e->wait_tail = HK_NIL;
		r->in_wait_list = 0;
		if (r->rx_edge != r->rx_next) /* it has credit again */
			continue;
		hk_ack_schedule(e, r, r->last_rx, true);
		buffers--;
	}
}

static void wait_list_leave(struct hk_engine *e, struct hk_peer_rec *r)
{
	uint32_t p = hk_index(e, r), before = HK_NIL;

	if (HK_LIKELY(!r->in_wait_list))
		return;
	r->in_wait_list = 0;
	for (uint32_t i = e->wait_head; i != p; i = hk_rec(e, i)->wait_next)
		before = i;
	if (before == HK_NIL)
		e->wait_head = r->wait_next;
	else
		hk_rec(e, before)->wait_next = r->wait_next;
	if (e->wait_tail == p)
		e->wait_tail = before;
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* A message has begun to wait. Should its sender be dead, the timer finds out. */
static void wait_begins(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (r->timer == HK_TIMER_NONE)
		hk_timer_rearm(e, r, now);
}

static void wait_ends(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->timer == HK_TIMER_KEEPALIVE && !e->cfg.keepalive && !hk_budget_waits(r))
		hk_timer_off(e, r);
}

void hk_budget_reserve(struct hk_engine *e, struct hk_peer_rec *r, unsigned buffers, uint64_t now)
{
	r->rx_reserved = (uint16_t)(r->rx_reserved + buffers);
	e->rx_reserved += buffers;
	wait_begins(e, r, now);
}

void hk_budget_unreserve(struct hk_engine *e, struct hk_peer_rec *r, unsigned buffers)
{
	r->rx_reserved = (uint16_t)(r->rx_reserved - buffers);
	e->rx_reserved -= buffers;
	wait_ends(e, r);
	wake(e, buffers);
}

void hk_budget_defer(struct hk_engine *e, struct hk_peer_rec *r, unsigned buffers, uint64_t now)
{
	r->rx_deferred = (uint16_t)(r->rx_deferred + buffers);
	e->rx_deferred += buffers;
	wait_begins(e, r, now);
}

void hk_budget_gap_closed(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->rx_deferred <= r->rx_gaps)
		return;
	unsigned buffers = r->rx_deferred - r->rx_gaps;

	e->rx_deferred -= buffers;
	r->rx_deferred = r->rx_gaps;
	wait_ends(e, r);
	wake(e, buffers);
}

void hk_budget_forget(struct hk_engine *e, struct hk_peer_rec *r)
{
	unsigned buffers = r->rx_reserved + r->rx_deferred;

	e->rx_reserved -= r->rx_reserved;
	e->rx_deferred -= r->rx_deferred;
	r->rx_reserved = r->rx_deferred = 0;
	wait_list_leave(e, r);
	wake(e, buffers);
}

void hk_engine_rx_held(struct hk_engine *e, hk_peer p, int delta)
{
	if (p >= e->peers)
		return;
	struct hk_peer_rec *r = hk_rec(e, p);

	delta = HK_MAX(delta, -(int)r->held); /* a caller releases at most what it holds */
	r->held = (uint16_t)(r->held + delta);
	e->rx_held = (uint32_t)((int64_t)e->rx_held + delta);
	if (delta < 0)
		wake(e, (unsigned)-delta);
	if (!hk_peer_connected(r))
		return;

	/* tell a peer with little or no credit that it may continue, a quarter window at a time */
	uint32_t advertised = r->rx_edge - r->rx_next, quarter = e->cfg.window / 4u;

	if (delta < 0 && advertised < quarter) {
		uint32_t now_free = credit_edge(e, r) - r->rx_next;

		if (now_free >= advertised + quarter || (advertised == 0 && now_free > 0))
			hk_ack_schedule(e, r, r->last_rx, true);
	}
}

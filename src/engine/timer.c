/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/timer.c: the timer of each peer: how long it waits, and a wheel that finds those due.
 *
 * DESIGN NOTES
 *
 * Problem: thousands of peers are quiet and wait for a keepalive, while few exchange packets and
 * set their timers with each acknowledgement. A list of all running timers costs a visit to each
 * peer whenever one is due.
 *
 * Approach: a hierarchical timing wheel (Varghese and Lauck, SOSP 1987). A tick is 1.024 us. Level
 * 0 has a slot for each of the next ticks, and a slot of level l spans 64^l ticks. The level of a
 * timer is that of the highest group of six bits in which its tick differs from the present one.
 * So timers of a lower level are always due earlier, and one word a level finds the next slot.
 * When the time of a slot comes, its timers are due, or they move to a lower level.
 *
 * A timer that is set to a later time stays in its slot, and moves when that slot's time comes. So
 * setting a timer with each acknowledgement is a comparison.
 *
 * A poll may emit fewer frames than timers are due. Timers of the present slot that are left over
 * stay in the list `due`, which the next poll continues.
 */
#include "engine/internal.h"

#define TICK_SHIFT 10
#define SLOT_BITS  6
#define SLOT_MASK  ((1u << SLOT_BITS) - 1)

/* ---- how long ------------------------------------------------------------------------------ */

/* Factor by which we wait longer for a peer that is not polling. Its progress proxy wakes only now
 * and then, and may share a core with the application; a time slice of the scheduler is some
 * milliseconds. */
#define HK_NOT_POLLING_RTO_FACTOR 4

static uint64_t rto_floor(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	return HK_UNLIKELY(r->not_polling) ? e->cfg.min_rto * HK_NOT_POLLING_RTO_FACTOR
					   : e->cfg.min_rto;
}

uint64_t hk_rto(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	uint64_t rto = e->cfg.initial_rto;

	if (r->srtt)
		rto = HK_MAX(r->srtt + 4 * (uint64_t)r->rttvar + 2 * e->cfg.ack_delay,
			     rto_floor(e, r));
	rto <<= HK_MIN(r->backoff, 16);
	return HK_MIN(rto, e->cfg.max_rto);
}

#define FIRST_ROUND_TRIPS 8

/* Returns the time until we resend a packet to a peer that has never answered. It may not have
 * started. The slowest other one says how far away it may be. In an all-to-all the one peer
 * whose first packet was lost would make all wait. This resend costs a frame and nothing else: only
 * hk_rto(), which is longer, cuts the window. */
static uint64_t first_timeout(const struct hk_engine *e)
{
	uint64_t other = FIRST_ROUND_TRIPS * (uint64_t)e->slow_rtt;
	uint64_t most = HK_MIN(e->cfg.initial_rto, e->cfg.max_rto);

	return other ? HK_MIN(HK_MAX(other, e->cfg.min_rto), most) : most;
}

static uint64_t probe_timeout(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	if (!r->srtt)
		return first_timeout(e);
	if (HK_UNLIKELY(r->not_polling))
		return hk_rto(e, r);
	return HK_MAX(2 * (uint64_t)r->srtt + 2 * e->cfg.ack_delay, e->cfg.min_rto / 8);
}

/* ---- the wheel ----------------------------------------------------------------------------- */

/* The `timer_prev` of the first peer of a list: this bit, and the number of the list. */
#define HEAD 0x80000000u
#define DUE  (HK_WHEEL_LEVELS * HK_WHEEL_SLOTS) /* number of the list `due` */

static uint32_t *head_of(struct hk_engine *e, uint32_t list)
{
	return list == DUE ? &e->wheel.due : &e->wheel.slot[list >> SLOT_BITS][list & SLOT_MASK];
}

static void link_in(struct hk_engine *e, struct hk_peer_rec *r, uint32_t list)
{
	uint32_t *head = head_of(e, list), p = hk_index(e, r);

	r->timer_prev = HEAD | list;
	r->timer_next = *head;
	if (*head != HK_NIL)
		hk_rec(e, *head)->timer_prev = p;
	*head = p;
	if (list != DUE)
		e->wheel.used[list >> SLOT_BITS] |= UINT64_C(1) << (list & SLOT_MASK);
	r->in_wheel = 1;
}

static void unlink_timer(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->timer_next != HK_NIL)
		hk_rec(e, r->timer_next)->timer_prev = r->timer_prev;
	r->in_wheel = 0;
	if (!(r->timer_prev & HEAD)) {
		hk_rec(e, r->timer_prev)->timer_next = r->timer_next;
		return;
	}
	uint32_t list = r->timer_prev & ~HEAD;

	*head_of(e, list) = r->timer_next;
	if (r->timer_next == HK_NIL && list != DUE)
		e->wheel.used[list >> SLOT_BITS] &= ~(UINT64_C(1) << (list & SLOT_MASK));
}

/* Puts a timer into the slot of @tick. Returns the slot's first tick. */
static uint64_t place(struct hk_engine *e, struct hk_peer_rec *r, uint64_t tick)
{
	tick = HK_MAX(tick, e->wheel.tick + 1);
	unsigned level = (63u - (unsigned)__builtin_clzll(tick ^ e->wheel.tick)) / SLOT_BITS;

	level = HK_MIN(level, HK_WHEEL_LEVELS - 1u);
	unsigned shift = level * SLOT_BITS;

	link_in(e, r, level << SLOT_BITS | (uint32_t)(tick >> shift & SLOT_MASK));
	tick = tick >> shift << shift;
	r->timer_tick = (uint32_t)tick;
	return tick;
}

/* Finds the slot that comes next. Returns its tick; UINT64_MAX: no timer runs. */
static uint64_t next_slot(const struct hk_engine *e, uint32_t *list)
{
	for (unsigned level = 0; level < HK_WHEEL_LEVELS; level++) {
		uint64_t used = e->wheel.used[level], at = e->wheel.tick >> level * SLOT_BITS;
		unsigned here = at & SLOT_MASK;

		if (!used)
			continue;
		used = used >> here | used << (-here & SLOT_MASK);
		at += (unsigned)__builtin_ctzll(used);
		*list = level << SLOT_BITS | (at & SLOT_MASK);
		return at << level * SLOT_BITS;
	}
	return UINT64_MAX;
}

static uint64_t tick_after(uint64_t ns)
{
	return (ns + (1u << TICK_SHIFT) - 1) >> TICK_SHIFT;
}

void hk_timer_arm(struct hk_engine *e, struct hk_peer_rec *r, enum hk_timer kind, uint64_t now,
		  uint64_t after)
{
	uint64_t units = (after + (1u << HK_TIMER_UNIT) - 1) >> HK_TIMER_UNIT;
	uint32_t list;

	r->timer = (uint8_t)kind;
	r->timer_armed = now;
	r->timer_after = (uint32_t)HK_MIN(units, UINT32_MAX);
	uint64_t tick = tick_after(hk_timer_at(r));

	if (r->in_wheel) {
		if (HK_LIKELY(!hk_psn_before((uint32_t)tick, r->timer_tick)))
			return;
		unlink_timer(e, r);
	}
	if (next_slot(e, &list) == UINT64_MAX && e->wheel.due == HK_NIL)
		e->wheel.tick = now >> TICK_SHIFT;
	uint64_t slot = place(e, r, tick);

	e->timer_min = HK_MIN(e->timer_min, slot << TICK_SHIFT);
}

void hk_timer_off(struct hk_engine *e, struct hk_peer_rec *r)
{
	r->timer = HK_TIMER_NONE;
	if (r->in_wheel)
		unlink_timer(e, r);
}

/* Arms the timer for what we wait for now, or stops it if we wait for nothing. */
void hk_timer_rearm(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (r->tx_next != r->tx_una) {
		if (r->backoff == 0)
			hk_timer_arm(e, r, HK_TIMER_PROBE, now, probe_timeout(e, r));
		else
			hk_timer_arm(e, r, HK_TIMER_RESEND, now, hk_rto(e, r));
	} else if (hk_cc_below_one(r) && r->pausing) {
		hk_cc_pause(e, r, now);
	} else if (r->tx_edge == r->tx_next || hk_grant_missing(r)) {
		hk_timer_arm(e, r, HK_TIMER_CREDIT, now, hk_rto(e, r));
	} else if (hk_budget_waits(r) && !e->cfg.keepalive) {
		/* nobody else would notice that the sender of what waits is dead */
		hk_timer_arm(e, r, HK_TIMER_KEEPALIVE, now, e->cfg.peer_timeout / 4);
	} else if (e->cfg.keepalive && r->has_sent) {
		hk_timer_arm(e, r, HK_TIMER_KEEPALIVE, now, e->cfg.keepalive);
	} else {
		hk_timer_off(e, r);
	}
}

bool hk_timer_next_due(struct hk_engine *e, uint64_t now, hk_peer *p)
{
	for (;;) {
		uint32_t list;

		while (e->wheel.due != HK_NIL) {
			struct hk_peer_rec *r = hk_rec(e, e->wheel.due);

			unlink_timer(e, r);
			if (hk_timer_at(r) <= now) {
				*p = hk_index(e, r);
				return true;
			}
			place(e, r, tick_after(hk_timer_at(r)));
		}
		uint64_t tick = next_slot(e, &list);

		e->timer_min = tick == UINT64_MAX ? UINT64_MAX : tick << TICK_SHIFT;
		if (tick > now >> TICK_SHIFT)
			return false;
		e->wheel.tick = tick;
		e->wheel.due = e->wheel.slot[list >> SLOT_BITS][list & SLOT_MASK];
		hk_rec(e, e->wheel.due)->timer_prev = HEAD | DUE;
		e->wheel.slot[list >> SLOT_BITS][list & SLOT_MASK] = HK_NIL;
		e->wheel.used[list >> SLOT_BITS] &= ~(UINT64_C(1) << (list & SLOT_MASK));
	}
}

void hk_timer_init(struct hk_engine *e)
{
	memset(e->wheel.slot, 0xff, sizeof(e->wheel.slot)); /* HK_NIL */
	e->wheel.due = HK_NIL;
	e->timer_min = UINT64_MAX;
}

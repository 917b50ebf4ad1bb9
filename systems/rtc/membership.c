/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/membership.c: reacts to members that join, leave and restart.
 */
#include "rtc/internal.h"

/* From now on the node's numbers mean other messages. */
static void forget_numbers(struct hk_rtc *r, uint16_t node)
{
	for (unsigned i = 0; i < HK_RTC_MAX_TYPES; i++) {
		struct hk_rtc_type_state *t = &r->type[i];
		if (t->latest.number)
			t->latest.number[node] = t->latest_reply.number[node] = 0;
		if (t->once.peer)
			hk_rtc_once_forget(&t->once, node);
	}
	hk_rtc_replies_forget(&r->replies, node);
}

static void report_member(struct hk_rtc *r, uint16_t node, bool joined)
{
	r->topology_stale = true;
	if (r->on_member)
		r->on_member(r, r->arg, node, joined);
}

static void peer_left(struct hk_rtc *r, uint16_t node)
{
	struct hk_rtc_request q;

	while (hk_rtc_requests_drop_peer(&r->requests, node, &q)) {
		struct hk_rtc_type_state *t = &r->type[q.type];
		t->stats.given_up++;
		hk_rtc_buf_release(r, q.buf);
		if (t->on_given_up)
			t->on_given_up(r, t->arg, q.dst, q.number);
	}
	report_member(r, node, false);
}

bool hk_rtc_membership_input(struct hk_rtc *r, const struct hk_msg_hdr *h)
{
	if (h->type == HK_MSG_T_LEAVE) {
		if (hk_rtc_members_leave(&r->members, h->src, h->epoch) == HK_RTC_MEMBERS_LEFT) {
			r->stats.left++;
			peer_left(r, h->src);
		}
		return false;
	}
	enum hk_rtc_members_event news = hk_rtc_members_input(&r->members, h->src, h->epoch,
							      r->now);
	switch (news) {
	case HK_RTC_MEMBERS_RESTARTED:
		r->stats.lost++;
		report_member(r, h->src, false);
		/* fall through */
	case HK_RTC_MEMBERS_JOINED:
	case HK_RTC_MEMBERS_BACK:
		r->stats.joined++;
		if (news != HK_RTC_MEMBERS_BACK)
			forget_numbers(r, h->src);
		hk_rtc_send_control(r, h->src, HK_MSG_T_ALIVE, 0);
		report_member(r, h->src, true);
		break;
	case HK_RTC_MEMBERS_STALE:
		r->stats.not_member++;
		return false;
	default:
		if (h->type == HK_MSG_T_ALIVE && (h->ver_flags & HK_MSG_F_WANTS_REPLY))
			/* it does not know us yet */
			hk_rtc_send_control(r, h->src, HK_MSG_T_ALIVE, 0);
	}
	if (h->type < HK_RTC_MAX_TYPES)
		return true;
	r->stats.unknown_type += h->type != HK_MSG_T_ALIVE;
	return false;
}

static void send_alive(struct hk_rtc *r, uint16_t node)
{
	bool member = hk_rtc_members_contains(&r->members, node);

	if (!member)
		hk_rtc_send_greeting(r, node);
	if (!r->protect || r->protect->ready(r->protect, node))
		hk_rtc_send_control(r, node, HK_MSG_T_ALIVE, member ? 0 : HK_MSG_F_WANTS_REPLY);
}

/* Does only a few tasks in a round, so that reception goes on with any number of nodes. */
uint64_t hk_rtc_membership_work(struct hk_rtc *r)
{
	uint16_t node;

	for (unsigned i = 0; i < HK_RTC_BURST; i++) {
		switch (hk_rtc_members_poll(&r->members, r->now, &node)) {
		case HK_RTC_MEMBERS_SEND:
			send_alive(r, node);
			break;
		case HK_RTC_MEMBERS_LOST:
			r->stats.lost++;
			peer_left(r, node);
			break;
		default:
			return r->members.due;
		}
	}
	return r->now;
}

/* ---- public functions ------------------------------------------------------------------------ */

uint16_t hk_rtc_node(const struct hk_rtc *r)
{
	return r->self;
}

uint16_t hk_rtc_nodes(const struct hk_rtc *r)
{
	return r->nodes;
}

bool hk_rtc_is_member(const struct hk_rtc *r, uint16_t node)
{
	return hk_rtc_members_contains(&r->members, node);
}

unsigned hk_rtc_members(const struct hk_rtc *r)
{
	return r->members.count;
}

const uint16_t *hk_rtc_neighbours(const struct hk_rtc *rtc, unsigned *count)
{
	struct hk_rtc *r =
		(struct hk_rtc *)(uintptr_t)rtc; /* lazily computed, so logically const */
	if (r->topology_stale) {
		hk_rtc_topology_update(&r->topology, r->members.epoch);
		r->topology_stale = false;
	}
	*count = r->topology.count;
	return r->topology.neighbour;
}

int hk_rtc_pick(struct hk_rtc *r)
{
	unsigned n;
	const uint16_t *neighbour = hk_rtc_neighbours(r, &n);
	return n ? neighbour[hk_rtc_random_next(&r->rng) % n] : -1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/news.c: members that come, go and start again, and what that means for the rest of a node.
 */
#include "rtc/internal.h"

/* Its numbers mean other messages from now on. */
static void forget_numbers(struct hk_rtc *r, uint16_t node)
{
	for (unsigned i = 0; i < HK_RTC_MAX_TYPES; i++) {
		struct hk_rtc_type_state *t = &r->type[i];
		if (t->latest.number)
			t->latest.number[node] = t->latest_answer.number[node] = 0;
		if (t->once.peer)
			hk_once_forget(&t->once, node);
	}
	hk_answers_forget(&r->answers, node);
}

static void tell(struct hk_rtc *r, uint16_t node, bool joined)
{
	r->topology_stale = true;
	if (r->on_member)
		r->on_member(r, r->arg, node, joined);
}

static void gone(struct hk_rtc *r, uint16_t node)
{
	struct hk_question q;

	while (hk_asker_gone(&r->asker, node, &q)) {
		struct hk_rtc_type_state *t = &r->type[q.type];
		t->stats.given_up++;
		hk_rtc_release(r, q.buf);
		if (t->on_given_up)
			t->on_given_up(r, t->arg, q.dst, q.number);
	}
	tell(r, node, false);
}

bool hk_rtc_news(struct hk_rtc *r, const struct hk_msg_hdr *h)
{
	if (h->type == HK_MSG_T_LEAVE) {
		if (hk_members_leave(&r->members, h->src, h->epoch) == HK_MEMBERS_LEFT) {
			r->stats.left++;
			gone(r, h->src);
		}
		return false;
	}
	enum hk_members_news news = hk_members_input(&r->members, h->src, h->epoch, r->now);
	switch (news) {
	case HK_MEMBERS_ANEW:
		r->stats.lost++;
		tell(r, h->src, false);
		/* fall through */
	case HK_MEMBERS_JOINED:
	case HK_MEMBERS_BACK:
		r->stats.joined++;
		if (news != HK_MEMBERS_BACK)
			forget_numbers(r, h->src);
		hk_rtc_send_own(r, h->src, HK_MSG_T_ALIVE, 0);
		tell(r, h->src, true);
		break;
	case HK_MEMBERS_STALE:
		r->stats.not_member++;
		return false;
	default:
		if (h->type == HK_MSG_T_ALIVE && (h->ver_flags & HK_MSG_F_ASKS))
			hk_rtc_send_own(r, h->src, HK_MSG_T_ALIVE, 0); /* it has not seen us */
	}
	if (h->type < HK_RTC_MAX_TYPES)
		return true;
	r->stats.unknown_type += h->type != HK_MSG_T_ALIVE;
	return false;
}

/* Few in one round, so that receiving goes on however many nodes there are. */
uint64_t hk_rtc_members_work(struct hk_rtc *r)
{
	uint16_t node;

	for (unsigned i = 0; i < HK_RTC_BURST; i++) {
		switch (hk_members_poll(&r->members, r->now, &node)) {
		case HK_MEMBERS_SEND:
			hk_rtc_send_own(r, node, HK_MSG_T_ALIVE,
					hk_members_is(&r->members, node) ? 0 : HK_MSG_F_ASKS);
			break;
		case HK_MEMBERS_LOST:
			r->stats.lost++;
			gone(r, node);
			break;
		default:
			return r->members.due;
		}
	}
	return r->now;
}

/* ---- for users ------------------------------------------------------------------------------- */

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
	return hk_members_is(&r->members, node);
}

unsigned hk_rtc_members(const struct hk_rtc *r)
{
	return r->members.count;
}

const uint16_t *hk_rtc_neighbours(const struct hk_rtc *rtc, unsigned *count)
{
	struct hk_rtc *r =
		(struct hk_rtc *)(uintptr_t)rtc; /* what is computed late was there all the time */
	if (r->topology_stale) {
		hk_topology_update(&r->topology, r->members.epoch);
		r->topology_stale = false;
	}
	*count = r->topology.count;
	return r->topology.neighbour;
}

int hk_rtc_pick(struct hk_rtc *r)
{
	unsigned n;
	const uint16_t *neighbour = hk_rtc_neighbours(r, &n);
	return n ? neighbour[hk_draw(&r->rng) % n] : -1;
}

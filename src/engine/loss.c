/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/loss.c: what follows from an acknowledgement: releases, round-trip times, losses.
 *
 * DESIGN NOTES
 *
 * Problem: find lost packets soon, but do not resend to a peer that is merely slow to answer.
 *
 * Approach: time-based loss detection (RACK, RFC 8985). A packet is lost once a later packet has
 * arrived and the reordering window has passed as well. Each transmission has its own send time.
 * So the same rule applies to resends, and the engine finds a lost resend too.
 *
 * Classes: a network that serves small packets first (cfg.classes) lets them overtake bulk. There
 * only later bulk shows that bulk is lost. Bulk cannot overtake small packets.
 *
 * Several paths: packets of different paths may overtake each other freely, so this rule compares
 * only packets of the same path. A failed path delivers nothing, so its packets would never be
 * found that way. If the caller declares paths equal, there is therefore a second rule. A packet is
 * lost when a later one has arrived by another path and a whole resend timeout has passed.
 *
 * Tail: when no acknowledgement comes at all, a probe asks after about two round trips what has
 * arrived. If the peer's answer does not acknowledge the last packet, we resend that packet. Its
 * acknowledgement then shows which others are missing. If two probes stay unanswered, the resend
 * timer resends the first packet, alone and with back-off; RACK finds the rest. A peer that has
 * never answered may not know us, so the last packet is resent to it in place of the first probe.
 *
 * Rejected: RFC 8985's tail loss probe, which resends the last packet at once. Here a silent peer
 * has mostly lost its core to an application, and has not lost our packets. A resend would only
 * wait there together with the packets.
 */
#include "engine/internal.h"

/* Returns the reordering window: a quarter of the round trip (RFC 8985, 7.2 step 4), but longer
 * than the resolution of the clocks. srtt mixes the round trips of all paths; with several paths
 * the window therefore uses at least the round trip of the packet that arrived. */
#define HK_MIN_REORDER (2 * HK_USEC)

static uint64_t reorder_window(const struct hk_peer_rec *r, const struct hk_rack *rack)
{
	uint64_t way = HK_UNLIKELY(r->tx_others) ? HK_MAX(r->srtt, rack->rtt) : r->srtt;

	return HK_MAX(way / 4, HK_MIN_REORDER);
}

/* A peer that copies bulk, and also loses its core for a moment, is silent for up to two round
 * trips. silence_limit() therefore waits that long, but at most BULK_FACTOR times the caller's
 * limit. It does not do so for a few short frames, because then a long round trip only shows that
 * the peer was not polling. */
#define BULK_BYTES  (64u << 10) /* bytes in flight that count as bulk */
#define BULK_FACTOR 8

static uint64_t silence_limit(const struct hk_peer_rec *r, uint64_t now, uint64_t after)
{
	bool bulk = r->tx_bytes >= BULK_BYTES || (uint8_t)(hk_coarse_ms(now) - r->long_at) <= 1;

	return bulk ? HK_MAX(after, HK_MIN(2 * (uint64_t)r->srtt, BULK_FACTOR * after)) : after;
}

unsigned hk_engine_silent_peers(const struct hk_engine *e, uint64_t now, uint64_t after,
				unsigned skip, struct hk_silent_peer *out, unsigned max)
{
	unsigned n = 0;

	if (e->unacked == 0)
		return 0;
	for (uint32_t b = 0; b < e->tx_fresh && n < max; b++) {
		uint32_t p = *hk_tx_owner(e, b);

		if (p == HK_NIL)
			continue;
		const struct hk_peer_rec *r = hk_rec(e, p);
		uint64_t last = HK_MAX(r->progress_at, r->last_rx);

		if (r->tx_next != r->tx_una && now > last &&
		    now - last >= silence_limit(r, now, after)) {
			if (skip)
				skip--;
			else
				out[n++] = (struct hk_silent_peer){p, r->progress_at};
		}
	}
	return n;
}

/* ---- loss ---------------------------------------------------------------------------------- */

/* Adds @r to the list of peers whose lost packets the next poll resends. */
void hk_lost_enlist(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->in_lost_list)
		return;
	r->in_lost_list = 1;
	r->lost_next = e->lost_head;
	e->lost_head = hk_index(e, r);
}

void hk_loss_mark(struct hk_engine *e, struct hk_peer_rec *r, struct hk_tx_slot *s)
{
	s->state = HK_SLOT_LOST;
	r->in_flight--;
	r->lost++;
	hk_lost_enlist(e, r);
}

/* Returns whether @s was sent before the latest packet that is known to have arrived, and that
 * cannot have overtaken it. */
static bool sent_before(const struct hk_engine *e, const struct hk_rack *rack,
			const struct hk_tx_slot *s, uint32_t psn)
{
	bool bulk = HK_UNLIKELY(e->cfg.classes) && s->len >= HK_LONG_FRAME;
	uint64_t sent = bulk ? rack->bulk_sent : rack->sent;

	return s->sent_at < sent || (s->sent_at == sent && !s->resent &&
				     hk_psn_before(psn, bulk ? rack->bulk_psn : rack->psn));
}

/* The latest arrivals of all paths in use. */
struct rack_view {
	const struct hk_rack *rack[HK_PATHS];
	uint64_t timeout[HK_PATHS];
	uint64_t latest; /* send time of the latest arrival by any equal path, ns; 0: one path */
};

static void add_path(const struct hk_engine *e, struct hk_peer_rec *r, unsigned path,
		     struct rack_view *rack_view)
{
	rack_view->rack[path] = hk_rack(e, r, path);
	rack_view->timeout[path] = rack_view->rack[path]->rtt +
				   reorder_window(r, rack_view->rack[path]);
	if (HK_UNLIKELY(r->tx_equal))
		rack_view->latest = HK_MAX(rack_view->latest, rack_view->rack[path]->sent);
}

void hk_loss_detect(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	uint64_t soonest = UINT64_MAX;
	struct rack_view rack_view;
	bool any = false;

	rack_view.latest = 0;
	add_path(e, r, 0, &rack_view);
	for (unsigned left = r->tx_others; HK_UNLIKELY(left); left &= left - 1)
		add_path(e, r, (unsigned)__builtin_ctz(left), &rack_view);

	for (uint32_t psn = r->tx_una; psn != r->tx_next; psn++) {
		struct hk_tx_slot *s = hk_tx_slot(e, r, psn);
		uint64_t lost_at;

		if (s->state != HK_SLOT_IN_FLIGHT)
			continue;
		if (sent_before(e, rack_view.rack[s->path], s, psn))
			lost_at = s->sent_at + rack_view.timeout[s->path];
		else if (HK_UNLIKELY(s->sent_at < rack_view.latest))
			lost_at = s->sent_at + hk_rto(e, r);
		else
			continue;

		if (lost_at <= now) {
			hk_loss_mark(e, r, s);
			e->n.loss_time++;
			any = true;
		} else {
			soonest = HK_MIN(soonest, lost_at - now);
		}
	}
	if (any)
		hk_cc_lost(e, r, now);
	if (soonest != UINT64_MAX)
		hk_timer_arm(e, r, HK_TIMER_REORDER, now, soonest);
}

void hk_engine_peer_paths(struct hk_engine *e, hk_peer p, uint8_t mask)
{
	struct hk_peer_rec *r = hk_rec(e, p);

	r->tx_equal = mask;
	if (!mask)
		return;
	for (uint32_t psn = r->tx_una; psn != r->tx_next; psn++) {
		struct hk_tx_slot *s = hk_tx_slot(e, r, psn);

		if (s->state == HK_SLOT_IN_FLIGHT && !(mask & 1u << s->path))
			hk_loss_mark(e, r, s);
	}
}

bool hk_last_in_flight(const struct hk_engine *e, const struct hk_peer_rec *r, uint64_t before,
		       uint32_t *psn)
{
	for (*psn = r->tx_next; (*psn)-- != r->tx_una;) {
		const struct hk_tx_slot *s = hk_tx_slot(e, r, *psn);

		if (s->state == HK_SLOT_IN_FLIGHT && s->sent_at <= before && !hk_out_of_reach(e, s))
			return true;
	}
	return false;
}

/* The peer answered a probe and acknowledged nothing new: the last packet sent before the probe is
 * lost. We mark only one packet, because this frame may not be the answer yet; the arrival of the
 * resend shows whether earlier ones are lost. If the window is full we mark the first packet
 * instead, since no other would be resent. */
static void probe_answered(struct hk_engine *e, struct hk_peer_rec *r)
{
	struct hk_tx_slot *first = hk_tx_slot(e, r, r->tx_una);
	uint32_t last;

	r->probed = HK_PROBE_ANSWERED;
	if (!hk_last_in_flight(e, r, r->probed_at - 1, &last))
		return;
	bool full = r->in_flight > r->cwnd >> 8 && first->state == HK_SLOT_IN_FLIGHT &&
		    first->sent_at < r->probed_at && !hk_out_of_reach(e, first);

	hk_loss_mark(e, r, full ? first : hk_tx_slot(e, r, last));
	e->n.loss_time++;
}

static bool awaits_answer(const struct hk_peer_rec *r)
{
	return r->probed == HK_PROBED_ONCE || r->probed == HK_PROBED_TWICE;
}

/* Returns whether the frame answers our probe. The peer sent it after the probe, or a later frame
 * of ours, had arrived. Other acknowledgements may have been on their way, such as grants. */
static bool is_answer(const struct hk_peer_rec *r, uint64_t age, uint64_t now)
{
	const uint64_t rounding = UINT64_C(2) << HK_WIRE_TS_SHIFT;

	return age && now - age + rounding >= r->probed_at;
}

/* ---- acknowledgements ---------------------------------------------------------------------- */

/* The minimum is that of this period and of the one before, so it follows a longer route later.
 * Only a queue that is never empty for two periods hides the true minimum. */
#define MIN_PERIOD_SHIFT 33 /* 8.6 s */

static void min_sample(struct hk_peer_rec *r, uint32_t rtt, uint64_t now)
{
	uint8_t period = (uint8_t)(now >> MIN_PERIOD_SHIFT);

	if (HK_LIKELY(rtt >= r->min_now && period == r->min_period))
		return;
	if (period != r->min_period) {
		r->min_period = period;
		r->min_rtt = r->min_now;
		r->min_now = rtt;
	}
	r->min_now = HK_MIN(r->min_now, rtt);
	r->min_rtt = HK_MIN(r->min_rtt, rtt);
}

static void smooth(struct hk_peer_rec *r, uint32_t rtt, uint64_t now)
{
	if (!r->srtt) {
		r->srtt = r->min_rtt = r->min_now = rtt;
		r->rttvar = rtt / 2;
		r->min_period = (uint8_t)(now >> MIN_PERIOD_SHIFT);
		return;
	}
	uint32_t diff = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;

	r->rttvar += (diff >> 2) - (r->rttvar >> 2); /* RFC 6298: beta 1/4, alpha 1/8 */
	r->srtt += (rtt >> 3) - (r->srtt >> 3);      /* not 0, as the clock has units of 16 ns */
	min_sample(r, rtt, now);
}

static void rtt_sample(struct hk_engine *e, struct hk_peer_rec *r, uint64_t age, uint64_t now)
{
	uint32_t rtt = (uint32_t)age;

	if (rtt == 0)
		return;
	r->last_rtt = rtt;
	smooth(r, rtt, now);
	/* the longest is forgotten over some hundred samples */
	e->slow_rtt = HK_MAX(r->srtt, e->slow_rtt - (e->slow_rtt >> 6));
}

/* Was packet @psn sent after the one of *@sent and *@last? Then it takes its place. */
static bool is_latest(const struct hk_tx_slot *s, uint32_t psn, uint64_t *sent, uint32_t *last)
{
	if (s->sent_at < *sent || (s->sent_at == *sent && !hk_psn_before(*last, psn)))
		return false;
	*sent = s->sent_at;
	*last = psn;
	return true;
}

/* Handles the news that one packet has arrived: releases its buffer, and updates the latest arrival
 * of its path. */
static void slot_acked(struct hk_engine *e, struct hk_peer_rec *r, struct hk_tx_slot *s,
		       uint32_t psn, uint64_t now, uint64_t age)
{
	if (s->state == HK_SLOT_IN_FLIGHT)
		r->in_flight--;
	else
		r->lost--;
	s->state = HK_SLOT_ACKED;
	r->tx_bytes -= s->len;
	hk_done_push(e, s->token);
	/* the acknowledged packet was sent before the resend: it is the original, which was late */
	if (s->resent && age > now - s->sent_at) {
		hk_cc_spurious(r);
		return;
	}
	struct hk_rack *rack = hk_rack(e, r, s->path);

	if (HK_UNLIKELY(e->cfg.classes) && s->len >= HK_LONG_FRAME)
		(void)is_latest(s, psn, &rack->bulk_sent, &rack->bulk_psn);
	if (is_latest(s, psn, &rack->sent, &rack->psn))
		rack->rtt = (uint32_t)HK_MIN(now - s->sent_at, UINT64_C(1) << 30);
}

static unsigned release_cumulative(struct hk_engine *e, struct hk_peer_rec *r, uint32_t ack,
				   uint64_t now, uint64_t age)
{
	unsigned newly = 0;

	e->unacked -= ack - r->tx_una;
	for (uint32_t psn = r->tx_una; psn != ack; psn++) {
		struct hk_tx_slot *s = hk_tx_slot(e, r, psn);

		if (s->state == HK_SLOT_ACKED) {
			r->sacked--;
			continue;
		}
		slot_acked(e, r, s, psn, now, age);
		newly++;
	}
	if (r->tx_una != ack)
		r->progress_at = now;
	r->tx_una = ack;
	return newly;
}

static unsigned release_selective(struct hk_engine *e, struct hk_peer_rec *r,
				  const struct hk_wire_sack *sack, uint64_t now, uint64_t age)
{
	uint32_t flying = r->tx_next - r->tx_una;
	unsigned newly = 0;

	for (unsigned w = 0; w < HK_ARRAY_LEN(sack->bits); w++) {
		uint64_t bits = sack->bits[w];

		for (; bits; bits &= bits - 1) {
			uint32_t i = w * 64u + (uint32_t)__builtin_ctzll(bits);

			if (i >= flying) /* a number that we never sent: an invalid bitmap */
				return newly;
			struct hk_tx_slot *s = hk_tx_slot(e, r, r->tx_una + i);

			if (s->state == HK_SLOT_ACKED)
				continue;
			slot_acked(e, r, s, r->tx_una + i, now, age);
			r->sacked++;
			newly++;
		}
	}
	return newly;
}

void hk_loss_ack(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f, uint64_t now)
{
	uint32_t ack = f->h.ack;

	if (ack - r->tx_una > r->tx_next - r->tx_una) {
		/* Before una, the frame was overtaken by a newer one. Otherwise it acknowledges a
		 * packet that we never sent. */
		if (!hk_psn_before(ack, r->tx_una))
			e->n.drop_window++;
		return;
	}
	r->not_polling = (f->h.flags & HK_WIRE_F_NOT_POLLING) != 0;
	if (HK_UNLIKELY(r->not_polling)) /* such a peer is not stuck */
		r->progress_at = now;
	uint32_t edge = ack + HK_MIN(f->h.credit, e->cfg.window);
	bool opened = false;

	if (hk_psn_before(r->tx_edge, edge)) {
		opened = r->tx_edge == r->tx_next;
		r->tx_edge = edge;
	}
	if (r->tx_next == r->tx_una) { /* nothing was in flight */
		if (opened || (r->backoff && r->timer == HK_TIMER_KEEPALIVE)) {
			r->backoff = 0;
			hk_timer_rearm(e, r, now);
		}
		return;
	}
	uint64_t age = hk_echo_age(f->h.tsecr, now);
	unsigned newly = release_cumulative(e, r, ack, now, age);

	if (f->h.type == HK_WIRE_ACK)
		newly += release_selective(e, r, &f->sack, now, age);
	if (newly) {
		rtt_sample(e, r, age, now);
		if (!(f->h.flags & HK_WIRE_F_NOT_POLLING))
			hk_cc_acked(e, r, newly, now);
		if (HK_UNLIKELY(f->h.marks != r->tx_marks || r->marked_part))
			hk_cc_marks(e, r, newly, f->h.marks, now);
		r->backoff = 0;
		r->probed = HK_PROBED_NOT;
	} else if (HK_UNLIKELY(awaits_answer(r)) && is_answer(r, age, now)) {
		probe_answered(e, r);
	}
	if (r->tx_una == r->tx_next) {
		if (hk_cc_below_one(r))
			r->pausing = 1;
		hk_tx_block_release(e, r);
		hk_timer_rearm(e, r, now);
		return;
	}
	if (!newly && !opened)
		return;
	if (r->lost) /* a full window may have stopped their resends */
		hk_lost_enlist(e, r);
	hk_timer_rearm(e, r, now);
	const struct hk_tx_slot *first = hk_tx_slot(e, r, r->tx_una);

	if (r->sacked || first->sent_at < hk_rack(e, r, first->path)->sent)
		hk_loss_detect(e, r, now);
}

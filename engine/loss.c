/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/loss.c: what an acknowledgement tells: what to release, how long the way is, what is lost.
 *
 * Loss is found by time, as RACK does (RFC 8985): a packet is lost once one that was sent after
 * it has arrived and the reordering window has passed as well. Where the caller sends by several paths,
 * only packets of the same path tell of each other so soon; those of another, if the paths are as good as each
 * other, only after a whole resend timeout, since a path that is dead tells nothing. Packets carry their own number of
 * transmission time, so resends are judged like first sends, and a lost resend is found too.
 * When nothing comes back at all, a tail probe asks after about two round trips what has come. RFC 8985 resends the
 * last packet for that; but a peer that says nothing has rather lost its core than our packets, so we wait for a
 * sign of life: an answer that knows nothing of the last packet has it resent, and the acknowledgement of that
 * shows what else is missing. Only when two questions stay without an answer the resend timer resends the first
 * packet, alone, with back-off, and leaves the rest to RACK.
 */
#include "engine/internal.h"

/* A reordering window of a quarter round trip (RFC 8985, 7.2 step 4), and never so short that
 * the clock's grain decides. Of several paths the round trip is measured together: so at least of that of
 * the packet which arrived. */
#define HK_MIN_REORDER (2 * HK_USEC)

static uint64_t reorder_window(const struct hk_peer_rec *r, const struct hk_rack *rack)
{
	uint64_t way = HK_UNLIKELY(r->tx_others) ? HK_MAX(r->srtt, rack->rtt) : r->srtt;

	return HK_MAX(way / 4, HK_MIN_REORDER);
}

/* How much longer we wait for a peer whose application is away. Whoever answers for it wakes up now and then,
 * and may share its core with that application: a slice of a scheduler's is some milliseconds. */
#define HK_AWAY_PATIENCE 4

static uint64_t rto_floor(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	return HK_UNLIKELY(r->away) ? e->cfg.min_rto * HK_AWAY_PATIENCE : e->cfg.min_rto;
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

static uint64_t probe_timeout(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	if (!r->srtt)
		return HK_MIN(e->cfg.initial_rto, e->cfg.max_rto);
	if (HK_UNLIKELY(r->away))
		return hk_rto(e, r);
	return HK_MAX(2 * (uint64_t)r->srtt + 2 * e->cfg.ack_delay, e->cfg.min_rto / 8);
}

/* ---- timers -------------------------------------------------------------------------------- */

void hk_timer_arm(struct hk_engine *e, struct hk_peer_rec *r, enum hk_timer kind, uint64_t now,
		  uint64_t after)
{
	r->timer = (uint8_t)kind;
	r->timer_armed = now;
	r->timer_at = now + after;
	e->timer_min = HK_MIN(e->timer_min, r->timer_at);
	if (r->in_active_list)
		return;
	uint32_t p = hk_index(e, r);

	r->in_active_list = 1;
	r->active_prev = HK_NIL;
	r->active_next = e->active_head;
	if (e->active_head != HK_NIL)
		hk_rec(e, e->active_head)->active_prev = p;
	e->active_head = p;
}

void hk_timer_off(struct hk_engine *e, struct hk_peer_rec *r)
{
	r->timer = HK_TIMER_NONE;
	if (!r->in_active_list)
		return;
	r->in_active_list = 0;
	if (r->active_prev == HK_NIL)
		e->active_head = r->active_next;
	else
		hk_rec(e, r->active_prev)->active_next = r->active_next;
	if (r->active_next != HK_NIL)
		hk_rec(e, r->active_next)->active_prev = r->active_prev;
}

/* Arms the timer that fits what we wait for now. */
void hk_timer_rearm(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (r->tx_next != r->tx_una) {
		if (r->backoff == 0)
			hk_timer_arm(e, r, HK_TIMER_PROBE, now, probe_timeout(e, r));
		else
			hk_timer_arm(e, r, HK_TIMER_RESEND, now, hk_rto(e, r));
	} else if (r->tx_edge == r->tx_next) {
		hk_timer_arm(e, r, HK_TIMER_CREDIT, now, hk_rto(e, r));
	} else if (r->rx_frags && !e->cfg.keepalive) {
		/* the rest of a message is awaited, and what came of it takes up a block */
		hk_timer_arm(e, r, HK_TIMER_KEEPALIVE, now, e->cfg.peer_timeout / 4);
	} else if (e->cfg.keepalive && r->talked) {
		hk_timer_arm(e, r, HK_TIMER_KEEPALIVE, now, e->cfg.keepalive);
	} else {
		hk_timer_off(e, r);
	}
}

/* Who copies bulk, and loses its core for a moment besides, is silent for up to two round trips. That counts up to so many
 * times what the caller asks for. The round trips of a few short frames do not: those to a peer that was away were long
 * because of that. */
#define UNHEARD_BULK (64u << 10) /* bytes under way; or a long frame has just come */
#define UNHEARD_MOST 8

static uint64_t unheard_patience(const struct hk_peer_rec *r, uint64_t now, uint64_t after)
{
	bool bulk = r->tx_bytes >= UNHEARD_BULK || (uint8_t)(hk_long_time(now) - r->long_at) <= 1;

	return bulk ? HK_MAX(after, HK_MIN(2 * (uint64_t)r->srtt, UNHEARD_MOST * after)) : after;
}

unsigned hk_engine_unheard(const struct hk_engine *e, uint64_t now, uint64_t after, unsigned skip,
			   struct hk_unheard *out, unsigned max)
{
	unsigned n = 0;

	if (e->unacked == 0)
		return 0;
	for (uint32_t p = e->active_head; p != HK_NIL && n < max;) {
		const struct hk_peer_rec *r = hk_rec(e, p);
		uint64_t last = HK_MAX(r->progress_at, r->last_heard);

		if (r->tx_next != r->tx_una && now > last &&
		    now - last >= unheard_patience(r, now, after)) {
			if (skip)
				skip--;
			else
				out[n++] = (struct hk_unheard){p, r->progress_at};
		}
		p = r->active_next;
	}
	return n;
}

/* ---- loss ---------------------------------------------------------------------------------- */

/* Puts @r to those whose losses the next poll resends. */
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

/* Was @s sent before the packet that is known to have arrived? */
static bool sent_before(const struct hk_rack *rack, const struct hk_tx_slot *s, uint32_t psn)
{
	return s->sent_at < rack->sent ||
	       (s->sent_at == rack->sent && !s->resent && hk_psn_before(psn, rack->psn));
}

/* What all paths tell. */
struct seen {
	const struct hk_rack *rack[HK_PATHS];
	uint64_t patience[HK_PATHS];
	uint64_t
		latest; /* what arrived by any of several equal paths was sent then at the latest; 0: one path */
};

static void look_at(const struct hk_engine *e, struct hk_peer_rec *r, unsigned path,
		    struct seen *seen)
{
	seen->rack[path] = hk_rack(e, r, path);
	seen->patience[path] = seen->rack[path]->rtt + reorder_window(r, seen->rack[path]);
	if (HK_UNLIKELY(r->tx_equal))
		seen->latest = HK_MAX(seen->latest, seen->rack[path]->sent);
}

void hk_loss_detect(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	uint64_t soonest = UINT64_MAX;
	struct seen seen;
	bool any = false;

	seen.latest = 0;
	look_at(e, r, 0, &seen);
	for (unsigned left = r->tx_others; HK_UNLIKELY(left); left &= left - 1)
		look_at(e, r, (unsigned)__builtin_ctz(left), &seen);

	for (uint32_t psn = r->tx_una; psn != r->tx_next; psn++) {
		struct hk_tx_slot *s = hk_tx_slot(e, r, psn);
		uint64_t lost_at;

		if (s->state != HK_SLOT_FLYING)
			continue;
		if (sent_before(seen.rack[s->path], s, psn))
			lost_at = s->sent_at + seen.patience[s->path];
		else if (HK_UNLIKELY(s->sent_at < seen.latest))
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

		if (s->state == HK_SLOT_FLYING && !(mask & 1u << s->path))
			hk_loss_mark(e, r, s);
	}
}

bool hk_last_flying(const struct hk_engine *e, const struct hk_peer_rec *r, uint64_t before,
		    uint32_t *psn)
{
	for (*psn = r->tx_next; (*psn)-- != r->tx_una;) {
		const struct hk_tx_slot *s = hk_tx_slot(e, r, *psn);

		if (s->state == HK_SLOT_FLYING && s->sent_at <= before && !hk_out_of_reach(e, s))
			return true;
	}
	return false;
}

/* It was asked what has come, and its answer brings nothing new: what was last sent before the question is lost.
 * One packet alone, since this may not be the answer yet; when it arrives it tells of those before. With a full
 * window it is the first, which alone is resent then. */
static void answered(struct hk_engine *e, struct hk_peer_rec *r)
{
	struct hk_tx_slot *first = hk_tx_slot(e, r, r->tx_una);
	uint32_t last;

	r->asked = HK_ASKED_HEARD;
	if (!hk_last_flying(e, r, r->timer_armed - 1, &last))
		return;
	bool full = r->in_flight > r->cwnd >> 8 && first->state == HK_SLOT_FLYING &&
		    !hk_out_of_reach(e, first);

	hk_loss_mark(e, r, full ? first : hk_tx_slot(e, r, last));
	e->n.loss_time++;
}

static bool waits_for_answer(const struct hk_peer_rec *r)
{
	return (r->asked == HK_ASKED_ONCE || r->asked == HK_ASKED_TWICE) &&
	       r->timer == HK_TIMER_RESEND;
}

/* Is it the answer to a question? An acknowledgement alone is; so is what carries one, data or a question of its
 * own (which take its place), if it was sent when ours must have been there. */
static bool is_answer(const struct hk_peer_rec *r, const struct hk_frame *f, uint64_t age,
		      uint64_t now)
{
	return (f->h.type == HK_WIRE_ACK && !(f->h.flags & HK_WIRE_F_ACK_NOW)) ||
	       (age && now - age >= r->timer_armed);
}

/* ---- acknowledgements ---------------------------------------------------------------------- */

/* How long ago, in ns, the packet was sent that made the peer send this acknowledgement; without the
 * time it was held there. 0: it does not say. */
static uint64_t echo_age(uint32_t tsecr, uint64_t now)
{
	uint32_t ticks = (uint32_t)(now >> HK_WIRE_TS_SHIFT) - tsecr;

	if (tsecr == 0 || ticks > UINT32_C(1) << 26) /* over a second: not a round trip */
		return 0;
	return (uint64_t)HK_MAX(ticks, 1u) << HK_WIRE_TS_SHIFT;
}

static void rtt_sample(struct hk_peer_rec *r, uint64_t age)
{
	uint32_t rtt = (uint32_t)age;

	if (rtt == 0)
		return;
	r->last_rtt = rtt;
	if (!r->srtt) {
		r->srtt = r->min_rtt = rtt;
		r->rttvar = rtt / 2;
		return;
	}
	uint32_t diff = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;

	r->rttvar += (diff >> 2) - (r->rttvar >> 2); /* RFC 6298: beta 1/4, alpha 1/8 */
	r->srtt += (rtt >> 3) - (r->srtt >> 3);
	if (r->srtt == 0)
		r->srtt = 1;
	/* the minimum forgets slowly, since routes change */
	if (rtt < r->min_rtt)
		r->min_rtt = rtt;
	else
		r->min_rtt += (rtt - r->min_rtt) >> 12;
}

/* One packet is known to have arrived: its buffer is free, and it may be RACK's latest. */
static void slot_acked(struct hk_engine *e, struct hk_peer_rec *r, struct hk_tx_slot *s,
		       uint32_t psn, uint64_t now, uint64_t age)
{
	if (s->state == HK_SLOT_FLYING)
		r->in_flight--;
	else
		r->lost--;
	s->state = HK_SLOT_ACKED;
	r->tx_bytes -= s->len;
	hk_done_push(e, s->token);
	/* what was acknowledged had been sent before the resend: it was the original, merely late */
	if (s->resent && age > now - s->sent_at) {
		hk_cc_spurious(r);
		return;
	}
	struct hk_rack *rack = hk_rack(e, r, s->path);

	if (s->sent_at > rack->sent ||
	    (s->sent_at == rack->sent && hk_psn_before(rack->psn, psn))) {
		rack->sent = s->sent_at;
		rack->psn = psn;
		rack->rtt = (uint32_t)HK_MIN(now - s->sent_at, UINT64_C(1) << 30);
	}
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

			if (i >= flying) /* a number never sent: hostile or damaged */
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
		/* before una: it was overtaken by a newer one. Otherwise it is for a packet that
		 * we never sent. */
		if (!hk_psn_before(ack, r->tx_una))
			e->n.drop_window++;
		return;
	}
	r->away = (f->h.flags & HK_WIRE_F_AWAY) != 0;
	if (HK_UNLIKELY(r->away)) /* not stuck: its application is away */
		r->progress_at = now;
	uint32_t edge = ack + HK_MIN(f->h.window, e->cfg.window);
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
	uint64_t age = echo_age(f->h.tsecr, now);
	unsigned newly = release_cumulative(e, r, ack, now, age);

	if (f->h.type == HK_WIRE_ACK)
		newly += release_selective(e, r, &f->sack, now, age);
	if (newly) {
		rtt_sample(r, age);
		if (!(f->h.flags & HK_WIRE_F_AWAY))
			hk_cc_acked(e, r, newly, now);
		r->backoff = 0;
		r->asked = HK_ASKED_NOT;
	} else if (HK_UNLIKELY(waits_for_answer(r)) && is_answer(r, f, age, now)) {
		answered(e, r);
	}
	if (r->tx_una == r->tx_next) {
		hk_tx_block_release(e, r);
		hk_timer_rearm(e, r, now);
		return;
	}
	if (!newly && !opened)
		return;
	if (r->lost) /* resends that a full window stopped */
		hk_lost_enlist(e, r);
	hk_timer_rearm(e, r, now);
	const struct hk_tx_slot *first = hk_tx_slot(e, r, r->tx_una);

	if (r->sacked || first->sent_at < hk_rack(e, r, first->path)->sent)
		hk_loss_detect(e, r, now);
}

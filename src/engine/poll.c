/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/poll.c: frames that are due because time has passed or a packet was lost.
 *
 * Each poll first tests four words: whether anything is urgent, and whether a deadline has passed.
 * Mostly it returns then; the rest of this file runs only in the few polls that have work.
 */
#include "engine/internal.h"

/* A stuck peer must have ignored so many resends, besides the time that has passed. Otherwise a
 * process that was stopped for a minute would give all peers up when it continues. */
#define HK_STUCK_RESENDS 10

bool hk_engine_urgent(const struct hk_engine *e)
{
	return e->lost_head != HK_NIL || e->reset_wanted || e->bye_next < e->peers;
}

uint64_t hk_engine_deadline(const struct hk_engine *e)
{
	if (hk_engine_urgent(e))
		return 0;
	uint64_t ack = e->ack_head == HK_NIL ? UINT64_MAX : hk_rec(e, e->ack_head)->ack_due;

	return HK_MIN(HK_MIN(ack, e->timer_min), HK_MIN(e->grant.due, e->send_due));
}

/* ---- resends ------------------------------------------------------------------------------- */

/* Returns the next of the equal paths after @path. */
static unsigned next_path(const struct hk_peer_rec *r, unsigned path)
{
	do
		path = (path + 1) % HK_PATHS;
	while (!(r->tx_equal & 1u << path));
	return path;
}

static void emit_resend(struct hk_engine *e, struct hk_peer_rec *r, uint32_t psn, uint64_t now,
			struct hk_out *o)
{
	struct hk_tx_slot *s = hk_tx_slot(e, r, psn);
	struct hk_wire_hdr h;

	if (HK_UNLIKELY(r->tx_equal)) {
		s->path = next_path(r, s->path) & 7u;
		if (s->path)
			hk_path_used(e, r, s->path);
	}
	o->path = s->path;
	hk_hdr_fill(e, r, now, &h);
	h.type = s->type;
	h.flags |= HK_WIRE_F_RESENT | HK_WIRE_F_ACK_NOW;
	if (hk_is_bulk(e, s->len))
		h.flags |= HK_WIRE_F_BULK;
	h.len = s->len;
	h.psn = psn;
	h.am = s->am;
	h.frag = s->frag;
	h.frags = s->frags;
	s->sent_at = now;
	s->resent += s->resent < UINT8_MAX;
	o->kind = HK_OUT_RESEND;
	o->peer = hk_index(e, r);
	o->token = s->token;
	o->len = HK_WIRE_HLEN;
	hk_wire_hdr_encode(o->bytes, &h);
	e->n.tx_resends++;
}

void hk_engine_set_proxy(struct hk_engine *e, bool on)
{
	e->by_proxy = on;
	if (on || HK_LIKELY(!e->borrowed_lost))
		return;
	e->borrowed_lost = false;
	for (uint32_t b = 0; b < e->tx_fresh; b++) {
		uint32_t p = *hk_tx_owner(e, b);

		if (p != HK_NIL && hk_rec(e, p)->lost)
			hk_lost_enlist(e, hk_rec(e, p));
	}
}

/* Returns whether the peer answers, but never receives its first packet despite many resends. */
static bool stuck(const struct hk_engine *e, const struct hk_peer_rec *r, uint64_t now)
{
	const struct hk_tx_slot *first = hk_tx_slot(e, r, r->tx_una);

	return now - r->progress_at > 2 * e->cfg.peer_timeout &&
	       first->resent >= HK_STUCK_RESENDS && !hk_out_of_reach(e, first);
}

/* Resends lost packets, peer by peer, within each congestion window. A peer's first packet is
 * resent even if the window is full, because nothing progresses without it. */
static unsigned poll_lost(struct hk_engine *e, uint64_t now, struct hk_out *out, unsigned max)
{
	unsigned n = 0;

	while (e->lost_head != HK_NIL && n < max) {
		struct hk_peer_rec *r = hk_rec(e, e->lost_head);
		bool full = false;

		if (HK_UNLIKELY(r->lost && stuck(e, r, now))) {
			hk_peer_end(e, r, HK_PEER_DEAD, HK_DISCONNECT_STUCK); /* unlinks it */
			continue;
		}

		for (uint32_t psn = r->tx_una; psn != r->tx_next && r->lost && n < max; psn++) {
			struct hk_tx_slot *s = hk_tx_slot(e, r, psn);

			if (s->state != HK_SLOT_LOST)
				continue;
			if (hk_out_of_reach(e, s)) {
				e->borrowed_lost = true;
				continue;
			}
			full = r->in_flight >= r->cwnd >> 8 && psn != r->tx_una;
			if (full)
				break;
			s->state = HK_SLOT_IN_FLIGHT;
			r->lost--;
			r->in_flight++;
			emit_resend(e, r, psn, now, &out[n++]);
		}
		if (r->timer == HK_TIMER_NONE)
			hk_timer_rearm(e, r, now);
		if (r->lost && !full && n == max)
			break; /* the next poll continues with this peer */
		/* With a full window the other packets wait for an acknowledgement: hk_loss_ack()
		 * puts the peer back into the list. For packets that a progress proxy cannot read,
		 * hk_engine_set_proxy() does. */
		r->in_lost_list = 0;
		e->lost_head = r->lost_next;
	}
	return n;
}

/* ---- timers -------------------------------------------------------------------------------- */

/* Adds the time that we have just waited without an answer, and returns whether the sum is too
 * long. A wait counts at most twice its intended length: if we slept, the peer was not silent. */
static bool silent_too_long(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	uint64_t meant = hk_timer_at(r) - r->timer_armed;

	r->silent += HK_MIN(now - r->timer_armed, 2 * meant);
	return r->silent >= e->cfg.peer_timeout;
}

static void back_off(struct hk_peer_rec *r)
{
	if (r->backoff < UINT8_MAX)
		r->backoff++;
}

/* Emits a probe: the peer answers it at once if it is alive. */
static unsigned emit_probe(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now,
			   struct hk_out *o)
{
	hk_ack_emit(e, r, now, HK_WIRE_F_ACK_NOW, o);
	return 1;
}

/* Emits a probe after packets that nothing has acknowledged. A peer that runs answers at once, and
 * hk_loss_ack() then finds what to resend. A peer that does not run would receive a resend no
 * sooner than the packet itself. */
static unsigned emit_tail_probe(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now,
				struct hk_out *o)
{
	uint32_t last;

	r->probed++;
	r->probed_at = now;
	emit_probe(e, r, now, o);
	o->kind = HK_OUT_TAIL_PROBE;
	o->path = hk_last_in_flight(e, r, now, &last) ? hk_tx_slot(e, r, last)->path : 0;
	return 1;
}

static unsigned fire_probe(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now,
			   struct hk_out *o)
{
	uint32_t last;

	hk_timer_arm(e, r, HK_TIMER_RESEND, now, hk_rto(e, r));
	/* A peer that never answered may not know us yet: only a packet introduces us. With several
	 * equal paths, one may have failed: a resend takes the next. */
	if (r->probed == HK_PROBED_NOT && r->srtt && !r->tx_equal)
		return emit_tail_probe(e, r, now, o);
	if (hk_last_in_flight(e, r, now, &last)) {
		emit_resend(e, r, last, now, o);
		return 1;
	}
	return HK_UNLIKELY(e->by_proxy) ? emit_probe(e, r, now, o) : 0;
}

static unsigned fire_resend(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now,
			    struct hk_out *o)
{
	struct hk_tx_slot *s = hk_tx_slot(e, r, r->tx_una);
	bool once_more = r->probed == HK_PROBED_ONCE && !r->lost;

	if (!once_more && s->state == HK_SLOT_IN_FLIGHT) {
		hk_loss_mark(e, r, s);
		e->n.loss_rto++;
		hk_cc_timeout(e, r, now);
	}
	back_off(r);
	hk_timer_arm(e, r, HK_TIMER_RESEND, now, hk_rto(e, r));
	if (once_more)
		return emit_tail_probe(e, r, now, o);
	return hk_out_of_reach(e, s) ? emit_probe(e, r, now, o) : 0;
}

static unsigned fire_idle_probe(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now,
				struct hk_out *o)
{
	enum hk_timer kind = r->timer;

	/* if a frame has come meanwhile, the peer is alive: probe later */
	uint64_t quiet = e->cfg.keepalive ? e->cfg.keepalive : e->cfg.peer_timeout / 4;

	if (kind == HK_TIMER_KEEPALIVE && r->last_rx + quiet > now) {
		r->backoff = 0;
		if (e->cfg.keepalive || hk_budget_waits(r))
			hk_timer_arm(e, r, kind, now, r->last_rx + quiet - now);
		else
			hk_timer_off(e, r);
		return 0;
	}
	back_off(r);
	hk_timer_arm(e, r, kind, now, hk_rto(e, r));
	return emit_probe(e, r, now, o);
}

static unsigned fire(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, struct hk_out *o)
{
	enum hk_timer kind = r->timer;
	bool asked = kind == HK_TIMER_RESEND || (kind >= HK_TIMER_CREDIT && r->backoff);

	if (asked && silent_too_long(e, r, now)) {
		hk_peer_end(e, r, HK_PEER_DEAD, HK_DISCONNECT_SILENT);
		return 0;
	}
	switch (kind) {
	case HK_TIMER_PROBE:
		return fire_probe(e, r, now, o);
	case HK_TIMER_RESEND:
		return fire_resend(e, r, now, o);
	case HK_TIMER_REORDER:
		hk_timer_rearm(e, r, now);
		hk_loss_detect(e, r, now);
		break;
	case HK_TIMER_PACE:
		r->pausing = 0;
		hk_timer_rearm(e, r, now);
		e->send_due = now + 1; /* after this poll */
		break;
	case HK_TIMER_CREDIT:
	case HK_TIMER_KEEPALIVE:
		return fire_idle_probe(e, r, now, o);
	case HK_TIMER_NONE:
		break;
	}
	return 0;
}

static unsigned poll_timers(struct hk_engine *e, uint64_t now, struct hk_out *out, unsigned max)
{
	unsigned n = 0;
	hk_peer p;

	while (n < max && hk_timer_next_due(e, now, &p))
		n += fire(e, hk_rec(e, p), now, &out[n]);
	return n;
}

/* ---- BYE and RESET -------------------------------------------------------------------------- */

void hk_engine_bye(struct hk_engine *e)
{
	e->bye_next = 0;
}

static void emit_bare(struct hk_engine *e, struct hk_wire_hdr *h, uint8_t type, hk_peer p,
		      struct hk_out *o)
{
	h->version = e->version;
	h->job = e->cfg.key;
	h->type = type;
	h->flags = 0;
	h->src = e->cfg.endpoint;
	h->src_epoch = e->cfg.epoch;
	o->kind = HK_OUT_CONTROL;
	o->peer = p;
	o->token = 0;
	o->len = HK_WIRE_HLEN;
	hk_wire_hdr_encode(o->bytes, h);
}

static unsigned poll_bye(struct hk_engine *e, uint64_t now, struct hk_out *out, unsigned max)
{
	unsigned n = 0;

	while (e->bye_next < e->peers && n < max) {
		hk_peer p = e->bye_next++;
		struct hk_peer_rec *r = hk_rec(e, p);
		struct hk_wire_hdr h;

		if (!hk_peer_connected(r) || !(r->has_sent || r->tx_next != r->tx_una))
			continue;
		hk_hdr_fill(e, r, now, &h);
		emit_bare(e, &h, HK_WIRE_BYE, p, &out[n++]);
	}
	return n;
}

static unsigned poll_reset(struct hk_engine *e, struct hk_out *o)
{
	struct hk_wire_hdr h = {
		.dst = e->reset_dst,
		.dst_epoch = e->reset_dst_epoch,
		.tsecr = e->reset_refused,
	};

	e->reset_wanted = false;
	emit_bare(e, &h, HK_WIRE_RESET, HK_PEER_NONE, o);
	return 1;
}

unsigned hk_engine_poll(struct hk_engine *e, uint64_t now, struct hk_out *out, unsigned max)
{
	unsigned n = 0, probes = 0;

	if (HK_LIKELY(hk_engine_deadline(e) > now) || max == 0)
		return 0;
	if (e->reset_wanted)
		n += poll_reset(e, &out[n]);
	if (e->bye_next < e->peers)
		n += poll_bye(e, now, &out[n], max - n);
	if (e->timer_min <= now) {
		unsigned before = n;

		n += poll_timers(e, now, &out[n], HK_MIN(max - n, (unsigned)e->cfg.resend_cap));
		probes = n - before;
	}
	if (e->lost_head != HK_NIL) {
		unsigned cap = e->cfg.resend_cap - HK_MIN(probes, e->cfg.resend_cap);

		n += poll_lost(e, now, &out[n], HK_MIN(max - n, cap));
	}
	if (HK_UNLIKELY(e->grant.due <= now))
		hk_grants_due(e, now);
	if (HK_UNLIKELY(e->send_due <= now))
		e->send_due = UINT64_MAX; /* the caller runs its send queues */
	while (n < max && e->ack_head != HK_NIL && hk_rec(e, e->ack_head)->ack_due <= now)
		hk_ack_emit(e, hk_rec(e, e->ack_head), now, 0, &out[n++]);
	return n;
}

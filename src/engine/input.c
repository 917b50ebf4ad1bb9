/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/input.c: received frames: which peer sent them, whether they are for this incarnation,
 * whether they are new, and whether their message is complete.
 */
#include "engine/internal.h"

/* ---- the receive window -------------------------------------------------------------------- */

static bool rx_bit(const struct hk_engine *e, const struct hk_peer_rec *r, uint32_t psn)
{
	uint32_t bit = psn & (e->cfg.window - 1u);

	return r->rx_map[bit / 64] >> (bit % 64) & 1;
}

/* Records the arrival of @psn, which is new and inside the window. True if it was out of order. */
static bool rx_mark(struct hk_engine *e, struct hk_peer_rec *r, uint32_t psn)
{
	uint32_t bit = psn & (e->cfg.window - 1u);

	if (psn != r->rx_next) {
		r->rx_map[bit / 64] |= UINT64_C(1) << (bit % 64);
		r->rx_gaps++;
		return true;
	}
	r->rx_next++;
	if (HK_LIKELY(r->rx_gaps == 0))
		return false;
	while (r->rx_gaps && rx_bit(e, r, r->rx_next)) {
		bit = r->rx_next & (e->cfg.window - 1u);
		r->rx_map[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
		r->rx_gaps--;
		r->rx_next++;
	}
	hk_budget_gap_closed(e, r);
	return true;
}

/* ---- fragments ----------------------------------------------------------------------------- */

/* The link to the incomplete message of @r that begins with packet @first, or to HK_NIL. */
static uint32_t *message_link(struct hk_engine *e, struct hk_peer_rec *r, uint32_t first)
{
	uint32_t *link = &r->rx_messages;

	while (*link != HK_NIL && hk_rx_message(e, *link)->first != first)
		link = &hk_rx_message(e, *link)->next;
	return link;
}

/* Begins the message of @f. On refusal returns the counter. */
static uint64_t *message_new(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f,
			     uint64_t now)
{
	uint32_t first = f->h.psn - f->h.frag;

	/* none of its packets has arrived before: those that have are of other messages */
	if (hk_psn_before(first, r->rx_next))
		return &e->n.drop_fragment;
	for (unsigned i = 0; i < f->h.frags && first + i - r->rx_next < e->cfg.window; i++)
		if (r->rx_gaps && rx_bit(e, r, first + i))
			return &e->n.drop_fragment;
	/* Each reserves two buffers or more, so only messages of ended peers can use up the records
	 */
	if (e->rx_free == HK_NIL || !hk_budget_room(e, r, f->h.frags, first == r->rx_next))
		return &e->n.refused;
	hk_budget_reserve(e, r, f->h.frags, now);
	struct hk_rx_message *m = hk_rx_message(e, e->rx_free);
	uint32_t next = m->next;

	*m = (struct hk_rx_message){
		.first = first, .next = r->rx_messages, .am = f->h.am, .frags = f->h.frags};
	r->rx_messages = e->rx_free;
	e->rx_free = next;
	return NULL;
}

/* Removes the complete message at @link. */
static void message_free(struct hk_engine *e, struct hk_peer_rec *r, uint32_t *link)
{
	uint32_t i = *link;
	struct hk_rx_message *m = hk_rx_message(e, i);

	*link = m->next;
	m->next = e->rx_free;
	e->rx_free = i;
	hk_budget_unreserve(e, r, m->frags);
}

/* Stores one fragment with the others of its message. If the packet must be refused, returns the
 * counter: too few buffers are free, or it contradicts others. It stays unacknowledged then. */
static uint64_t *hold_fragment(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f,
			       uint64_t token, uint64_t now, struct hk_rx *rx)
{
	uint32_t *link = message_link(e, r, f->h.psn - f->h.frag);

	if (*link == HK_NIL) {
		uint64_t *refused = message_new(e, r, f, now);

		if (refused)
			return refused;
		link = &r->rx_messages;
	}
	struct hk_rx_message *m = hk_rx_message(e, *link);

	if (m->frags != f->h.frags || m->am != f->h.am)
		return &e->n.drop_fragment;
	m->token[f->h.frag] = token;
	m->present |= (uint16_t)(1u << f->h.frag);
	rx->result = HK_RX_HOLD;
	if (m->present != (1u << m->frags) - 1)
		return NULL;

	rx->result = HK_RX_DELIVER;
	rx->am = m->am;
	rx->count = m->frags;
	memcpy(rx->tokens, m->token, m->frags * sizeof(*m->token));
	message_free(e, r, link);
	return NULL;
}

/* ---- the frame types ----------------------------------------------------------------------- */

static void drop(struct hk_rx *rx, uint64_t *counter)
{
	(*counter)++;
	rx->result = HK_RX_DROP;
}

/* Drops a packet, and acknowledges at once what has arrived: a sign of life. */
static void refuse(struct hk_engine *e, struct hk_peer_rec *r, struct hk_rx *rx, uint64_t now,
		   uint64_t *counter)
{
	hk_ack_schedule(e, r, now, true);
	drop(rx, counter);
}

/* DATA and PUT: numbered packets. */
static void input_packet(struct hk_engine *e, struct hk_peer_rec *r, struct hk_rx *rx,
			 uint64_t token, uint64_t now)
{
	const struct hk_wire_hdr *h = &rx->f.h;
	uint32_t ahead = h->psn - r->rx_next;
	uint64_t *refused;

	hk_budget_seen(e, r, now);

	if (HK_UNLIKELY(ahead >= e->cfg.window)) {
		if (hk_psn_before(h->psn, r->rx_next)) /* our acknowledgement was lost or is late */
			refuse(e, r, rx, now, &e->n.rx_duplicates);
		else
			drop(rx, &e->n.drop_window);
		return;
	}
	if (HK_UNLIKELY(r->rx_gaps && rx_bit(e, r, h->psn))) {
		refuse(e, r, rx, now, &e->n.rx_duplicates);
		return;
	}
	if (HK_UNLIKELY(e->refusing)) {
		r->ts_not_polling = 1;
		refuse(e, r, rx, now, &e->n.refused);
		return;
	}
	if (h->type == HK_WIRE_PUT) {
		rx->result = HK_RX_PUT;
	} else if (HK_LIKELY(h->frags == 1)) {
		if (HK_UNLIKELY(ahead != 0) && !hk_budget_room(e, r, 1, false)) {
			refuse(e, r, rx, now, &e->n.refused);
			return;
		}
		rx->result = HK_RX_DELIVER;
		rx->am = h->am;
		rx->count = 1;
		rx->tokens[0] = token;
	} else if ((refused = hold_fragment(e, r, &rx->f, token, now, rx)) != NULL) {
		refuse(e, r, rx, now, refused);
		return;
	}
	bool disorder = rx_mark(e, r, h->psn);

	rx->next = r->rx_next;
	rx->last = h->psn - h->frag + h->frags - 1u;
	if (HK_UNLIKELY(disorder) && rx->result == HK_RX_DELIVER &&
	    !hk_psn_before(rx->last, r->rx_next))
		hk_budget_defer(e, r, rx->count, now);

	e->n.rx_packets++;
	e->n.rx_bytes += h->len;
	if (HK_UNLIKELY(h->flags & HK_WIRE_F_BULK))
		hk_grant_arrived(e, r, h->len, hk_echo_age(h->tsecr, now), now);
	if (h->len >= HK_LONG_FRAME)
		r->long_at = hk_coarse_ms(now);
	hk_note_tsval(e, r, h->tsval, now);
	r->ack_pending += 1 + h->len / 4096;
	hk_ack_schedule(e, r, now,
			disorder || (h->flags & HK_WIRE_F_ACK_NOW) ||
				r->ack_pending >= e->cfg.ack_every);
}

static void input_reset(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f)
{
	/* a RESET quotes the refused incarnation; only a refusal of the present one counts */
	if (f->h.tsecr != r->epoch) {
		e->n.drop_epoch++;
		return;
	}
	e->n.resets++;
	hk_peer_end(e, r, HK_PEER_DEAD, HK_DISCONNECT_RESTARTED);
}

static void input_bye(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f,
		      uint64_t now)
{
	hk_loss_ack(e, r, f, now);
	hk_peer_end(e, r, HK_PEER_LEFT,
		    r->tx_una == r->tx_next ? HK_DISCONNECT_NONE : HK_DISCONNECT_LEFT);
}

/* Do frames have keys? Then they come from peers that the caller has added, and nobody else. */
static bool has_keys(const struct hk_engine *e)
{
	return e->cfg.protection >= HK_PROTECTION_AUTH;
}

/* Does the frame create its sender as a peer? A packet does, and so does a request for a grant,
 * which a peer may send before its first packet. */
static bool introduces(const struct hk_engine *e, const struct hk_frame *f)
{
	if (has_keys(e))
		return false;
	return f->h.type == HK_WIRE_DATA || f->h.type == HK_WIRE_PUT ||
	       (f->h.type == HK_WIRE_ACK && f->h.flags & HK_WIRE_F_GRANT && f->grant.wanted != 0);
}

/* Handles a frame to our present incarnation from an incarnation of @r that we do not know. A frame
 * from an earlier one is out of date. One from a later incarnation proves that the peer restarted.
 * The record of a peer that the caller did not add, or that is gone, then starts again. Returns
 * whether to process the frame. */
static bool other_incarnation(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f,
			      uint64_t now)
{
	if (hk_psn_before(f->h.src_epoch, r->epoch) || !introduces(e, f) ||
	    hk_disconnect_unread(e, r)) {
		e->n.drop_epoch++;
		return false;
	}
	if (r->state == HK_PEER_ACTIVE) {
		e->n.drop_epoch++;
		hk_peer_end(e, r, HK_PEER_DEAD, HK_DISCONNECT_RESTARTED);
		return false;
	}
	if (hk_peer_connected(r))
		hk_peer_end(e, r, HK_PEER_LEFT, HK_DISCONNECT_NONE);
	hk_peer_start(e, r, f->h.src, f->h.src_epoch, HK_PEER_PASSIVE, now);
	return true;
}

/* Is the authenticated frame newer than all that came from @r? Somebody may have recorded the frame
 * and sent it again, or another path was faster. Its packet is taken at most once, by its number.
 * Everything else in it is out of date then, and only a fresh frame has an effect by it. */
static bool is_fresh(const struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f)
{
	if (HK_LIKELY(!has_keys(e)))
		return true;
	if (f->counter <= r->rx_counter)
		return false;
	r->rx_counter = f->counter;
	return true;
}

/* Has the next poll send a RESET to the sender of this frame. */
static void refuse_epoch(struct hk_engine *e, const struct hk_frame *f)
{
	e->n.drop_epoch++;
	if (f->h.type == HK_WIRE_RESET || f->h.type == HK_WIRE_BYE || has_keys(e))
		return; /* these get no answer */
	e->reset_wanted = true;
	e->reset_dst = f->h.src;
	e->reset_dst_epoch = f->h.src_epoch;
	e->reset_refused = f->h.dst_epoch;
}

void hk_engine_set_refusing(struct hk_engine *e, bool refuse)
{
	e->refusing = refuse;
}

void hk_engine_marked(struct hk_engine *e, hk_peer p)
{
	if (p < e->peers)
		hk_rec(e, p)->rx_marks++;
}

void hk_engine_set_not_polling(struct hk_engine *e, bool not_polling)
{
	e->not_polling = not_polling;
}

/* Index of the first counter of dropped frames among all counters. */
#define FIRST_DROP (offsetof(struct hk_engine_counters, drop_ethertype) / sizeof(uint64_t))

_Static_assert(offsetof(struct hk_engine_counters, drop_crc) ==
		       offsetof(struct hk_engine_counters, drop_ethertype) +
			       (HK_WIRE_E_CRC - HK_WIRE_E_ETHERTYPE) * sizeof(uint64_t),
	       "counters of dropped frames have the order of enum hk_wire_status");

void hk_engine_input(struct hk_engine *e, const void *frame, size_t len, uint64_t token,
		     uint64_t now, struct hk_rx *rx)
{
	const struct hk_wire_hdr *h = &rx->f.h;
	enum hk_wire_status st = hk_wire_frame_parse(frame, len, e->cfg.protection, &rx->f);

	rx->result = HK_RX_DROP;
	rx->peer = HK_PEER_NONE;
	rx->new_peer = false;
	if (HK_UNLIKELY(st != HK_WIRE_OK)) {
		((uint64_t *)&e->n)[FIRST_DROP + (st - HK_WIRE_E_ETHERTYPE)]++;
		return;
	}
	if (HK_UNLIKELY(h->job != e->cfg.key)) {
		e->n.drop_key++;
		return;
	}
	if (HK_UNLIKELY(h->type == HK_WIRE_MCAST)) {
		if (h->src != e->cfg.endpoint)
			rx->result = HK_RX_MCAST;
		else
			e->n.drop_endpoint++;
		return;
	}
	if (HK_UNLIKELY(h->dst != e->cfg.endpoint || h->src == e->cfg.endpoint)) {
		e->n.drop_endpoint++;
		return;
	}
	struct hk_peer_rec *r = hk_peer_lookup(e, h->src);

	if (h->type == HK_WIRE_RESET && h->dst_epoch == e->cfg.epoch) {
		rx->result = HK_RX_CONTROL;
		if (r && hk_peer_connected(r))
			input_reset(e, r, &rx->f);
		return;
	}
	if (HK_UNLIKELY(h->dst_epoch != e->cfg.epoch)) {
		refuse_epoch(e, &rx->f);
		return;
	}
	if (HK_UNLIKELY(r && h->src_epoch != r->epoch)) {
		if (!other_incarnation(e, r, &rx->f, now))
			return;
		rx->new_peer = true;
	}
	if (HK_UNLIKELY(!r)) {
		if (!introduces(e, &rx->f)) {
			e->n.drop_peers++;
			return;
		}
		r = hk_peer_create(e, h->src, h->src_epoch, HK_PEER_PASSIVE, now);
		if (!r) {
			e->n.drop_peers++;
			return;
		}
		rx->new_peer = true;
	}
	if (HK_UNLIKELY(!hk_peer_connected(r))) {
		e->n.drop_peers++;
		return;
	}
	bool fresh = is_fresh(e, r, &rx->f);

	if (HK_UNLIKELY(!fresh && h->type != HK_WIRE_DATA && h->type != HK_WIRE_PUT)) {
		e->n.drop_replay++;
		return;
	}
	rx->peer = hk_index(e, r);
	r->last_rx = now;
	r->silent = 0;
	if (HK_UNLIKELY(!r->has_sent)) {
		r->has_sent = 1;
		if (r->timer == HK_TIMER_NONE)
			hk_timer_rearm(e, r, now);
	}
	if (HK_UNLIKELY(h->type == HK_WIRE_BYE)) {
		rx->result = HK_RX_CONTROL;
		input_bye(e, r, &rx->f, now);
		return;
	}
	if (HK_LIKELY(fresh)) {
		hk_loss_ack(e, r, &rx->f, now);
		if (HK_UNLIKELY(h->flags & HK_WIRE_F_GRANT))
			hk_grant_input(e, r, &rx->f.grant, h->tsval, now);
	}
	if (h->type == HK_WIRE_ACK) {
		rx->result = HK_RX_CONTROL;
		e->n.rx_acks++;
		if (h->flags & HK_WIRE_F_ACK_NOW) {
			hk_note_tsval(e, r, h->tsval, now); /* by this the peer knows the answer */
			hk_ack_schedule(e, r, now, true);
		}
		return;
	}
	input_packet(e, r, rx, token, now);
}

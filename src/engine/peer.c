/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/peer.c: the table of peers: lookup, creation and end of a peer.
 *
 * The table is an open-addressing hash from endpoint to index. An endpoint that comes back gets its
 * old record, started again. The hash doubles when it is half full. So a table for many peers needs
 * memory only for those that exist.
 *
 * Strangers: any frame with the job's key may introduce a peer that the caller has never added.
 * When the table is full, such a peer gives its record to a new one. It must have been silent for
 * twice peer_timeout, and nothing of it may be left here. A real peer is not silent for so long,
 * because it sends keepalives. If one comes back nevertheless, its packets have numbers that we
 * no longer expect, and it finds itself stuck; nothing is delivered twice.
 */
#include "engine/internal.h"

/* Packets that each side may send before it has received the other's credit. The value is small
 * enough that many peers at once do not overflow a receiver's ring, and large enough for a first
 * burst. */
#define HK_INITIAL_CREDIT 64

static uint32_t hash32(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ (x >> 16);
}

/* Returns the hash slot of @endpoint, or the empty slot where it belongs. */
static uint32_t *hash_slot(const struct hk_engine *e, uint32_t endpoint)
{
	uint32_t *hash = hk_at(e, e->hash_off);
	uint32_t i = hash32(endpoint) & e->hash_mask;

	while (hash[i] != HK_NIL && hk_rec(e, hash[i])->endpoint != endpoint)
		i = (i + 1) & e->hash_mask;
	return &hash[i];
}

/* Makes @slots slots empty. */
static void hash_clear(struct hk_engine *e, uint32_t slots)
{
	e->hash_mask = slots - 1;
	memset(hk_at(e, e->hash_off), 0xff, slots * sizeof(uint32_t)); /* HK_NIL */
}

#define HASH_FIRST 1024u

void hk_peers_init(struct hk_engine *e)
{
	hash_clear(e, HK_MIN(HASH_FIRST, e->hash_most + 1));
}

static void hash_grow(struct hk_engine *e)
{
	hash_clear(e, 2 * (e->hash_mask + 1));
	for (uint32_t p = 0; p < e->peers; p++)
		*hash_slot(e, hk_rec(e, p)->endpoint) = p;
}

struct hk_peer_rec *hk_peer_lookup(struct hk_engine *e, uint32_t endpoint)
{
	if (HK_LIKELY(e->last_peer != HK_NIL)) {
		struct hk_peer_rec *r = hk_rec(e, e->last_peer);

		if (HK_LIKELY(r->endpoint == endpoint))
			return r;
	}
	uint32_t p = *hash_slot(e, endpoint);

	if (p == HK_NIL)
		return NULL;
	e->last_peer = p;
	return hk_rec(e, p);
}

/* Initializes a record. hk_peer_end() must have ended an earlier incarnation before. */
void hk_peer_start(struct hk_engine *e, struct hk_peer_rec *r, uint32_t endpoint, uint32_t epoch,
		   enum hk_peer_state state, uint64_t now)
{
	uint32_t credit = HK_MIN((uint32_t)e->cfg.window, HK_INITIAL_CREDIT);
	uint16_t held = r->held; /* the caller still has these buffers */
	bool added = r->added || state == HK_PEER_ACTIVE;

	*r = (struct hk_peer_rec){
		.endpoint = endpoint,
		.epoch = epoch,
		.state = (uint8_t)state,
		.tx_edge = credit,
		.rx_edge = credit,
		.tx_block = HK_NIL,
		.rx_messages = HK_NIL,
		.held = held,
		.added = added,
		.last_rx = now,
	};
	hk_cc_start(e, r);
}

/* Returns whether the caller still has to read this peer's disconnect reason. The record must not
 * start again before. */
bool hk_disconnect_unread(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	uint32_t p = hk_index(e, r);

	for (uint32_t i = e->ended_head; i != HK_NIL; i = hk_rec(e, i)->lost_next)
		if (i == p)
			return true;
	return false;
}

/* Removes @p from the hash. The entries behind it move up where that shortens their search. */
static void hash_remove(struct hk_engine *e, uint32_t p)
{
	uint32_t *hash = hk_at(e, e->hash_off), mask = e->hash_mask;
	uint32_t hole = (uint32_t)(hash_slot(e, hk_rec(e, p)->endpoint) - hash);

	for (uint32_t i = (hole + 1) & mask; hash[i] != HK_NIL; i = (i + 1) & mask) {
		uint32_t home = hash32(hk_rec(e, hash[i])->endpoint) & mask;

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			hash[hole] = hash[i];
			hole = i;
		}
	}
	hash[hole] = HK_NIL;
}

#define STRANGERS_LOOKED_AT 64 /* records, for one new peer */

/* Frees the record of a stranger. Returns its index, or HK_NIL if none is found. */
static uint32_t stranger_forget(struct hk_engine *e, uint64_t now)
{
	for (unsigned i = 0; i < STRANGERS_LOOKED_AT; i++) {
		uint32_t p = e->stranger_at;
		struct hk_peer_rec *r = hk_rec(e, p);

		e->stranger_at = p + 1 < e->peers ? p + 1 : 0;
		if (r->added || r->tx_una != r->tx_next || r->held || hk_budget_waits(r) ||
		    now - r->last_rx < 2 * e->cfg.peer_timeout || hk_disconnect_unread(e, r))
			continue;
		if (hk_peer_connected(r))
			hk_peer_end(e, r, HK_PEER_LEFT, HK_DISCONNECT_NONE);
		hash_remove(e, p);
		if (e->last_peer == p)
			e->last_peer = HK_NIL;
		return p;
	}
	return HK_NIL;
}

struct hk_peer_rec *hk_peer_create(struct hk_engine *e, uint32_t endpoint, uint32_t epoch,
				   enum hk_peer_state state, uint64_t now)
{
	uint32_t p = e->peers;

	if (p == e->cfg.max_peers)
		p = stranger_forget(e, now);
	if (p == HK_NIL)
		return NULL;
	if (p > e->hash_mask / 2 && e->hash_mask < e->hash_most)
		hash_grow(e);
	struct hk_peer_rec *r = hk_rec(e, p);

	*hash_slot(e, endpoint) = p;
	e->peers = HK_MAX(e->peers, p + 1);
	r->held = 0;
	r->added = 0;
	hk_peer_start(e, r, endpoint, epoch, state, now);
	return r;
}

hk_peer hk_engine_peer_add(struct hk_engine *e, uint32_t endpoint, uint32_t epoch, uint64_t now)
{
	struct hk_peer_rec *r = hk_peer_lookup(e, endpoint);

	if (epoch == 0 || endpoint == e->cfg.endpoint)
		return HK_PEER_NONE;
	if (!r) {
		r = hk_peer_create(e, endpoint, epoch, HK_PEER_ACTIVE, now);
		return r ? hk_index(e, r) : HK_PEER_NONE;
	}
	if (r->epoch == epoch && hk_peer_connected(r)) {
		r->state = HK_PEER_ACTIVE;
		r->added = 1;
		return hk_index(e, r);
	}
	if (r->state == HK_PEER_ACTIVE || r->epoch == epoch || hk_disconnect_unread(e, r))
		return HK_PEER_NONE;
	if (r->state == HK_PEER_PASSIVE) /* of another incarnation */
		hk_peer_end(e, r, HK_PEER_LEFT, HK_DISCONNECT_NONE);
	hk_peer_start(e, r, endpoint, epoch, HK_PEER_ACTIVE, now);
	return hk_index(e, r);
}

hk_peer hk_engine_peer_find(const struct hk_engine *e, uint32_t endpoint)
{
	if (HK_LIKELY(e->last_peer != HK_NIL && hk_rec(e, e->last_peer)->endpoint == endpoint))
		return e->last_peer;
	return *hash_slot(e, endpoint); /* HK_NIL is HK_PEER_NONE */
}

enum hk_peer_state hk_engine_peer_state(const struct hk_engine *e, hk_peer p)
{
	return p < e->peers ? hk_rec(e, p)->state : HK_PEER_FREE;
}

uint32_t hk_engine_peer_endpoint(const struct hk_engine *e, hk_peer p)
{
	return hk_rec(e, p)->endpoint;
}

/* Ends the conversation with a peer: releases its tokens and blocks, and queues the disconnect
 * reason @why unless that is HK_DISCONNECT_NONE. */
void hk_peer_end(struct hk_engine *e, struct hk_peer_rec *r, enum hk_peer_state state,
		 enum hk_disconnect_reason why)
{
	uint32_t p = hk_index(e, r);

	for (uint32_t psn = r->tx_una; psn != r->tx_next; psn++) {
		struct hk_tx_slot *s = hk_tx_slot(e, r, psn);

		if (s->state != HK_SLOT_ACKED)
			hk_done_push(e, s->token | HK_TOKEN_LOST);
		e->unacked--;
	}
	r->tx_una = r->tx_next;
	r->in_flight = r->lost = r->sacked = 0;
	r->tx_bytes = 0;
	r->tx_mid = 0;
	hk_tx_block_release(e, r);
	hk_timer_off(e, r);
	hk_ack_cancel(e, r);
	if (r->in_lost_list) {
		uint32_t *link = &e->lost_head;

		while (*link != p)
			link = &hk_rec(e, *link)->lost_next;
		*link = r->lost_next;
		r->in_lost_list = 0;
	}
	while (r->rx_messages != HK_NIL) {
		uint32_t i = r->rx_messages;
		struct hk_rx_message *m = hk_rx_message(e, i);

		r->rx_messages = m->next;
		m->next = e->rx_doomed;
		e->rx_doomed = i;
	}
	hk_budget_forget(e, r);
	hk_grant_forget(e, r);
	r->has_sent = 0;

	r->state = (uint8_t)state;
	if (why == HK_DISCONNECT_NONE)
		return;
	e->n.dead_peers++;
	r->reason = (uint8_t)why;
	r->lost_next = HK_NIL;
	if (e->ended_tail == HK_NIL)
		e->ended_head = p;
	else
		hk_rec(e, e->ended_tail)->lost_next = p;
	e->ended_tail = p;
}

hk_peer hk_engine_next_disconnect(struct hk_engine *e, enum hk_disconnect_reason *why)
{
	uint32_t p = e->ended_head;

	if (p == HK_NIL)
		return HK_PEER_NONE;
	e->ended_head = hk_rec(e, p)->lost_next;
	if (e->ended_head == HK_NIL)
		e->ended_tail = HK_NIL;
	*why = hk_rec(e, p)->reason;
	return p;
}

unsigned hk_engine_reap_rx(struct hk_engine *e, uint64_t *tokens, unsigned max)
{
	unsigned n = 0;

	while (e->rx_doomed != HK_NIL) {
		uint32_t i = e->rx_doomed;
		struct hk_rx_message *m = hk_rx_message(e, i);

		for (; m->present; m->present &= m->present - 1u) {
			if (n == max)
				return n;
			tokens[n++] = m->token[__builtin_ctz(m->present)];
		}
		e->rx_doomed = m->next;
		m->next = e->rx_free;
		e->rx_free = i;
	}
	return n;
}

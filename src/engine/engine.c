/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.c: the arena's layout, the configuration, counters and peer information.
 */
#include "engine/internal.h"

void hk_engine_config_default(struct hk_engine_config *cfg)
{
	*cfg = (struct hk_engine_config){
		.max_peers = 1024,
		.tx_blocks = 64,
		.rx_budget = 1024,
		.window = HK_WIRE_WINDOW,
		.window_bytes = 1 << 20,
		.resend_cap = 32,
		.ack_every = 32,
		.protection = HK_PROTECTION_OFF,
		.ack_delay = 30 * HK_USEC,
		.min_rto = 2 * HK_MSEC,
		.max_rto = 200 * HK_MSEC,
		.initial_rto = 20 * HK_MSEC,
		.peer_timeout = 30 * HK_SEC,
		.keepalive = 5 * HK_SEC,
		.target_delay = 200 * HK_USEC,
		.link_mbps = 0,
		.classes = false,
	};
}

static bool config_ok(const struct hk_engine_config *c)
{
	bool pow2 = c->window && (c->window & (c->window - 1)) == 0;

	return pow2 && c->window >= 8 && c->window <= HK_WIRE_WINDOW && c->epoch != 0 &&
	       c->max_peers >= 1 && c->max_peers <= (1u << 24) && c->tx_blocks >= 1 &&
	       c->tx_blocks <= HK_TX_BLOCKS_MAX && c->rx_budget <= (1u << 24) &&
	       c->rx_budget >= HK_WIRE_MAX_FRAGS && c->window_bytes >= 1 && c->resend_cap >= 1 &&
	       c->ack_every >= 1 && c->min_rto >= 1 && c->max_rto >= c->min_rto &&
	       c->initial_rto >= 1 && c->peer_timeout >= 1 && c->target_delay >= 1 &&
	       c->link_mbps <= HK_LINK_MBPS_MAX && c->protection <= HK_PROTECTION_SEAL;
}

static uint64_t align64(uint64_t n)
{
	return (n + 63) & ~UINT64_C(63);
}

/* Tokens that wait to be reaped and packets in flight, at most. The ring of tokens is touched from
 * end to end, so its size is memory that is really used. */
#define DONE_MAX 65536u

/* Writes the offset of each part of the arena to @e and returns the arena's size in bytes. */
static size_t layout(struct hk_engine *e, const struct hk_engine_config *c)
{
	uint64_t hash = 4, off = align64(sizeof(struct hk_engine));

	while (hash < c->max_peers * UINT64_C(2))
		hash *= 2;
	e->hash_most = (uint32_t)hash - 1;
	e->done_cap = (uint32_t)HK_MIN(c->tx_blocks * (uint64_t)c->window * 2, DONE_MAX);

	e->peers_off = off;
	off = align64(off + c->max_peers * (uint64_t)sizeof(struct hk_peer_rec));
	e->hash_off = off;
	off = align64(off + hash * sizeof(uint32_t));
	e->tx_off = off;
	off = align64(off + (uint64_t)c->tx_blocks * HK_TX_BLOCK_SLOTS(c->window) *
				    sizeof(struct hk_tx_slot));
	e->owner_off = off;
	off = align64(off + (uint64_t)c->tx_blocks * sizeof(uint32_t));
	e->rx_off = off;
	off = align64(off + (uint64_t)(c->rx_budget / 2) * sizeof(struct hk_rx_message));
	e->done_off = off;
	off = align64(off + (uint64_t)e->done_cap * sizeof(uint64_t));
	e->grant_off = off;
	return align64(off + (uint64_t)c->max_peers * sizeof(uint32_t));
}

size_t hk_engine_size(const struct hk_engine_config *cfg)
{
	struct hk_engine probe;

	return config_ok(cfg) ? layout(&probe, cfg) : 0;
}

_Static_assert(HK_PROTECTION_OFF == (int)HK_WIRE_BARE && HK_PROTECTION_CRC == (int)HK_WIRE_CRC &&
		       HK_PROTECTION_AUTH == (int)HK_WIRE_AUTH &&
		       HK_PROTECTION_SEAL == (int)HK_WIRE_SEAL,
	       "the protection of the configuration is that of the wire");

struct hk_engine *hk_engine_init(void *arena, size_t bytes, const struct hk_engine_config *cfg)
{
	struct hk_engine *e = arena;
	size_t need = hk_engine_size(cfg);

	if (need == 0 || bytes < need || ((uintptr_t)arena & 63))
		return NULL;
	/* The rest of the arena is written when it is first used. So peers and blocks that are
	 * never used need no memory, if the arena is fresh memory of the kernel. */
	memset(e, 0, sizeof(*e));
	layout(e, cfg);
	e->cfg = *cfg;
	e->version = HK_WIRE_VERSION_BYTE(cfg->protection);
	e->wait_head = e->wait_tail = HK_NIL;
	e->last_peer = e->ack_head = e->ack_tail = e->lost_head = HK_NIL;
	e->ended_head = e->ended_tail = e->rx_doomed = e->bye_next = HK_NIL;
	hk_cc_init(e);
	hk_timer_init(e);
	hk_grant_init(e);
	hk_peers_init(e);

	e->tx_free = HK_NIL;
	e->rx_free = 0;
	for (uint32_t i = 0; i < cfg->rx_budget / 2; i++)
		hk_rx_message(e, i)->next = i + 1 < cfg->rx_budget / 2 ? i + 1 : HK_NIL;
	return e;
}

const struct hk_engine_counters *hk_engine_counters(const struct hk_engine *e)
{
	return &e->n;
}

uint32_t hk_engine_peers(const struct hk_engine *e)
{
	return e->peers;
}

unsigned hk_engine_unacked(const struct hk_engine *e, hk_peer p)
{
	if (p == HK_PEER_NONE)
		return e->unacked;
	return p < e->peers ? hk_rec(e, p)->tx_next - hk_rec(e, p)->tx_una : 0;
}

void hk_engine_peer_info(const struct hk_engine *e, hk_peer p, struct hk_peer_info *info)
{
	const struct hk_peer_rec *r = hk_rec(e, p);

	*info = (struct hk_peer_info){
		.state = r->state,
		.endpoint = r->endpoint,
		.epoch = r->epoch,
		.srtt = r->srtt,
		.rttvar = r->rttvar,
		.min_rtt = r->min_rtt,
		.cwnd = r->cwnd >> 8,
		.credit = r->tx_edge - r->tx_next,
		.in_flight = r->in_flight,
		.last_rx = r->last_rx,
	};
}

void hk_engine_test_set_psn(struct hk_engine *e, hk_peer p, uint32_t tx, uint32_t rx)
{
	struct hk_peer_rec *r = hk_rec(e, p);

	r->tx_edge = tx + (r->tx_edge - r->tx_next);
	r->tx_next = r->tx_una = tx;
	r->rx_edge = rx + (r->rx_edge - r->rx_next);
	r->rx_next = rx;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_budget.c: receive buffers that run out: which packets still get
 * one, and that all messages arrive in the end.
 */
#include "tests/support/rig.h"

/* The worker's buffers. */
#define POOL   6144
#define BUDGET 2048

/* ---- one peer ------------------------------------------------------------------------------ */

/* Behind a gap, single packets take three quarters of the budget. The packet that closes the gap
 * is accepted always, and frees them. */
TEST(packets_behind_a_gap)
{
	RIG(g);
	g.cfg.rx_budget = 64;
	rig_pair(&g);
	for (uint32_t psn = 1; psn <= 48; psn++)
		CHECK_EQ(rig_data(&g, 2, psn), HK_RX_DELIVER);
	CHECK_EQ(rig_data(&g, 2, 49), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->refused, 1);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	CHECK_EQ(g.rx.next, 49);
	/* one of those that were deferred can take its place now */
	CHECK_EQ(rig_data(&g, 2, 50), HK_RX_DELIVER);
}

/* A message reserves buffers for all its fragments when it begins. The one that is next may use
 * the last quarter. */
TEST(messages_of_fragments)
{
	RIG(g);
	g.cfg.rx_budget = 64;
	rig_pair(&g);
	for (uint32_t psn = 16; psn <= 48; psn += 16)
		CHECK_EQ(rig_fragment(&g, psn, 0, 16, 7), HK_RX_HOLD);
	CHECK_EQ(rig_fragment(&g, 64, 0, 2, 7), HK_RX_DROP);
	CHECK_EQ(rig_fragment(&g, 0, 0, 16, 7), HK_RX_HOLD);
	CHECK_EQ(hk_engine_counters(g.e)->refused, 1);
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 0);
	/* those that have begun become complete */
	for (uint32_t psn = 0; psn < 64; psn++)
		if (psn % 16)
			CHECK_EQ(rig_fragment(&g, psn, psn % 16, 16, 7),
				 psn % 16 == 15 ? HK_RX_DELIVER : HK_RX_HOLD);
	CHECK_EQ(rig_fragment(&g, 64, 0, 2, 7), HK_RX_HOLD);
}

/* Buffers that the caller holds count, too, but a single packet that is next is accepted. */
TEST(held_buffers_count)
{
	RIG(g);
	g.cfg.rx_budget = 64;
	hk_peer p = rig_pair(&g);
	hk_engine_rx_held(g.e, p, 60);
	CHECK_EQ(rig_data(&g, 2, 1), HK_RX_DROP);
	CHECK_EQ(rig_fragment(&g, 0, 0, 5, 7), HK_RX_DROP);
	CHECK_EQ(rig_fragment(&g, 0, 0, 4, 7), HK_RX_HOLD);
	hk_engine_rx_held(g.e, p, -60);
	CHECK_EQ(rig_data(&g, 2, 4), HK_RX_DELIVER);
}

/* A peer that names messages which overlap gets no more than messages without overlap could use. */
TEST(contradicting_messages_reserve_little)
{
	RIG(g);
	g.cfg.window = 16;
	rig_pair(&g);
	unsigned held = 0;
	for (uint32_t psn = 1; psn < 16; psn++)
		held += rig_fragment(&g, psn, 0, 16, (uint8_t)psn) == HK_RX_HOLD;
	CHECK_EQ(held, 2); /* of 16 + 2 * 15 buffers */
}

/* ---- credit of several peers ------------------------------------------------------------- */

/* One peer's messages fill the budget, and another one runs out of credit. It hears at once when
 * buffers of the first come free. */
TEST(freed_buffers_wake_others)
{
	RIG(g);
	g.cfg.rx_budget = 64;
	hk_peer first = rig_pair(&g);
	rig_add(&g, 3);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	hk_engine_rx_held(g.e, first, 64);
	for (uint32_t psn = 0; psn < 64; psn++)
		CHECK_EQ(rig_data(&g, 3, psn), HK_RX_DELIVER);
	while (hk_engine_deadline(g.e) <= g.now + HK_MSEC)
		rig_next(&g);
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_rx_held(g.e, first, -1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).dst, 3);
	CHECK_EQ(rig_out(&g, 0).credit, 1);
	/* it is not told again */
	hk_engine_rx_held(g.e, first, -1);
	CHECK_EQ(rig_poll(&g), 0);
}

/* Time in which one node sends @messages to node 0, after @spoke others have sent one each. */
static uint64_t lone_flow(unsigned spoke, unsigned messages)
{
	SIM(s, spoke + 2, c.lazy = true, c.latency = HK_USEC, c.ps_per_byte = 800,
	    c.engine.tx_blocks = 8, c.engine.rx_budget = BUDGET);
	for (unsigned i = 0; i < spoke; i++)
		sim_send(s, i + 2, 0, HK_WIRE_DATA, 1, 8, 0);
	sim_run_done(s, HK_SEC);
	sim_run_for(s, 20 * HK_MSEC);
	uint64_t begin = sim_now(s);
	for (unsigned i = 0; i < messages; i++)
		sim_send(s, 1, 0, HK_WIRE_DATA, 1, 1400, 0);
	sim_run_done(s, 10 * HK_SEC);
	return sim_now(s) - begin;
}

/* Peers that spoke once take no credit from one that sends. */
TEST(quiet_peers_cost_a_flow_nothing)
{
	CHECK_CMP(lone_flow(1000, 3000), <=, lone_flow(0, 3000) * 101 / 100);
}

static bool lose_first(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
		       void *ctx)
{
	(void)s, (void)to, (void)ctx;
	return from == 0 || f->h.type != HK_WIRE_DATA || f->h.psn != 0;
}

/* A peer dies before it sends its first packet again. The message that waits for it comes back. */
TEST(deferred_for_a_dead_peer)
{
	SIM(s, 2, c.lazy = true, c.ordered = true, c.silent_allowed = true,
	    c.engine.peer_timeout = HK_SEC, c.engine.keepalive = 0);
	sim_set_filter(s, lose_first, NULL);
	sim_send(s, 1, 0, HK_WIRE_DATA, 1, 64, 0);
	sim_send(s, 1, 0, HK_WIRE_DATA, 1, 64, 0);
	sim_run_for(s, HK_MSEC);
	sim_cut(s, 0, 1, true);
	CHECK_EQ(sim_held(s, 0), 1);
	sim_run_for(s, 30 * HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_SILENT);
	CHECK_EQ(sim_held(s, 0), 0);
}

/* ---- many peers ---------------------------------------------------------------------------- */

/* Every sender sends a burst at once, so the switch drops frames of most of them. The resends that
 * fill the gaps must find buffers, whatever waits behind other gaps. */
static void burst_from_all(unsigned senders, unsigned each, unsigned frags, unsigned len,
			   unsigned pool, unsigned budget)
{
	SIM(s, senders + 1, c.lazy = true, c.ordered = true, c.pool = pool, c.latency = HK_USEC,
	    c.ps_per_byte = 320, /* 25 Gbit/s */
	    c.rx_ring = pool, c.engine.rx_budget = budget, c.engine.tx_blocks = 8);
	for (unsigned i = 1; i <= senders; i++)
		for (unsigned k = 0; k < each; k++)
			sim_send(s, i, 0, HK_WIRE_DATA, frags, len, 0);
	sim_run_done(s, 20 * HK_SEC);
	CHECK_EQ(sim_stats(s)->delivered, (uint64_t)senders * each);
}

TEST(burst_from_400_peers_ends)
{
	burst_from_all(400, 64, 1, 8, POOL, BUDGET);
}

TEST(burst_of_fragments_ends)
{
	burst_from_all(400, 8, 8, 200, POOL, BUDGET);
}

TEST(burst_into_few_buffers_ends)
{
	burst_from_all(50, 30, 3, 200, 128, HK_WIRE_MAX_FRAGS);
	burst_from_all(50, 30, 16, 200, 128, 2 * HK_WIRE_MAX_FRAGS);
}

/* An eager message of 16 KiB from each of 1000 peers, in frames of 1500 bytes at 10 Gbit/s. */
TEST(eager_messages_of_1000_peers)
{
	SIM(s, 1001, c.lazy = true, c.ordered = true, c.pool = POOL, c.latency = HK_USEC,
	    c.ps_per_byte = 800, c.rx_ring = POOL, c.engine.tx_blocks = 8,
	    c.engine.rx_budget = BUDGET);
	for (unsigned i = 1; i <= 1000; i++)
		sim_send(s, i, 0, HK_WIRE_DATA, 12, 1366, 0);
	uint64_t begin = sim_now(s);
	sim_run_done(s, 20 * HK_SEC);
	/* 13 ms if nothing is lost, but the switch drops most of the first burst */
	CHECK_CMP(sim_now(s) - begin, <=, 500 * HK_MSEC);
}

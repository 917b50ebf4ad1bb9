/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_life.c: peers that come, leave, fall silent and return; clocks that
 * jump; numbers that wrap.
 */
#include "tests/support/rig.h"

static enum hk_peer_state state_of(struct sim *s, unsigned node, unsigned peer)
{
	return hk_engine_peer_state(sim_engine(s, node), sim_peer(s, node, peer));
}

static void chatter(struct sim *s, unsigned nodes, unsigned messages, uint64_t every)
{
	for (unsigned i = 0; i < messages; i++)
		sim_send(s, i % nodes, (i + 1 + i / nodes % (nodes - 1)) % nodes,
			 i % 4 ? HK_WIRE_DATA : HK_WIRE_PUT, 1 + i % 5, 64, i * every);
}

/* All nodes know each other, and nothing is in flight. */
static void acquaint(struct sim *s, unsigned nodes, unsigned messages)
{
	chatter(s, nodes, messages, HK_USEC);
	sim_run_done(s, HK_SEC);
}

/* The messages of a moment that have left their nodes arrive, within @limit. */
static void settle(struct sim *s, uint64_t limit)
{
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, limit);
}

/* ---- restart ------------------------------------------------------------------------------- */

static void restart_node_1(struct sim *s, void *ctx)
{
	sim_restart(s, 1);
}

/* A node dies during traffic and restarts at once. The others learn it and exchange messages
 * with the new incarnation. The new one gets nothing that was meant for the old one (sim_check.c
 * checks that). */
TEST(restart_is_noticed)
{
	SIM(s, 3, c.loss = 10000, c.reorder = 100000);
	chatter(s, 3, 300, 2 * HK_USEC);
	sim_at(s, 200 * HK_USEC, restart_node_1, NULL);
	settle(s, 5 * HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_RESTARTED);
	CHECK_EQ(sim_reason(s, 2, 1), HK_DISCONNECT_RESTARTED);
	CHECK_EQ(sim_reason(s, 1, 0), HK_DISCONNECT_NONE); /* the new incarnation did not restart */
	CHECK_EQ(sim_reason(s, 0, 2), HK_DISCONNECT_NONE);
	uint64_t before = sim_stats(s)->delivered;
	chatter(s, 3, 90, 0);
	settle(s, 5 * HK_SEC);
	CHECK_EQ(sim_stats(s)->delivered, before + 90);
}

/* Three incarnations follow each other. */
TEST(restart_again)
{
	/* with late copies of frames to the earlier ones */
	SIM(s, 2, c.dup = 200000, c.reorder_delay = 2 * HK_MSEC);
	for (unsigned i = 0; i < 3; i++) {
		chatter(s, 2, 100, 2 * HK_USEC);
		sim_at(s, 100 * HK_USEC, restart_node_1, NULL);
		settle(s, 5 * HK_SEC);
	}
	CHECK_EQ(sim_stats(s)->reasons, 3);
}

/* ---- partition ----------------------------------------------------------------------------- */

static void heal(struct sim *s, void *ctx)
{
	sim_cut(s, 0, 1, false);
}

/* The wire between two nodes is cut for ever. Both give the other up in time, and the third is
 * not affected. */
TEST(partition_gives_the_peer_up)
{
	SIM(s, 3, c.silent_allowed = true, c.engine.peer_timeout = 2 * HK_SEC);
	acquaint(s, 3, 60);
	sim_cut(s, 0, 1, true);
	uint64_t cut_at = sim_now(s);
	chatter(s, 3, 60, HK_USEC);
	sim_run_for(s, 5 * HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_SILENT);
	CHECK_EQ(sim_reason(s, 1, 0), HK_DISCONNECT_SILENT);
	CHECK_EQ(sim_reason(s, 0, 2), HK_DISCONNECT_NONE);
	CHECK_EQ(sim_reason(s, 1, 2), HK_DISCONNECT_NONE);
	/* not sooner than peer_timeout, and at most one wait later */
	uint64_t took = sim_reason_at(s, 0, 1) - cut_at;
	CHECK_CMP(took, >=, c.engine.peer_timeout);
	CHECK_CMP(took, <=, c.engine.peer_timeout + 2 * c.engine.max_rto);
	CHECK(sim_done(s));
	CHECK_EQ(hk_engine_counters(sim_engine(s, 0))->dead_peers, 1);
	CHECK(sim_quiet(s));
}

/* The wire works again just before the timeout: no peer is given up, and everything arrives. */
TEST(partition_that_heals)
{
	SIM(s, 2, c.engine.peer_timeout = 2 * HK_SEC);
	acquaint(s, 2, 40);
	for (unsigned round = 0; round < 5; round++) {
		sim_cut(s, 0, 1, true);
		chatter(s, 2, 40, HK_USEC);
		sim_at(s, 1500 * HK_MSEC, heal, NULL);
		sim_run_for(s, 1600 * HK_MSEC);
		sim_run_done(s, HK_SEC);
	}
	CHECK_EQ(sim_stats(s)->reasons, 0);
}

/* Only one direction fails: the sender gets no acknowledgements. */
static bool one_way(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f, void *ctx)
{
	return from != 1;
}

TEST(deaf_on_one_side)
{
	SIM(s, 2, c.silent_allowed = true, c.engine.peer_timeout = HK_SEC);
	sim_set_filter(s, one_way, NULL);
	sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, 0);
	sim_run_for(s, 3 * HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_SILENT);
	CHECK_EQ(sim_stats(s)->delivered, 1); /* once, however often it was resent */
}

/* One packet never arrives, all others do. The peer is not silent, but is given up as stuck. */
static bool never_a_large_one(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			      void *ctx)
{
	return f->h.type != HK_WIRE_DATA || f->payload_len < 700;
}

TEST(one_packet_never_arrives)
{
	SIM(s, 2, c.silent_allowed = true, c.engine.peer_timeout = HK_SEC);
	sim_set_filter(s, never_a_large_one, NULL);
	sim_send(s, 0, 1, HK_WIRE_DATA, 1, 800, 0);
	for (unsigned i = 0; i < 200; i++)
		sim_send(s, i % 2, (i + 1) % 2, HK_WIRE_DATA, 1, 64, i * 20 * HK_MSEC);
	sim_run_for(s, 10 * HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_STUCK);
	CHECK_CMP(sim_reason_at(s, 0, 1) - c.start, >=, 2 * c.engine.peer_timeout);
	CHECK_CMP(sim_reason_at(s, 0, 1) - c.start, <=, 3 * c.engine.peer_timeout);
}

/* Idle peers are not given up, even after days. */
TEST(idle_peers_do_not_die)
{
	SIM(s, 2, c.engine.peer_timeout = HK_SEC);
	acquaint(s, 2, 20);
	sim_cut(s, 0, 1, true);
	sim_run_for(s, 48 * 3600 * HK_SEC);
	sim_cut(s, 0, 1, false);
	chatter(s, 2, 20, HK_USEC);
	settle(s, HK_SEC);
	CHECK_EQ(sim_stats(s)->reasons, 0);
}

/* With keepalives a dead idle peer is found. */
TEST(keepalive_finds_the_dead)
{
	SIM(s, 2, c.silent_allowed = true, c.engine.peer_timeout = HK_SEC,
	    c.engine.keepalive = 5 * HK_SEC);
	acquaint(s, 2, 20);
	sim_run_for(s, 60 * HK_SEC);
	CHECK_EQ(sim_stats(s)->reasons, 0);
	sim_cut(s, 0, 1, true);
	uint64_t cut_at = sim_now(s);
	sim_run_for(s, 30 * HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_SILENT);
	CHECK_CMP(sim_reason_at(s, 0, 1) - cut_at, <=, 7 * HK_SEC);
}

/* ---- leaving ------------------------------------------------------------------------------- */

TEST(bye_after_all_is_done)
{
	SIM(s, 3);
	acquaint(s, 3, 60);
	sim_bye(s, 1);
	sim_run_for(s, HK_MSEC);
	CHECK_EQ(state_of(s, 0, 1), HK_PEER_LEFT);
	CHECK_EQ(state_of(s, 2, 1), HK_PEER_LEFT);
	CHECK_EQ(state_of(s, 0, 2), HK_PEER_ACTIVE);
	CHECK_EQ(sim_stats(s)->reasons, 0);
	CHECK_EQ(hk_engine_available(sim_engine(s, 0), sim_peer(s, 0, 1)), 0);
	sim_run_for(s, HK_SEC);
	CHECK(sim_quiet(s));
}

TEST(bye_in_the_middle)
{
	SIM(s, 2, c.latency = 100 * HK_USEC);
	acquaint(s, 2, 20);
	sim_bye(s, 1);
	sim_send(s, 0, 1, HK_WIRE_DATA, 4, 64, 10 * HK_USEC);
	sim_run_for(s, HK_SEC);
	CHECK_EQ(sim_reason(s, 0, 1), HK_DISCONNECT_LEFT);
	CHECK(sim_done(s));
}

/* ---- clocks and numbers -------------------------------------------------------------------- */

/* The process is stopped for hours with packets in flight in both directions. No peer is given
 * up. */
TEST(a_sleep_of_hours)
{
	SIM(s, 2, c.engine.peer_timeout = 30 * HK_SEC);
	chatter(s, 2, 40, HK_USEC);
	sim_run_for(s, 20 * HK_USEC);
	sim_compute(s, 0, 5 * 3600 * HK_SEC);
	sim_compute(s, 1, 5 * 3600 * HK_SEC - 3 * HK_MSEC);
	sim_run_for(s, 5 * 3600 * HK_SEC);
	chatter(s, 2, 40, HK_USEC);
	settle(s, HK_SEC);
	CHECK_EQ(sim_stats(s)->reasons, 0);
}

/* The same with one engine: its resend timer is polled hours late, many times. */
TEST(late_polls_are_no_silence)
{
	RIG(g);
	g.cfg.peer_timeout = 10 * HK_SEC;
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	for (unsigned i = 0; i < 4; i++) {
		g.now += 3600 * HK_SEC;
		rig_poll(&g);
		rig_poll(&g);
	}
	rig_disconnect(&g, HK_PEER_NONE);
	CHECK_EQ(rig_ack(&g, 2, 1, 64), HK_RX_CONTROL);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	CHECK_CMP(rig_info(&g, p).srtt, <, HK_SEC); /* the hours do not count as a round trip */
}

/* Packet numbers and timestamps wrap, with faults at the same time. */
TEST(everything_wraps)
{
	for (unsigned i = 0; i < 20; i++) {
		struct sim_config c;
		sim_config_default(&c, 3);
		c.random_psn = true;
		c.loss = 20000;
		c.dup = 20000;
		c.reorder = 100000;
		c.engine.window = i % 2 ? 256 : 16;
		c.start = (UINT64_C(1) << (32 + HK_WIRE_TS_SHIFT)) * (1 + i) - 100 * HK_USEC;
		SIM_FREED struct sim *s = sim_new(&c, hk_test_now.seed + i);
		chatter(s, 3, 900, HK_USEC);
		sim_run_for(s, 2 * HK_MSEC);
		sim_run_done(s, 10 * HK_SEC);
		CHECK_EQ(sim_stats(s)->delivered, 900);
	}
}

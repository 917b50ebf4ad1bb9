/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/test_engine_life.c: peers that come, go, fall silent and return; clocks that jump;
 * numbers that wrap.
 */
#include "tests/unit/rig.h"
#include "tests/unit/sim.h"

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

/* ---- restart ------------------------------------------------------------------------------- */

static void restart_node_1(struct sim *s, void *ctx)
{
	(void)ctx;
	sim_restart(s, 1);
}

/* A node dies amid traffic and is back at once. The others are told so, and talk to the new one;
 * nothing meant for the old one reaches it (sim_check.c sees to that). */
static void restart_is_noticed(void)
{
	struct sim_config c;

	sim_config_default(&c, 3);
	c.loss = 10000;
	c.reorder = 100000;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 3, 300, 2 * HK_USEC);
	sim_at(s, 200 * HK_USEC, restart_node_1, NULL);
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, 5 * HK_SEC);
	CHECK_EQ(sim_verdict(s, 0, 1), HK_VERDICT_RESTARTED);
	CHECK_EQ(sim_verdict(s, 2, 1), HK_VERDICT_RESTARTED);
	CHECK_EQ(sim_verdict(s, 1, 0), HK_VERDICT_NONE); /* they did not */
	CHECK_EQ(sim_verdict(s, 0, 2), HK_VERDICT_NONE);
	uint64_t before = sim_stats(s)->delivered;
	chatter(s, 3, 90, 0);
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, 5 * HK_SEC);
	CHECK_EQ(sim_stats(s)->delivered, before + 90);
	sim_free(s);
}

/* Back and forth: three incarnations in a row. */
static void restart_again(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.dup = 200000; /* and late copies of what was sent to the earlier ones */
	c.reorder_delay = 2 * HK_MSEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	for (unsigned i = 0; i < 3; i++) {
		chatter(s, 2, 100, 2 * HK_USEC);
		sim_at(s, 100 * HK_USEC, restart_node_1, NULL);
		sim_run_for(s, HK_MSEC);
		sim_run_done(s, 5 * HK_SEC);
	}
	CHECK_EQ(sim_stats(s)->verdicts, 3);
	sim_free(s);
}

/* ---- partition ----------------------------------------------------------------------------- */

static void heal(struct sim *s, void *ctx)
{
	(void)ctx;
	sim_cut(s, 0, 1, false);
}

/* The wire between two is cut for good. Both hear of it in time, and the third is unharmed. */
static void partition_gets_a_verdict(void)
{
	struct sim_config c;

	sim_config_default(&c, 3);
	c.silent_allowed = true;
	c.engine.peer_timeout = 2 * HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 3, 60, HK_USEC);
	sim_run_done(s, HK_SEC);
	sim_cut(s, 0, 1, true);
	uint64_t cut_at = sim_now(s);
	chatter(s, 3, 60, HK_USEC);
	sim_run_for(s, 5 * HK_SEC);
	CHECK_EQ(sim_verdict(s, 0, 1), HK_VERDICT_SILENT);
	CHECK_EQ(sim_verdict(s, 1, 0), HK_VERDICT_SILENT);
	CHECK_EQ(sim_verdict(s, 0, 2), HK_VERDICT_NONE);
	CHECK_EQ(sim_verdict(s, 1, 2), HK_VERDICT_NONE);
	/* not sooner than promised, and not much later: the last wait may straddle the end */
	uint64_t took = sim_verdict_at(s, 0, 1) - cut_at;
	CHECK_CMP(took, >=, c.engine.peer_timeout);
	CHECK_CMP(took, <=, c.engine.peer_timeout + 2 * c.engine.max_rto);
	CHECK(sim_done(s)); /* all buffers are back */
	CHECK_EQ(hk_engine_counters(sim_engine(s, 0))->dead_peers, 1);
	CHECK(sim_quiet(s));
	sim_free(s);
}

/* It heals a little before the time is up: no verdict, and everything arrives. */
static void partition_that_heals(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.engine.peer_timeout = 2 * HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 2, 40, HK_USEC);
	sim_run_done(s, HK_SEC);
	for (unsigned round = 0; round < 5; round++) {
		sim_cut(s, 0, 1, true);
		chatter(s, 2, 40, HK_USEC);
		sim_at(s, 1500 * HK_MSEC, heal, NULL);
		sim_run_for(s, 1600 * HK_MSEC);
		sim_run_done(s, HK_SEC);
	}
	CHECK_EQ(sim_stats(s)->verdicts, 0);
	sim_free(s);
}

/* Only one way is dead: the sender hears nothing of its packets arriving. */
static bool one_way(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f, void *ctx)
{
	(void)s, (void)to, (void)f, (void)ctx;
	return from != 1;
}

static void deaf_on_one_side(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.silent_allowed = true;
	c.engine.peer_timeout = HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	sim_set_filter(s, one_way, NULL);
	sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, 0);
	sim_run_for(s, 3 * HK_SEC);
	CHECK_EQ(sim_verdict(s, 0, 1), HK_VERDICT_SILENT);
	CHECK_EQ(sim_stats(s)->delivered, 1); /* once, however often it was resent */
	sim_free(s);
}

/* One packet never gets through, all others do: that is not silence, but an end it must have. */
static bool never_a_large_one(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			      void *ctx)
{
	(void)s, (void)from, (void)to, (void)ctx;
	return f->h.type != HK_WIRE_DATA || f->payload_len < 700;
}

static void one_packet_never_arrives(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.silent_allowed = true;
	c.engine.peer_timeout = HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	sim_set_filter(s, never_a_large_one, NULL);
	sim_send(s, 0, 1, HK_WIRE_DATA, 1, 800, 0);
	for (unsigned i = 0; i < 200; i++)
		sim_send(s, i % 2, (i + 1) % 2, HK_WIRE_DATA, 1, 64, i * 20 * HK_MSEC);
	sim_run_for(s, 10 * HK_SEC);
	CHECK_EQ(sim_verdict(s, 0, 1), HK_VERDICT_STUCK);
	CHECK_CMP(sim_verdict_at(s, 0, 1) - c.start, >=, 2 * c.engine.peer_timeout);
	CHECK_CMP(sim_verdict_at(s, 0, 1) - c.start, <=, 3 * c.engine.peer_timeout);
	sim_free(s);
}

/* Nobody waits for anybody: silence is golden, for days. */
static void idle_peers_do_not_die(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.engine.peer_timeout = HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 2, 20, HK_USEC);
	sim_run_done(s, HK_SEC);
	sim_cut(s, 0, 1, true);
	sim_run_for(s, 48 * 3600 * HK_SEC);
	sim_cut(s, 0, 1, false);
	chatter(s, 2, 20, HK_USEC);
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, HK_SEC);
	CHECK_EQ(sim_stats(s)->verdicts, 0);
	sim_free(s);
}

/* … unless a keepalive asks. */
static void keepalive_finds_the_dead(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.silent_allowed = true;
	c.engine.peer_timeout = HK_SEC;
	c.engine.keepalive = 5 * HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 2, 20, HK_USEC);
	sim_run_done(s, HK_SEC);
	sim_run_for(s, 60 * HK_SEC);
	CHECK_EQ(sim_stats(s)->verdicts, 0);
	sim_cut(s, 0, 1, true);
	uint64_t cut_at = sim_now(s);
	sim_run_for(s, 30 * HK_SEC);
	CHECK_EQ(sim_verdict(s, 0, 1), HK_VERDICT_SILENT);
	CHECK_CMP(sim_verdict_at(s, 0, 1) - cut_at, <=, 7 * HK_SEC);
	sim_free(s);
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void bye_after_all_is_done(void)
{
	struct sim_config c;

	sim_config_default(&c, 3);
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 3, 60, HK_USEC);
	sim_run_done(s, HK_SEC);
	sim_bye(s, 1);
	sim_run_for(s, HK_MSEC);
	CHECK_EQ(state_of(s, 0, 1), HK_PEER_LEFT);
	CHECK_EQ(state_of(s, 2, 1), HK_PEER_LEFT);
	CHECK_EQ(state_of(s, 0, 2), HK_PEER_ACTIVE);
	CHECK_EQ(sim_stats(s)->verdicts, 0);
	CHECK_EQ(hk_engine_room(sim_engine(s, 0), sim_peer(s, 0, 1)), 0);
	sim_run_for(s, HK_SEC);
	CHECK(sim_quiet(s));
	sim_free(s);
}

static void bye_in_the_middle(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.latency = 100 * HK_USEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 2, 20, HK_USEC);
	sim_run_done(s, HK_SEC);
	sim_bye(s, 1);
	sim_send(s, 0, 1, HK_WIRE_DATA, 4, 64, 10 * HK_USEC);
	sim_run_for(s, HK_SEC);
	CHECK_EQ(sim_verdict(s, 0, 1), HK_VERDICT_LEFT);
	CHECK(sim_done(s)); /* the buffers are back */
	sim_free(s);
}

/* ---- clocks and numbers -------------------------------------------------------------------- */

/* The process is stopped for hours, with packets in flight both ways. Nobody is dead. */
static void a_sleep_of_hours(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.engine.peer_timeout = 30 * HK_SEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	chatter(s, 2, 40, HK_USEC);
	sim_run_for(s, 20 * HK_USEC);
	sim_compute(s, 0, 5 * 3600 * HK_SEC);
	sim_compute(s, 1, 5 * 3600 * HK_SEC - 3 * HK_MSEC);
	sim_run_for(s, 5 * 3600 * HK_SEC);
	chatter(s, 2, 40, HK_USEC);
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, HK_SEC);
	CHECK_EQ(sim_stats(s)->verdicts, 0);
	sim_free(s);
}

/* The same on the bench: the resend timer is found hours late, many times. */
static void late_polls_are_no_silence(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	g.cfg.peer_timeout = 10 * HK_SEC;
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	for (unsigned i = 0; i < 4; i++) {
		g.now += 3600 * HK_SEC;
		rig_poll(&g);
		rig_poll(&g);
	}
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	CHECK_EQ(rig_ack(&g, 2, 1, 64), HK_RX_CONTROL);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	struct hk_peer_info info;
	hk_engine_peer_info(g.e, p, &info);
	CHECK_CMP(info.srtt, <, HK_SEC); /* hours are no round trip */
	rig_end(&g);
}

/* Packet numbers, timestamps and the wrap of each, with faults on top. */
static void everything_wraps(void)
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
		struct sim *s = sim_new(&c, hk_test_now.seed + i);
		chatter(s, 3, 900, HK_USEC);
		sim_run_for(s, 2 * HK_MSEC);
		sim_run_done(s, 10 * HK_SEC);
		CHECK_EQ(sim_stats(s)->delivered, 900);
		sim_free(s);
	}
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"restart_is_noticed", restart_is_noticed},
		{"restart_again", restart_again},
		{"partition_gets_a_verdict", partition_gets_a_verdict},
		{"partition_that_heals", partition_that_heals},
		{"deaf_on_one_side", deaf_on_one_side},
		{"one_packet_never_arrives", one_packet_never_arrives},
		{"idle_peers_do_not_die", idle_peers_do_not_die},
		{"keepalive_finds_the_dead", keepalive_finds_the_dead},
		{"bye_after_all_is_done", bye_after_all_is_done},
		{"bye_in_the_middle", bye_in_the_middle},
		{"a_sleep_of_hours", a_sleep_of_hours},
		{"late_polls_are_no_silence", late_polls_are_no_silence},
		{"everything_wraps", everything_wraps},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

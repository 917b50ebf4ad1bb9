/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_paths.c: packets on several paths. An overtaken packet does not
 * count as lost, and a lost one is resent by another path if the paths are equal.
 *
 * Time is virtual, so assertions on times are assertions on the engine's decisions.
 */
#include "tests/support/rig.h"

#define LATENCY (10 * HK_USEC)

/* ---- paths of unequal length, in the simulator ---------------------------------------------- */

static const struct hk_engine_counters *sender(struct sim *s)
{
	return hk_engine_counters(sim_engine(s, 0));
}

/* Messages take a path that is twenty times as long as the puts' path. Packets of one kind
 * overtake those of the other all the time, and none counts as lost. */
static void two_paths(struct sim *s)
{
	for (unsigned i = 0; i < 60; i++) {
		sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, i * 4 * HK_USEC);
		sim_send(s, 0, 1, HK_WIRE_PUT, 2, 64, i * 4 * HK_USEC);
	}
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
}

/* Settings of SIM. */
#define TWO_PATHS                                                                                  \
	c.latency = LATENCY, c.ps_per_byte = 80, c.path_delay = 20 * LATENCY,                      \
	c.engine.ack_delay = 5 * HK_USEC, c.engine.min_rto = 5 * HK_MSEC

TEST(paths_do_not_tell_of_each_other)
{
	SIM(s, 2, TWO_PATHS);
	two_paths(s);
	CHECK_EQ(sender(s)->tx_resends, 0);
	CHECK_EQ(hk_engine_counters(sim_engine(s, 1))->rx_duplicates, 0);
}

struct picker {
	uint8_t type;
	unsigned which, seen;
};

static bool take_one(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f, void *ctx)
{
	struct picker *p = ctx;

	return from != 0 || f->h.type != p->type || p->seen++ != p->which;
}

/* Later packets of the same path reveal a loss on either path, without a timer. */
TEST(loss_on_each_of_two_paths)
{
	static const uint8_t type[] = {HK_WIRE_DATA, HK_WIRE_PUT};

	for (unsigned i = 0; i < HK_ARRAY_LEN(type); i++) {
		struct picker p = {.type = type[i], .which = 10};

		SIM(s, 2, TWO_PATHS);
		sim_set_filter(s, take_one, &p);
		two_paths(s);
		CHECK_EQ(sender(s)->loss_time, 1);
		CHECK_EQ(sender(s)->loss_rto, 0);
		CHECK_EQ(sender(s)->tx_resends, 1);
	}
}

/* ---- equal paths, on the bench --------------------------------------------------------------- */

static void send_by(struct rig *g, hk_peer p, uint64_t token, uint8_t path)
{
	struct hk_packet pkt = {
		.token = token, .len = 32, .type = HK_WIRE_DATA, .frags = 1, .path = path};
	struct hk_wire_hdr h;

	CHECK(hk_engine_send(g->e, p, &pkt, g->now, &h));
}

TEST(what_is_lost_goes_by_the_next_path)
{
	static const uint8_t by[] = {5, 0, 2, 5, 0};
	RIG(g);
	hk_peer p = rig_pair(&g);

	hk_engine_peer_paths(g.e, p, 1u << 0 | 1u << 2 | 1u << 5);
	send_by(&g, p, 1, 2);
	for (unsigned n = 0; n < HK_ARRAY_LEN(by);) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++) {
			CHECK(g.out[i].kind == HK_OUT_RESEND && g.out[i].token == 1);
			CHECK_EQ(g.out[i].path, by[n++]);
		}
	}
}

/* A packet keeps its path unless the paths are equal. */
TEST(paths_are_kept_unless_equal)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	send_by(&g, p, 1, 6);
	for (unsigned n = 0; n < 4;) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++, n++)
			CHECK_EQ(g.out[i].path, 6);
	}
}

/* Nothing arrives by path 0 and everything by path 1, so that no timer of the peer fires. The
 * first packet still becomes lost after a resend timeout, and goes by path 1. */
TEST(a_dead_path_is_told_of_by_others)
{
	uint64_t start;
	unsigned resent = 0;
	RIG(g);
	hk_peer p = rig_pair(&g);

	hk_engine_peer_paths(g.e, p, 3);
	send_by(&g, p, 1, 0);
	start = g.now;
	for (unsigned n = 1; n < 60 && !resent; n++) {
		struct hk_wire_sack sack = {{UINT64_MAX >> (64 - n) << 1}};
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

		g.now += 10 * HK_USEC;
		send_by(&g, p, 1 + n, 1);
		h.tsecr = (uint32_t)(g.now >> HK_WIRE_TS_SHIFT);
		g.now += 100 * HK_USEC;
		rig_input(&g, &h, &sack, 0);
		rig_poll(&g);
		for (unsigned i = 0; i < g.outs; i++) {
			CHECK(g.out[i].kind == HK_OUT_RESEND && g.out[i].token == 1);
			CHECK_EQ(g.out[i].path, 1);
			resent++;
		}
	}
	CHECK_EQ(resent, 1);
	CHECK_CMP(g.now - start, >=, g.cfg.min_rto);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 1);
	CHECK_EQ(hk_engine_counters(g.e)->loss_rto, 0);
}

TEST(what_flies_by_a_path_that_is_taken_away_is_lost)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	hk_engine_peer_paths(g.e, p, 7);
	for (unsigned i = 0; i < 6; i++)
		send_by(&g, p, i + 1, (uint8_t)(i % 3));
	hk_engine_peer_paths(g.e, p, 5);
	rig_poll(&g);
	CHECK_EQ(g.outs, 2);
	for (unsigned i = 0; i < g.outs; i++) {
		CHECK_EQ(g.out[i].token, 2 + 3 * i);
		CHECK_EQ(g.out[i].path, 2);
	}
}

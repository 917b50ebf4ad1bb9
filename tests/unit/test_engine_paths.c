/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/test_engine_paths.c: packets that go by several paths: none overtaken is taken for lost, and what is lost
 * goes by another, if that is as good.
 *
 * Times are virtual: an assertion on them is an assertion on what the engine decided.
 */
#include "tests/unit/rig.h"
#include "tests/unit/sim.h"

#define LATENCY (10 * HK_USEC)

/* ---- paths of unequal length, in the simulator ---------------------------------------------- */

static const struct hk_engine_counters *sender(struct sim *s)
{
	return hk_engine_counters(sim_engine(s, 0));
}

/* Messages take a path that is twenty times as long as that of puts: each kind is overtaken all the time, and
 * nothing is lost. */
static void two_paths(struct sim *s)
{
	for (unsigned i = 0; i < 60; i++) {
		sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, i * 4 * HK_USEC);
		sim_send(s, 0, 1, HK_WIRE_PUT, 2, 64, i * 4 * HK_USEC);
	}
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
}

static struct sim *pair_of_two_paths(struct sim_config *c)
{
	sim_config_default(c, 2);
	c->latency = LATENCY;
	c->ps_per_byte = 80;
	c->detour = 20 * LATENCY;
	c->engine.ack_delay = 5 * HK_USEC;
	c->engine.min_rto = 5 * HK_MSEC;
	return sim_new(c, hk_test_now.seed);
}

static void paths_do_not_tell_of_each_other(void)
{
	struct sim_config c;
	struct sim *s = pair_of_two_paths(&c);

	two_paths(s);
	CHECK_EQ(sender(s)->tx_resends, 0);
	CHECK_EQ(hk_engine_counters(sim_engine(s, 1))->rx_duplicates, 0);
	sim_free(s);
}

struct picker {
	uint8_t type;
	unsigned which, seen;
};

static bool take_one(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f, void *ctx)
{
	struct picker *p = ctx;

	(void)s;
	(void)to;
	return from != 0 || f->h.type != p->type || p->seen++ != p->which;
}

/* A loss on either path is found by the packets behind it there, not by a timer. */
static void loss_on_each_of_two_paths(void)
{
	static const uint8_t type[] = {HK_WIRE_DATA, HK_WIRE_PUT};

	for (unsigned i = 0; i < HK_ARRAY_LEN(type); i++) {
		struct sim_config c;
		struct sim *s = pair_of_two_paths(&c);
		struct picker p = {.type = type[i], .which = 10};

		sim_set_filter(s, take_one, &p);
		two_paths(s);
		CHECK_EQ(sender(s)->loss_time, 1);
		CHECK_EQ(sender(s)->loss_rto, 0);
		CHECK_EQ(sender(s)->tx_resends, 1);
		sim_free(s);
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

static void what_is_lost_goes_by_the_next_path(void)
{
	static const uint8_t by[] = {5, 0, 2, 5, 0};
	struct rig g;

	rig_config(&g);
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
	rig_end(&g);
}

/* A packet keeps its path where the others are not as good. */
static void paths_are_kept_unless_equal(void)
{
	struct rig g;

	rig_config(&g);
	hk_peer p = rig_pair(&g);

	send_by(&g, p, 1, 6);
	for (unsigned n = 0; n < 4;) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++, n++)
			CHECK_EQ(g.out[i].path, 6);
	}
	rig_end(&g);
}

/* Nothing comes by path 0, and all by path 1, so that no timer of the peer fires: the first packet is found lost
 * all the same, after a resend timeout, and goes by path 1. */
static void a_dead_path_is_told_of_by_others(void)
{
	uint64_t start;
	unsigned resent = 0;
	struct rig g;

	rig_config(&g);
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
	rig_end(&g);
}

static void what_flies_by_a_path_that_is_taken_away_is_lost(void)
{
	struct rig g;

	rig_config(&g);
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
	rig_end(&g);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"paths_do_not_tell_of_each_other", paths_do_not_tell_of_each_other},
		{"loss_on_each_of_two_paths", loss_on_each_of_two_paths},
		{"what_is_lost_goes_by_the_next_path", what_is_lost_goes_by_the_next_path},
		{"paths_are_kept_unless_equal", paths_are_kept_unless_equal},
		{"a_dead_path_is_told_of_by_others", a_dead_path_is_told_of_by_others},
		{"what_flies_by_a_path_that_is_taken_away_is_lost",
		 what_flies_by_a_path_that_is_taken_away_is_lost},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

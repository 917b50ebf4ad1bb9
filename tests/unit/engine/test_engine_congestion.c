/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_congestion.c: by how much the congestion window grows and shrinks.
 *
 * Round trips are multiples of the clock's 16 ns. The queueing delay of the first round is 0.
 */
#include "tests/support/rig.h"

#define BASE   (16 * HK_USEC) /* round trip without a queue */
#define TARGET (64 * HK_USEC) /* of the queueing delay */

static uint32_t next_psn;

static hk_peer pair(struct rig *g)
{
	next_psn = 0;
	g->cfg.target_delay = TARGET;
	return rig_pair(g);
}

/* Sends @n packets at once, which are acknowledged together after @rtt. Returns the window. */
static unsigned round_trip(struct rig *g, hk_peer p, unsigned n, uint64_t rtt)
{
	uint64_t tokens[HK_WIRE_WINDOW];
	uint32_t tsval = 0;

	for (unsigned i = 0; i < n; i++)
		tsval = rig_send(g, p, next_psn++).tsval;
	g->now += rtt;
	rig_echo(g, next_psn, tsval, 0);
	(void)hk_engine_reap(g->e, tokens, HK_ARRAY_LEN(tokens)); /* or sending would stop */
	return rig_info(g, p).cwnd;
}

/* Each acknowledged packet adds one. After a reduction, a window of packets adds two. */
TEST(growth)
{
	RIG(g);
	hk_peer p = pair(&g);

	CHECK_EQ(rig_info(&g, p).cwnd, 32);
	CHECK_EQ(round_trip(&g, p, 8, BASE), 40);
	CHECK_EQ(round_trip(&g, p, 24, BASE + TARGET), 64); /* not above the target */
	CHECK_EQ(round_trip(&g, p, 1, BASE + 5 * TARGET), 32);
	for (unsigned want = 34; want <= 40; want += 2)
		CHECK_EQ(round_trip(&g, p, want - 2, BASE), want);
	for (unsigned i = 0; i < 800; i++)
		round_trip(&g, p, 32, BASE);
	CHECK_EQ(rig_info(&g, p).cwnd, g.cfg.window);
}

/* A delay above the target reduces the window by 0.8 of the excess, at most by half, and to no less
 * than four packets. */
TEST(reduction_by_delay)
{
	RIG(g);
	hk_peer p = pair(&g);

	CHECK_EQ(round_trip(&g, p, 32, BASE), 64);
	/* excess 1/5 of the delay: 64 * (1 - 0.16) = 53.8 */
	CHECK_EQ(round_trip(&g, p, 1, BASE + TARGET * 5 / 4), 53);
	g.now += HK_MSEC;
	/* excess 1/2: 53.8 * 0.6 = 32.3 */
	CHECK_EQ(round_trip(&g, p, 1, BASE + TARGET * 2), 32);
	g.now += HK_MSEC;
	/* excess 3/4: 0.6 of the window, which is more than half */
	CHECK_EQ(round_trip(&g, p, 1, BASE + TARGET * 4), 16);
	for (unsigned i = 0; i < 10; i++) {
		g.now += HK_MSEC;
		round_trip(&g, p, 1, BASE + TARGET * 4);
	}
	CHECK_EQ(rig_info(&g, p).cwnd, 4);
}

/* One reduction in a round trip, although each acknowledgement reports the delay. */
TEST(one_reduction_a_round_trip)
{
	uint32_t tsval = 0;

	RIG(g);
	hk_peer p = pair(&g);
	round_trip(&g, p, 32, BASE);
	for (unsigned i = 0; i < 8; i++)
		tsval = rig_send(&g, p, next_psn + i).tsval;
	g.now += BASE + TARGET * 2;
	for (unsigned i = 1; i <= 8; i++)
		rig_echo(&g, next_psn + i, tsval, 0);
	CHECK_EQ(rig_info(&g, p).cwnd, 38); /* 64 * 0.6 */
	next_psn += 8;
	g.now += HK_MSEC;
	CHECK_EQ(round_trip(&g, p, 1, BASE + TARGET * 2), 23); /* 38.4 * 0.6 */
}

/* Loses the first of eight packets: the others are acknowledged selectively after @rtt. Returns the
 * window once the engine has found the loss. */
static unsigned window_after_loss(uint64_t rtt)
{
	struct hk_wire_sack sack = {.bits = {0xfe}};
	uint32_t tsval = 0;

	RIG(g);
	hk_peer p = pair(&g);
	CHECK_EQ(round_trip(&g, p, 32, BASE), 64);
	for (unsigned i = 0; i < 8; i++)
		tsval = rig_send(&g, p, next_psn + i).tsval;
	g.now += rtt;
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

	h.ack = next_psn;
	h.tsecr = tsval;
	rig_input(&g, &h, &sack, 0);
	while (hk_engine_counters(g.e)->loss_time == 0)
		rig_next(&g);
	return rig_info(&g, p).cwnd;
}

/* Loss beside a short queue is hardly due to congestion: the window shrinks by an eighth. Beside a
 * queue of more than half of the target it shrinks by half. The seven acknowledged packets have
 * added one each. */
TEST(reduction_by_loss)
{
	CHECK_EQ(window_after_loss(BASE), (64 + 7) * 7 / 8);
	CHECK_EQ(window_after_loss(BASE + TARGET / 2 - HK_USEC), (64 + 7) * 7 / 8);
	CHECK_EQ(window_after_loss(BASE + TARGET / 2 + HK_USEC), (64 + 7) / 2);
}

/* A resend timer halves the window each time. If the packet had arrived, and only its
 * acknowledgement was late, the window is what it was. */
TEST(a_spurious_timeout_is_undone)
{
	RIG(g);
	hk_peer p = pair(&g);
	CHECK_EQ(round_trip(&g, p, 32, BASE), 64);
	uint32_t tsval = rig_send(&g, p, next_psn).tsval;

	while (hk_engine_counters(g.e)->loss_rto < 1)
		rig_next(&g);
	CHECK_EQ(rig_info(&g, p).cwnd, 32);
	while (hk_engine_counters(g.e)->loss_rto < 2)
		rig_next(&g);
	CHECK_EQ(rig_info(&g, p).cwnd, 16);
	rig_echo(&g, next_psn + 1, tsval, 0);
	CHECK_CMP(rig_info(&g, p).cwnd, >=, 64);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_congestion.c: by how much the congestion window grows and shrinks.
 *
 * Round trips are multiples of the clock's 16 ns. The queueing delay of the first round is 0.
 */
#include "engine/internal.h"
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

/* ---- on a wire with two ends ---------------------------------------------------------------- */

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

/* A short window does not start longer, and grows by two packets as well. */
TEST(a_short_window)
{
	RIG(g);
	g.cfg.window = 8;
	hk_peer p = pair(&g);

	CHECK_EQ(rig_info(&g, p).cwnd, 8);
	CHECK_EQ(round_trip(&g, p, 4, BASE), 8);
	CHECK_EQ(round_trip(&g, p, 1, BASE + 5 * TARGET), 4);
	CHECK_EQ(round_trip(&g, p, 4, BASE), 6);
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
	CHECK_EQ(window_after_loss(BASE + TARGET / 2), (64 + 7) * 7 / 8);
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

/* The acknowledgement echoes the resend itself: the first transmission was lost. */
TEST(the_resends_own_acknowledgement_undoes_nothing)
{
	RIG(g);
	hk_peer p = pair(&g);
	CHECK_EQ(round_trip(&g, p, 32, BASE), 64);
	rig_send(&g, p, next_psn);

	while (hk_engine_counters(g.e)->loss_rto < 1)
		rig_next(&g);
	CHECK_EQ(rig_info(&g, p).cwnd, 32);
	struct hk_tx_slot *s = hk_tx_slot(g.e, hk_rec(g.e, p), next_psn);
	uint32_t tsecr = (uint32_t)((g.now - BASE) >> HK_WIRE_TS_SHIFT);

	CHECK(s->resent);
	s->sent_at = g.now - hk_echo_age(tsecr, g.now);
	rig_echo(&g, next_psn + 1, tsecr, 0);
	CHECK_CMP(rig_info(&g, p).cwnd, <, 64);
}

/* It can be undone once. A packet that is acknowledged in time shows that the window is right. */
TEST(a_timeout_is_not_undone_twice)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	CHECK_EQ(round_trip(&g, p, 32, BASE), 64);
	hk_cc_timeout(g.e, r, g.now);
	CHECK_EQ(r->cwnd_before, 64 * 256);
	hk_cc_spurious(r);
	CHECK(r->cwnd == 64 * 256 && r->cwnd_before == 0);
	hk_cc_timeout(g.e, r, g.now);
	CHECK_EQ(round_trip(&g, p, 1, BASE), 32);
	hk_cc_spurious(r);
	CHECK_EQ(rig_info(&g, p).cwnd, 32);
}

/* The next reduction may come a round trip after the last one. */
TEST(a_reduction_after_a_round_trip)
{
	for (uint64_t early = 0; early < 2; early++) {
		RIG(g);
		hk_peer p = pair(&g);
		struct hk_peer_rec *r = hk_rec(g.e, p);

		CHECK_EQ(round_trip(&g, p, 32, BASE), 64);
		r->cut_at = g.now - r->srtt + early;
		hk_cc_lost(g.e, r, g.now);
		CHECK_EQ(r->cwnd, early ? 64 * 256 : 56 * 256);
	}
}

/* ---- behind a network switch ----------------------------------------------------------------- */

static hk_peer switched(struct rig *g)
{
	g->cfg.link_mbps = 10000;
	return pair(g);
}

static uint32_t window_of(const struct rig *g, hk_peer p)
{
	return hk_rec(g->e, p)->cwnd;
}

/* A thousand peers start with one packet each. Until the first reduction a packet adds one, and
 * then a sixteenth. */
TEST(a_switched_window_starts_with_one_packet)
{
	RIG(g);
	hk_peer p = switched(&g);

	CHECK_EQ(hk_engine_available(g.e, p), 1);
	CHECK_EQ(round_trip(&g, p, 1, BASE), 2);
	CHECK_EQ(round_trip(&g, p, 2, BASE), 4);
	CHECK_EQ(round_trip(&g, p, 4, BASE), 8);
	CHECK_EQ(round_trip(&g, p, 1, BASE + 5 * TARGET), 4);
	CHECK_EQ(round_trip(&g, p, 4, BASE), 4);
	CHECK_EQ(window_of(&g, p), 4 * 256 + 4 * 16);
}

/* Below one packet, the next one waits after an acknowledgement for as long as the window says. */
TEST(a_window_below_one_packet_is_a_pause)
{
	RIG(g);
	hk_peer p = switched(&g);

	round_trip(&g, p, 1, BASE);
	for (unsigned want = 256; want >= 4; want /= 2) {
		g.now += HK_MSEC;
		round_trip(&g, p, 1, BASE + 5 * TARGET);
		CHECK_EQ(window_of(&g, p), want);
		if (want == 256)
			continue;
		uint64_t acked = g.now, pause = rig_info(&g, p).srtt * (256 / want - 1);

		CHECK_EQ(hk_engine_available(g.e, p), 0);
		while (hk_engine_available(g.e, p) == 0)
			rig_next(&g);
		CHECK_EQ(hk_engine_available(g.e, p), 1);
		CHECK_CMP(g.now, >=, acked + pause);
		CHECK_CMP(g.now, <, acked + pause + 4 * HK_USEC);
		/* the caller is asked to run its send queues */
		CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + 1);
	}
	g.now += HK_MSEC;
	round_trip(&g, p, 1, BASE + 5 * TARGET);
	CHECK_EQ(window_of(&g, p), 4); /* not less */
	while (hk_engine_available(g.e, p) == 0)
		rig_next(&g);
	round_trip(&g, p, 1, BASE);
	CHECK_EQ(window_of(&g, p), 4 + 16);
}

/* All that a receiver grants fits the network switch. */
TEST(granted_bulk_does_not_pause)
{
	RIG(g);
	hk_peer p = switched(&g);

	round_trip(&g, p, 1, BASE);
	for (unsigned i = 0; i < 4; i++) {
		g.now += HK_MSEC;
		round_trip(&g, p, 1, BASE + 5 * TARGET);
		while (i < 3 && hk_engine_available(g.e, p) == 0)
			rig_next(&g);
	}
	CHECK_EQ(hk_engine_available(g.e, p), 0);
	rig_grant(&g, 2, 1, 0); /* which acknowledges nothing: one packet is in flight or none */
	CHECK_EQ(hk_engine_available(g.e, p), 4);
}

/* A timeout may be the peer's, so one packet stays. */
TEST(a_timeout_leaves_one_packet)
{
	RIG(g);
	hk_peer p = switched(&g);

	round_trip(&g, p, 1, BASE);
	(void)rig_send(&g, p, next_psn);
	while (hk_engine_counters(g.e)->loss_rto < 4)
		rig_next(&g);
	CHECK_EQ(window_of(&g, p), 256);
}

/* The queue that the target permits fits a port's buffer, so a fast link has a shorter one. It has
 * room for granted bulk, so a slow link has a longer one. */
TEST(the_target_fits_the_link)
{
	static const struct {
		unsigned mbps;
		uint64_t wish, target;
	} want[] = {
		{0, 200 * HK_USEC, 200 * HK_USEC},
		{100, 200 * HK_USEC, 7864320},
		{1000, 200 * HK_USEC, 786432},
		{10000, 200 * HK_USEC, 200 * HK_USEC},
		{25000, 200 * HK_USEC, 80 * HK_USEC},
		{40000, 200 * HK_USEC, 50 * HK_USEC},
		{100000, 200 * HK_USEC, 50 * HK_USEC},
		{25000, 40 * HK_USEC, 40 * HK_USEC}, /* a shorter one that somebody asked for */
		{25000, 20 * HK_USEC, 31457},        /* unless grants would exceed it */
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(want); i++) {
		RIG(g);
		g.cfg.link_mbps = want[i].mbps;
		g.cfg.target_delay = want[i].wish;
		rig_start(&g);
		CHECK_EQ(g.e->target_delay, want[i].target);
	}
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Sends @n packets, of which the network marks @marked. */
static void marked_trip(struct rig *g, hk_peer p, unsigned n, unsigned marked, uint8_t *marks)
{
	uint64_t tokens[HK_WIRE_WINDOW];
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_ACK);

	for (unsigned i = 0; i < n; i++)
		h.tsecr = rig_send(g, p, next_psn++).tsval;
	g->now += BASE;
	h.ack = next_psn;
	*marks = (uint8_t)(*marks + marked);
	h.marks = *marks;
	rig_input(g, &h, NULL, 0);
	(void)hk_engine_reap(g->e, tokens, HK_ARRAY_LEN(tokens));
}

/* The first mark for long halves the window. Later ones reduce it by half of the average part. */
TEST(marks_reduce_the_window)
{
	uint8_t marks = 250; /* the count wraps */

	RIG(g);
	hk_peer p = pair(&g);

	hk_rec(g.e, p)->tx_marks = marks;
	marked_trip(&g, p, 32, 0, &marks);
	CHECK_EQ(window_of(&g, p), 64 * 256);
	g.now += HK_MSEC;
	marked_trip(&g, p, 32, 8, &marks);
	uint32_t part = (65535u * 15 + 65535 / 4) / 16, cwnd = 64 * 256 + 32 * 256;

	CHECK_EQ(window_of(&g, p), cwnd - (uint32_t)((uint64_t)cwnd * part >> 17));
	for (unsigned i = 0; i < 20; i++) { /* rounds without marks make the average small */
		g.now += HK_MSEC;
		marked_trip(&g, p, 4, 0, &marks);
	}
	g.now += HK_MSEC;
	cwnd = window_of(&g, p);
	marked_trip(&g, p, 4, 4, &marks);
	CHECK_CMP(window_of(&g, p), <, cwnd - cwnd / 8);
	CHECK_CMP(window_of(&g, p), >, cwnd - cwnd / 4);
	for (unsigned i = 0; i < 200; i++) {
		g.now += HK_MSEC;
		marked_trip(&g, p, 4, 0, &marks);
	}
	CHECK_EQ(hk_rec(g.e, p)->marked_part, 0);
	/* an overtaken frame has an earlier count */
	cwnd = window_of(&g, p);
	marks--;
	marked_trip(&g, p, 1, 0, &marks);
	CHECK_CMP(window_of(&g, p), >=, cwnd);
}

/* A count that is lower by up to 128 is of an overtaken frame. */
TEST(marks_of_an_overtaken_frame)
{
	for (unsigned i = 0; i < 2; i++) {
		RIG(g);
		hk_peer p = pair(&g);
		uint8_t marks = 10;

		hk_rec(g.e, p)->tx_marks = marks;
		marked_trip(&g, p, 1, 127 + i, &marks);
		CHECK_EQ(hk_rec(g.e, p)->tx_marks, i ? 10 : 137);
		CHECK_EQ(hk_rec(g.e, p)->marked_part != 0, i == 0);
	}
}

/* A round trip ends with the last packet that was in flight at its begin. Only then does the
 * average change. */
TEST(the_average_changes_once_a_round_trip)
{
	struct hk_wire_hdr h;
	uint32_t tsval = 0;

	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	/* the end of a round trip long ago, two billion packets before */
	r->round_end = r->tx_una - (UINT32_C(1) << 31) + 1;
	for (unsigned i = 0; i < 16; i++)
		tsval = rig_send(&g, p, i).tsval;
	h = rig_hdr(&g, 2, HK_WIRE_ACK);
	h.tsecr = tsval;
	h.marks = 1;
	g.now += BASE;
	h.ack = 1;
	rig_input(&g, &h, NULL, 0);
	uint16_t part = r->marked_part;

	CHECK_EQ(part, UINT16_MAX);
	CHECK_EQ(r->round_end, 16);
	for (h.ack = 2; h.ack < 16; h.ack++) {
		rig_input(&g, &h, NULL, 0);
		CHECK_EQ(r->marked_part, part);
	}
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(r->marked_part, part * 15 / 16);
}

TEST(marks_are_counted_for_the_sender)
{
	RIG(g);
	hk_peer p = pair(&g), q = rig_add(&g, 3);

	CHECK_EQ(rig_send(&g, p, 0).marks, 0);
	rig_data(&g, 2, 0);
	hk_engine_marked(g.e, g.rx.peer);
	rig_data(&g, 2, 1);
	hk_engine_marked(g.e, g.rx.peer);
	hk_engine_marked(g.e, HK_PEER_NONE);
	CHECK_EQ(rig_send(&g, p, 1).marks, 2);
	CHECK_EQ(rig_send(&g, q, 0).marks, 0);
}

/* ---- the minimum ----------------------------------------------------------------------------- */

/* A queue that is never empty for seconds does not become the minimum. */
TEST(the_least_round_trip_does_not_drift)
{
	RIG(g);
	hk_peer p = pair(&g);

	round_trip(&g, p, 1, BASE);
	for (unsigned i = 0; i < 40000; i++)
		round_trip(&g, p, 1, BASE + TARGET);
	CHECK_EQ(rig_info(&g, p).min_rtt, BASE);
	round_trip(&g, p, 1, BASE / 2);
	CHECK_EQ(rig_info(&g, p).min_rtt, BASE / 2);
}

/* A route that has become longer is known after two periods of 8.6 s. */
TEST(the_least_round_trip_follows_the_route)
{
	RIG(g);
	hk_peer p = pair(&g);

	round_trip(&g, p, 1, BASE);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(rig_info(&g, p).min_rtt, BASE);
		g.now += 4300 * HK_MSEC;
		round_trip(&g, p, 1, 2 * BASE);
		round_trip(&g, p, 1, 3 * BASE);
	}
	g.now += 8600 * HK_MSEC;
	round_trip(&g, p, 1, 3 * BASE);
	CHECK_EQ(rig_info(&g, p).min_rtt, 2 * BASE);
}

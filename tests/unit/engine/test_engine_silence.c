/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_silence.c: an engine that gets no answer: it waits, probes, resends
 * and lists silent peers. The test sets the clock of one engine.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

#define TICK (2 * HK_USEC) /* timers may be that late */

#define RTT (20 * HK_USEC)

/* ---- timers -------------------------------------------------------------------------------- */

/* Without answers each wait is twice the one before, up to the ceiling. */
TEST(back_off_doubles_to_its_ceiling)
{
	uint64_t gap[20], last;
	unsigned n = 0;

	RIG(g);
	g.cfg.initial_rto = 10 * HK_MSEC;
	g.cfg.min_rto = HK_MSEC;
	g.cfg.max_rto = 150 * HK_MSEC;
	g.cfg.peer_timeout = 10 * HK_SEC;
	rig_start(&g);
	rig_send(&g, rig_add(&g, 2), 1);
	last = g.now;
	while (n < HK_ARRAY_LEN(gap)) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++) {
			CHECK_EQ(g.out[i].kind, HK_OUT_RESEND);
			CHECK_EQ(g.out[i].token, 1);
			CHECK(rig_out(&g, i).flags & HK_WIRE_F_RESENT);
			gap[n++] = g.now - last;
			last = g.now;
		}
		CHECK_CMP(g.outs, <=, 1);
	}
	for (unsigned i = 0; i < n; i++)
		gap[i] = gap[i] / TICK * TICK;
	CHECK_EQ(gap[0], g.cfg.initial_rto / TICK * TICK);
	bool doubled = false;
	for (unsigned i = 1; i < n; i++) {
		CHECK_CMP(gap[i], <=, g.cfg.max_rto);
		CHECK_CMP(gap[i], >=, gap[i - 1]);
		doubled |= gap[i] - 2 * gap[i - 1] <= TICK;
	}
	CHECK(doubled);
	CHECK_CMP(hk_engine_counters(g.e)->loss_rto, >=, 1);
	CHECK_CMP(hk_engine_counters(g.e)->loss_rto, <=, n);
	CHECK_EQ(gap[n - 1], g.cfg.max_rto / TICK * TICK);
}

/* The back-off ends with the first progress. */
TEST(progress_ends_back_off)
{
	RIG(g);
	g.cfg.initial_rto = 10 * HK_MSEC;
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	rig_send(&g, p, 2);
	for (unsigned i = 0; i < 5; i++)
		rig_next(&g);
	rig_ack(&g, 2, 1, 64);
	CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + 2 * g.cfg.initial_rto);
}

/* Somebody's round trip says how long the first packet to a new peer may take. It is sent again
 * early, once, and does not count as lost: the peer may not have started. */
TEST(a_first_packet_is_sent_again_after_eight_round_trips_of_another)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	g.now += 500 * HK_USEC;
	rig_echo(&g, 1, (uint32_t)((g.now - 500 * HK_USEC) >> HK_WIRE_TS_SHIFT), 0);
	CHECK_CMP(rig_info(&g, p).srtt, >=, 450 * HK_USEC);
	CHECK_EQ(g.e->slow_rtt, hk_rec(g.e, p)->srtt);
	rig_send(&g, p, 2);
	g.now += 508 * HK_USEC;
	rig_echo(&g, 2, (uint32_t)((g.now - 508 * HK_USEC) >> HK_WIRE_TS_SHIFT), 0);
	CHECK_EQ(g.e->slow_rtt, hk_rec(g.e, p)->srtt); /* a little longer */
	rig_send(&g, rig_add(&g, 3), 7);
	uint64_t sent = g.now;

	do
		rig_next(&g);
	while (g.outs == 0 || g.out[0].kind != HK_OUT_RESEND);
	CHECK_EQ(g.out[0].token, 7);
	CHECK_CMP(g.now - sent, >=, 3500 * HK_USEC);
	CHECK_CMP(g.now - sent, <=, 4100 * HK_USEC);
	CHECK_EQ(hk_engine_counters(g.e)->loss_rto, 0);
}

/* However many packets are lost, one poll resends at most the cap, and asks to be polled again. */
TEST(resend_cap)
{
	struct hk_wire_sack sack = {{0, 0, 0, 0}};
	unsigned total = 0;

	RIG(g);
	g.cfg.resend_cap = 4;
	hk_peer p = rig_pair(&g);
	g.now += HK_MSEC;
	for (unsigned i = 0; i < 24; i++)
		rig_send(&g, p, i);
	unsigned before = rig_info(&g, p).cwnd;
	/* later one more is sent, and only that one arrives */
	g.now += 50 * HK_USEC;
	rig_send(&g, p, 24);
	g.now += 20 * HK_USEC;
	sack.bits[0] = UINT64_C(1) << 24;
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);
	h.tsecr = (uint32_t)((g.now - 20 * HK_USEC) >> HK_WIRE_TS_SHIFT);
	rig_input(&g, &h, &sack, 0);
	for (unsigned polls = 0; polls < 20 && hk_engine_deadline(g.e) <= g.now; polls++) {
		rig_poll(&g);
		CHECK_CMP(g.outs, <=, 4);
		for (unsigned i = 0; i < g.outs; i++)
			CHECK_EQ(g.out[i].kind, HK_OUT_RESEND);
		total += g.outs;
	}
	CHECK_CMP(total, >, 4);
	CHECK_CMP(rig_info(&g, p).cwnd, <, before);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 24);
}

/* If many peers fall silent at once, one poll probes at most the cap. */
TEST(resend_cap_over_peers)
{
	unsigned probed = 0;

	RIG(g);
	g.cfg.resend_cap = 3;
	rig_start(&g);
	for (uint32_t i = 2; i < 10; i++)
		rig_send(&g, rig_add(&g, i), i);
	for (unsigned polls = 0; polls < 20 && probed < 8; polls++) {
		rig_next(&g);
		CHECK_CMP(g.outs, <=, 3);
		probed += g.outs;
	}
	CHECK_EQ(probed, 8);
}

/* ---- probes before resends ------------------------------------------------------------------- */

static void ack_echo(struct rig *g, uint32_t ack, uint16_t flags)
{
	rig_echo(g, ack,
		 (uint32_t)(g->now >> HK_WIRE_TS_SHIFT) - (uint32_t)(RTT >> HK_WIRE_TS_SHIFT),
		 flags);
}

/* A peer that has sent a frame, and three packets to it, the last by path 1. No answer comes. */
static hk_peer silent_pair(struct rig *g)
{
	struct hk_packet bulk = {
		.token = 3, .len = 900, .type = HK_WIRE_PUT, .frags = 1, .path = 1};
	struct hk_wire_hdr h;
	hk_peer p = rig_pair(g);

	rig_send(g, p, 0);
	ack_echo(g, 1, 0);
	rig_send(g, p, 1);
	rig_send(g, p, 2);
	CHECK(hk_engine_send(g->e, p, &bulk, g->now, &h));
	return p;
}

static void next_is_a_probe(struct rig *g)
{
	CHECK_EQ(rig_next(g), 1);
	CHECK_EQ(g->out[0].kind, HK_OUT_TAIL_PROBE);
	CHECK_EQ(g->out[0].path, 1); /* behind the last packet */
	CHECK(rig_out(g, 0).type == HK_WIRE_ACK && rig_out(g, 0).flags & HK_WIRE_F_ACK_NOW);
}

/* The peer loses its core for longer than a resend timeout, but no packets: nothing is resent. */
TEST(a_silent_peer_is_probed)
{
	RIG(g);
	hk_peer p = silent_pair(&g);
	uint64_t start = g.now;

	next_is_a_probe(&g);
	CHECK_CMP(g.now - start, <, g.cfg.min_rto);
	next_is_a_probe(&g);
	CHECK_CMP(g.now - start, >, g.cfg.min_rto);
	g.now = start + 3 * g.cfg.min_rto - 1;
	CHECK_EQ(rig_poll(&g), 0);
	ack_echo(&g, 4, HK_WIRE_F_NOT_POLLING);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	CHECK_EQ(hk_engine_counters(g.e)->tx_resends, 0);
	CHECK_EQ(hk_engine_counters(g.e)->loss_rto + hk_engine_counters(g.e)->loss_time, 0);
}

/* The peer's answer does not acknowledge the last packet before the probe: that one is resent,
 * once, and no later one. An acknowledgement that left before the probe arrived, such as a grant,
 * does not answer it. */
TEST(an_answer_tells_what_is_lost)
{
	RIG(g);
	hk_peer p = silent_pair(&g);

	next_is_a_probe(&g);
	g.now += HK_USEC;
	rig_send(&g, p, 4);
	ack_echo(&g, 1,
		 HK_WIRE_F_ACK_NOW); /* a probe of the peer's own: it may not have ours yet */
	CHECK_EQ(rig_poll(&g), 1);   /* the answer to that probe */
	CHECK_EQ(g.out[0].kind, HK_OUT_CONTROL);
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 0);
	g.now += RTT;
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 3);
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 0);
	/* from here on the timer resends the first packet, and doubles */
	uint64_t last = g.now, gap = 0;
	for (unsigned n = 0; n < 4; n++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
		CHECK_CMP(g.now - last, >=, gap + gap / 2);
		gap = g.now - last;
		last = g.now;
		ack_echo(&g, 1, 0); /* the peer is alive, but never gets the packet */
	}
}

/* The sender's record of a silent peer, which it has just probed. */
static struct hk_peer_rec *probed(struct rig *g)
{
	hk_peer p = silent_pair(g);

	next_is_a_probe(g);
	return hk_rec(g->e, p);
}

static void answer(struct rig *g)
{
	g->now += RTT + 64;
	ack_echo(g, 1, 0);
}

/* A probe asks for what was sent before it, be it by a nanosecond. */
TEST(the_last_packet_before_the_probe_is_resent)
{
	for (unsigned before = 0; before < 2; before++) {
		RIG(g);
		struct hk_peer_rec *r = probed(&g);

		hk_tx_slot(g.e, r, 3)->sent_at = r->probed_at - before;
		answer(&g);
		CHECK_EQ(rig_poll(&g), 1);
		CHECK_EQ(g.out[0].token, before ? 3 : 2);
	}
}

/* With a full window the first packet is resent, if it was sent before the probe. */
TEST(the_first_packet_of_a_full_window_is_resent)
{
	for (unsigned before = 0; before < 2; before++) {
		RIG(g);
		struct hk_peer_rec *r = probed(&g);

		r->cwnd = 256; /* one packet */
		hk_tx_slot(g.e, r, 1)->sent_at = r->probed_at - before;
		answer(&g);
		CHECK_EQ(hk_tx_slot(g.e, r, before ? 1 : 3)->state, HK_SLOT_LOST);
		CHECK_EQ(hk_tx_slot(g.e, r, before ? 3 : 1)->state, HK_SLOT_IN_FLIGHT);
	}
}

/* Two ends round their clocks to 16 ns each. */
TEST(an_answer_may_look_older_than_the_probe_by_two_roundings)
{
	for (unsigned more = 0; more < 2; more++) {
		RIG(g);
		struct hk_peer_rec *r = probed(&g);
		uint32_t tsecr = (uint32_t)((g.now - RTT) >> HK_WIRE_TS_SHIFT);

		r->probed_at = g.now - hk_echo_age(tsecr, g.now) + 32 + more;
		rig_echo(&g, 1, tsecr, 0);
		CHECK_EQ(r->probed == HK_PROBE_ANSWERED, more == 0);
	}
}

/* The answer echoes the probe. By that the peer knows it from what was on its way before. */
TEST(an_answer_echoes_the_probe)
{
	RIG(g);
	rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);

	h.tsval = 70;
	rig_input(&g, &h, NULL, 0);
	h = rig_hdr(&g, 2, HK_WIRE_ACK);
	h.flags = HK_WIRE_F_ACK_NOW;
	h.psn = 1;
	h.tsval = 77;
	rig_input(&g, &h, NULL, 0);
	g.now += 3u << HK_WIRE_TS_SHIFT; /* the answer leaves later, which does not count */
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).tsecr, 77 + 3);
}

/* Makes a header of the peer echo a packet sent at @sent_at. */
static void echo(struct hk_wire_hdr *h, uint64_t sent_at)
{
	h->ack = 1;
	h->tsecr = (uint32_t)(sent_at >> HK_WIRE_TS_SHIFT);
}

/* Data replaces an answer. Data sent before our probe can have arrived shows nothing; later data
 * does. */
TEST(data_answers_too)
{
	RIG(g);
	silent_pair(&g);
	next_is_a_probe(&g);
	uint64_t asked = g.now;

	for (unsigned n = 0; n < 2; n++) {
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
		unsigned resent = 0;

		h.psn = n;
		g.now = asked + RTT + n * RTT;
		echo(&h, g.now - RTT - 2 * HK_USEC + n * 4 * HK_USEC);
		rig_input(&g, &h, NULL, 8 + n);
		rig_poll(&g);
		for (unsigned i = 0; i < g.outs; i++)
			resent += g.out[i].kind == HK_OUT_RESEND && g.out[i].token == 3;
		CHECK_EQ(resent, n);
	}
}

/* The probe goes behind the last packet in flight, not behind one that has arrived. */
TEST(probed_behind_what_is_in_flight)
{
	const struct hk_wire_sack fourth = {{1u << 3}};

	RIG(g);
	hk_peer p = silent_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

	rig_send(&g, p, 4); /* by path 0, and overtakes the one by path 1 */
	echo(&h, g.now - RTT);
	rig_input(&g, &h, &fourth, 0);
	CHECK_EQ(rig_next(&g), 2); /* the two of path 0 are lost */
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[1].kind == HK_OUT_RESEND);
	next_is_a_probe(&g);
}

/* A progress proxy gets the answer: it resends a lost packet that it can read, although that was
 * not the last one. */
TEST(an_answer_to_a_progress_proxy)
{
	struct hk_packet borrowed = {.token = 9,
				     .len = 900,
				     .type = HK_WIRE_PUT,
				     .frags = 1,
				     .path = 1,
				     .borrowed = true};
	struct hk_wire_hdr h;

	RIG(g);
	hk_peer p = silent_pair(&g);

	CHECK(hk_engine_send(g.e, p, &borrowed, g.now, &h));
	hk_engine_set_proxy(g.e, true);
	next_is_a_probe(&g);
	g.now += RTT;
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 3);
	hk_engine_set_proxy(g.e, false);
}

/* No answers come. After two probes the engine resends the packet. */
TEST(two_probes_are_enough)
{
	RIG(g);
	silent_pair(&g);
	next_is_a_probe(&g);
	next_is_a_probe(&g);
	for (unsigned n = 0; n < 5; n++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
	}
}

/* A peer that never sent a frame may not know us, and only packets introduce us. */
TEST(a_stranger_is_not_probed)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	CHECK_EQ(rig_next(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
}

/* ---- payload that a progress proxy cannot read ----------------------------------------------- */

/* One borrowed packet, and one behind it that is not. A progress proxy drives the engine. */
static hk_peer lent_and_not(struct rig *g)
{
	struct hk_packet borrowed = {
		.token = 1, .len = 900, .type = HK_WIRE_PUT, .path = 1, .borrowed = true};
	struct hk_wire_hdr h;

	g->cfg.peer_timeout = 2 * HK_SEC;
	hk_peer p = rig_pair(g);

	CHECK(hk_engine_send(g->e, p, &borrowed, g->now, &h));
	rig_send(g, p, 2);
	hk_engine_set_proxy(g->e, true);
	return p;
}

/* The borrowed packet is not resent before its owner returns, however long that takes; others
 * are. The peer answers probes, so it is not given up. */
TEST(lent_packets_wait_for_their_owner)
{
	unsigned asked = 0, resent = 0;

	RIG(g);
	hk_peer p = lent_and_not(&g);
	uint64_t end = g.now + 10 * g.cfg.peer_timeout;

	while (g.now < end) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++) {
			if (g.out[i].kind == HK_OUT_RESEND) {
				CHECK_MSG(g.out[i].token != 1, "a proxy resends what it cannot "
							       "read");
				resent++;
			} else {
				CHECK(rig_out(&g, i).flags & HK_WIRE_F_ACK_NOW);
				asked++;
			}
		}
		if (g.outs) { /* it has the second packet, and will not get the first */
			struct hk_wire_sack second = {{2}};
			struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

			rig_input(&g, &h, resent ? &second : &(struct hk_wire_sack){{0}}, 0);
		}
		rig_disconnect(&g, HK_PEER_NONE);
	}
	CHECK(resent > 0 && asked > 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2); /* the second is only known to have arrived */
	CHECK_CMP(hk_engine_deadline(g.e), >, g.now);
	hk_engine_set_proxy(g.e, false);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
}

/* A peer is given up as silent even if nothing can be resent to it. */
TEST(silence_is_noticed_by_a_progress_proxy)
{
	RIG(g);
	hk_peer p = lent_and_not(&g);
	uint64_t end = g.now + 10 * g.cfg.peer_timeout;

	rig_ack(&g, 2, 0, 64);
	while (g.now < end && hk_engine_peer_state(g.e, p) == HK_PEER_ACTIVE)
		rig_next(&g);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_SILENT);
}

/* ---- who is silent, long before anything is lost ------------------------------------------- */

TEST(silent_peers_are_named)
{
	const uint64_t after = 50 * HK_USEC;
	struct hk_silent_peer u[4];
	RIG(g);
	rig_start(&g);
	hk_peer a = rig_add(&g, 2), b = rig_add(&g, 3);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now + after, after, 0, u, 4),
		 0); /* nothing is in flight */
	uint64_t start = g.now;
	rig_send(&g, a, 1);
	g.now += 10 * HK_USEC;
	rig_send(&g, b, 2);
	rig_send(&g, a, 3); /* the first packet counts */
	g.now = start + after - 1;
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now, after, 0, u, 4), 0);
	g.now++;
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now, after, 0, u, 4), 1);
	CHECK(u[0].peer == a && u[0].since == start);
	g.now += after;
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now, after, 0, u, 4), 2);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now, after, 0, u, 1), 1);
	hk_peer first = u[0].peer;

	CHECK_EQ(hk_engine_silent_peers(g.e, g.now, after, 1, u, 4), 1); /* the other peer */
	CHECK(u[0].peer != first);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now, after, 2, u, 4), 0);
	/* a peer that is alive and acknowledges nothing: a proxy polls there */
	rig_ack(&g, 2, 0, 64);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now + after - 1, after, 0, u, 4), 1);
	CHECK(u[0].peer == b);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now + after, after, 0, u, 4), 2);
	rig_ack(&g, 3, 1, 64);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now + after, after, 0, u, 4), 1);
	CHECK(u[0].peer == a);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_silent_peers(g.e, g.now + after, after, 0, u, 4), 0);
}

/* A peer that copies bulk, in either direction, may be silent longer, up to a limit. */
TEST(silence_is_longer_where_bulk_moves)
{
	const uint64_t after = 50 * HK_USEC;
	enum bulk { NONE, SENT, CAME };
	static const struct {
		uint64_t rtt, limit;
		enum bulk bulk;
	} way[] = {{10, 50, SENT},  {80, 160, SENT},   {4000, 400, SENT},
		   {80, 160, CAME}, {4000, 400, CAME}, {4000, 50, NONE}}; /* us */

	for (unsigned i = 0; i < HK_ARRAY_LEN(way); i++) {
		struct hk_packet pkt = {.len = 8192, .type = HK_WIRE_DATA, .frags = 1};
		struct hk_silent_peer u[4];

		RIG(g);
		rig_start(&g);
		g.now = 100ull
			<< 20; /* not while the coarse clock makes an old long frame look recent */
		hk_peer p = rig_add(&g, 2);
		uint32_t tsval = rig_send(&g, p, 1).tsval;

		g.now += way[i].rtt * HK_USEC;
		rig_echo(&g, 1, tsval, 0);
		rig_send(&g, p, 2);
		for (unsigned n = 0; way[i].bulk == SENT && n < 8; n++) {
			uint8_t header[HK_WIRE_HLEN];

			pkt.token = 3 + n;
			CHECK(hk_engine_send(g.e, p, &pkt, g.now, header));
		}
		if (way[i].bulk == CAME)
			rig_long(&g, 2, 0);
		uint64_t limit = way[i].limit * HK_USEC;

		CHECK_EQ(hk_engine_silent_peers(g.e, g.now + limit - 1, after, 0, u, 4), 0);
		CHECK_CMP(hk_engine_silent_peers(g.e, g.now + limit, after, 0, u, 4), ==, 1);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_arrival.c: what the engine learns from an acknowledgement: round
 * trips, which packets arrived, which of them was sent last, and which are lost.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

#define RTT (80 * HK_USEC)

static uint32_t stamp(uint64_t at)
{
	return (uint32_t)(at >> HK_WIRE_TS_SHIFT);
}

static void send_one(struct rig *g, hk_peer p, uint16_t len)
{
	struct hk_packet pkt = {.token = 1, .len = len, .type = HK_WIRE_PUT};
	struct hk_wire_hdr h;

	CHECK(hk_engine_send(g->e, p, &pkt, g->now, &h));
}

/* Endpoint 2 acknowledges all packets before @ack, and those of @bits behind it; @age ns ago it
 * received the packet that it echoes. 0: it echoes none. */
static void acknowledge(struct rig *g, uint32_t ack, struct hk_wire_sack sack, uint64_t age)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_ACK);

	h.ack = ack;
	h.tsecr = age ? stamp(g->now - age) : 0;
	rig_input(g, &h, &sack, 0);
}

static struct hk_wire_sack only(unsigned bit)
{
	struct hk_wire_sack sack = {{0}};

	sack.bits[bit / 64] = UINT64_C(1) << (bit % 64);
	return sack;
}

/* A pair whose round trip is known. */
static hk_peer pair(struct rig *g)
{
	hk_peer p = rig_pair(g);

	send_one(g, p, 64);
	g->now += RTT;
	acknowledge(g, 1, (struct hk_wire_sack){{0}}, RTT);
	CHECK_EQ(hk_rec(g->e, p)->srtt, RTT);
	return p;
}

/* ---- round trips ----------------------------------------------------------------------------- */

/* RFC 6298: the mean takes an eighth of each sample, and the variation a quarter of its distance.
 */
TEST(round_trips_are_smoothed)
{
	RIG(g);
	hk_peer p = pair(&g);
	const struct hk_peer_rec *r = hk_rec(g.e, p);

	CHECK_EQ(r->rttvar, RTT / 2);
	send_one(&g, p, 64);
	g.now += 2 * RTT;
	acknowledge(&g, 2, (struct hk_wire_sack){{0}}, 2 * RTT);
	CHECK_EQ(r->last_rtt, 2 * RTT);
	CHECK_EQ(r->rttvar, RTT / 2 + RTT / 4 - RTT / 8);
	CHECK_EQ(r->srtt, RTT + 2 * RTT / 8 - RTT / 8);
	uint32_t var = r->rttvar, mean = r->srtt;

	send_one(&g, p, 64);
	g.now += RTT;
	acknowledge(&g, 3, (struct hk_wire_sack){{0}}, RTT);
	CHECK_EQ(r->rttvar, var + ((mean - RTT) >> 2) - (var >> 2));
	CHECK_EQ(r->srtt, mean + RTT / 8 - (mean >> 3));
}

/* An acknowledgement that echoes nothing measures nothing. */
TEST(without_an_echo_there_is_no_sample)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	send_one(&g, p, 64);
	g.now += RTT;
	acknowledge(&g, 1, (struct hk_wire_sack){{0}}, 0);
	CHECK_EQ(hk_rec(g.e, p)->srtt, 0);
	CHECK_EQ(hk_rec(g.e, p)->last_rtt, 0);
	send_one(&g, p, 64);
	g.now += RTT;
	acknowledge(&g, 2, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(hk_rec(g.e, p)->srtt, 16);
	send_one(&g, p, 64);
	g.now += RTT;
	acknowledge(&g, 3, (struct hk_wire_sack){{0}}, 0);
	CHECK_EQ(hk_rec(g.e, p)->srtt, 16);
}

/* The least of this period counts in the next one, even if it was not the first of its period. */
TEST(the_least_of_a_period_is_kept)
{
	static const uint64_t samples[] = {2 * RTT, RTT, 3 * RTT};

	RIG(g);
	hk_peer p = rig_pair(&g);
	uint32_t ack = 0;

	g.now = (g.now >> 33 << 33) + HK_SEC; /* periods have 2^33 ns */
	for (unsigned period = 0; period < 3; period++) {
		for (unsigned i = 0; i < HK_ARRAY_LEN(samples); i++) {
			if (period && i < 2)
				continue;
			send_one(&g, p, 64);
			g.now += samples[i];
			acknowledge(&g, ++ack, (struct hk_wire_sack){{0}}, samples[i]);
		}
		CHECK_EQ(hk_rec(g.e, p)->min_rtt, period < 2 ? RTT : 3 * RTT);
		g.now += UINT64_C(1) << 33;
	}
}

/* ---- what has arrived ------------------------------------------------------------------------ */

/* Every bit of a bitmap counts, up to the window. */
TEST(packets_far_behind_a_gap)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	r->cwnd = 256u << 8;
	for (unsigned i = 0; i < 200; i++) /* packets 1 to 200 */
		send_one(&g, p, 8);
	CHECK_EQ(r->in_flight, 200);
	static const unsigned bits[] = {63, 64, 127, 128, 199};

	for (unsigned i = 0; i < HK_ARRAY_LEN(bits); i++) {
		acknowledge(&g, 1, only(bits[i]), 16);
		CHECK_EQ(hk_tx_slot(g.e, r, 1 + bits[i])->state, HK_SLOT_ACKED);
		CHECK_EQ(r->sacked, i + 1);
	}
	acknowledge(&g, 1, only(200), 16); /* was never sent */
	CHECK_EQ(r->sacked, HK_ARRAY_LEN(bits));
	/* those behind the first one that is missing stay counted */
	g.now += HK_USEC;
	acknowledge(&g, 129, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(r->sacked, 2);
	CHECK_EQ(r->progress_at, g.now);
}

/* Of packets of one instant, the one with the highest number was sent last. */
TEST(packets_of_one_instant_have_an_order)
{
	for (unsigned classes = 0; classes < 2; classes++) {
		RIG(g);
		g.cfg.classes = classes;
		hk_peer p = pair(&g);
		struct hk_peer_rec *r = hk_rec(g.e, p);

		for (unsigned i = 0; i < 4; i++) /* packets 1 to 4 */
			send_one(&g, p, HK_LONG_FRAME);
		g.now += RTT;
		acknowledge(&g, 1, only(2), 16); /* packet 3 */
		CHECK_EQ(r->rack.psn, 3);
		CHECK_EQ(r->rack.rtt, RTT);
		acknowledge(&g, 1, only(1), 16); /* packet 2: sent before */
		CHECK_EQ(r->rack.psn, 3);
		CHECK_EQ(r->rack.bulk_psn, classes ? 3 : 0);
		/* a quarter of the round trip later, packet 1 is lost. 4 was sent after 3. */
		g.now += r->srtt / 4 + HK_USEC;
		rig_poll(&g);
		CHECK_EQ(hk_tx_slot(g.e, r, 1)->resent, 1);
		CHECK_EQ(hk_tx_slot(g.e, r, 4)->state, HK_SLOT_IN_FLIGHT);
		CHECK_EQ(hk_tx_slot(g.e, r, 4)->resent, 0);
		CHECK_EQ(hk_engine_counters(g.e)->loss_time, 1);
	}
}

/* A round trip of more than a second does not measure the network. */
TEST(late_arrivals_are_bounded)
{
	RIG(g);
	hk_peer p = pair(&g);

	send_one(&g, p, 64);
	g.now += 5 * HK_SEC;
	acknowledge(&g, 2, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(hk_rec(g.e, p)->rack.rtt, 1 << 30);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* A packet is lost a quarter of the round trip after it was due. */
TEST(the_reordering_window)
{
	RIG(g);
	hk_peer p = pair(&g);
	const struct hk_peer_rec *r = hk_rec(g.e, p);

	send_one(&g, p, 64);
	uint64_t sent = g.now;

	g.now += 16;
	send_one(&g, p, 64);
	g.now += RTT;
	acknowledge(&g, 1, only(1), RTT);
	uint64_t due = sent + RTT + r->srtt / 4;

	CHECK_EQ(r->lost, 0);
	while (hk_engine_counters(g.e)->loss_time == 0)
		rig_next(&g);
	CHECK_CMP(g.now, >=, due);
	CHECK_CMP(g.now, <, due + 2 * HK_USEC);
}

/* The answer to a probe acknowledges nothing. Then the last packet from before the probe is lost,
 * or the first one if the window has no room for another. */
static void answer_to_probe(unsigned window, unsigned sent_later, uint64_t later, uint32_t lost)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	for (unsigned i = 0; i < 4; i++)
		send_one(&g, p, 64);
	while (hk_engine_counters(g.e)->tx_probes == 0)
		rig_next(&g);
	g.now += later;
	for (unsigned i = 0; i < sent_later; i++)
		send_one(&g, p, 64);
	r->cwnd = window << 8;
	g.now += RTT;
	acknowledge(&g, 1, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 1);
	CHECK_EQ(r->lost, 1);
	CHECK_EQ(hk_tx_slot(g.e, r, lost)->state, HK_SLOT_LOST);
}

TEST(an_answered_probe_names_the_last_packet)
{
	answer_to_probe(64, 0, 0, 4);
	answer_to_probe(4, 0, 0, 4);
	answer_to_probe(3, 0, 0, 1);
	answer_to_probe(64, 2, HK_USEC, 4);
	answer_to_probe(5, 2, HK_USEC, 1);
	answer_to_probe(64, 2, 0, 4); /* with the probe */
}

/* Four packets to @p, and @probes probes without an answer. Returns when the last one left. */
static uint64_t probe(struct rig *g, hk_peer p, uint64_t probes)
{
	for (unsigned i = 0; i < 4; i++)
		send_one(g, p, 64);
	while (hk_engine_counters(g->e)->tx_probes < probes)
		rig_next(g);
	return g->now;
}

/* A resend timeout passes before the answer comes. The packet resent by it left after the probe. So
 * the answer does not show that this one is lost, even if the window is full. */
TEST(a_late_answer_counts)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);
	uint64_t probed = probe(&g, p, 2);

	while (hk_engine_counters(g.e)->tx_resends == 0)
		rig_next(&g);
	CHECK_EQ(hk_tx_slot(g.e, r, 1)->resent, 1);
	r->cwnd = 1 << 8;
	acknowledge(&g, 1, (struct hk_wire_sack){{0}}, g.now - probed);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 1);
	CHECK_EQ(hk_tx_slot(g.e, r, 4)->state, HK_SLOT_LOST);
	CHECK_EQ(hk_tx_slot(g.e, r, 1)->state, HK_SLOT_IN_FLIGHT);
}

/* The peer gave credit before it received the probe, which does not hide its answer. */
TEST(credit_does_not_hide_an_answer)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	probe(&g, p, 1);
	r->tx_edge = r->tx_next;
	g.now += HK_USEC;
	acknowledge(&g, 1, (struct hk_wire_sack){{0}}, RTT);
	CHECK_CMP(r->tx_edge, >, r->tx_next);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 0);
	g.now += RTT;
	acknowledge(&g, 1, (struct hk_wire_sack){{0}}, RTT);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 1);
}

/* A packet that was sent earlier and arrives later says nothing of the path now. */
TEST(the_latest_arrival_is_the_one_sent_last)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	send_one(&g, p, 64);
	g.now += HK_USEC;
	send_one(&g, p, 64);
	g.now += RTT;
	acknowledge(&g, 1, only(1), RTT);
	const struct hk_rack *rack = hk_rack(g.e, r, hk_tx_slot(g.e, r, 2)->path);

	CHECK_EQ(rack->rtt, RTT);
	g.now += HK_USEC;
	acknowledge(&g, 3, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(rack->rtt, RTT);
}

/* An acknowledgement of something new ends the back-off, and the probe. */
TEST(progress_ends_the_back_off)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	for (unsigned i = 0; i < 2; i++)
		send_one(&g, p, 64);
	while (hk_engine_counters(g.e)->loss_rto < 2)
		rig_next(&g);
	CHECK_CMP(r->backoff, >=, 2);
	acknowledge(&g, 2, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(r->backoff, 0);
	uint64_t probes = hk_engine_counters(g.e)->tx_probes;

	while (hk_engine_counters(g.e)->tx_probes == probes)
		rig_next(&g);
	CHECK_EQ(r->probed, HK_PROBED_ONCE);
	send_one(&g, p, 64);
	acknowledge(&g, 3, (struct hk_wire_sack){{0}}, 16);
	CHECK_EQ(r->probed, HK_PROBED_NOT);
}

/* Each frame says whether its sender polls. */
TEST(a_peer_that_does_not_poll)
{
	RIG(g);
	hk_peer p = pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	for (unsigned i = 0; i < 4; i++) {
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

		h.ack = 1;
		h.flags = i % 2 ? HK_WIRE_F_NOT_POLLING : 0;
		rig_input(&g, &h, NULL, 0);
		CHECK_EQ(r->not_polling, i % 2);
	}
}

/* ---- silence --------------------------------------------------------------------------------- */

static unsigned silent(struct rig *g, uint64_t after)
{
	struct hk_silent_peer out[4];

	return hk_engine_silent_peers(g->e, g->now, after, 0, out, 4);
}

/* A peer that copies bulk may be silent for two round trips, at most eight times as long as
 * others. */
TEST(bulk_excuses_silence)
{
	static const struct {
		uint32_t bytes, srtt;
		uint64_t long_ago, limit;
	} table[] = {
		{65536, 200 * HK_USEC, HK_SEC, 400 * HK_USEC},
		{65535, 200 * HK_USEC, HK_SEC, 100 * HK_USEC},
		{64, 200 * HK_USEC, 0, 400 * HK_USEC},
		{64, 200 * HK_USEC, 1 << 20, 400 * HK_USEC},
		{64, 200 * HK_USEC, 2 << 20, 100 * HK_USEC},
		{65536, 20 * HK_USEC, HK_SEC, 100 * HK_USEC},
		{65536, HK_MSEC, HK_SEC, 800 * HK_USEC},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		hk_peer p = pair(&g);
		struct hk_peer_rec *r = hk_rec(g.e, p);

		send_one(&g, p, 64);
		CHECK_EQ(silent(&g, 0), 0); /* no time has passed */
		r->tx_bytes = table[i].bytes;
		r->srtt = table[i].srtt;
		r->progress_at = r->last_rx = g.now;
		g.now += table[i].limit - 1;
		r->long_at = hk_coarse_ms(g.now + 1 - table[i].long_ago);
		CHECK_EQ(silent(&g, 100 * HK_USEC), 0);
		g.now++;
		CHECK_EQ(silent(&g, 100 * HK_USEC), 1);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_flow.c: limits of sending: credit, congestion window, round-trip
 * time.
 */
#include "tests/support/rig.h"

static struct hk_peer_info info_of(struct sim *s, unsigned node, unsigned peer)
{
	struct hk_peer_info info;
	hk_engine_peer_info(sim_engine(s, node), sim_peer(s, node, peer), &info);
	return info;
}

/* Nodes 1 to @senders send @each messages to node 0, one @every ns. */
static void all_send(struct sim *s, unsigned senders, unsigned each, unsigned len, uint64_t every)
{
	for (unsigned i = 1; i <= senders; i++)
		for (unsigned k = 0; k < each; k++)
			sim_send(s, i, 0, HK_WIRE_DATA, 1, len, k * every);
}

/* ---- credit -------------------------------------------------------------------------------- */

/* The receiver holds all buffers: the sender stops at the window. It releases them: the sender
 * continues. */
TEST(credit_stops_and_resumes)
{
	SIM(s, 2, c.engine.window = 32);
	sim_hold_all(s, 1, true);
	sim_pair_stream(s, 200, 0);
	sim_run_for(s, 50 * HK_MSEC);
	uint64_t stopped = sim_held(s, 1);
	CHECK_CMP(stopped, >=, 16);
	CHECK_CMP(stopped, <=,
		  64); /* the credit from before the first buffer was held, and a window */
	CHECK_EQ(info_of(s, 0, 1).credit, 0);
	CHECK_EQ(hk_engine_available(sim_engine(s, 0), sim_peer(s, 0, 1)), 0);
	CHECK(hk_engine_zero_credit(sim_engine(s, 0), sim_peer(s, 0, 1)));
	CHECK(!hk_engine_zero_credit(sim_engine(s, 1), sim_peer(s, 1, 0)));
	sim_run_for(s, 50 * HK_MSEC);
	CHECK_EQ(sim_held(s, 1), stopped);
	CHECK_CMP(hk_engine_counters(sim_engine(s, 0))->tx_probes, >,
		  0); /* the sender probes for credit */

	uint64_t before = sim_now(s);
	sim_hold_all(s, 1, false);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_CMP(sim_now(s) - before, <, 5 * HK_MSEC);
	CHECK(!hk_engine_zero_credit(sim_engine(s, 0), sim_peer(s, 0, 1)));
	CHECK_EQ(sim_stats(s)->overflow_ring, 0);
	CHECK_EQ(sim_stats(s)->resends, 0);
}

/* The credit update and its first repeats are lost: a probe gets the credit. */
static bool lose_updates(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			 void *ctx)
{
	unsigned *left = ctx;
	if (from == 0 || *left == 0)
		return true;
	(*left)--;
	return false;
}

TEST(lost_window_update)
{
	unsigned lose = 4;

	SIM(s, 2, c.engine.window = 16);
	sim_hold_all(s, 1, true);
	sim_pair_stream(s, 60, 0);
	sim_run_for(s, 20 * HK_MSEC);
	CHECK_EQ(info_of(s, 0, 1).credit, 0);
	sim_set_filter(s, lose_updates, &lose);
	sim_hold_all(s, 1, false);
	sim_run_done(s, 5 * HK_SEC);
	CHECK_EQ(lose, 0);
}

/* A node that holds many buffers is not overrun by many senders: they share its budget. */
TEST(budget_is_shared)
{
	unsigned senders = 15;

	SIM(s, senders + 1, c.engine.rx_budget = 512, c.rx_ring = 4096);
	sim_hold_all(s, 0, true);
	all_send(s, senders, 300, 64, 10 * HK_USEC);
	sim_run_for(s, 100 * HK_MSEC);
	/* each may send a first burst before it knows the credit */
	CHECK_CMP(sim_held(s, 0), <=, 512 + 64 * senders);
	CHECK_CMP(sim_held(s, 0), >=, 256);
	sim_hold_all(s, 0, false);
	sim_run_done(s, 10 * HK_SEC);
	CHECK_EQ(sim_stats(s)->delivered, 300 * senders);
}

/* ---- round-trip time ----------------------------------------------------------------------- */

TEST(rtt_is_measured)
{
	static const uint64_t latencies[] = {500, 5 * HK_USEC, 50 * HK_USEC, 5 * HK_MSEC};

	for (unsigned i = 0; i < HK_ARRAY_LEN(latencies); i++) {
		SIM(s, 2, c.latency = latencies[i], c.ps_per_byte = 8);
		sim_pair_stream(s, 60, 10 * latencies[i]);
		sim_run_for(s, 600 * latencies[i]);
		sim_run_done(s, HK_SEC);
		uint64_t rtt = 2 * latencies[i];
		/* the clock's resolution of 16 ns counts four times; the cable adds a few ns */
		CHECK_CMP(info_of(s, 0, 1).min_rtt, >=, rtt - 64);
		CHECK_CMP(info_of(s, 0, 1).min_rtt, <=, rtt + 100);
		CHECK_CMP(info_of(s, 0, 1).srtt, <=, rtt + rtt / 8 + 100);
	}
}

/* The receiver delays acknowledgements for fifty round trips: this does not count as network
 * time. */
TEST(delayed_acks_do_not_count)
{
	SIM(s, 2, c.latency = 5 * HK_USEC, c.ps_per_byte = 8, c.engine.ack_delay = 500 * HK_USEC,
	    c.engine.ack_every = 1000);
	sim_pair_stream(s, 40, HK_MSEC);
	sim_run_for(s, 45 * HK_MSEC);
	sim_run_done(s, HK_SEC);
	CHECK_CMP(info_of(s, 0, 1).srtt, <, 12 * HK_USEC);
	CHECK_CMP(info_of(s, 0, 1).srtt, >, 9 * HK_USEC);
	CHECK_EQ(sim_stats(s)->resends, 0); /* the timers allow for the delay */
}

/* ---- the congestion window ----------------------------------------------------------------- */

/* Three senders share one slow cable with a deep queue. The queue stays shorter than their
 * windows would make it, no frame is dropped, and the cable is always busy. */
TEST(delay_shrinks_the_window)
{
	const unsigned each = 1500, len = 1000;

	SIM(s, 4, c.latency = 5 * HK_USEC, c.ps_per_byte = 8000 /* 1 Gbit/s */,
	    c.queue_bytes = 4 << 20, c.engine.target_delay = 100 * HK_USEC);
	all_send(s, 3, each, len, 0);
	uint64_t start = sim_now(s);
	sim_run_for(s, 15 * HK_MSEC);
	/* 3 windows of 256 KB would take 6 ms to drain; the target is 0.1 ms */
	for (unsigned i = 1; i < 4; i++) {
		CHECK_CMP(info_of(s, i, 0).cwnd, <, 128);
		CHECK_CMP(info_of(s, i, 0).srtt, <, 2 * HK_MSEC);
	}
	sim_run_done(s, 10 * HK_SEC);
	uint64_t least = 3ull * each * len * c.ps_per_byte / 1000;
	CHECK_CMP(sim_now(s) - start, <, least * 13 / 10);
	CHECK_EQ(sim_stats(s)->overflow_switch, 0);
}

/* On a wire without delay the window grows, and one connection fills the cable. */
TEST(no_delay_opens_the_window)
{
	const unsigned count = 3000, len = 1400;

	/* 100 us at 10 Gbit/s: 125 KB, 86 packets in flight */
	SIM(s, 2, c.latency = 50 * HK_USEC);
	for (unsigned k = 0; k < count; k++)
		sim_send(s, 0, 1, HK_WIRE_DATA, 1, len, 0);
	uint64_t start = sim_now(s);
	sim_run_for(s, HK_MSEC);
	CHECK_CMP(info_of(s, 0, 1).cwnd, >, 86);
	sim_run_done(s, HK_SEC);
	uint64_t least = (uint64_t)count * len * c.ps_per_byte / 1000;
	CHECK_CMP(sim_now(s) - start, <, least * 13 / 10);
}

/* Sixty-three senders send at once into a queue of 100 frames, so most of the first burst is
 * lost. Everything arrives, in a small multiple of the time that the cable needs, and no peer is
 * given up. */
TEST(incast)
{
	const unsigned senders = 63, each = 40, len = 1000;

	SIM(s, senders + 1, c.queue_bytes = 100 * 1100);
	all_send(s, senders, each, len, 0);
	uint64_t start = sim_now(s);
	sim_run_done(s, 10 * HK_SEC);
	uint64_t least = (uint64_t)senders * each * len * c.ps_per_byte / 1000;
	CHECK_CMP(sim_stats(s)->overflow_switch, >, 0);
	CHECK_CMP(sim_now(s) - start, <, 20 * least);
	CHECK_CMP(sim_stats(s)->resends, <, 4 * senders * each);
}

/* The window in bytes stops large packets earlier than the window in packets. One packet may
 * always go, however large. */
TEST(window_in_bytes)
{
	struct hk_packet pkt = {.len = 1000, .type = HK_WIRE_DATA, .frags = 1};
	struct hk_wire_hdr h;

	RIG(g);
	g.cfg.window_bytes = 5000;
	hk_peer p = rig_pair(&g);
	unsigned sent = 0;
	while (hk_engine_send(g.e, p, &pkt, g.now, &h))
		sent++;
	CHECK_EQ(sent, 5);
	CHECK(h.flags & HK_WIRE_F_ACK_NOW); /* the last packet asks for an acknowledgement */
	CHECK_EQ(hk_engine_available(g.e, p), 0);
	rig_ack(&g, 2, 2, 64);
	CHECK_CMP(hk_engine_available(g.e, p), >, 0);
	rig_ack(&g, 2, 5, 64);
	pkt.len = 9000;
	CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
	CHECK_EQ(hk_engine_available(g.e, p), 0);
}

/* Packets that waited because the caller did not poll are acknowledged with NOT_POLLING. */
TEST(away_is_said)
{
	RIG(g);
	g.cfg.ack_every = 1;
	rig_pair(&g);
	for (unsigned i = 0; i < 4; i++) {
		bool away = i & 1;
		hk_engine_set_not_polling(g.e, away);
		CHECK_EQ(rig_data(&g, 2, i), HK_RX_DELIVER);
		hk_engine_set_not_polling(g.e, false);
		CHECK_EQ(rig_poll(&g), 1);
		CHECK_EQ(!!(rig_out(&g, 0).flags & HK_WIRE_F_NOT_POLLING), away);
	}
}

/* Such a wait does not count as congestion at the sender, however long it was. */
TEST(away_is_no_congestion)
{
	unsigned cwnd[2];

	for (unsigned away = 0; away < 2; away++) {
		uint32_t psn = 0;

		RIG(g);
		g.cfg.target_delay = 50 * HK_USEC;
		hk_peer p = rig_pair(&g);
		for (unsigned i = 0; i < 20; i++) {
			uint32_t tsval = rig_send(&g, p, i).tsval;
			g.now += i < 5 ? 10 * HK_USEC : HK_MSEC; /* then each takes much longer */
			rig_echo(&g, ++psn, tsval, away && i >= 5 ? HK_WIRE_F_NOT_POLLING : 0);
		}
		cwnd[away] = rig_info(&g, p).cwnd;
	}
	CHECK_CMP(cwnd[0], <, 16);
	CHECK_CMP(cwnd[1], >=, 32);
}

/* ---- counters ------------------------------------------------------------------------------ */

TEST(counters_add_up)
{
	uint64_t packets[3] = {0}, bytes[3] = {0};

	SIM(s, 3, c.loss = 30000, c.dup = 30000, c.reorder = 30000);
	for (unsigned i = 0; i < 600; i++) {
		unsigned from = i % 3, frags = 1 + i % 7, len = 20 + i % 400;
		bool put = i % 4 == 0;
		sim_send(s, from, (from + 1 + i / 3 % 2) % 3, put ? HK_WIRE_PUT : HK_WIRE_DATA,
			 frags, len, i * 2 * HK_USEC);
		packets[from] += frags;
		bytes[from] += (uint64_t)frags * (len + (put ? HK_WIRE_PUT_LEN : 0));
	}
	sim_run_for(s, 2 * HK_MSEC);
	sim_run_done(s, 10 * HK_SEC);
	sim_run_for(s, 10 * HK_MSEC);

	struct hk_engine_counters sum = {0};
	for (unsigned i = 0; i < 3; i++) {
		const struct hk_engine_counters *n = hk_engine_counters(sim_engine(s, i));
		CHECK_EQ(n->tx_packets, packets[i]);
		CHECK_EQ(n->tx_bytes, bytes[i]);
		CHECK_CMP(n->loss_time + n->loss_rto, <=, n->tx_resends + 1);
		CHECK_EQ(n->dead_peers + n->resets + n->drop_epoch + n->drop_key, 0);
		CHECK_EQ(n->drop_window + n->drop_peers + n->drop_endpoint, 0);
		sum.rx_packets += n->rx_packets;
		sum.rx_bytes += n->rx_bytes;
		sum.tx_packets += n->tx_packets;
		sum.tx_bytes += n->tx_bytes;
		sum.tx_resends += n->tx_resends;
		sum.tx_acks += n->tx_acks + n->tx_probes;
		sum.rx_acks += n->rx_acks;
		sum.rx_duplicates += n->rx_duplicates;
	}
	CHECK_EQ(sum.rx_packets, sum.tx_packets);
	CHECK_EQ(sum.rx_bytes, sum.tx_bytes);
	CHECK_EQ(sum.tx_resends, sim_stats(s)->resends);
	CHECK_EQ(sum.tx_acks, sim_stats(s)->controls);
	const struct sim_stats *st = sim_stats(s);
	/* each frame was lost, or counted by its receiver */
	CHECK_EQ(st->frames + st->doubled - st->lost - st->overflow_ring - st->overflow_switch,
		 sum.rx_packets + sum.rx_duplicates + sum.rx_acks);
}

/* Refused sends are counted by reason. */
TEST(refusals_have_reasons)
{
	struct hk_packet pkt = {.len = 10, .type = HK_WIRE_DATA, .frags = 1};
	struct hk_wire_hdr h;

	RIG(g);
	g.cfg.tx_blocks = 1;
	g.cfg.window = 16;
	rig_start(&g);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);
	hk_peer a = rig_add(&g, 2), b = rig_add(&g, 3);
	unsigned sent = 0;
	while (hk_engine_available(g.e, a))
		rig_send(&g, a, sent++);
	CHECK_EQ(sent, 16);
	CHECK(!hk_engine_send(g.e, a, &pkt, g.now, &h));
	CHECK_EQ(n->no_credit + n->no_cwnd, 1);
	CHECK(!hk_engine_send(g.e, b, &pkt, g.now, &h)); /* the only block is in use */
	CHECK_EQ(n->no_block, 1);
	rig_ack(&g, 2, 16, 0); /* all packets arrived, and there is no new credit */
	CHECK(!hk_engine_send(g.e, a, &pkt, g.now, &h));
	CHECK_CMP(n->no_credit, >=, 1);
	CHECK_CMP(hk_engine_available(g.e, b), >, 0); /* the block is free for another peer */
}

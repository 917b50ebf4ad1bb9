/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_replay.c: frames with keys that somebody has recorded and sends
 * again, and frames that another path has overtaken. The engine does not check tags.
 */
#include "tests/support/rig.h"

static hk_peer pair_with_keys(struct rig *g)
{
	g->cfg.protection = HK_PROTECTION_AUTH;
	frame_counter = 100;
	return rig_pair(g);
}

static void send(struct rig *g, hk_peer p, unsigned packets)
{
	for (unsigned i = 0; i < packets; i++)
		rig_send(g, p, i);
}

static const struct hk_engine_counters *counters(const struct rig *g)
{
	return hk_engine_counters(g->e);
}

TEST(an_old_acknowledgement_has_no_effect)
{
	RIG(g);
	hk_peer p = pair_with_keys(&g);

	send(&g, p, 4);
	CHECK_EQ(rig_ack(&g, 2, 1, 64), HK_RX_CONTROL);
	CHECK_EQ(rig_info(&g, p).in_flight, 3);
	/* the same counter, and one before it; each would acknowledge all */
	for (unsigned back = 1; back <= 2; back++) {
		frame_counter -= 2;
		CHECK_EQ(rig_ack(&g, 2, 4, 64), HK_RX_DROP);
	}
	CHECK_EQ(rig_info(&g, p).in_flight, 3);
	CHECK_EQ(counters(&g)->drop_replay, 2);
	frame_counter = 200;
	CHECK_EQ(rig_ack(&g, 2, 4, 64), HK_RX_CONTROL);
	CHECK_EQ(rig_info(&g, p).in_flight, 0);
}

TEST(an_old_packet_is_taken_once_and_acknowledges_nothing)
{
	RIG(g);
	hk_peer p = pair_with_keys(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);

	send(&g, p, 2);
	frame_counter = 300;
	h.psn = 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 1), HK_RX_DELIVER);
	/* packet 0 was sent before it, and has been overtaken */
	frame_counter = 299;
	h.psn = 0;
	h.ack = 2;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_info(&g, p).in_flight, 2);
	CHECK_EQ(g.rx.next, 2);
	/* either again */
	for (uint32_t psn = 0; psn < 2; psn++) {
		frame_counter = 299 + psn;
		h.psn = psn;
		CHECK_EQ(rig_input(&g, &h, NULL, psn), HK_RX_DROP);
	}
	CHECK_EQ(counters(&g)->rx_duplicates, 2);
	CHECK_EQ(rig_info(&g, p).in_flight, 2);
}

TEST(an_old_bye_is_ignored)
{
	RIG(g);
	hk_peer p = pair_with_keys(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_BYE);

	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	frame_counter = 100;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	frame_counter = 101;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_CONTROL);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_LEFT);
}

/* Without keys the counter is 0, and order says nothing. */
TEST(without_keys_nothing_is_a_replay)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	send(&g, p, 2);
	CHECK_EQ(rig_ack(&g, 2, 1, 64), HK_RX_CONTROL);
	CHECK_EQ(rig_ack(&g, 2, 2, 64), HK_RX_CONTROL);
	CHECK_EQ(rig_info(&g, p).in_flight, 0);
}

/* Nobody becomes a peer by a frame, no later incarnation replaces one, and nothing is answered. */
TEST(with_keys_there_are_no_strangers)
{
	RIG(g);
	hk_peer p = pair_with_keys(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);

	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DROP);
	CHECK_EQ(counters(&g)->drop_peers, 1);
	CHECK_EQ(hk_engine_peers(g.e), 1);
	h.src_epoch++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	rig_disconnect(&g, HK_PEER_NONE);
	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.dst_epoch++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(counters(&g)->drop_epoch, 2);
	CHECK_EQ(rig_poll(&g), 0);
}

/* The next incarnation counts from the start. */
TEST(a_peer_that_starts_again_counts_again)
{
	RIG(g);
	hk_peer p = pair_with_keys(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_BYE);

	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_CONTROL);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), p);
	frame_counter = 1;
	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.src_epoch++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
}

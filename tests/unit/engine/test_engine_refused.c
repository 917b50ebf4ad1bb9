/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_refused.c: frames that the engine does not take, and what it says,
 * counts and leaves as it was.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

/* A worker that has no buffers refuses packets. Its peers hear of it, and do not measure the time.
 */
TEST(a_refusing_engine_answers)
{
	RIG(g);
	rig_pair(&g);
	hk_engine_set_refusing(g.e, true);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->refused, 1);
	CHECK_EQ(hk_engine_counters(g.e)->rx_packets, 0);
	CHECK_EQ(rig_poll(&g), 1);
	struct hk_frame f = rig_out_frame(&g, 0);

	CHECK_EQ(f.h.type, HK_WIRE_ACK);
	CHECK_EQ(f.h.ack, 0);
	CHECK(f.h.flags & HK_WIRE_F_NOT_POLLING);
	struct hk_wire_hdr probe = rig_hdr(&g, 2, HK_WIRE_ACK);

	probe.psn = 1;
	probe.flags = HK_WIRE_F_ACK_NOW;
	rig_input(&g, &probe, NULL, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(rig_out(&g, 0).flags & HK_WIRE_F_NOT_POLLING);
	hk_engine_set_refusing(g.e, false);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
}

/* Each refused frame has its own counter, no peer, and no effect. */
TEST(a_bad_frame_has_no_peer)
{
	RIG(g);
	rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	h.job++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(g.rx.peer, HK_PEER_NONE);
	CHECK(!g.rx.new_peer);
	CHECK_EQ(n->drop_key, 1);
	h.job--;
	h.dst++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(g.rx.peer, HK_PEER_NONE);
	h.dst--;
	h.src = h.dst;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 2);
}

/* Frames of peers that are unknown, have no place in the table, or have left. */
TEST(frames_of_no_peer_are_counted)
{
	RIG(g);
	g.cfg.max_peers = 1;
	rig_pair(&g);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	CHECK_EQ(rig_ack(&g, 3, 0, 8), HK_RX_DROP);
	CHECK_EQ(n->drop_peers, 1);
	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_peers, 2);
	struct hk_wire_hdr bye = rig_hdr(&g, 2, HK_WIRE_BYE);

	CHECK_EQ(rig_input(&g, &bye, NULL, 0), HK_RX_CONTROL);
	CHECK_EQ(n->drop_peers, 2);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_peers, 3);
}

/* Each frame of a peer ends its silence. */
TEST(a_frame_ends_silence)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	hk_rec(g.e, p)->silent = HK_SEC;
	rig_data(&g, 2, 0);
	CHECK_EQ(hk_rec(g.e, p)->silent, 0);
	CHECK_EQ(hk_rec(g.e, p)->last_rx, g.now);
}

TEST(our_own_multicast_is_dropped)
{
	RIG(g);
	rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_MCAST);

	h.credit = 0;
	h.tsval = 0;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_MCAST);
	CHECK_EQ(hk_engine_counters(g.e)->drop_endpoint, 0);
	h.src = g.cfg.endpoint;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_endpoint, 1);
}

TEST(resets_are_counted)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	h.tsecr = RIG_EPOCH(2) - 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_CONTROL);
	CHECK_EQ(n->drop_epoch, 1);
	CHECK_EQ(n->resets, 0);
	h.tsecr = RIG_EPOCH(2);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_CONTROL);
	CHECK_EQ(n->drop_epoch, 1);
	CHECK_EQ(n->resets, 1);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_RESTARTED);
}

/* A peer of the caller that has restarted waits for the caller. It does not count as a new peer. */
TEST(a_restarted_peer_waits_for_its_caller)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);

	h.src_epoch++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(g.rx.peer, HK_PEER_NONE);
	CHECK(!g.rx.new_peer);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 1);
	CHECK_EQ(hk_engine_counters(g.e)->drop_peers, 0);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_RESTARTED);
}

/* The caller may have a mark for a frame whose peer the engine does not know. */
TEST(a_mark_of_nobody)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	hk_engine_marked(g.e, p);
	CHECK_EQ(hk_rec(g.e, p)->rx_marks, 1);
	uint8_t before = hk_rec(g.e, g.e->peers)->rx_marks;

	hk_engine_marked(g.e, g.e->peers);
	hk_engine_marked(g.e, HK_PEER_NONE);
	CHECK_EQ(hk_rec(g.e, g.e->peers)->rx_marks, before);
}

/* Long packets are acknowledged sooner: every 4 KiB count as one more. */
TEST(long_packets_count_more)
{
	static const struct {
		uint16_t len;
		unsigned packets;
	} table[] = {{0, 1}, {4095, 1}, {4096, 2}, {8191, 2}, {8192, 3}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		hk_peer p = rig_pair(&g);
		uint8_t frame[FRAME_BYTES(8192)], body[8192] = {0};
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);

		h.len = table[i].len;
		hk_engine_input(g.e, frame, frame_encode(frame, &h, body, HK_WIRE_BARE), 0, g.now,
				&g.rx);
		CHECK_EQ(g.rx.result, HK_RX_DELIVER);
		CHECK_EQ(hk_rec(g.e, p)->ack_pending, table[i].packets);
	}
}

/* Each fragment of a new message must be free: a packet with its number may be another message's.
 * Packet @taken has arrived as a message of its own; then comes fragment @frag of 4, whose message
 * begins at @first. */
static enum hk_rx_result fragment_after(uint32_t first, uint32_t taken, uint8_t frag)
{
	RIG(g);
	rig_pair(&g);
	for (uint32_t psn = 0; psn < first; psn++)
		CHECK_EQ(rig_data(&g, 2, psn), HK_RX_DELIVER);
	CHECK_EQ(rig_data(&g, 2, taken), HK_RX_DELIVER);
	enum hk_rx_result result = rig_fragment(&g, first + frag, frag, 4, 9);

	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, result == HK_RX_DROP);
	return result;
}

TEST(a_message_has_no_packets_of_others)
{
	static const uint32_t firsts[] = {1, 200, 1000};

	for (unsigned i = 0; i < HK_ARRAY_LEN(firsts); i++) {
		uint32_t first = firsts[i];

		for (uint32_t k = 1; k < 4; k++)
			CHECK_EQ(fragment_after(first, first + k, 0), HK_RX_DROP);
		CHECK_EQ(fragment_after(first, first + 4, 0), HK_RX_HOLD);
		CHECK_EQ(fragment_after(first, first + 1, 3), HK_RX_DROP);
	}
}

/* The first number may be taken while the message is not the next that is due. */
TEST(the_first_packet_is_of_this_message)
{
	RIG(g);
	rig_pair(&g);
	CHECK_EQ(rig_data(&g, 2, 1), HK_RX_DELIVER);
	CHECK_EQ(rig_fragment(&g, 2, 1, 3, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 1);
	CHECK_EQ(rig_fragment(&g, 2, 0, 3, 9), HK_RX_HOLD);
}

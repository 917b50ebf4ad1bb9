/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/test_engine_input.c: what an engine makes of frames: strangers, other incarnations, peers
 * that come and go, acknowledgements and credit that lie, fragments.
 */
#include "tests/unit/rig.h"

/* ---- who is heard -------------------------------------------------------------------------- */

static void strangers_are_counted(void)
{
	struct rig g;
	struct hk_wire_hdr h;

	rig_config(&g);
	rig_pair(&g);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.key ^= 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_key, 1);

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.dst = 7;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 1);

	h = rig_hdr(&g, RIG_SELF, HK_WIRE_DATA); /* a frame of our own comes back */
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 2);
	CHECK_EQ(rig_poll(&g), 0); /* nobody is answered */

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = g.cfg.window; /* beyond any credit */
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_window, 1);

	uint8_t junk[80] = {0};
	hk_engine_input(g.e, junk, sizeof(junk), 0, g.now, &g.rx);
	CHECK_EQ(g.rx.verdict, HK_RX_DROP);
	CHECK_EQ(n->drop_wire[HK_WIRE_E_ETHERTYPE], 1);
	hk_engine_input(g.e, junk, 3, 0, g.now, &g.rx);
	CHECK_EQ(n->drop_wire[HK_WIRE_E_SHORT], 1);
	CHECK_EQ(n->rx_packets, 0);
	rig_end(&g);
}

/* A frame to an incarnation that we are not: not delivered; its sender is told. */
static void wrong_epoch_is_refused(void)
{
	struct rig g;

	rig_config(&g);
	rig_pair(&g);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.dst_epoch = 55;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_epoch, 1);
	CHECK(hk_engine_deadline(g.e) <= g.now);
	CHECK_EQ(rig_poll(&g), 1);
	struct hk_wire_hdr r = rig_out(&g, 0);
	CHECK_EQ(r.type, HK_WIRE_RESET);
	CHECK_EQ(r.dst, 2);
	CHECK_EQ(r.src_epoch, RIG_EPOCH(RIG_SELF));
	CHECK_EQ(r.dst_epoch, RIG_EPOCH(2)); /* else its receiver would not listen */
	CHECK_EQ(rig_poll(&g), 0);

	/* a refusal is never refused, or two would quarrel for ever */
	h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.dst_epoch = 55;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(rig_poll(&g), 0);
	rig_end(&g);
}

/* A RESET that was sent to an earlier incarnation, or about one, changes nothing. */
static void stale_reset_is_ignored(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.dst_epoch = 55; /* not to us */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.tsecr = 54; /* refuses packets to an incarnation that we do not write to any more */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	h = rig_hdr(&g, 9, HK_WIRE_RESET); /* of somebody unknown */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_find(g.e, 9), HK_PEER_NONE);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	rig_end(&g);
}

/* An earlier incarnation's frame is a stray. A later one's is the proof of a restart, also for
 * somebody who only listens; it is delivered once the caller has added the new one. */
static void incarnations_are_ordered(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	hk_peer p = rig_pair(&g);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = 1;
	h.src_epoch = RIG_EPOCH(2) - 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 1);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);

	h.psn = 0;
	h.src_epoch = RIG_EPOCH(2) + 7;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 2);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(why, HK_VERDICT_RESTARTED);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 7, g.now), p);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);

	/* somebody only heard of begins anew by himself */
	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DELIVER);
	h = rig_hdr(&g, 3, HK_WIRE_PUT);
	h.src_epoch = RIG_EPOCH(3) + 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_PUT);
	CHECK(g.rx.new_peer);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	/* but not for an ack, which cannot be meant for us */
	h = rig_hdr(&g, 3, HK_WIRE_ACK);
	h.src_epoch = RIG_EPOCH(3) + 2;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 3);
	rig_end(&g);
}

/* The caller lets go of a dead peer's buffers late, or of more than it has: no harm. */
static void late_release_is_harmless(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	hk_peer p = rig_pair(&g);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	hk_engine_rx_held(g.e, p, 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.src_epoch = RIG_EPOCH(2) + 1;
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), p);
	hk_engine_rx_held(g.e, p, -1);
	hk_engine_rx_held(g.e, p, -5);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_send(&g, p, 1).window, g.cfg.window);
	rig_end(&g);
}

/* A caller that never reaps is stopped, before the ring of tokens runs over. */
static void who_never_reaps_is_stopped(void)
{
	struct rig g;
	uint64_t token;
	uint32_t sent = 0;

	rig_config(&g);
	g.cfg.tx_blocks = 1;
	g.cfg.window = 16;
	hk_peer p = rig_pair(&g);
	for (unsigned i = 0; i < 1000 && hk_engine_room(g.e, p); i++) {
		rig_send(&g, p, sent++);
		rig_ack(&g, 2, sent, 16);
	}
	CHECK_CMP(sent, <, 1000);
	CHECK_CMP(sent, >=, 16);
	for (uint32_t i = 0; i < sent; i++) {
		CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1);
		CHECK_EQ(token, i);
	}
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_CMP(hk_engine_room(g.e, p), >, 0);
	rig_end(&g);
}

/* Control frames do not make peers: only a message is worth a place in the table. */
static void table_of_peers_is_bounded(void)
{
	struct rig g;

	rig_config(&g);
	g.cfg.max_peers = 4;
	rig_start(&g);
	CHECK_EQ(rig_ack(&g, 50, 0, 64), HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_find(g.e, 50), HK_PEER_NONE);
	for (uint32_t i = 2; i < 6; i++) {
		CHECK_EQ(rig_data(&g, i, 0), HK_RX_DELIVER);
		CHECK(g.rx.new_peer);
		CHECK_EQ(hk_engine_peer_state(g.e, g.rx.peer), HK_PEER_HEARD);
		CHECK_EQ(hk_engine_peer_endpoint(g.e, g.rx.peer), i);
		CHECK_EQ(rig_data(&g, i, 1), HK_RX_DELIVER);
		CHECK(!g.rx.new_peer);
	}
	CHECK_EQ(rig_data(&g, 6, 0), HK_RX_DROP);
	CHECK_CMP(hk_engine_counters(g.e)->drop_peers, >=, 1);
	CHECK_EQ(hk_engine_peer_find(g.e, 6), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, 6, RIG_EPOCH(6), g.now), HK_PEER_NONE);
	/* those who are in stay served */
	CHECK_EQ(rig_data(&g, 3, 2), HK_RX_DELIVER);
	CHECK(hk_engine_peer_add(g.e, 3, RIG_EPOCH(3), g.now) != HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_state(g.e, hk_engine_peer_find(g.e, 3)), HK_PEER_ACTIVE);
	rig_end(&g);
}

static void peers_are_added_once(void)
{
	struct rig g;

	rig_config(&g);
	hk_peer p = rig_pair(&g);
	CHECK_EQ(rig_add(&g, 2), p);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, 3, 0, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, RIG_SELF, 5, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_find(g.e, 3), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_state(g.e, 7), HK_PEER_FREE);
	CHECK_EQ(hk_engine_room(g.e, HK_PEER_NONE), 0);
	rig_end(&g);
}

/* ---- acknowledgements that lie ------------------------------------------------------------- */

static void ack_of_what_was_never_sent(void)
{
	struct rig g;
	uint64_t token;
	struct hk_wire_sack all;

	rig_config(&g);
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	rig_send(&g, p, 2);
	rig_ack(&g, 2, 3, 64); /* only 0 and 1 were sent */
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);
	CHECK_CMP(hk_engine_counters(g.e)->drop_window, >=, 1);
	rig_ack(&g, 2, UINT32_MAX, 64); /* before the first: an old one */
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);

	/* a bitmap full of packets beyond the last */
	memset(&all, 0xff, sizeof(all));
	all.bits[0] &= ~UINT64_C(1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);
	rig_input(&g, &h, &all, 0);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1); /* number 1 it may well have */
	CHECK_EQ(token, 2);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1);
	CHECK_EQ(token, 1);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	rig_end(&g);
}

/* A window of 65535 is not believed, and an older ack does not take credit back. */
static void credit_that_lies(void)
{
	struct rig g;
	struct hk_peer_info info;

	rig_config(&g);
	g.cfg.window = 64;
	hk_peer p = rig_pair(&g);
	rig_ack(&g, 2, 0, UINT16_MAX);
	hk_engine_peer_info(g.e, p, &info);
	CHECK_CMP(info.credit, <=, 64);
	unsigned before = info.credit;
	rig_ack(&g, 2, 0, 0);
	hk_engine_peer_info(g.e, p, &info);
	CHECK_EQ(info.credit, before);
	for (unsigned i = 0; i < 200; i++) {
		if (hk_engine_room(g.e, p))
			rig_send(&g, p, i);
	}
	CHECK_CMP(hk_engine_unacked(g.e, p), <=, 64);
	rig_end(&g);
}

/* ---- fragments ----------------------------------------------------------------------------- */

static enum hk_rx_verdict fragment(struct rig *g, uint32_t psn, uint8_t frag, uint8_t frags,
				   uint8_t am)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_DATA);
	h.psn = psn;
	h.frag = frag;
	h.frags = frags;
	h.am = am;
	return rig_input(g, &h, NULL, 1000 + psn);
}

static void fragments_in_any_order(void)
{
	struct rig g;

	rig_config(&g);
	rig_pair(&g);
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_DROP); /* once is enough */
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 3, 0, 1, 8), HK_RX_DELIVER); /* another message overtakes */
	CHECK_EQ(g.rx.count, 1);
	CHECK_EQ(g.rx.am, 8);
	CHECK_EQ(fragment(&g, 1, 1, 3, 9), HK_RX_DELIVER);
	CHECK_EQ(g.rx.count, 3);
	CHECK_EQ(g.rx.am, 9);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(g.rx.tokens[i], 1000 + i);
	CHECK_EQ(fragment(&g, 1, 1, 3, 9), HK_RX_DROP);
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->rx_duplicates, 3);
	CHECK_EQ(hk_engine_counters(g.e)->rx_packets, 4);
	rig_end(&g);
}

/* Siblings that do not agree about their message are not put together. */
static void fragments_that_contradict(void)
{
	struct rig g;

	rig_config(&g);
	rig_pair(&g);
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 1, 1, 3, 10), HK_RX_DROP); /* another id */
	CHECK_EQ(fragment(&g, 1, 1, 4, 9), HK_RX_DROP);  /* another count */
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 2);
	CHECK_EQ(fragment(&g, 1, 1, 3, 9), HK_RX_HOLD); /* as it should be */
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_DELIVER);
	/* says it began before what was delivered long ago */
	CHECK_EQ(fragment(&g, 3, 3, 4, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 3);
	rig_end(&g);
}

/* Half a message of a peer that is gone: its buffers come back, each once. */
static void half_a_message_comes_back(void)
{
	struct rig g;
	uint64_t tokens[8];
	enum hk_verdict why;

	rig_config(&g);
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 500);
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_HOLD);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.src_epoch = 777;
	h.tsecr = RIG_EPOCH(2);
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(why, HK_VERDICT_RESTARTED);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	CHECK_EQ(hk_engine_reap(g.e, tokens, 8), 1);
	CHECK_EQ(tokens[0], 500 | HK_TOKEN_LOST);
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 1), 1);
	uint64_t first = tokens[0];
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 8), 1);
	CHECK_EQ(first + tokens[0], 1000 + 1002);
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 8), 0);
	CHECK_EQ(hk_engine_reap(g.e, tokens, 8), 0);
	rig_end(&g);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"strangers_are_counted", strangers_are_counted},
		{"wrong_epoch_is_refused", wrong_epoch_is_refused},
		{"stale_reset_is_ignored", stale_reset_is_ignored},
		{"incarnations_are_ordered", incarnations_are_ordered},
		{"late_release_is_harmless", late_release_is_harmless},
		{"who_never_reaps_is_stopped", who_never_reaps_is_stopped},
		{"table_of_peers_is_bounded", table_of_peers_is_bounded},
		{"peers_are_added_once", peers_are_added_once},
		{"ack_of_what_was_never_sent", ack_of_what_was_never_sent},
		{"credit_that_lies", credit_that_lies},
		{"fragments_in_any_order", fragments_in_any_order},
		{"fragments_that_contradict", fragments_that_contradict},
		{"half_a_message_comes_back", half_a_message_comes_back},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

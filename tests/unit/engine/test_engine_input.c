/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_input.c: received frames: foreign ones, other incarnations, peers
 * that come and go, invalid acknowledgements and credit, fragments.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

/* ---- accepted senders ---------------------------------------------------------------------- */

TEST(strangers_are_counted)
{
	struct hk_wire_hdr h;

	RIG(g);
	rig_pair(&g);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.job ^= 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_key, 1);

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.dst = 7;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 1);

	h = rig_hdr(&g, RIG_SELF, HK_WIRE_DATA); /* our own frame comes back */
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 2);
	CHECK_EQ(rig_poll(&g), 0); /* there is no answer */

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = g.cfg.window; /* beyond any credit */
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_window, 1);

	uint8_t junk[80] = {0};
	hk_engine_input(g.e, junk, sizeof(junk), 0, g.now, &g.rx);
	CHECK_EQ(g.rx.result, HK_RX_DROP);
	CHECK_EQ(n->drop_ethertype, 1);
	hk_engine_input(g.e, junk, 3, 0, g.now, &g.rx);
	CHECK_EQ(n->drop_short, 1);
	CHECK_EQ(n->rx_packets, 0);
}

/* A frame to an incarnation that is not ours is not delivered, and its sender gets a RESET. */
TEST(wrong_epoch_is_refused)
{
	RIG(g);
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
	CHECK_EQ(r.dst_epoch, RIG_EPOCH(2)); /* otherwise its receiver would drop it */
	CHECK_EQ(rig_poll(&g), 0);

	/* a RESET gets no RESET, or two endpoints would send them for ever */
	h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.dst_epoch = 55;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(rig_poll(&g), 0);
}

/* A RESET to an earlier incarnation, or about an earlier one, has no effect. */
TEST(stale_reset_is_ignored)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.dst_epoch = 55; /* not to our epoch */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.tsecr = 54; /* refuses an incarnation that we no longer send to */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	h = rig_hdr(&g, 9, HK_WIRE_RESET); /* from an unknown endpoint */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_find(g.e, 9), HK_PEER_NONE);
	rig_disconnect(&g, HK_PEER_NONE);
}

/* A frame of an earlier incarnation is dropped. A frame of a later one proves a restart, also if
 * we only receive. It is delivered once the caller has added the new incarnation. */
TEST(incarnations_are_ordered)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = 1;
	h.src_epoch = RIG_EPOCH(2) - 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 1);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	rig_disconnect(&g, HK_PEER_NONE);

	h.psn = 0;
	h.src_epoch = RIG_EPOCH(2) + 7;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 2);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_RESTARTED);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 7, g.now), p);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);

	/* a peer that the caller did not add starts again by itself */
	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DELIVER);
	h = rig_hdr(&g, 3, HK_WIRE_PUT);
	h.src_epoch = RIG_EPOCH(3) + 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_PUT);
	CHECK(g.rx.new_peer);
	rig_disconnect(&g, HK_PEER_NONE);
	/* but not for an acknowledgement, which cannot be meant for us */
	h = rig_hdr(&g, 3, HK_WIRE_ACK);
	h.src_epoch = RIG_EPOCH(3) + 2;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 3);
}

/* A caller may release a dead peer's buffers late, or more than it holds, without harm. */
TEST(late_release_is_harmless)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	hk_engine_rx_held(g.e, p, 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.src_epoch = RIG_EPOCH(2) + 1;
	rig_input(&g, &h, NULL, 0);
	rig_disconnect(&g, p);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), p);
	hk_engine_rx_held(g.e, p, -1);
	hk_engine_rx_held(g.e, p, -5);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_send(&g, p, 1).credit, g.cfg.window);
}

/* A caller that never reaps is stopped before the ring of tokens overflows. */
TEST(who_never_reaps_is_stopped)
{
	uint64_t token;
	uint32_t sent = 0;

	RIG(g);
	g.cfg.tx_blocks = 1;
	g.cfg.window = 16;
	hk_peer p = rig_pair(&g);
	for (unsigned i = 0; i < 1000 && hk_engine_available(g.e, p); i++) {
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
	CHECK_CMP(hk_engine_available(g.e, p), >, 0);
}

/* Control frames do not create peers; only packets do. */
TEST(table_of_peers_is_bounded)
{
	RIG(g);
	g.cfg.max_peers = 4;
	rig_start(&g);
	CHECK_EQ(rig_ack(&g, 50, 0, 64), HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_find(g.e, 50), HK_PEER_NONE);
	for (uint32_t i = 2; i < 6; i++) {
		CHECK_EQ(rig_data(&g, i, 0), HK_RX_DELIVER);
		CHECK(g.rx.new_peer);
		CHECK_EQ(hk_engine_peer_state(g.e, g.rx.peer), HK_PEER_PASSIVE);
		CHECK_EQ(hk_engine_peer_endpoint(g.e, g.rx.peer), i);
		CHECK_EQ(rig_data(&g, i, 1), HK_RX_DELIVER);
		CHECK(!g.rx.new_peer);
	}
	CHECK_EQ(rig_data(&g, 6, 0), HK_RX_DROP);
	CHECK_CMP(hk_engine_counters(g.e)->drop_peers, >=, 1);
	CHECK_EQ(hk_engine_peer_find(g.e, 6), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, 6, RIG_EPOCH(6), g.now), HK_PEER_NONE);
	/* known peers still work */
	CHECK_EQ(rig_data(&g, 3, 2), HK_RX_DELIVER);
	CHECK(hk_engine_peer_add(g.e, 3, RIG_EPOCH(3), g.now) != HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_state(g.e, hk_engine_peer_find(g.e, 3)), HK_PEER_ACTIVE);
}

/* A stranger that has been silent for long gives its place to a new peer. One that the caller has
 * added does not, and neither does one of which something is left here. */
TEST(silent_strangers_make_room)
{
	enum { PEERS = 40, FIRST = 100 };

	RIG(g);
	g.cfg.max_peers = PEERS;
	rig_start(&g);
	for (uint32_t i = 0; i < PEERS; i++)
		CHECK_EQ(rig_data(&g, FIRST + i, 0), HK_RX_DELIVER);
	hk_peer added = rig_add(&g, FIRST), sent = hk_engine_peer_find(g.e, FIRST + 1),
		held = hk_engine_peer_find(g.e, FIRST + 2);

	(void)rig_send(&g, sent, 0);
	hk_engine_rx_held(g.e, held, 1);
	g.now += 2 * g.cfg.peer_timeout - 1;
	CHECK_EQ(rig_data(&g, FIRST + PEERS, 0), HK_RX_DROP);
	CHECK_EQ(rig_data(&g, FIRST + 3, 1), HK_RX_DELIVER); /* this one is not silent */
	g.now += 1;
	for (uint32_t i = 0; i < PEERS - 4; i++) {
		CHECK_EQ(rig_data(&g, FIRST + PEERS + i, 0), HK_RX_DELIVER);
		CHECK(g.rx.new_peer);
		CHECK(g.rx.peer != added && g.rx.peer != sent && g.rx.peer != held);
	}
	CHECK_EQ(rig_data(&g, FIRST + 2 * PEERS, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_peers(g.e), PEERS);
	for (uint32_t i = 0; i < 2 * PEERS - 4; i++) {
		hk_peer p = hk_engine_peer_find(g.e, FIRST + i);

		CHECK_EQ(p == HK_PEER_NONE, i >= 4 && i < PEERS);
		CHECK(p == HK_PEER_NONE || hk_engine_peer_endpoint(g.e, p) == FIRST + i);
	}
	CHECK_EQ(hk_engine_peer_find(g.e, FIRST), added);
}

/* Strangers come and go for years, and each is found while it is here. */
TEST(strangers_for_years)
{
	enum { PEERS = 64, ROUNDS = 2000 };

	RIG(g);
	g.cfg.max_peers = PEERS;
	rig_start(&g);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t first = 2 + (uint32_t)hk_rng_below(&hk_test_rng, 1u << 30);

		g.now += 2 * g.cfg.peer_timeout;
		for (uint32_t i = 0; i < PEERS; i++)
			CHECK_EQ(rig_data(&g, first + 3 * i, 0), HK_RX_DELIVER);
		for (uint32_t i = 0; i < PEERS; i++)
			CHECK_EQ(rig_data(&g, first + 3 * i, 1), HK_RX_DELIVER);
	}
	CHECK_EQ(hk_engine_peers(g.e), PEERS);
	CHECK_EQ(hk_engine_counters(g.e)->dead_peers, 0);
}

/* Every peer is found again, however often the hash has grown, and up to the last one. */
TEST(the_table_grows)
{
	enum { PEERS = 5000 };

	RIG(g);
	g.cfg.max_peers = PEERS;
	rig_start(&g);
	for (uint32_t i = 0; i < PEERS; i++) {
		CHECK_EQ(hk_engine_peers(g.e), i);
		CHECK_EQ(rig_data(&g, 2 + 7919 * i, 0), HK_RX_DELIVER);
		CHECK_EQ(g.rx.peer, i);
	}
	for (uint32_t i = 0; i < PEERS; i++) {
		CHECK_EQ(hk_engine_peer_find(g.e, 2 + 7919 * i), i);
		CHECK_EQ(rig_data(&g, 2 + 7919 * i, 1), HK_RX_DELIVER);
		CHECK(!g.rx.new_peer);
	}
	CHECK_EQ(hk_engine_peer_find(g.e, 3), HK_PEER_NONE);
	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DROP);
}

/* The hash contains each peer once, and nothing else, before and after it grew. */
TEST(the_hash_has_peers_alone)
{
	RIG(g);
	g.cfg.max_peers = 5000;
	rig_start(&g);
	for (uint32_t i = 0; i < 3000; i++) {
		rig_add(&g, 2 + 7919 * i);
		if (i % 100)
			continue;
		const uint32_t *hash = hk_at(g.e, g.e->hash_off);
		uint32_t entries = 0, sum = 0;

		for (uint32_t k = 0; k <= g.e->hash_mask; k++) {
			if (hash[k] == HK_NIL)
				continue;
			CHECK_CMP(hash[k], <, hk_engine_peers(g.e));
			entries++;
			sum += hash[k];
		}
		CHECK_EQ(entries, i + 1);
		CHECK_EQ(sum, i * (i + 1) / 2);
	}
}

/* A peer that the caller has added does not become a stranger when it comes back by itself. */
TEST(an_added_peer_stays_one)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_BYE);

	CHECK(hk_rec(g.e, p)->added);
	rig_input(&g, &h, NULL, 0);
	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.src_epoch++;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_PASSIVE);
	CHECK(hk_rec(g.e, p)->added);
	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DELIVER);
	hk_peer stranger = g.rx.peer;

	CHECK(!hk_rec(g.e, stranger)->added);
	CHECK_EQ(rig_add(&g, 3), stranger);
	CHECK(hk_rec(g.e, stranger)->added);
}

TEST(peers_are_added_once)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	CHECK_EQ(rig_add(&g, 2), p);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, 3, 0, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, RIG_SELF, 5, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_find(g.e, 3), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_state(g.e, 7), HK_PEER_FREE);
	CHECK_EQ(hk_engine_available(g.e, HK_PEER_NONE), 0);
}

/* ---- acknowledgements that lie ------------------------------------------------------------- */

TEST(ack_of_what_was_never_sent)
{
	uint64_t token;
	struct hk_wire_sack all;

	RIG(g);
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	rig_send(&g, p, 2);
	rig_ack(&g, 2, 3, 64); /* only 0 and 1 were sent */
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);
	CHECK_CMP(hk_engine_counters(g.e)->drop_window, >=, 1);
	rig_ack(&g, 2, UINT32_MAX, 64); /* before the first packet: an old acknowledgement */
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);

	/* a bitmap full of packets beyond the last */
	memset(&all, 0xff, sizeof(all));
	all.bits[0] &= ~UINT64_C(1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);
	rig_input(&g, &h, &all, 0);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1); /* number 1 may have arrived */
	CHECK_EQ(token, 2);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1);
	CHECK_EQ(token, 1);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
}

/* The engine limits a window of 65535 to its own, and an older acknowledgement does not reduce
 * credit. */
TEST(credit_that_lies)
{
	RIG(g);
	g.cfg.window = 64;
	hk_peer p = rig_pair(&g);
	rig_ack(&g, 2, 0, UINT16_MAX);
	CHECK_CMP(rig_info(&g, p).credit, <=, 64);
	unsigned before = rig_info(&g, p).credit;
	rig_ack(&g, 2, 0, 0);
	CHECK_EQ(rig_info(&g, p).credit, before);
	for (unsigned i = 0; i < 200; i++) {
		if (hk_engine_available(g.e, p))
			rig_send(&g, p, i);
	}
	CHECK_CMP(hk_engine_unacked(g.e, p), <=, 64);
}

/* ---- fragments ----------------------------------------------------------------------------- */

TEST(fragments_in_any_order)
{
	RIG(g);
	rig_pair(&g);
	CHECK_EQ(rig_fragment(&g, 2, 2, 3, 9), HK_RX_HOLD);
	CHECK_EQ(rig_fragment(&g, 2, 2, 3, 9), HK_RX_DROP); /* a duplicate */
	CHECK_EQ(rig_fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(rig_fragment(&g, 3, 0, 1, 8), HK_RX_DELIVER); /* another message overtakes it */
	CHECK_EQ(g.rx.count, 1);
	CHECK_EQ(g.rx.am, 8);
	CHECK_EQ(rig_fragment(&g, 1, 1, 3, 9), HK_RX_DELIVER);
	CHECK_EQ(g.rx.count, 3);
	CHECK_EQ(g.rx.am, 9);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(g.rx.tokens[i], 1000 + i);
	CHECK_EQ(rig_fragment(&g, 1, 1, 3, 9), HK_RX_DROP);
	CHECK_EQ(rig_fragment(&g, 0, 0, 3, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->rx_duplicates, 3);
	CHECK_EQ(hk_engine_counters(g.e)->rx_packets, 4);
}

/* Fragments that contradict each other about their message are not joined. */
TEST(fragments_that_contradict)
{
	RIG(g);
	rig_pair(&g);
	CHECK_EQ(rig_fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(rig_fragment(&g, 1, 1, 3, 10), HK_RX_DROP); /* another id */
	CHECK_EQ(rig_fragment(&g, 1, 1, 4, 9), HK_RX_DROP);  /* another count */
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 2);
	CHECK_EQ(rig_fragment(&g, 1, 1, 3, 9), HK_RX_HOLD); /* the right one */
	CHECK_EQ(rig_fragment(&g, 2, 2, 3, 9), HK_RX_DELIVER);
	/* its message would begin before delivered packets */
	CHECK_EQ(rig_fragment(&g, 3, 3, 4, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 3);
}

/* The buffers of an incomplete message come back once each when its peer is gone. */
TEST(half_a_message_comes_back)
{
	uint64_t tokens[8];
	RIG(g);
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 500);
	CHECK_EQ(rig_fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(rig_fragment(&g, 2, 2, 3, 9), HK_RX_HOLD);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.src_epoch = 777;
	h.tsecr = RIG_EPOCH(2);
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_RESTARTED);
	rig_disconnect(&g, HK_PEER_NONE);
	CHECK_EQ(hk_engine_reap(g.e, tokens, 8), 1);
	CHECK_EQ(tokens[0], 500 | HK_TOKEN_LOST);
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 1), 1);
	uint64_t first = tokens[0];
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 8), 1);
	CHECK_EQ(first + tokens[0], 1000 + 1002);
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 8), 0);
	CHECK_EQ(hk_engine_reap(g.e, tokens, 8), 0);
}

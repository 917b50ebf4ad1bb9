/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant.c: whom a receiver grants how much.
 *
 * tools/sim shows what grants do for a network; the random networks of tests/sim check that nothing
 * is sent without one, and that everything arrives. These tests have the rules one by one.
 */
#include "tests/unit/engine/grants.h"

TEST(a_receiver_grants_a_quantum_at_once)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 1 << 20);
	CHECK_EQ(rig_poll(&g), 1);
	/* nobody else waits: quantum after quantum, up to the budget */
	CHECK_EQ(granted_to(&g, 2), BUDGET / QUANTUM * QUANTUM);
	/* what arrives makes room */
	g.now += 20 * HK_USEC;
	for (uint32_t psn = 0; psn < 4; psn++)
		rig_bulk(&g, 2, psn, LONG);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 2), <=, BUDGET); /* less than a quantum has */
	for (uint32_t psn = 4; psn < 8; psn++)
		rig_bulk(&g, 2, psn, LONG);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), BUDGET / QUANTUM * QUANTUM + QUANTUM);
}

TEST(a_short_request_gets_what_it_wants)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 3000);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), 3000);
}

TEST(all_grants_stay_within_the_budget)
{
	RIG(g);
	uint32_t sum = 0;

	switched(&g);
	crowd(&g, 7, 30000);
	for (uint32_t endpoint = 2; endpoint < 9; endpoint++)
		sum += granted_to(&g, endpoint);
	CHECK_CMP(sum, <=, BUDGET);
	CHECK_CMP(sum, >, BUDGET - QUANTUM);
}

/* A message of few frames would hold receive buffers between two grants. The last one may exceed
 * the budget, or the link would idle. */
TEST(an_eager_message_is_granted_whole)
{
	RIG(g);
	switched(&g);
	crowd(&g, 4, 18000);
	uint32_t sum = 0;

	for (uint32_t endpoint = 2; sum + QUANTUM <= BUDGET; endpoint++) {
		CHECK_EQ(granted_to(&g, endpoint), 18000);
		sum += 18000;
	}
	CHECK_EQ(granted_to(&g, 4), 0);
}

/* Senders whose turn it is go on before others begin. Four packets of 1250 bytes are what the link
 * carries in a round trip, so no sender is new. */
TEST(few_senders_have_their_turn)
{
	enum { PEERS = 20, TURNS = 8 };
	RIG(g);
	uint32_t sent[2 + PEERS] = {0}, psn[2 + PEERS] = {0}, may[2 + PEERS] = {0}, sum = 0;
	const uint32_t each = 50 * LONG;

	g.cfg.max_peers = PEERS;
	switched(&g);
	rig_bulk(&g, 2, psn[2]++, 1250);
	sum = sent[2] = 1250;
	crowd(&g, PEERS, each);
	while (sum < PEERS * each) {
		unsigned begun = 0;
		uint32_t before = sum;

		for (uint32_t i = 2; i < 2 + PEERS; i++) {
			may[i] = HK_MAX(may[i], granted_to(&g, i));
			begun += may[i] != 0;
		}
		if (sum < (TURNS / 2) * each)
			CHECK_CMP(begun, <=, TURNS + 1); /* peer 2 was alone at first */
		for (uint32_t i = 2; i < 2 + PEERS; i++) {
			if (sent[i] >= may[i])
				continue;
			g.now += HK_USEC;
			rig_bulk(&g, i, psn[i]++, LONG);
			sent[i] += LONG;
			sum += LONG;
		}
		CHECK_MSG(sum > before, "nobody may send");
		rig_poll(&g);
	}
}

/* A message of 20 KiB is eager, and a longer one is not. Another peer leaves space for a quantum,
 * so the eager one exceeds the budget. */
TEST(an_eager_message_has_20_kib)
{
	for (uint32_t more = 0; more < 2; more++) {
		RIG(g);
		switched(&g);
		rig_add(&g, 3);
		rig_grant(&g, 3, 0, 20000);
		rig_grant(&g, 2, 0, (20u << 10) + more);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 2), more ? QUANTUM : 20u << 10);
	}
}

TEST(the_turn_of_a_peer_that_ends_is_free)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 3000);
	struct hk_wire_hdr bye = rig_hdr(&g, 2, HK_WIRE_BYE);

	rig_input(&g, &bye, NULL, 0);
	rig_add(&g, 4);
	rig_grant(&g, 4, 0, 2000);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 3), 3000);
	CHECK_EQ(granted_to(&g, 4), 2000);
	CHECK_EQ(g.e->grant.out, 5000);
}

/* While others wait, a sender has no more open than its window, until it has sent what the link
 * carries in a round trip. Its window is four packets at first, and one more for each that has
 * arrived. */
TEST(a_new_sender_has_its_window)
{
	RIG(g);
	switched(&g);
	rig_bulk(&g, 2, 0, LONG); /* the budget is a round trip of 4 us and a queue of 20 */
	rig_grant(&g, 2, 0, 1 << 20);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 1 << 20);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 3), 0); /* peer 2 has all */
	uint32_t psn[5] = {0, 0, 1}, may = 0;

	for (; may == 0; may = granted_to(&g, 3)) {
		rig_bulk(&g, 2, psn[2]++, LONG);
		rig_poll(&g);
	}
	CHECK_EQ(may, 4 * LONG);
	/* of which the first two arrive, and peer 2 uses what it has */
	rig_bulk(&g, 3, psn[3]++, LONG);
	rig_bulk(&g, 3, psn[3]++, LONG);
	for (; may == 4 * LONG; may = HK_MAX(may, granted_to(&g, 3))) {
		CHECK_CMP(psn[2], <, 64);
		rig_bulk(&g, 2, psn[2]++, LONG);
		rig_poll(&g);
	}
	CHECK_CMP(may, >, 6 * LONG); /* it is not new any more */
}

/* A window does not split an eager message of 20 KiB. It does split a longer one. */
TEST(a_window_does_not_split_an_eager_message)
{
	for (uint32_t more = 0; more < 2; more++) {
		RIG(g);
		uint32_t psn = 0, may = 0;

		switched(&g);
		rig_bulk(&g, 2, psn++, LONG);
		rig_grant(&g, 2, 0, 1 << 20);
		rig_add(&g, 3);
		rig_grant(&g, 3, 0, (20u << 10) + more);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 3), 0); /* peer 2 has all */
		for (; may == 0; may = granted_to(&g, 3)) {
			CHECK_CMP(psn, <, 64);
			rig_bulk(&g, 2, psn++, LONG);
			rig_poll(&g);
		}
		CHECK_EQ(may, more ? 4 * LONG : 20u << 10);
	}
}

/* The next quantum rides on an acknowledgement while nobody else waits. */
TEST(a_lone_sender_need_not_ask_again)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 3000);
	rig_poll(&g);
	g.now += 20 * HK_USEC;
	rig_bulk(&g, 2, 0, 1500);
	rig_bulk(&g, 2, 1, 1500);
	CHECK(rig_next(&g) > 0);
	CHECK_EQ(granted_to(&g, 2), 3000 + 5 * 1500); /* packets are longer than believed */
}

/* In an exchange between neighbours a sender asks before that acknowledgement has left. Its request
 * asks for less than it has by then, so it gets no grant, and must be told of the one it has. */
TEST(a_sender_that_asks_is_told_what_it_has)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 1500);
	rig_poll(&g);
	g.now += 20 * HK_USEC;
	rig_bulk(&g, 2, 0, 1500);
	CHECK_EQ(rig_poll(&g), 0);
	rig_grant(&g, 2, 0, 1500); /* an old one, which was answered */
	CHECK_EQ(rig_poll(&g), 0);
	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 1500 + 5 * 1500);
	rig_grant(&g, 2, 0, 3000); /* it was told */
	CHECK_EQ(rig_poll(&g), 0);
}

/* A quantum of the budget stays free for those who ask. Of the rest a sender gets half, and at most
 * a quantum. */
TEST(a_lone_sender_gets_half_of_what_is_free)
{
	static const uint32_t open[] = {10000, BUDGET - QUANTUM - 2 * LONG, BUDGET - QUANTUM - 2,
					BUDGET - QUANTUM - 1};

	for (size_t i = 0; i < HK_ARRAY_LEN(open); i++) {
		RIG(g);
		switched(&g);
		rig_add(&g, 3);
		rig_add(&g, 4);
		rig_grant(&g, 3, 0, 10000);
		if (open[i] > 10000)
			rig_grant(&g, 4, 0, open[i] - 10000);
		CHECK_EQ(g.e->grant.out, open[i]);
		rig_bulk(&g, 2, 0, LONG);
		CHECK_EQ(g.e->grant.out, open[i] + (BUDGET - QUANTUM - open[i]) / 2);
	}
	RIG(g);
	switched(&g);
	rig_bulk(&g, 2, 0, LONG);
	CHECK_EQ(g.e->grant.out, QUANTUM);
}

/* Neighbours with short messages have grants at the same time, each for its next message. */
TEST(neighbours_need_not_ask_again)
{
	enum { NEIGHBOURS = 5, EACH = 2000 };

	RIG(g);
	g.cfg.max_peers = NEIGHBOURS;
	switched(&g);
	for (uint32_t endpoint = 2; endpoint < 2 + NEIGHBOURS; endpoint++) {
		if (endpoint > 2)
			rig_add(&g, endpoint);
		rig_grant(&g, endpoint, 0, EACH);
	}
	for (uint32_t psn = 0; psn < 20; psn++)
		for (uint32_t endpoint = 2; endpoint < 2 + NEIGHBOURS; endpoint++)
			rig_bulk(&g, endpoint, psn, EACH);
	for (hk_peer p = 0; p < NEIGHBOURS; p++) {
		uint32_t has = hk_rec(g.e, p)->rx_granted - hk_rec(g.e, p)->rx_bulk;

		CHECK_CMP(has, >=, EACH);
	}
	CHECK_CMP(g.e->grant.out, <=, BUDGET - g.e->grant.quantum);
}

/* Senders with one message each do not use what they get without asking. Together they once kept
 * the next one waiting until such a grant ended, which is a millisecond. */
TEST(senders_with_one_message_each_wait_for_nobody)
{
	RIG(g);
	g.cfg.link_mbps = 400000;
	g.cfg.max_peers = 64;
	rig_pair(&g);
	for (uint32_t endpoint = 3; endpoint < 64; endpoint++) {
		rig_add(&g, endpoint);
		rig_grant(&g, endpoint, 0, 6000);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, endpoint), 6000);
		for (uint32_t psn = 0; psn < 4; psn++)
			rig_bulk(&g, endpoint, psn, 1500);
		g.now += HK_USEC;
	}
}

/* A grant leaves with one frame. After that a data frame replaces an acknowledgement again. */
TEST(a_grant_is_told_once)
{
	RIG(g);
	hk_peer p = switched(&g);

	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 3000);
	rig_data(&g, 2, 0);
	rig_send(&g, p, 1);
	g.now += g.cfg.ack_delay;
	CHECK_EQ(rig_poll(&g), 0);
}

/* A peer may ask before its first packet. */
TEST(a_request_introduces_its_sender)
{
	RIG(g);
	switched(&g);
	CHECK_EQ(rig_grant(&g, 5, 0, 3000), HK_RX_CONTROL);
	CHECK(g.rx.new_peer);
	CHECK_CMP(g.rx.peer, !=, HK_PEER_NONE);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 5), 3000);
	/* an ack without a request does not */
	rig_grant(&g, 6, 3000, 0);
	CHECK_EQ(g.rx.result, HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_find(g.e, 6), HK_PEER_NONE);
}

/* The peer's port may be of another kind than ours. */
TEST(a_receiver_that_needs_no_grants_gives_them)
{
	RIG(g);
	rig_pair(&g);
	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 3000);
}

TEST(a_resend_counts_once)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 1 << 20);
	rig_poll(&g);
	uint32_t before = granted_to(&g, 2);

	g.now += 10 * HK_USEC;
	for (unsigned i = 0; i < 20; i++)
		CHECK_EQ(rig_bulk(&g, 2, 0, LONG), i ? HK_RX_DROP : HK_RX_PUT);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), before);
}

/* A packet without a grant, of a peer that believes to need none, takes nothing from others. */
TEST(bulk_without_a_grant_is_taken)
{
	RIG(g);
	switched(&g);
	for (uint32_t psn = 0; psn < 60; psn++)
		CHECK_EQ(rig_bulk(&g, 2, psn, 1500), HK_RX_PUT);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 30000);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 3), >=, QUANTUM);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant.c: bulk waits for grants of its receiver.
 *
 * tools/sim shows what grants do for a network; the random networks of tests/sim check that nothing
 * is sent without one, and that everything arrives. These tests have the rules one by one.
 */
#include "tests/support/rig.h"

#define LONG 1024u

static hk_peer switched(struct rig *g)
{
	g->cfg.link_mbps = 10000;
	return rig_pair(g);
}

static bool send_len(struct rig *g, hk_peer p, uint16_t len, struct hk_wire_hdr *h)
{
	struct hk_packet pkt = {.token = 1, .len = len, .type = HK_WIRE_PUT};

	return hk_engine_send(g->e, p, &pkt, g->now, h);
}

/* The last grant for @endpoint among the outputs; NULL: none. */
static bool out_grant(const struct rig *g, uint32_t endpoint, struct hk_wire_grant *grant)
{
	bool any = false;

	for (unsigned i = 0; i < g->outs; i++) {
		struct hk_frame f = rig_out_frame(g, i);

		if (f.h.dst == endpoint && f.h.flags & HK_WIRE_F_GRANT) {
			*grant = f.grant;
			any = true;
		}
	}
	return any;
}

/* Bytes that @endpoint may have sent, by the last poll; 0: it was not told. */
static uint32_t granted_to(const struct rig *g, uint32_t endpoint)
{
	struct hk_wire_grant grant = {0};

	return out_grant(g, endpoint, &grant) ? grant.granted : 0;
}

/* ---- the sender ---------------------------------------------------------------------------- */

TEST(bulk_waits_for_a_grant)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h;

	CHECK(hk_engine_granted(g.e, p, LONG - 1, g.now));
	CHECK(send_len(&g, p, LONG - 1, &h));
	CHECK(!(h.flags & HK_WIRE_F_BULK));
	rig_ack(&g, 2, 1, 64);
	CHECK(!hk_engine_granted(g.e, p, LONG, g.now));
	CHECK(!send_len(&g, p, LONG, &h));
	CHECK_EQ(hk_engine_counters(g.e)->no_grant, 1);
	rig_grant(&g, 2, 1, 0);
	CHECK(hk_engine_granted(g.e, p, LONG, g.now));
	CHECK(send_len(&g, p, LONG, &h)); /* one byte lets the whole packet go */
	CHECK(h.flags & HK_WIRE_F_BULK);
	CHECK(!send_len(&g, p, LONG, &h));
	rig_grant(&g, 2, LONG, 0); /* that much has been sent */
	CHECK(!send_len(&g, p, LONG, &h));
	rig_grant(&g, 2, LONG + 1, 0);
	CHECK(send_len(&g, p, LONG, &h));
}

TEST(an_old_grant_changes_nothing)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h;

	rig_grant(&g, 2, 2 * LONG, 0);
	rig_grant(&g, 2, LONG, 0); /* overtaken by the one before */
	CHECK(send_len(&g, p, LONG, &h));
	CHECK(send_len(&g, p, LONG, &h));
	CHECK(!send_len(&g, p, LONG, &h));
}

TEST(a_wire_with_two_ends_needs_no_grants)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h;

	CHECK(hk_engine_granted(g.e, p, 60000, g.now));
	CHECK(send_len(&g, p, 60000, &h));
	CHECK(!(h.flags & HK_WIRE_F_BULK));
	hk_engine_want(g.e, p, 1 << 20, g.now);
	CHECK_EQ(rig_poll(&g), 0);
}

TEST(a_sender_says_what_it_wants_at_once)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};
	struct hk_wire_hdr h;

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 5000);
	CHECK_EQ(grant.granted, 0);
	CHECK_EQ(rig_out(&g, 0).type, HK_WIRE_ACK);
	hk_engine_want(g.e, p, 5000, g.now); /* nothing new */
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_want(g.e, p, 7000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	/* the sum includes what was sent */
	rig_grant(&g, 2, 2 * LONG, 0);
	CHECK(send_len(&g, p, LONG, &h));
	CHECK(send_len(&g, p, LONG, &h));
	hk_engine_want(g.e, p, 7000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 2 * LONG + 7000);
}

/* A request must not be lost because a data frame acknowledges all that is to be acknowledged. */
TEST(a_data_frame_does_not_replace_a_request)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};

	hk_engine_want(g.e, p, 5000, g.now);
	rig_send(&g, p, 1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
}

TEST(a_lost_request_is_repeated)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(rig_next(&g) > 0);
		CHECK(out_grant(&g, 2, &grant));
		CHECK_EQ(grant.wanted, 5000);
		CHECK(rig_out(&g, 0).flags & HK_WIRE_F_ACK_NOW);
	}
	rig_grant(&g, 2, 6000, 0);
	g.now += HK_SEC;
	CHECK_EQ(rig_poll(&g), 0);
}

/* While other packets are in flight no timer asks, so the next call does. */
TEST(a_request_is_repeated_while_small_packets_move)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	rig_send(&g, p, 1);
	g.now += g.cfg.initial_rto + 1;
	hk_engine_want(g.e, p, 5000, g.now);
	rig_poll(&g);
	CHECK(out_grant(&g, 2, &grant));
}

TEST(a_sender_forgets_a_grant_that_it_does_not_use)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h;

	rig_grant(&g, 2, 10 * LONG, 0);
	g.now += 499 * HK_USEC;
	CHECK(send_len(&g, p, LONG, &h)); /* this uses it */
	g.now += 499 * HK_USEC;
	CHECK(send_len(&g, p, LONG, &h));
	g.now += 500 * HK_USEC;
	CHECK(!send_len(&g, p, LONG, &h));
	/* then it asks again, at once */
	rig_poll(&g);
	hk_engine_want(g.e, p, 3 * LONG, g.now);
	rig_poll(&g);
	struct hk_wire_grant grant = {0};

	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 5 * LONG);
}

/* ---- the receiver -------------------------------------------------------------------------- */

/* With 10 Gbit/s and 4 us of round trip, as it is believed at first: 5000 bytes, and 20 us of
 * queue. The quantum is a quarter of it, in whole packets. */
#define BUDGET  30000u
#define QUANTUM (BUDGET / 4 / LONG * LONG)

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

/* Adds peers 3, 4, …; all of them and peer 2 want @bytes. */
static void crowd(struct rig *g, unsigned peers, uint32_t bytes)
{
	for (uint32_t endpoint = 2; endpoint < 2 + peers; endpoint++) {
		if (endpoint > 2)
			rig_add(g, endpoint);
		rig_grant(g, endpoint, 0, bytes);
	}
	rig_poll(g);
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

/* Senders whose turn it is go on before others begin. */
TEST(few_senders_have_their_turn)
{
	enum { PEERS = 20, TURNS = 8 };
	RIG(g);
	uint32_t sent[2 + PEERS] = {0}, psn[2 + PEERS] = {0}, may[2 + PEERS] = {0}, sum = 0;
	const uint32_t each = 50 * LONG;

	g.cfg.max_peers = PEERS;
	switched(&g);
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

/* A sender that does not answer, while the link idles, has others to serve. */
TEST(a_busy_sender_is_passed_over)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 3000);
	CHECK_EQ(rig_poll(&g), 0); /* the budget is used up */
	CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + 100 * HK_USEC);
	CHECK(rig_next(&g) > 0);
	CHECK_EQ(granted_to(&g, 3), 3000);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 0);
	/* what peer 2 has open still holds when it can send */
	CHECK_EQ(rig_bulk(&g, 2, 0, LONG), HK_RX_PUT);
	g.now += HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 2); /* peer 3 as well */
}

/* A packet that waits in the queue in front of a busy link looks the same. */
TEST(nobody_is_passed_over_while_the_link_is_busy)
{
	RIG(g);
	uint32_t psn = 0;

	switched(&g);
	rig_grant(&g, 3, 0, 1 << 20);
	rig_poll(&g);
	uint32_t may = granted_to(&g, 3);

	rig_grant(&g, 2, 0, 1 << 20);
	rig_grant(&g, 4, 0, 1 << 20);
	for (unsigned i = 0; i < 500; i++) {
		g.now += HK_USEC; /* 1 250 bytes */
		if (psn * LONG < may)
			rig_bulk(&g, 3, psn++, LONG);
		rig_poll(&g);
		may = HK_MAX(may, granted_to(&g, 3));
		if (granted_to(&g, 2) || granted_to(&g, 4))
			break;
	}
	CHECK_CMP(psn, <, 100); /* others had their turn in time */
}

TEST(a_grant_that_is_not_used_goes_to_others)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + HK_MSEC);
	g.now += HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 1);
	/* it may have asked again before, so it gets another; after that it must ask */
	g.now += HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 2);
	g.now += 10 * HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), 0);
	rig_grant(&g, 2, 0, 1 << 20);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 2), >, 0);
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

/* ---- the budget follows the round trip ------------------------------------------------------- */

/* A packet of bulk from peer 2 that echoes the frame that we sent @rtt ago. */
static void bulk_after(struct rig *g, uint32_t psn, uint64_t rtt)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_PUT);

	h.psn = psn;
	h.len = LONG;
	h.flags = HK_WIRE_F_BULK;
	h.tsecr = (uint32_t)((g->now - rtt) >> HK_WIRE_TS_SHIFT);
	rig_input(g, &h, NULL, psn);
}

/* Single packets of peer 2 have round trips of @rtt for long. Returns how much it is granted when
 * it then asks for more. */
static uint32_t budget_after(struct rig *g, uint64_t rtt)
{
	uint32_t psn = 0;

	for (unsigned i = 0; i < 40; i++) {
		rig_grant(g, 2, 0, (psn + 1) * LONG);
		rig_poll(g);
		g->now += HK_MSEC;
		bulk_after(g, psn++, rtt);
		g->now += 2 * HK_MSEC; /* forgets what it was granted ahead */
		rig_poll(g);
	}
	rig_grant(g, 2, 0, 1 << 24);
	rig_poll(g);
	return granted_to(g, 2) - psn * LONG;
}

TEST(a_longer_round_trip_has_a_larger_budget)
{
	RIG(g);
	RIG(h);
	switched(&g);
	switched(&h);
	uint32_t shorter = budget_after(&g, 16 * HK_USEC), longer = budget_after(&h, 80 * HK_USEC);

	/* whole quanta of 20 000 + 25 000 and of 100 000 + 25 000 */
	CHECK_EQ(shorter, 45000 / (10 * LONG) * (10 * LONG));
	CHECK_EQ(longer, 125000 / (30 * LONG) * (30 * LONG));
}

TEST(a_faster_link_has_a_larger_budget)
{
	RIG(g);
	g.cfg.link_mbps = 100000;
	rig_pair(&g);
	/* 80 KiB of queue at most, and 100 000 bytes in 8 us */
	uint32_t budget = budget_after(&g, 8 * HK_USEC);

	CHECK_EQ(budget, 181920 / (44 * LONG) * (44 * LONG));
}

/* The echo leaves out how long the peer waited, so a busy peer does not make the budget larger. */
TEST(a_request_is_echoed)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK), sent;

	rig_grant(&g, 2, 1 << 20, 0);
	g.now += 100 * HK_USEC;
	CHECK(send_len(&g, p, LONG, &sent));
	CHECK_EQ(sent.tsecr, h.tsval + (100 * HK_USEC >> HK_WIRE_TS_SHIFT));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant_request.c: bulk waits for grants of its receiver, and asks
 * for them.
 */
#include "tests/unit/engine/grants.h"

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

/* Nor must a grant. */
TEST(a_data_frame_does_not_replace_a_grant)
{
	RIG(g);
	hk_peer p = switched(&g);

	rig_grant(&g, 2, 0, 5000);
	rig_send(&g, p, 1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 5000);
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

/* It asks again although it wants no more than before. */
TEST(a_forgotten_grant_is_asked_for_at_once)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};
	struct hk_wire_hdr h;

	hk_engine_want(g.e, p, 4 * LONG, g.now);
	rig_poll(&g);
	rig_grant(&g, 2, 4 * LONG, 0);
	CHECK(send_len(&g, p, LONG, &h));
	g.now += 500 * HK_USEC;
	hk_engine_want(g.e, p, 3 * LONG, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 4 * LONG);
	CHECK(!hk_engine_granted(g.e, p, LONG, g.now));
}

/* An acknowledgement repeats the request, so the next repeat is due a whole timeout later. */
TEST(a_request_that_was_just_repeated_is_not_repeated)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	struct hk_wire_grant grant = {0};
	uint64_t start = g.now;

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	rig_send(&g, p, 1);
	g.now = start + g.cfg.initial_rto - 1000;
	h.flags = HK_WIRE_F_ACK_NOW;
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	g.now = start + 2 * g.cfg.initial_rto - 1000;
	hk_engine_want(g.e, p, 5000, g.now);
	rig_poll(&g);
	CHECK(!out_grant(&g, 2, &grant));
	g.now++;
	hk_engine_want(g.e, p, 5000, g.now);
	rig_poll(&g);
	CHECK(out_grant(&g, 2, &grant));
}

/* With keepalives, too, a lost request is repeated after the timeout. When a part is granted, the
 * wait for the rest begins with that. */
TEST(a_request_is_repeated_in_time)
{
	const uint64_t step = UINT64_C(10240000);

	RIG(g);
	g.cfg.keepalive = 5 * HK_SEC;
	g.cfg.initial_rto = step;
	hk_peer p = switched(&g);
	uint64_t start = g.now;
	struct hk_wire_grant grant;

	rig_data(&g, 2, 0);
	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK(out_grant(&g, 2, &grant));
		CHECK_EQ(g.now - start, ((2u << i) - 1) * step);
	}
	rig_grant(&g, 2, 3000, 0);
	CHECK_EQ(rig_next(&g), 1);
	CHECK_EQ(g.now - start, 8 * step);
}

/* A request includes the bytes that were sent, and does not become less by sending. */
TEST(a_sender_wants_at_least_what_it_has_sent)
{
	for (uint32_t wanted = 0; wanted <= 5000; wanted += 5000) {
		RIG(g);
		hk_peer p = switched(&g);
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
		struct hk_wire_grant grant = {0};

		hk_engine_want(g.e, p, wanted, g.now);
		rig_poll(&g);
		rig_grant(&g, 2, 2000, 0);
		CHECK(send_len(&g, p, LONG, &(struct hk_wire_hdr){0}));
		h.flags = HK_WIRE_F_ACK_NOW;
		rig_input(&g, &h, NULL, 0);
		CHECK_EQ(rig_poll(&g), 1);
		CHECK(out_grant(&g, 2, &grant));
		CHECK_EQ(grant.wanted, HK_MAX(wanted, LONG));
	}
}

/* Our NIC gets no more bulk than it sends in 20 us, or in the time of two packets. The caller
 * tries again when the next fits. */
TEST(the_nic_has_a_short_queue)
{
	static const struct {
		uint32_t mbps;
		uint16_t len;
		unsigned packets;
		uint64_t time; /* of one, ns */
	} table[] = {{10000, 1250, 21, 1000}, {1000, 1500, 3, 12000}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		unsigned sent = 0;
		struct hk_wire_hdr h;

		RIG(g);
		g.cfg.link_mbps = table[i].mbps;
		hk_peer p = rig_pair(&g);

		hk_rec(g.e, p)->cwnd = 64u << 8;
		rig_grant(&g, 2, 1 << 20, 0);
		while (sent < 64 && send_len(&g, p, table[i].len, &h))
			sent++;
		CHECK_EQ(sent, table[i].packets);
		CHECK_EQ(hk_engine_deadline(g.e), g.now + table[i].time);
		g.now += table[i].time;
		CHECK_EQ(rig_poll(&g), 0);
		CHECK(send_len(&g, p, table[i].len, &h));
		CHECK(!send_len(&g, p, table[i].len, &h));
	}
}

/* Not even a small packet may go to a number that no peer has. */
TEST(an_unknown_peer_is_granted_nothing)
{
	RIG(g);
	hk_peer p = switched(&g);

	CHECK(hk_engine_granted(g.e, p, 1, g.now));
	CHECK(!hk_engine_granted(g.e, p + 1, 1, g.now));
}

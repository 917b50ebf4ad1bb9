/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant_stall.c: a sender that does not use its grant loses its turn,
 * and later the grant.
 */
#include "tests/unit/engine/grants.h"

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

/* A sender stalls if it does not answer for 2 us and twice the round trip with a packet, 4 + 1 us.
 * It is passed over once our link was idle for 6 us. The link counts as busy for 1079 ns with each
 * packet, 1250 + 1250 / 128 + 90 bytes. Packets that came more than 12 us ago do not matter. */
TEST(a_sender_is_passed_over_on_time)
{
	static const struct {
		unsigned packets; /* of peer 4, all at 11 us */
		uint64_t want;
	} table[] = {
		{0, 12000},
		{5, 12000},
		{9, 9 * 1079 - 1000 + 6000},
		{20, 11000 + 1079 + 6000},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		uint64_t start = one_has_all(&g);

		g.now = start + 11000;
		for (uint32_t psn = 0; psn < table[i].packets; psn++)
			CHECK_EQ(rig_bulk(&g, 4, psn, 1250), HK_RX_PUT);
		rig_poll(&g);
		CHECK_EQ(hk_engine_deadline(g.e) - start, table[i].want);
		g.now = start + table[i].want - 1;
		hk_grants_due(g.e, g.now);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 3), 0);
		g.now++;
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 3), 3000);
	}
}

/* Nobody else wants what a lone sender has open, however long it does not answer. */
TEST(a_lone_sender_is_not_passed_over)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	g.now += 900 * HK_USEC;
	rig_grant(&g, 2, 0, 1 << 20);
	CHECK_EQ(g.e->grant.stalled, 0);
	CHECK_EQ(g.e->grant.out, 4 * QUANTUM);
	CHECK(g.e->grant.turns == 1 && g.e->grant.waiting == 0);
}

/* A sender that was passed over keeps its grant, but not its turn. After a millisecond without use
 * the grant ends. */
TEST(a_stalled_grant_ends)
{
	RIG(g);
	uint64_t start = one_has_all(&g);

	g.now = start + 12000;
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 3), 3000);
	CHECK_EQ(g.e->grant.stalled, BUDGET);
	CHECK_EQ(g.e->grant.out, 3000);
	CHECK_EQ(g.e->grant.turns, 0);
	g.now += HK_USEC * 100;
	while (rig_poll(&g) > 0)
		;
	CHECK_EQ(hk_engine_deadline(g.e), UINT64_MAX); /* nobody waits for what is open */
	g.now = start + HK_MSEC - 1;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(g.e->grant.stalled, BUDGET);
	g.now++;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(g.e->grant.stalled, 0);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 1);
	/* it had asked for more, so it has another turn */
	hk_grants_due(g.e, g.now);
	CHECK_EQ(g.e->grant.turns, 1);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 2), >, 1250);
}

/* Somebody waits for the end of a stalled grant. */
TEST(a_stalled_grant_ends_in_time)
{
	RIG(g);
	uint64_t start = one_has_all(&g);

	rig_grant(&g, 3, 0, 1 << 20);
	g.now = start + 12000;
	rig_poll(&g);
	CHECK_EQ(g.e->grant.stalled, BUDGET);
	CHECK_EQ(g.e->grant.turns, 1);
	g.now += 100 * HK_USEC;
	while (rig_poll(&g) > 0)
		;
	CHECK_EQ(hk_engine_deadline(g.e) - start, HK_MSEC);
}

/* Of all that do not answer, 384 KiB may stall, and at most what the link carries in 320 us. After
 * that others wait until grants end. */
TEST(stalled_grants_are_bounded)
{
	enum { PEERS = 150, EACH = 3072 };
	static const struct {
		uint32_t mbps, stalled;
	} table[] = {{10000, 384 << 10}, {1000, 40000 / EACH * EACH}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.max_peers = PEERS;
		g.cfg.link_mbps = table[i].mbps;
		rig_start(&g);
		for (uint32_t endpoint = 2; endpoint < 2 + PEERS; endpoint++) {
			rig_add(&g, endpoint);
			rig_grant(&g, endpoint, 0, EACH);
		}
		uint64_t end = g.now + 900 * HK_USEC;

		do {
			rig_poll(&g);
			g.now = HK_MAX(g.now, hk_engine_deadline(g.e));
		} while (g.now < end);
		CHECK_EQ(g.e->grant.stalled, table[i].stalled);
		CHECK_CMP(g.e->grant.out, <=, g.e->grant.budget);
		CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 0);
	}
}

/* The peer that has not used its grant for longest loses it first. */
TEST(each_grant_has_its_own_end)
{
	const uint64_t life = HK_MSEC;
	RIG(g);

	switched(&g);
	rig_add(&g, 3);
	rig_add(&g, 4);
	uint64_t start = g.now;

	rig_grant(&g, 2, 0, 3000);
	g.now = start + 1000;
	rig_grant(&g, 3, 0, 3000);
	g.now = start + 2000;
	rig_bulk(&g, 2, 0, LONG); /* uses a part */
	rig_poll(&g);
	g.now = start + 1000 + life - 1;
	rig_grant(&g, 4, 0, 0); /* a peer that wants nothing; the engine looks at the grants */
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 0);
	g.now++;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 1);
	g.now = start + 2000 + life;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 2);
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

/* A sender that served others for 500 us has forgotten its grant, which is open here for twice that
 * time. It asks for the same bytes, and must hear of the grant: it would wait for its resend
 * timeout otherwise. A request that comes earlier has crossed the grant on its way. */
TEST(a_forgotten_grant_is_told_again)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 3000);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), 3000);
	g.now += 249 * HK_USEC;
	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 0);
	g.now += HK_USEC;
	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 3000);
	CHECK_EQ(g.e->grant.out, 3000);
	/* it lasts from then on */
	g.now += 900 * HK_USEC;
	rig_grant(&g, 2, 0, 0); /* which asks for nothing */
	CHECK_EQ(rig_poll(&g), 0);
	CHECK_EQ(g.e->grant.out, 3000);
}

/* So must one that wants more by then, though the budget has no room for that. */
TEST(a_forgotten_grant_is_told_again_to_one_that_wants_more)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 3000);
	rig_add(&g, 3);
	rig_poll(&g);
	g.now += 249 * HK_USEC;
	rig_grant(&g, 3, 0, 1 << 20);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_CMP(g.e->grant.out, >, BUDGET - 6000);
	g.now += HK_USEC;
	rig_grant(&g, 2, 0, 9000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 3000);
}

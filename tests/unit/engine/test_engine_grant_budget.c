/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant_budget.c: how many bytes a receiver grants at a time, by link
 * and round trip.
 */
#include "tests/unit/engine/grants.h"

/* The budget is the bytes that the link carries in 4 us, and a queue of 20 us: at least two packets
 * and at most 80 KiB. The quantum is a quarter of it, in whole packets. The queue in front of our
 * NIC has 20 us, or two packets. */
TEST(the_budget_in_figures)
{
	static const struct {
		uint32_t mbps;
		uint16_t packet;
		uint32_t budget, quantum;
		uint64_t nic_queue;
	} table[] = {
		{10000, 0, 5000 + 25000, 7 * 1024, 20000},
		{0, 0, 5000 + 25000, 7 * 1024, 20000}, /* as for 10 Gbit/s */
		{0, 1500, 5000 + 25000, 5 * 1500, 20000},
		{1000, 1500, 500 + 4500, 1500, 24000},
		{100000, 2000, 50000 + 81920, 16 * 2000, 20000},
		{1000000, 2000, 512 << 10, 65 * 2000, 20000},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.link_mbps = table[i].mbps;
		rig_pair(&g);
		CHECK_EQ(hk_engine_deadline(g.e), UINT64_MAX); /* nobody waits */
		if (table[i].packet)
			rig_bulk(&g, 2, 0, table[i].packet);
		CHECK_EQ(g.e->grant.budget, table[i].budget);
		CHECK_EQ(g.e->grant.quantum, table[i].quantum);
		CHECK_EQ(g.e->nic_queue, table[i].nic_queue);
	}
}

/* ---- the budget has what our NIC sends first ---------------------------------------------------
 */

/* A grant waits behind the bulk in our NIC, which the link carries at 1250 bytes in a microsecond.
 * A NIC that sends small frames first does not let it wait. */
TEST(a_grant_behind_our_own_bulk_is_larger)
{
	static const struct {
		uint64_t wait; /* ns */
		bool classes;
		uint32_t bytes;   /* granted to a peer that asks for much */
		uint32_t unasked; /* to one that has sent, while another one has 21 504 bytes */
	} table[] = {
		{0, false, BUDGET / QUANTUM * QUANTUM, (BUDGET - 21504 - QUANTUM) / 2},
		{800, false, (BUDGET + 1000) / QUANTUM * QUANTUM,
		 (BUDGET + 1000 - 21504 - QUANTUM) / 2},
		{8000, false, (BUDGET + 10000) / QUANTUM * QUANTUM,
		 (BUDGET + 10000 - 21504 - QUANTUM) / 2},
		{20000, false, (BUDGET + 25000) / QUANTUM * QUANTUM, QUANTUM},
		{90000, false, (BUDGET + 25000) / QUANTUM * QUANTUM, QUANTUM},
		{20000, true, BUDGET / QUANTUM * QUANTUM, (BUDGET - 21504 - QUANTUM) / 2},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.classes = table[i].classes;
		switched(&g);
		g.e->nic_free_at = g.now + table[i].wait;
		rig_grant(&g, 2, 0, 1 << 24);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 2), table[i].bytes);
	}
	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.classes = table[i].classes;
		const hk_peer p = switched(&g);
		const struct hk_peer_rec *r = hk_rec(g.e, p);

		rig_add(&g, 3);
		rig_grant(&g, 3, 0, 21504);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 3), 21504);
		g.e->nic_free_at = g.now + table[i].wait;
		rig_bulk(&g, 2, 0, LONG);
		CHECK_EQ(r->rx_granted - r->rx_bulk, table[i].unasked);
	}
}

/* Beside another peer's 21 504 bytes 1328 are free. A peer gets half of these when it has used up
 * its grant, but as much as it last asked for, if that is free. */
TEST(a_peer_gets_as_much_again_as_it_asked_for)
{
	static const struct {
		uint16_t asked;
		uint32_t unasked;
	} table[] = {{1100, 1100}, {1328, 1328}, {1330, 0}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		const hk_peer p = switched(&g);
		const struct hk_peer_rec *r = hk_rec(g.e, p);

		rig_add(&g, 3);
		rig_grant(&g, 3, 0, 21504);
		rig_grant(&g, 2, 0, LONG);
		rig_bulk(&g, 2, 0, LONG);
		CHECK_EQ(r->rx_granted - r->rx_bulk, LONG);
		rig_grant(&g, 2, 0, LONG + table[i].asked);
		CHECK_EQ(r->rx_granted - r->rx_bulk, table[i].asked);
		rig_bulk(&g, 2, 1, table[i].asked / 2);
		rig_bulk(&g, 2, 2, table[i].asked / 2);
		CHECK_EQ(r->rx_granted - r->rx_bulk, table[i].unasked);
	}
}

/* ---- the budget follows the round trip ------------------------------------------------------- */

/* A packet of bulk from @endpoint that echoes the frame that we sent @rtt ago. */
static void bulk_from(struct rig *g, uint32_t endpoint, uint32_t psn, uint64_t rtt)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_PUT);

	h.psn = psn;
	h.len = LONG;
	h.flags = HK_WIRE_F_BULK;
	h.tsecr = (uint32_t)((g->now - rtt) >> HK_WIRE_TS_SHIFT);
	rig_input(g, &h, NULL, psn);
}

static void bulk_after(struct rig *g, uint32_t psn, uint64_t rtt)
{
	bulk_from(g, 2, psn, rtt);
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

/* A shorter round trip counts at once. A longer one counts when none was shorter for a period of
 * more than 10 ms, from the end of the one before. */
TEST(the_least_round_trip_of_a_period_counts)
{
	static const struct {
		uint64_t at, rtt, base; /* ms; ns; ns */
	} table[] = {
		{0, 3200, 3200},   {2, 8000, 3200},   {10, 8000, 3200}, {12, 9600, 3200},
		{22, 9600, 3200},  {24, 16000, 9600}, {26, 9600, 9600}, {36, 9600, 9600},
		{37, 16000, 9600}, {38, 6400, 6400},
	};

	RIG(g);
	switched(&g);
	uint64_t start = g.now;

	for (uint32_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		g.now = start + table[i].at * HK_MSEC;
		hk_grants_due(g.e, g.now + 2 * HK_MSEC); /* nothing is granted */
		CHECK_EQ(g.e->grant.out, 0);
		bulk_after(&g, i, table[i].rtt);
		CHECK_EQ(g.e->grant.base, table[i].base);
		CHECK_EQ(g.e->grant.budget, table[i].base * 5 / 4 + 25000);
	}
}

/* Granted bytes beyond a round trip wait at the switch, stalled ones too, and their time does not
 * count. The rest never makes the round trip shorter. */
TEST(the_queue_at_the_switch_does_not_count)
{
	RIG(g);
	RIG(h);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	bulk_from(&g, 2, 0, 40000);
	CHECK_EQ(g.e->grant.rtt, 40000 - (4 * QUANTUM * 4 / 5 - 4000));
	bulk_from(&g, 2, 1, 3200);
	CHECK_EQ(g.e->grant.rtt, 4000);
	CHECK_EQ(g.e->grant.base, 4000);

	uint64_t start = one_has_all(&h);

	h.now = start + 12000;
	rig_poll(&h);
	CHECK(h.e->grant.stalled == BUDGET && h.e->grant.out == 3000);
	bulk_from(&h, 4, 0, 40000);
	CHECK_EQ(h.e->grant.rtt, 40000 - ((BUDGET + 3000) * 4 / 5 - 4000));
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

/* A grant that waited because we were not polling does not measure the network. */
TEST(a_grant_may_have_waited)
{
	RIG(g);
	hk_peer p = switched(&g);

	hk_engine_set_not_polling(g.e, true);
	rig_grant(&g, 2, 1 << 20, 0);
	CHECK(rig_send(&g, p, 1).flags & HK_WIRE_F_NOT_POLLING);
	rig_ack(&g, 2, 1, 64);
	hk_engine_set_not_polling(g.e, false);
	rig_grant(&g, 2, 1 << 20, 0);
	CHECK(!(rig_send(&g, p, 2).flags & HK_WIRE_F_NOT_POLLING));
}

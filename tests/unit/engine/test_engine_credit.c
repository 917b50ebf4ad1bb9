/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_credit.c: the receive buffers in figures: who gets one, how much
 * credit a peer has, and who hears of buffers that come free.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

/* A pair with @budget buffers, of which the caller holds @held. */
static struct hk_peer_rec *pair(struct rig *g, uint32_t budget, uint32_t held)
{
	g->cfg.rx_budget = budget;
	hk_peer p = rig_pair(g);

	g->e->rx_held = held;
	return hk_rec(g->e, p);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* A quarter of the budget, and at least 16 buffers, are kept for packets that are next. */
TEST(a_quarter_is_kept)
{
	static const struct {
		uint32_t budget, held, room;
	} table[] = {{100, 65, 10}, {100, 75, 0}, {40, 14, 10}, {64, 40, 8}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		struct hk_peer_rec *r = pair(&g, table[i].budget, table[i].held);

		CHECK(hk_budget_room(g.e, r, table[i].room, false));
		CHECK(!hk_budget_room(g.e, r, table[i].room + 1, false));
		uint32_t all = table[i].budget - table[i].held;

		CHECK(hk_budget_room(g.e, r, all, true));
		CHECK(!hk_budget_room(g.e, r, all + 1, true));
	}
}

/* No peer reserves more than a window of packets can need. */
TEST(a_peer_reserves_a_window)
{
	const unsigned most = 16 + 2 * 15;

	for (unsigned reserved = 0; reserved < most; reserved += 9) {
		RIG(g);
		g.cfg.window = 16;
		struct hk_peer_rec *r = pair(&g, 1000, 0);

		r->rx_reserved = (uint16_t)reserved;
		CHECK(hk_budget_room(g.e, r, most - reserved, false));
		CHECK(!hk_budget_room(g.e, r, most - reserved + 1, false));
	}
}

/* ---- credit ---------------------------------------------------------------------------------- */

/* The free buffers are shared by those that sent in this slot of time or in the last one. */
TEST(credit_in_figures)
{
	static const struct {
		uint32_t budget, held, own, now, last, credit;
	} table[] = {
		{64, 0, 0, 0, 0, 64}, /* nobody has sent */
		{64, 0, 0, 1, 0, 64},    {64, 0, 0, 2, 0, 32},
		{64, 0, 0, 0, 2, 32},    {64, 0, 0, 3, 2, 21},
		{64, 40, 0, 2, 0, 12},   {64, 62, 0, 4, 0, 1},
		{64, 64, 0, 1, 0, 0},    {64, 70, 0, 1, 0, 0},
		{256, 10, 10, 1, 0, 54}, /* what it holds itself */
		{256, 64, 64, 1, 0, 0},  {256, 70, 70, 1, 0, 0},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.window = 64;
		struct hk_peer_rec *r = pair(&g, table[i].budget, table[i].held);

		r->rx_edge = r->rx_next;
		r->held = (uint16_t)table[i].own;
		g.e->slot_peers = table[i].now;
		g.e->last_peers = table[i].last;
		CHECK_EQ(hk_credit_grant(g.e, r), table[i].credit);
	}
}

TEST(peers_of_two_slots_count)
{
	RIG(g);
	struct hk_peer_rec *r = pair(&g, 64, 0);

	g.e->slot = 5;
	g.e->slot_peers = 3;
	g.e->last_peers = 7;
	hk_budget_seen_first(g.e, r, 5);
	CHECK(g.e->slot_peers == 4 && g.e->last_peers == 7);
	hk_budget_seen_first(g.e, r, 6);
	CHECK(g.e->slot_peers == 1 && g.e->last_peers == 4 && g.e->slot == 6);
	hk_budget_seen_first(g.e, r, 8); /* nobody sent in slot 7 */
	CHECK(g.e->slot_peers == 1 && g.e->last_peers == 0);
	g.e->slot_peers = 2;
	hk_budget_seen_first(g.e, r, 7); /* another clock */
	CHECK(g.e->slot_peers == 1 && g.e->last_peers == 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Peers 2, 3 and 4 have no credit, and wait. */
static void three_wait(struct rig *g)
{
	struct hk_peer_rec *r = pair(g, 64, 64);

	g->now += HK_SEC;
	for (uint32_t endpoint = 2; endpoint < 5; endpoint++) {
		r = hk_rec(g->e, rig_add(g, endpoint));
		r->rx_edge = r->rx_next;
		r->last_rx = g->now;
		CHECK_EQ(hk_credit_grant(g->e, r), 0);
	}
	CHECK_EQ(rig_poll(g), 0);
}

/* One buffer that comes free wakes one peer, in the order in which they began to wait. */
TEST(one_buffer_wakes_one_peer)
{
	RIG(g);
	three_wait(&g);
	hk_peer other = rig_add(&g, 5);

	hk_rec(g.e, other)->held = 64;
	for (uint32_t endpoint = 2; endpoint < 5; endpoint++) {
		hk_engine_rx_held(g.e, other, -1);
		CHECK_EQ(rig_poll(&g), 1); /* at once */
		CHECK_EQ(rig_out(&g, 0).dst, endpoint);
		CHECK_CMP(rig_out(&g, 0).credit, >, 0);
	}
	hk_engine_rx_held(g.e, other, -1);
	CHECK_EQ(rig_poll(&g), 0);
}

/* Two buffers wake two. */
TEST(buffers_wake_as_many_peers)
{
	RIG(g);
	three_wait(&g);
	hk_peer other = rig_add(&g, 5);

	hk_rec(g.e, other)->held = 64;
	hk_engine_rx_held(g.e, other, -2);
	CHECK_EQ(rig_poll(&g), 2);
}

/* While more are in use than there are, nobody hears anything. */
TEST(nobody_is_woken_in_vain)
{
	RIG(g);
	three_wait(&g);
	hk_peer other = rig_add(&g, 5);

	hk_rec(g.e, other)->held = 64;
	g.e->rx_held = 66;
	hk_engine_rx_held(g.e, other, -1);
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_rx_held(g.e, other, -1);
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_rx_held(g.e, other, -1);
	CHECK_EQ(rig_poll(&g), 1);
}

/* A peer that ends while it waits leaves the list, wherever it is there. Those that begin to wait
 * later are behind the others. */
TEST(a_peer_that_ends_waits_no_longer)
{
	for (uint32_t gone = 2; gone < 5; gone++) {
		RIG(g);
		three_wait(&g);
		struct hk_wire_hdr bye = rig_hdr(&g, gone, HK_WIRE_BYE);

		rig_input(&g, &bye, NULL, 0);
		struct hk_peer_rec *later = hk_rec(g.e, rig_add(&g, 5));

		later->rx_edge = later->rx_next;
		CHECK_EQ(hk_credit_grant(g.e, later), 0);
		hk_peer holder = rig_add(&g, 6);

		hk_rec(g.e, holder)->held = 64;
		for (uint32_t endpoint = 2; endpoint < 6; endpoint++) {
			if (endpoint == gone)
				continue;
			hk_engine_rx_held(g.e, holder, -1);
			CHECK_EQ(rig_poll(&g), 1);
			CHECK_EQ(rig_out(&g, 0).dst, endpoint);
		}
		CHECK_EQ(g.e->wait_head, HK_NIL);
		CHECK_EQ(g.e->wait_tail, HK_NIL);
	}
}

static enum hk_rx_result fragment(struct rig *g, uint32_t psn, uint8_t frag)
{
	struct hk_wire_hdr h = rig_hdr(g, 5, HK_WIRE_DATA);

	h.psn = psn;
	h.frag = frag;
	h.frags = 2;
	return rig_input(g, &h, NULL, psn);
}

/* Peer 5 has a message that waits for its first packet, and the first half of another one. All
 * other buffers are in use. */
static struct hk_peer_rec *wait_for_a_packet(struct rig *g)
{
	struct hk_peer_rec *r = hk_rec(g->e, rig_add(g, 5));

	g->e->rx_held = 0;
	CHECK_EQ(rig_data(g, 5, 1), HK_RX_DELIVER);
	CHECK_EQ(fragment(g, 2, 0), HK_RX_HOLD);
	CHECK(r->rx_deferred == 1 && r->rx_reserved == 2);
	while (hk_engine_deadline(g->e) <= g->now)
		rig_poll(g);
	g->e->rx_held = 64 - 3;
	return r;
}

/* How many of peers 2, 3 and 4 still wait. */
static unsigned waiting(const struct rig *g)
{
	unsigned n = 0;

	for (uint32_t i = g->e->wait_head; i != HK_NIL; i = hk_rec(g->e, i)->wait_next)
		n++;
	return n;
}

/* The packet that closes the gap frees the buffer of the message that waited for it. */
TEST(a_closed_gap_wakes_others)
{
	RIG(g);
	three_wait(&g);
	struct hk_peer_rec *r = wait_for_a_packet(&g);

	CHECK_EQ(rig_data(&g, 5, 0), HK_RX_DELIVER);
	CHECK(r->rx_deferred == 0 && g.e->rx_deferred == 0);
	CHECK_EQ(waiting(&g), 2);
}

/* A message that is complete frees what was reserved for it. */
TEST(a_complete_message_wakes_others)
{
	RIG(g);
	three_wait(&g);
	wait_for_a_packet(&g);
	CHECK_EQ(rig_data(&g, 5, 0), HK_RX_DELIVER);
	CHECK_EQ(fragment(&g, 3, 1), HK_RX_DELIVER);
	CHECK_EQ(g.e->rx_reserved, 0);
	CHECK_EQ(waiting(&g), 0);
}

/* All buffers of a peer that ends are free. */
TEST(a_peer_that_ends_wakes_others)
{
	RIG(g);
	three_wait(&g);
	const struct hk_peer_rec *r = wait_for_a_packet(&g);
	struct hk_wire_hdr bye = rig_hdr(&g, 5, HK_WIRE_BYE);

	rig_input(&g, &bye, NULL, 0);
	CHECK(g.e->rx_deferred == 0 && g.e->rx_reserved == 0);
	CHECK(r->rx_deferred == 0 && r->rx_reserved == 0);
	CHECK_EQ(waiting(&g), 0);
}

/* Without keepalives, a timer runs only while something waits for the peer. */
TEST(a_timer_runs_while_something_waits)
{
	RIG(g);
	g.cfg.keepalive = 0;
	struct hk_peer_rec *r = pair(&g, 64, 0);

	CHECK_EQ(rig_data(&g, 2, 1), HK_RX_DELIVER);
	CHECK_EQ(r->timer, HK_TIMER_KEEPALIVE);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	CHECK_EQ(r->timer, HK_TIMER_NONE);
	CHECK_EQ(rig_fragment(&g, 2, 0, 2, 7), HK_RX_HOLD);
	CHECK_EQ(r->timer, HK_TIMER_KEEPALIVE);
	CHECK_EQ(rig_fragment(&g, 3, 1, 2, 7), HK_RX_DELIVER);
	CHECK_EQ(r->timer, HK_TIMER_NONE);
}

/* The caller holds buffers of peers that exist, and releases at most what it holds. */
TEST(buffers_of_nobody_are_not_held)
{
	RIG(g);
	struct hk_peer_rec *r = pair(&g, 64, 0);

	hk_engine_rx_held(g.e, g.e->peers, 5);
	hk_engine_rx_held(g.e, HK_PEER_NONE, 5);
	CHECK_EQ(g.e->rx_held, 0);
	hk_engine_rx_held(g.e, hk_index(g.e, r), 5);
	hk_engine_rx_held(g.e, hk_index(g.e, r), -6);
	CHECK(g.e->rx_held == 0 && r->held == 0);
}

/* A peer with less than a quarter of the window hears of a quarter more, or of its first buffer. */
TEST(little_credit_is_told_of)
{
	static const struct {
		uint32_t advertised, now_free;
		bool told;
	} table[] = {
		{0, 0, false}, {0, 1, true}, {1, 2, false},  {1, 4, false},   {1, 5, true},
		{3, 6, false}, {3, 7, true}, {4, 16, false}, {15, 16, false},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.window = 16;
		struct hk_peer_rec *r = pair(&g, 1000, 0);
		hk_peer p = hk_index(g.e, r);

		r->rx_next = 100;
		r->rx_edge = 100 + table[i].advertised;
		r->last_rx = g.now;
		/* only a buffer that comes back is a reason to tell */
		r->held = (uint16_t)(16 - table[i].now_free);
		g.e->rx_held = r->held;
		hk_engine_rx_held(g.e, p, 0);
		CHECK_EQ(rig_poll(&g), 0);
		hk_engine_rx_held(g.e, p, 1);
		CHECK_EQ(rig_poll(&g), 0);
		hk_engine_rx_held(g.e, p, -1);
		CHECK_EQ(rig_poll(&g), table[i].told);
		if (table[i].told)
			CHECK_EQ(rig_out(&g, 0).credit, table[i].now_free);
	}
}

/* ---- numbers ------------------------------------------------------------------------------------
 */

/* A number that no peer has names nobody, whatever its place in the arena holds. */
TEST(nothing_is_in_flight_to_nobody)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	hk_rec(g.e, p + 1)->tx_next = 7;
	hk_rec(g.e, p + 1)->tx_una = 2;
	CHECK_EQ(hk_engine_unacked(g.e, p + 1), 0);
	rig_send(&g, p, 77);
	CHECK_EQ(hk_engine_unacked(g.e, p), 1);
}

/* Simulations start near the overflow of the numbers. */
TEST(numbers_move_with_the_credit)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_peer_rec *r = hk_rec(g.e, p);

	r->tx_next = r->tx_una = 5;
	r->tx_edge = 12;
	r->rx_next = 3;
	r->rx_edge = 14;
	hk_engine_test_set_psn(g.e, p, UINT32_MAX - 2, 1000);
	CHECK_EQ(rig_info(&g, p).credit, 7);
	CHECK(r->tx_next == UINT32_MAX - 2 && r->tx_una == UINT32_MAX - 2);
	CHECK(r->rx_next == 1000 && r->rx_edge == 1011);
}

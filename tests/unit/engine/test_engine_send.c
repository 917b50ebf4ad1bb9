/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_send.c: how many packets the engine accepts, in figures, and the
 * reason of a refusal.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

static bool send_one(struct rig *g, hk_peer p, uint8_t path)
{
	struct hk_packet pkt = {.token = 1, .len = 100, .type = HK_WIRE_PUT, .path = path};
	struct hk_wire_hdr h;

	return hk_engine_send(g->e, p, &pkt, g->now, &h);
}

/* The smallest of window, credit, congestion window and tokens, unless the bytes in flight are too
 * many. */
TEST(what_is_available)
{
	static const struct {
		uint32_t used, credit, cwnd, flying, lost, bytes, done, want;
		enum { NONE, CREDIT, CWND } why; /* of a refusal */
	} table[] = {
		{10, 100, 64, 10, 0, 0, 0, 6, NONE}, /* window of 16 */
		{15, 100, 64, 15, 0, 0, 0, 1, NONE},    {10, 3, 64, 10, 0, 0, 0, 3, NONE},
		{10, 0, 64, 10, 0, 0, 0, 0, CREDIT},    {10, 100, 12, 10, 0, 0, 0, 2, NONE},
		{10, 100, 12, 8, 2, 0, 0, 2, NONE}, /* lost ones count */
		{10, 100, 12, 8, 4, 0, 0, 0, CWND},     {10, 100, 10, 8, 2, 0, 0, 0, CWND},
		{10, 100, 10, 10, 0, 0, 0, 0, CWND},    {10, 100, 64, 10, 0, 999, 0, 6, NONE},
		{10, 100, 64, 10, 0, 1000, 0, 0, CWND}, /* window_bytes */
		{10, 100, 64, 10, 0, 0, 4, 2, NONE},    /* of 16 tokens 4 wait to be reaped */
		{10, 100, 64, 10, 0, 0, 6, 0, NONE},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.window = 16;
		g.cfg.window_bytes = 1000;
		hk_peer p = rig_pair(&g);

		CHECK(send_one(&g, p, 0)); /* takes the block */
		struct hk_peer_rec *r = hk_rec(g.e, p);

		r->tx_una = 50;
		r->tx_next = 50 + table[i].used;
		r->tx_edge = r->tx_next + table[i].credit;
		r->cwnd = table[i].cwnd << 8;
		r->in_flight = (uint16_t)table[i].flying;
		r->lost = (uint16_t)table[i].lost;
		r->tx_bytes = table[i].bytes;
		g.e->unacked = table[i].used;
		if (table[i].done) {
			g.e->done_cap = 16;
			g.e->done_count = table[i].done;
		}
		CHECK_EQ(hk_engine_available(g.e, p), table[i].want);
		if (table[i].want)
			continue;
		const struct hk_engine_counters *n = hk_engine_counters(g.e);

		CHECK(!send_one(&g, p, 0));
		CHECK_EQ(n->no_credit, table[i].why == CREDIT);
		CHECK_EQ(n->no_cwnd, table[i].why == CWND);
		CHECK_EQ(n->no_block, table[i].why == NONE);
	}
}

/* Nobody sends to a peer that does not exist. */
TEST(nothing_goes_to_nobody)
{
	RIG(g);
	hk_peer p = rig_pair(&g), nobody[] = {g.e->peers, HK_PEER_NONE};
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	for (unsigned i = 0; i < HK_ARRAY_LEN(nobody); i++) {
		CHECK_EQ(hk_engine_available(g.e, nobody[i]), 0);
		CHECK(!hk_engine_zero_credit(g.e, nobody[i]));
		CHECK(!send_one(&g, nobody[i], 0));
		CHECK_EQ(hk_engine_unacked(g.e, p), 0);
		CHECK_EQ(n->no_credit + n->no_cwnd + n->no_block, 0);
	}
}

/* The other paths of a peer are those since its block was taken. */
TEST(paths_end_with_the_block)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	const struct hk_peer_rec *r = hk_rec(g.e, p);

	CHECK(send_one(&g, p, 2));
	CHECK_EQ(r->tx_others, 1 << 2);
	rig_ack(&g, 2, 1, 64);
	CHECK_EQ(r->tx_block, HK_NIL);
	CHECK_EQ(r->tx_others, 0);
	CHECK(send_one(&g, p, 0));
	CHECK_EQ(r->tx_others, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_timer.c: the timing wheel: no timer is early or forgotten, and
 * quiet peers cost nothing.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- the wheel alone ----------------------------------------------------------------------- */

#define PEERS 50
#define TICK  1024 /* ns; a timer may be that late, and the unit of its duration */

/* Sets, changes and stops timers of random durations, from nanoseconds to minutes, for hours. Each
 * fires once, not early, and with the first poll after its tick. */
TEST(timers_fire_when_they_are_due)
{
	struct hk_rng *rng = &hk_test_rng;
	uint64_t at[PEERS] = {0}, fired = 0;

	RIG(g);
	g.cfg.max_peers = PEERS;
	rig_start(&g);
	for (uint32_t i = 0; i < PEERS; i++)
		rig_add(&g, i + 2);
	for (unsigned round = 0; round < 200000; round++) {
		unsigned i = (unsigned)hk_rng_below(rng, PEERS);
		struct hk_peer_rec *r = hk_rec(g.e, i);
		hk_peer p;

		if (hk_rng_below(rng, 8) == 0) {
			hk_timer_off(g.e, r);
			at[i] = 0;
		} else {
			uint64_t after = hk_rng_below(rng, UINT64_C(1) << hk_rng_below(rng, 37));

			hk_timer_arm(g.e, r, HK_TIMER_PROBE, g.now, after);
			at[i] = g.now + after;
		}
		g.now += hk_rng_below(rng, UINT64_C(1) << hk_rng_below(rng, 34));
		unsigned most = (unsigned)hk_rng_below(rng, 2 * PEERS);
		bool all = true;
		while ((all = most-- > 0) && hk_timer_next_due(g.e, g.now, &p)) {
			CHECK(at[p] != 0);
			CHECK_CMP(at[p], <=, g.now);
			at[p] = 0;
			fired++;
		}
		uint64_t min = UINT64_MAX;
		for (unsigned k = 0; k < PEERS; k++)
			min = at[k] ? HK_MIN(min, at[k]) : min;
		if (min == UINT64_MAX)
			continue;
		CHECK_CMP(g.e->timer_min, <=, min + 2 * TICK);
		if (all)
			CHECK_CMP(min, >, g.now - 2 * TICK);
	}
	CHECK_CMP(fired, >, 10000);
}

/* A timer that is due now fires with the next tick. The upper bits of the clock may change before a
 * timer ends. */
TEST(timers_at_the_edges)
{
	static const struct {
		uint64_t now, after;
	} table[] = {
		{UINT64_C(1) << 40, 0},
		{UINT64_C(1) << 40, 1},
		{(UINT64_C(1) << 52) - TICK, 2 * TICK},
		{(UINT64_C(1) << 58) - 100 * HK_USEC, HK_MSEC},
		{(UINT64_C(1) << 58) - TICK, 10 * HK_SEC},
		{(UINT64_C(1) << 62) - TICK, 10 * HK_SEC},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.now = table[i].now;
		hk_peer p = rig_pair(&g);
		struct hk_peer_rec *r = hk_rec(g.e, p);

		hk_timer_arm(g.e, r, HK_TIMER_PROBE, g.now, table[i].after);
		uint64_t end = g.now + table[i].after;

		CHECK(!hk_timer_next_due(g.e, g.now + table[i].after / 2, &p));
		CHECK(hk_timer_next_due(g.e, end + 2 * TICK, &p));
		CHECK_EQ(p, 0);
		CHECK(!hk_timer_next_due(g.e, end + 2 * TICK, &p));
		CHECK_EQ(g.e->timer_min, UINT64_MAX);
	}
}

/* ---- how long, and for what ------------------------------------------------------------------ */

/* RFC 6298, with what a peer may wait before it acknowledges, and between two bounds. */
TEST(timeouts_in_figures)
{
	static const struct {
		uint32_t srtt, rttvar;
		unsigned backoff, not_polling;
		uint64_t resend, probe;
		uint32_t other; /* round trip of another peer */
	} table[] = {
		{0, 0, 0, 0, 20 * HK_MSEC, 20 * HK_MSEC, 0},
		{0, 0, 1, 0, 40 * HK_MSEC, 20 * HK_MSEC, 0},
		{0, 0, 5, 0, 640 * HK_MSEC, 20 * HK_MSEC, 0},
		{0, 0, 6, 0, HK_SEC, 20 * HK_MSEC, 0},
		{HK_MSEC, 500 * HK_USEC, 0, 0, 3060 * HK_USEC, 2060 * HK_USEC, 0},
		{HK_MSEC, 500 * HK_USEC, 0, 1, 8 * HK_MSEC, 8 * HK_MSEC, 0},
		{5 * HK_MSEC, HK_MSEC, 0, 1, 9060 * HK_USEC, 9060 * HK_USEC, 0},
		{10 * HK_USEC, HK_USEC, 0, 0, 2 * HK_MSEC, 250 * HK_USEC, 0},
		{100 * HK_USEC, HK_USEC, 3, 0, 16 * HK_MSEC, 260 * HK_USEC, 0},
		{100 * HK_USEC, HK_USEC, 20, 0, HK_SEC, 260 * HK_USEC, 0},
		/* a peer that has never answered, when others have */
		{0, 0, 0, 0, 20 * HK_MSEC, 2 * HK_MSEC, 10 * HK_USEC},
		{0, 0, 0, 0, 20 * HK_MSEC, 4 * HK_MSEC, 500 * HK_USEC},
		{0, 0, 1, 0, 40 * HK_MSEC, 4 * HK_MSEC, 500 * HK_USEC},
		{0, 0, 0, 0, 20 * HK_MSEC, 20 * HK_MSEC, 10 * HK_MSEC},
		{10 * HK_USEC, HK_USEC, 0, 0, 2 * HK_MSEC, 250 * HK_USEC, 10 * HK_MSEC},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.ack_delay = 30 * HK_USEC;
		g.cfg.min_rto = 2 * HK_MSEC;
		g.cfg.max_rto = HK_SEC;
		g.cfg.initial_rto = 20 * HK_MSEC;
		hk_peer p = rig_pair(&g);
		struct hk_peer_rec *r = hk_rec(g.e, p);

		g.e->slow_rtt = table[i].other;
		r->srtt = table[i].srtt;
		r->rttvar = table[i].rttvar;
		r->backoff = (uint8_t)table[i].backoff;
		r->not_polling = table[i].not_polling;
		CHECK_EQ(hk_rto(g.e, r), table[i].resend);
		r->backoff = 0;
		r->tx_next++;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_PROBE);
		CHECK_EQ((uint64_t)r->timer_after << HK_TIMER_UNIT,
			 (table[i].probe + 63) / 64 * 64);
	}
}

/* The back-off doubles 16 times at most. */
TEST(the_back_off_is_bounded)
{
	RIG(g);
	g.cfg.min_rto = 1;
	g.cfg.max_rto = UINT64_MAX;
	g.cfg.initial_rto = 1;
	rig_start(&g);
	struct hk_peer_rec *r = hk_rec(g.e, rig_add(&g, 2));

	r->backoff = 15;
	CHECK_EQ(hk_rto(g.e, r), 1 << 15);
	r->backoff = 16;
	CHECK_EQ(hk_rto(g.e, r), 1 << 16);
	r->backoff = 17;
	CHECK_EQ(hk_rto(g.e, r), 1 << 16);
}

/* The first wait that applies: for an acknowledgement, credit, an earlier packet, a sign of life.
 */
TEST(each_wait_has_its_timer)
{
	for (unsigned keepalive = 0; keepalive < 2; keepalive++) {
		RIG(g);
		g.cfg.keepalive = keepalive ? 3 * HK_SEC : 0;
		g.cfg.peer_timeout = 8 * HK_SEC;
		rig_start(&g);
		struct hk_peer_rec *r = hk_rec(g.e, rig_add(&g, 2));

		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_NONE); /* it has sent nothing */
		r->has_sent = 1;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, keepalive ? HK_TIMER_KEEPALIVE : HK_TIMER_NONE);
		if (keepalive)
			CHECK_EQ(hk_timer_at(r), g.now + 3 * HK_SEC);
		r->rx_deferred = 1;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_KEEPALIVE);
		CHECK_EQ(hk_timer_at(r), g.now + (keepalive ? 3 : 2) * HK_SEC);
		r->rx_deferred = 0;
		r->tx_edge = r->tx_next;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_CREDIT);
		r->tx_next++;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_PROBE);
		r->backoff = 1;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_RESEND);
		r->tx_next--;
		r->tx_edge += 8;
		r->backoff = 0;
		r->has_sent = 0;
		hk_timer_rearm(g.e, r, g.now);
		CHECK_EQ(r->timer, HK_TIMER_NONE);
		CHECK_EQ(r->in_wheel, 0);
	}
}

/* ---- quiet peers --------------------------------------------------------------------------- */

/* A rig whose peers lie in whole pages. */
static void start_in_pages(struct rig *g, size_t page)
{
	size_t bytes = hk_engine_size(&g->cfg);

	g->arena = aligned_alloc(page, (bytes + page - 1) / page * page);
	CHECK(g->arena != NULL);
	g->e = hk_engine_init(g->arena, bytes, &g->cfg);
	CHECK(g->e != NULL);
}

/* Two thousand peers spoke once, and have keepalives to come. A ping-pong with one peer touches no
 * record of the others: their pages cannot be accessed meanwhile. */
TEST(quiet_peers_are_not_visited)
{
	const uint32_t peers = 2000, rounds = 20000;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	RIG(g);
	g.cfg.max_peers = peers;
	g.cfg.keepalive = 5 * HK_SEC;
	start_in_pages(&g, page);
	for (uint32_t i = 0; i < peers; i++) {
		rig_add(&g, i + 2);
		CHECK_EQ(rig_data(&g, i + 2, 0), HK_RX_DELIVER);
	}
	g.now += HK_MSEC;
	while (rig_poll(&g) > 0)
		;
	uintptr_t first = (uintptr_t)hk_rec(g.e, 1), last = (uintptr_t)hk_rec(g.e, peers - 1);
	uintptr_t from = (first + page - 1) / page * page, to = last / page * page;
	CHECK_CMP(to - from, >, 100 * page);
	CHECK_EQ(mprotect((void *)from, to - from, PROT_NONE), 0);
	for (uint32_t i = 0; i < rounds; i++) {
		rig_send(&g, 0, i);
		g.now += 5 * HK_USEC;
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
		h.psn = i + 1;
		h.ack = i + 1;
		CHECK_EQ(rig_input(&g, &h, NULL, i), HK_RX_DELIVER);
		uint64_t token;
		while (hk_engine_reap(g.e, &token, 1))
			;
		g.now += 5 * HK_USEC;
		rig_poll(&g);
	}
	CHECK_EQ(mprotect((void *)from, to - from, PROT_READ | PROT_WRITE), 0);
	CHECK_EQ(hk_engine_counters(g.e)->rx_packets, peers + rounds);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_soak.c: peers come, talk and go for days. Nothing leaks, and
 * nothing becomes slower.
 *
 * A server stays. A visitor is an engine that starts, exchanges packets with the server, and ends:
 * it says BYE, or it vanishes. The network loses some frames. A visitor's endpoint comes again
 * later, in a new incarnation.
 */
#include "engine/internal.h"
#include "tests/support/frames.h"
#include "tests/support/hk_test.h"

#include <stdlib.h>

enum {
	ENDPOINTS = 24,
	VISITS = 2400,
	BATCH = 400,
	BUDGET = 512,
	BURST = 32,
	LONG = 1400,
	LOSS = 50, /* one frame of so many */
	KEY = 7,
	SERVER = 1
};

struct end {
	struct hk_engine *e;
	hk_peer peer; /* the other end */
	uint64_t token;
	unsigned left;     /* packets to send */
	unsigned got;      /* packets received */
	uint16_t next_len; /* of the next packet */
};

static uint64_t now;
static struct end server, visitor;

static uint64_t draw(uint64_t n)
{
	return hk_rng_below(&hk_test_rng, n);
}

static struct hk_engine *engine(void *arena, size_t bytes, uint32_t endpoint, uint32_t epoch)
{
	struct hk_engine_config c;

	hk_engine_config_default(&c);
	c.key = KEY;
	c.endpoint = endpoint;
	c.epoch = epoch;
	c.max_peers = 2 * ENDPOINTS;
	c.tx_blocks = ENDPOINTS;
	c.rx_budget = BUDGET;
	c.link_mbps = 10000;
	CHECK_CMP(hk_engine_size(&c), <=, bytes);
	return hk_engine_init(arena, bytes, &c);
}

/* ---- the network ----------------------------------------------------------------------------- */

static void deliver(struct end *to, uint8_t *frame, size_t len)
{
	struct hk_rx rx;

	if (!to->e || draw(LOSS) == 0)
		return;
	hk_engine_input(to->e, frame, len, 1, now, &rx);
	to->got += rx.result == HK_RX_DELIVER;
}

/* Sends what @from may send to @to. Returns whether it sent anything. */
static bool turn(struct end *from, struct end *to)
{
	static uint8_t frame[FRAME_BYTES(LONG)];
	static const uint8_t mac[6] = {2};
	struct hk_out out[BURST];
	uint64_t tokens[BURST];
	bool any = false;
	unsigned n;

	hk_wire_eth_encode(frame, mac, mac);
	now += 1000;
	while (hk_engine_reap(from->e, tokens, BURST) == BURST)
		;
	while (from->left && hk_engine_available(from->e, from->peer)) {
		struct hk_packet pkt = {.token = ++from->token, .type = HK_WIRE_DATA, .frags = 1};

		pkt.len = from->next_len;
		if (!hk_engine_granted(from->e, from->peer, pkt.len, now)) {
			hk_engine_want(from->e, from->peer, pkt.len, now);
			break;
		}
		CHECK(hk_engine_send(from->e, from->peer, &pkt, now, frame + HK_ETH_HLEN));
		from->left--;
		from->next_len = draw(4) ? 8 : LONG;
		deliver(to, frame, HK_ETH_HLEN + HK_WIRE_HLEN + pkt.len);
		any = true;
	}
	do {
		n = hk_engine_poll(from->e, now, out, BURST);
		for (unsigned i = 0; i < n; i++) {
			size_t body = out[i].kind == HK_OUT_RESEND ? LONG : 0;

			memcpy(frame + HK_ETH_HLEN, out[i].bytes, out[i].len);
			deliver(to, frame, HK_ETH_HLEN + HK_MAX(HK_WIRE_HLEN + body, out[i].len));
			any = true;
		}
	} while (n == BURST);
	return any;
}

/* Lets both act until @until, or until nothing is left to do for either. */
static void run(uint64_t until)
{
	while (now < until) {
		bool any = turn(&server, &visitor);

		any |= visitor.e && turn(&visitor, &server);
		if (any)
			continue;
		uint64_t next = hk_engine_deadline(server.e);

		if (visitor.e)
			next = HK_MIN(next, hk_engine_deadline(visitor.e));
		now = HK_MAX(now, HK_MIN(next, until));
	}
}

/* ---- visits ---------------------------------------------------------------------------------- */

static unsigned drain_disconnects(void)
{
	enum hk_disconnect_reason why;
	unsigned n = 0;

	while (hk_engine_next_disconnect(server.e, &why) != HK_PEER_NONE)
		n++;
	return n;
}

static bool quiet(const struct end *end)
{
	return end->left == 0 && hk_engine_unacked(end->e, end->peer) == 0;
}

static void visit(void *arena, size_t bytes, uint32_t endpoint, uint32_t epoch)
{
	unsigned sent[2] = {1 + (unsigned)draw(200), (unsigned)draw(200)};
	bool vanishes = draw(10) == 0;

	visitor = (struct end){.e = engine(arena, bytes, endpoint, epoch), .next_len = 8};
	CHECK(visitor.e != NULL);
	visitor.peer = hk_engine_peer_add(visitor.e, SERVER, 1, now);
	server.peer = hk_engine_peer_add(server.e, endpoint, epoch, now);
	if (server.peer == HK_PEER_NONE) { /* the server has not noticed that the last one left */
		visitor.left = 1;
		run(now + HK_SEC);
		CHECK_EQ(drain_disconnects(), 1);
		server.peer = hk_engine_peer_add(server.e, endpoint, epoch, now);
		visitor.got = 0;
	}
	CHECK(server.peer != HK_PEER_NONE && visitor.peer != HK_PEER_NONE);
	visitor.left = sent[0];
	server.left = sent[1];
	server.got = 0;
	server.next_len = 8;
	if (vanishes) {
		run(now + draw(HK_MSEC));
		server.left = 0;
		visitor.e = NULL;
		return;
	}
	for (unsigned i = 0; i < 1000 && !(quiet(&server) && quiet(&visitor)); i++)
		run(now + HK_MSEC);
	CHECK(quiet(&server) && quiet(&visitor));
	CHECK_EQ(visitor.got, sent[1]);
	for (unsigned i = 0; i < 3; i++) {
		hk_engine_bye(visitor.e);
		(void)turn(&visitor, &server);
	}
	visitor.e = NULL;
}

/* ---- what is left ---------------------------------------------------------------------------- */

static unsigned free_tx_blocks(const struct hk_engine *e)
{
	unsigned n = e->cfg.tx_blocks - e->tx_fresh;

	for (uint32_t b = e->tx_free; b != HK_NIL; b = (uint32_t)hk_tx_block(e, b)->token)
		n++;
	return n;
}

static unsigned free_rx_messages(const struct hk_engine *e)
{
	unsigned n = 0;

	for (uint32_t i = e->rx_free; i != HK_NIL; i = hk_rx_message(e, i)->next)
		n++;
	return n;
}

static void nothing_is_left(const struct hk_engine *e)
{
	CHECK_EQ(hk_engine_unacked(e, HK_PEER_NONE), 0);
	CHECK_EQ(e->rx_held + e->rx_reserved + e->rx_deferred, 0);
	CHECK_EQ(e->grant.out + e->grant.stalled + e->grant.waiting + e->grant.turns, 0);
	CHECK_EQ(free_tx_blocks(e), e->cfg.tx_blocks);
	CHECK_EQ(free_rx_messages(e), e->cfg.rx_budget / 2);
	CHECK(e->ack_head == HK_NIL && e->lost_head == HK_NIL && e->wait_head == HK_NIL);
	CHECK_EQ(hk_engine_peers(e), ENDPOINTS);
}

/* Five simulated days. The probes and resends of a batch of visits are a measure of the server's
 * work for peers that are gone. */
TEST(peers_come_and_go_for_days)
{
	size_t bytes = 4u << 20;
	void *arena[2] = {aligned_alloc(64, bytes), aligned_alloc(64, bytes)};
	uint64_t first = 0, before = 0, begin = now = 1000 * HK_SEC;

	CHECK(arena[0] && arena[1]);
	server.e = engine(arena[0], bytes, SERVER, 1);
	for (uint32_t i = 0; i < VISITS; i++) {
		visit(arena[1], bytes, 2 + (i < ENDPOINTS ? i : (uint32_t)draw(ENDPOINTS)), i + 1);
		run(now + draw(360 * HK_SEC));
		(void)drain_disconnects();
		if ((i + 1) % BATCH)
			continue;
		run(now + 200 * HK_SEC); /* those that have vanished are given up */
		(void)drain_disconnects();
		nothing_is_left(server.e);
		const struct hk_engine_counters *n = hk_engine_counters(server.e);
		uint64_t work = n->tx_probes + n->tx_resends - before;

		before += work;
		first = first ? first : work;
		CHECK_CMP(work, <=, first + first / 2);
	}
	CHECK_CMP(now - begin, >=, UINT64_C(4) * 24 * 3600 * HK_SEC);
	free(arena[0]);
	free(arena[1]);
}

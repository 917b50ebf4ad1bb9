/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/rig.h: one engine on the bench, and the frames of its peers made by hand.
 *
 * For what the simulator cannot say: the exact frame that comes in, the exact bytes that must come
 * out. The engine is endpoint 1 in epoch 101; its peers are endpoints 2, 3, … in epochs 102, 103, …
 */
#ifndef HK_RIG_H
#define HK_RIG_H

#include "engine/engine.h"
#include "tests/support/frames.h"
#include "tests/support/hk_test.h"
#include "tests/sim/sim.h"

#define RIG_KEY             0x52494721u
#define RIG_SELF            1u
#define RIG_EPOCH(endpoint) (100u + (endpoint))

#define RIG_POLLS 100 /* of one rig_next() */

#define RIG_LONG 1024 /* bytes of a long payload */
#define RIG_BODY 2048 /* bytes behind a header that is put in, at most */

struct rig {
	struct hk_engine_config cfg;
	void *arena;
	struct hk_engine *e;
	uint64_t now;
	struct hk_out out[64]; /* of the last rig_poll() */
	unsigned outs;
	struct hk_rx rx; /* of the last rig_input() */
};

HK_TEST_UNUSED static void rig_config(struct rig *g)
{
	memset(g, 0, sizeof(*g));
	hk_engine_config_default(&g->cfg);
	g->cfg.key = RIG_KEY;
	g->cfg.endpoint = RIG_SELF;
	g->cfg.epoch = RIG_EPOCH(RIG_SELF);
	g->cfg.max_peers = 8;
	g->cfg.tx_blocks = 8;
	g->cfg.keepalive = 0;
	g->now = 1000 * HK_SEC;
}

HK_TEST_UNUSED static void rig_end(struct rig *g)
{
	free(g->arena);
}

/* A rig until the end of the block. The test may change @g.cfg before the engine starts. */
#define RIG(g)                                                                                     \
	__attribute__((cleanup(rig_end))) struct rig g;                                            \
	rig_config(&(g))

HK_TEST_UNUSED static void rig_start(struct rig *g)
{
	size_t bytes = hk_engine_size(&g->cfg);
	CHECK(bytes != 0);
	g->arena = aligned_alloc(64, (bytes + 63) / 64 * 64);
	CHECK(g->arena != NULL);
	memset(g->arena, 0xa5, bytes);
	g->e = hk_engine_init(g->arena, bytes, &g->cfg);
	CHECK(g->e != NULL);
}

HK_TEST_UNUSED static hk_peer rig_add(struct rig *g, uint32_t endpoint)
{
	hk_peer p = hk_engine_peer_add(g->e, endpoint, RIG_EPOCH(endpoint), g->now);
	CHECK(p != HK_PEER_NONE);
	return p;
}

/* The scene of most tests: the engine, and one peer, endpoint 2. */
HK_TEST_UNUSED static hk_peer rig_pair(struct rig *g)
{
	rig_start(g);
	return rig_add(g, 2);
}

/* The engine's view of @p. */
HK_TEST_UNUSED static struct hk_peer_info rig_info(const struct rig *g, hk_peer p)
{
	struct hk_peer_info info;

	hk_engine_peer_info(g->e, p, &info);
	return info;
}

/* The next connection that the engine reports as ended, which must be @p's (HK_PEER_NONE: there is
 * none). Returns the reason. */
HK_TEST_UNUSED static enum hk_disconnect_reason rig_disconnect(struct rig *g, hk_peer p)
{
	enum hk_disconnect_reason why = HK_DISCONNECT_NONE;

	CHECK_EQ(hk_engine_next_disconnect(g->e, &why), p);
	return why;
}

/* A good header from @endpoint to us; the test changes what it wants. */
HK_TEST_UNUSED static struct hk_wire_hdr rig_hdr(const struct rig *g, uint32_t endpoint,
						 enum hk_wire_type type)
{
	struct hk_wire_hdr h = frame_hdr(type, g->cfg.key, endpoint, g->cfg.endpoint);

	h.credit = g->cfg.window;
	h.src_epoch = RIG_EPOCH(endpoint);
	h.dst_epoch = g->cfg.epoch;
	h.tsval = (uint32_t)(g->now >> HK_WIRE_TS_SHIFT);
	return h;
}

/* Puts a frame with header @h in; `len` bytes behind it are zero unless @sack is given. */
HK_TEST_UNUSED static enum hk_rx_result rig_input(struct rig *g, const struct hk_wire_hdr *h,
						  const struct hk_wire_sack *sack, uint64_t token)
{
	uint8_t frame[FRAME_BYTES(RIG_BODY)], body[RIG_BODY] = {0};

	CHECK(h->len <= RIG_BODY);
	struct hk_wire_hdr with = *h;

	if (sack)
		with.len = (uint16_t)(with.len + hk_wire_sack_encode(body, sack));
	memset(&g->rx, 0xa5, sizeof(g->rx));
	hk_engine_input(g->e, frame, frame_encode(frame, &with, body, g->cfg.protection), token,
			g->now, &g->rx);
	return g->rx.result;
}

/* Data packet @psn of @endpoint, a message by itself. */
HK_TEST_UNUSED static enum hk_rx_result rig_data(struct rig *g, uint32_t endpoint, uint32_t psn)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_DATA);
	h.psn = psn;
	return rig_input(g, &h, NULL, psn);
}

/* Packet @psn of endpoint 2, fragment @frag of @frags of a message. */
HK_TEST_UNUSED static enum hk_rx_result rig_fragment(struct rig *g, uint32_t psn, uint8_t frag,
						     uint8_t frags, uint8_t am)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_DATA);
	h.psn = psn;
	h.frag = frag;
	h.frags = frags;
	h.am = am;
	return rig_input(g, &h, NULL, 1000 + psn);
}

/* As rig_data(), and long. */
HK_TEST_UNUSED static enum hk_rx_result rig_long(struct rig *g, uint32_t endpoint, uint32_t psn)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_DATA);
	h.psn = psn;
	h.len = RIG_LONG;
	return rig_input(g, &h, NULL, psn);
}

/* An ack of @endpoint: all before @ack, and nothing beyond. */
HK_TEST_UNUSED static enum hk_rx_result rig_ack(struct rig *g, uint32_t endpoint, uint32_t ack,
						uint16_t credit)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_ACK);

	h.ack = ack;
	h.credit = credit;
	return rig_input(g, &h, NULL, 0);
}

/* An ack of endpoint 2 that echoes the timestamp @tsecr of ours. */
HK_TEST_UNUSED static void rig_echo(struct rig *g, uint32_t ack, uint32_t tsecr, uint8_t flags)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_ACK);

	h.ack = ack;
	h.tsecr = tsecr;
	h.flags = flags;
	rig_input(g, &h, NULL, 0);
}

/* An ack of @endpoint with a grant. */
HK_TEST_UNUSED static enum hk_rx_result rig_grant(struct rig *g, uint32_t endpoint,
						  uint32_t granted, uint32_t wanted)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_ACK);
	uint8_t frame[FRAME_BYTES(HK_WIRE_GRANT_LEN)], body[HK_WIRE_GRANT_LEN];

	h.flags = HK_WIRE_F_GRANT;
	h.len = HK_WIRE_GRANT_LEN;
	hk_wire_grant_encode(body, &(struct hk_wire_grant){granted, wanted});
	memset(&g->rx, 0xa5, sizeof(g->rx));
	hk_engine_input(g->e, frame, frame_encode(frame, &h, body, g->cfg.protection), 0, g->now,
			&g->rx);
	return g->rx.result;
}

/* Packet @psn of @endpoint with @len bytes of bulk. */
HK_TEST_UNUSED static enum hk_rx_result rig_bulk(struct rig *g, uint32_t endpoint, uint32_t psn,
						 uint16_t len)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_PUT);

	h.psn = psn;
	h.len = len;
	h.flags = HK_WIRE_F_BULK;
	return rig_input(g, &h, NULL, psn);
}

/* Polls once; returns how much came out, in g->out. */
HK_TEST_UNUSED static unsigned rig_poll(struct rig *g)
{
	g->outs = hk_engine_poll(g->e, g->now, g->out, HK_ARRAY_LEN(g->out));
	return g->outs;
}

/* Output @i, without pointers into it. */
HK_TEST_UNUSED static struct hk_frame rig_out_frame(const struct rig *g, unsigned i)
{
	uint8_t frame[HK_ETH_HLEN + sizeof(g->out[i].bytes) + 2048] = {0};
	struct hk_frame f;

	CHECK(i < g->outs);
	hk_wire_eth_encode(frame, frame, frame);
	memcpy(frame + HK_ETH_HLEN, g->out[i].bytes, g->out[i].len);
	enum hk_wire_status st = hk_wire_frame_parse(frame, sizeof(frame), false, &f);
	CHECK_MSG(st == HK_WIRE_OK || (g->cfg.protection && st == HK_WIRE_E_CRC),
		  "the engine put out a frame that does not parse: %s", hk_wire_status_name(st));
	f.payload = f.src_mac = NULL;
	return f;
}

/* The header of output @i. */
HK_TEST_UNUSED static struct hk_wire_hdr rig_out(const struct rig *g, unsigned i)
{
	return rig_out_frame(g, i).h;
}

/* Sends one small message to @p with @token; its header. */
HK_TEST_UNUSED static struct hk_wire_hdr rig_send(struct rig *g, hk_peer p, uint64_t token)
{
	struct hk_packet pkt = {.token = token, .len = 32, .type = HK_WIRE_DATA, .frags = 1};
	struct hk_wire_hdr h;

	CHECK(hk_engine_send(g->e, p, &pkt, g->now, &h));
	return h;
}

/* Lets time pass to the engine's deadlines and polls, until something comes out or it waits for
 * nothing. (At a deadline a timer may merely move in the wheel.) Returns what came out. */
HK_TEST_UNUSED static unsigned rig_next(struct rig *g)
{
	uint64_t at = hk_engine_deadline(g->e);
	unsigned n = 0;

	CHECK_MSG(at != UINT64_MAX, "the engine waits for nothing");
	for (unsigned i = 0; n == 0 && at != UINT64_MAX && i < RIG_POLLS; i++) {
		g->now = HK_MAX(g->now, at);
		n = rig_poll(g);
		at = hk_engine_deadline(g->e);
	}
	return n;
}

/* The scene of rig_pair() in the simulator: node 0 sends @count small messages to node 1, one
 * @every ns. */
HK_TEST_UNUSED static void sim_pair_stream(struct sim *s, unsigned count, uint64_t every)
{
	for (unsigned i = 0; i < count; i++)
		sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, i * every);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/test_engine.c: an engine by itself: configuration, memory, who is heard, headers.
 */
#include "tests/unit/rig.h"

/* ---- configuration and memory -------------------------------------------------------------- */

static void configuration_is_checked(void)
{
	struct rig g;

	rig_config(&g);
	CHECK(hk_engine_size(&g.cfg) != 0);
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		struct hk_engine_config c = g.cfg;                                                 \
		c.field = value;                                                                   \
		CHECK_MSG(hk_engine_size(&c) == 0, #field " = " #value " was accepted");           \
		CHECK(hk_engine_init(&g, SIZE_MAX, &c) == NULL);                                   \
	} while (0)
	REFUSED(epoch, 0);
	REFUSED(max_peers, 0);
	REFUSED(tx_blocks, 0);
	REFUSED(rx_blocks, 0);
	REFUSED(rx_budget, 0);
	REFUSED(window, 0);
	REFUSED(window, 4);
	REFUSED(window, 48);
	REFUSED(window, 512);
	REFUSED(resend_cap, 0);
	REFUSED(ack_every, 0);
	REFUSED(min_rto, 0);
	REFUSED(initial_rto, 0);
	REFUSED(peer_timeout, 0);
	REFUSED(target_delay, 0);
	REFUSED(max_rto, g.cfg.min_rto - 1);
	REFUSED(max_peers, UINT32_MAX);
	REFUSED(tx_blocks, UINT32_MAX);
#undef REFUSED
	for (uint16_t w = 8; w <= HK_WIRE_WINDOW; w *= 2) {
		g.cfg.window = w;
		CHECK(hk_engine_size(&g.cfg) != 0);
	}
}

static void arena_is_checked(void)
{
	struct rig g;

	rig_config(&g);
	size_t bytes = hk_engine_size(&g.cfg);
	char *arena = aligned_alloc(64, bytes + 64);
	CHECK(arena != NULL);
	CHECK(hk_engine_init(arena, bytes - 1, &g.cfg) == NULL);
	CHECK(hk_engine_init(arena + 8, bytes, &g.cfg) == NULL);
	CHECK(hk_engine_init(arena, bytes, &g.cfg) != NULL);
	free(arena);
}

/* What engine.h promises of an idle peer, at any size of the table. */
static void idle_peer_is_small(void)
{
	struct rig g;

	rig_config(&g);
	for (uint32_t peers = 64; peers <= 65536; peers *= 4) {
		struct hk_engine_config c = g.cfg;
		c.max_peers = peers;
		size_t before = hk_engine_size(&c);
		c.max_peers = 2 * peers;
		size_t each = (hk_engine_size(&c) - before) / peers;
		CHECK_CMP(each, <=, HK_ENGINE_PEER_BYTES);
	}
}

/* The arena may lie anywhere, also at another address afterwards: nothing in it points. */
static void arena_may_move(void)
{
	struct rig g;
	uint64_t token;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	rig_send(&g, p, 77);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);

	size_t bytes = hk_engine_size(&g.cfg);
	void *moved = aligned_alloc(64, (bytes + 63) / 64 * 64);
	CHECK(moved != NULL);
	memcpy(moved, g.arena, bytes);
	memset(g.arena, 0xee, bytes);
	free(g.arena);
	g.arena = moved;
	g.e = moved;
	CHECK_EQ(hk_engine_peer_find(g.e, 2), p);
	CHECK_EQ(rig_ack(&g, 2, 1, 64), HK_RX_CONTROL);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1);
	CHECK_EQ(token, 77);
	rig_end(&g);
}

/* ---- headers ------------------------------------------------------------------------------- */

static void headers_say_what_they_should(void)
{
	struct rig g;

	rig_config(&g);
	g.cfg.crc = true;
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	struct hk_packet pkt = {
		.token = 5, .len = 100, .type = HK_WIRE_DATA, .am = 200, .frag = 0, .frags = 2};
	struct hk_wire_hdr h;

	CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
	CHECK_EQ(h.version, HK_WIRE_VERSION);
	CHECK_EQ(h.type, HK_WIRE_DATA);
	CHECK(h.flags & HK_WIRE_F_CRC);
	CHECK(!(h.flags & HK_WIRE_F_RESENT));
	CHECK_EQ(h.len, 100);
	CHECK_EQ(h.key, RIG_KEY);
	CHECK_EQ(h.src, RIG_SELF);
	CHECK_EQ(h.dst, 2);
	CHECK_EQ(h.src_epoch, RIG_EPOCH(RIG_SELF));
	CHECK_EQ(h.dst_epoch, RIG_EPOCH(2));
	CHECK_EQ(h.am, 200);
	CHECK_EQ(h.frag, 0);
	CHECK_EQ(h.frags, 2);
	CHECK_EQ(h.zero, 0);
	CHECK_EQ(h.tsecr, 0); /* nothing heard yet */
	CHECK_EQ(h.tsval, (uint32_t)(g.now >> HK_WIRE_TS_SHIFT));
	uint32_t psn = h.psn;
	pkt.frag = 1;
	CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
	CHECK_EQ(h.psn, psn + 1);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);
	CHECK_EQ(hk_engine_unacked(g.e, HK_PEER_NONE), 2);
	rig_end(&g);
}

/* A timestamp of 0 means none: a clock that reads 0 must not say so. */
static void timestamps_are_never_zero(void)
{
	struct rig g;

	rig_config(&g);
	g.now = UINT64_C(1) << (32 + HK_WIRE_TS_SHIFT);
	rig_start(&g);
	CHECK(rig_send(&g, rig_add(&g, 2), 1).tsval != 0);
	rig_end(&g);
}

/* The echo grows by the time that we held it, so that the peer measures the network alone. */
static void echo_counts_the_hold(void)
{
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.tsval = 1000;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	g.now += 160 * HK_USEC;
	CHECK_EQ(rig_send(&g, p, 1).tsecr, 1000 + (160 * HK_USEC >> HK_WIRE_TS_SHIFT));
	rig_end(&g);
}

/* An echo of 0 would mean that nothing was heard: it is never computed to that. */
static void echo_is_never_zero(void)
{
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.tsval = (uint32_t) - (int32_t)(16 * HK_USEC >> HK_WIRE_TS_SHIFT);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	g.now += 16 * HK_USEC;
	CHECK_EQ(rig_send(&g, p, 1).tsecr, 1);
	rig_end(&g);
}

/* The first sample is the RTT, half of it its variation (RFC 6298, 2.2). */
static void first_rtt_sample(void)
{
	struct rig g;
	struct hk_peer_info info;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	uint32_t tsval = rig_send(&g, p, 1).tsval;
	g.now += 32 * HK_USEC;
	struct hk_wire_sack none = {{0}};
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);
	h.ack = 1;
	h.tsecr = tsval;
	rig_input(&g, &h, &none, 0);
	hk_engine_peer_info(g.e, p, &info);
	CHECK_EQ(info.srtt, 32 * HK_USEC);
	CHECK_EQ(info.rttvar, 16 * HK_USEC);
	CHECK_EQ(info.min_rtt, 32 * HK_USEC);
	rig_end(&g);
}

/* ---- when an ack goes out ------------------------------------------------------------------ */

static void acks_wait_or_hurry(void)
{
	struct rig g;

	rig_config(&g);
	g.cfg.ack_delay = 40 * HK_USEC;
	g.cfg.ack_every = 4;
	rig_start(&g);
	rig_add(&g, 2);
	/* one packet: the ack may wait, and comes in time */
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 0);
	CHECK_EQ(hk_engine_deadline(g.e), g.now + 40 * HK_USEC);
	CHECK_EQ(rig_next(&g), 1);
	CHECK_EQ(rig_out(&g, 0).type, HK_WIRE_ACK);
	CHECK_EQ(rig_out(&g, 0).ack, 1);
	/* the fourth one: at once */
	for (uint32_t psn = 1; psn < 4; psn++) {
		CHECK_EQ(rig_data(&g, 2, psn), HK_RX_DELIVER);
		CHECK_EQ(rig_poll(&g), 0);
	}
	CHECK_EQ(rig_data(&g, 2, 4), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 5);
	/* a gap: at once; what fills it: at once */
	CHECK_EQ(rig_data(&g, 2, 6), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 5);
	CHECK_EQ(g.out[0].bytes[HK_WIRE_HLEN], 1 << 1);
	CHECK_EQ(rig_data(&g, 2, 5), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 7);
	/* twice: at once, since the sender missed our ack; and when it asks */
	CHECK_EQ(rig_data(&g, 2, 3), HK_RX_DROP);
	CHECK_EQ(rig_poll(&g), 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = 7;
	h.flags = HK_WIRE_F_ACK_NOW;
	CHECK_EQ(rig_input(&g, &h, NULL, 7), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	/* a packet of ours takes the ack with it */
	CHECK_EQ(rig_data(&g, 2, 8), HK_RX_DELIVER);
	CHECK_EQ(rig_send(&g, hk_engine_peer_find(g.e, 2), 1).ack, 9);
	CHECK_EQ(rig_poll(&g), 0);
	rig_end(&g);
}

/* Letting go of buffers one by one tells the peer nothing that it needs; once it was stopped, the
 * first free buffer does, at once. */
static void window_updates_are_rare(void)
{
	struct rig g;

	rig_config(&g);
	g.cfg.window = 16;
	g.cfg.rx_budget = 1024;
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	uint32_t psn = 0;
	for (; psn < 4; psn++) {
		CHECK_EQ(rig_data(&g, 2, psn), HK_RX_DELIVER);
		hk_engine_rx_held(g.e, p, 1);
	}
	rig_next(&g);
	CHECK_EQ(rig_out(&g, 0).window, 12);
	for (unsigned i = 0; i < 4; i++) {
		hk_engine_rx_held(g.e, p, -1);
		CHECK_EQ(rig_poll(&g), 0);
	}
	for (; psn < 20; psn++) {
		if (rig_data(&g, 2, psn) == HK_RX_DELIVER)
			hk_engine_rx_held(g.e, p, 1);
	}
	while (hk_engine_deadline(g.e) != UINT64_MAX && rig_next(&g))
		;
	struct hk_wire_hdr last = rig_send(&g, p, 1);
	CHECK_EQ(last.window, 0);
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_rx_held(g.e, p, -1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_CMP(rig_out(&g, 0).window, >, 0);
	rig_end(&g);
}

/* ---- who is heard -------------------------------------------------------------------------- */

static void strangers_are_counted(void)
{
	struct rig g;
	struct hk_wire_hdr h;

	rig_config(&g);
	rig_start(&g);
	rig_add(&g, 2);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.key ^= 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_key, 1);

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.dst = 7;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 1);

	h = rig_hdr(&g, RIG_SELF, HK_WIRE_DATA); /* a frame of our own comes back */
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_endpoint, 2);
	CHECK_EQ(rig_poll(&g), 0); /* nobody is answered */

	h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = g.cfg.window; /* beyond any credit */
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_window, 1);

	uint8_t junk[80] = {0};
	hk_engine_input(g.e, junk, sizeof(junk), 0, g.now, &g.rx);
	CHECK_EQ(g.rx.verdict, HK_RX_DROP);
	CHECK_EQ(n->drop_wire[HK_WIRE_E_ETHERTYPE], 1);
	hk_engine_input(g.e, junk, 3, 0, g.now, &g.rx);
	CHECK_EQ(n->drop_wire[HK_WIRE_E_SHORT], 1);
	CHECK_EQ(n->rx_packets, 0);
	rig_end(&g);
}

/* A frame to an incarnation that we are not: not delivered; its sender is told. */
static void wrong_epoch_is_refused(void)
{
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	rig_add(&g, 2);
	const struct hk_engine_counters *n = hk_engine_counters(g.e);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.dst_epoch = 55;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(n->drop_epoch, 1);
	CHECK(hk_engine_deadline(g.e) <= g.now);
	CHECK_EQ(rig_poll(&g), 1);
	struct hk_wire_hdr r = rig_out(&g, 0);
	CHECK_EQ(r.type, HK_WIRE_RESET);
	CHECK_EQ(r.dst, 2);
	CHECK_EQ(r.src_epoch, RIG_EPOCH(RIG_SELF));
	CHECK_EQ(r.dst_epoch, RIG_EPOCH(2)); /* else its receiver would not listen */
	CHECK_EQ(rig_poll(&g), 0);

	/* a refusal is never refused, or two would quarrel for ever */
	h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.dst_epoch = 55;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(rig_poll(&g), 0);
	rig_end(&g);
}

/* A RESET that was sent to an earlier incarnation, or about one, changes nothing. */
static void stale_reset_is_ignored(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	rig_send(&g, p, 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.dst_epoch = 55; /* not to us */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.tsecr = 54; /* refuses packets to an incarnation that we do not write to any more */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	h = rig_hdr(&g, 9, HK_WIRE_RESET); /* of somebody unknown */
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_peer_find(g.e, 9), HK_PEER_NONE);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	rig_end(&g);
}

/* An earlier incarnation's frame is a stray. A later one's is the proof of a restart, also for
 * somebody who only listens; it is delivered once the caller has added the new one. */
static void incarnations_are_ordered(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = 1;
	h.src_epoch = RIG_EPOCH(2) - 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 1);
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);

	h.psn = 0;
	h.src_epoch = RIG_EPOCH(2) + 7;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 2);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(why, HK_VERDICT_RESTARTED);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 7, g.now), p);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);

	/* somebody only heard of begins anew by himself */
	CHECK_EQ(rig_data(&g, 3, 0), HK_RX_DELIVER);
	h = rig_hdr(&g, 3, HK_WIRE_PUT);
	h.src_epoch = RIG_EPOCH(3) + 1;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_PUT);
	CHECK(g.rx.new_peer);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	/* but not for an ack, which cannot be meant for us */
	h = rig_hdr(&g, 3, HK_WIRE_ACK);
	h.src_epoch = RIG_EPOCH(3) + 2;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_epoch, 3);
	rig_end(&g);
}

/* The caller lets go of a dead peer's buffers late, or of more than it has: no harm. */
static void late_release_is_harmless(void)
{
	struct rig g;
	enum hk_verdict why;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	hk_engine_rx_held(g.e, p, 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.src_epoch = RIG_EPOCH(2) + 1;
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), p);
	hk_engine_rx_held(g.e, p, -1);
	hk_engine_rx_held(g.e, p, -5);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_send(&g, p, 1).window, g.cfg.window);
	rig_end(&g);
}

/* A caller that never reaps is stopped, before the ring of tokens runs over. */
static void who_never_reaps_is_stopped(void)
{
	struct rig g;
	uint64_t token;
	uint32_t sent = 0;

	rig_config(&g);
	g.cfg.tx_blocks = 1;
	g.cfg.window = 16;
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	for (unsigned i = 0; i < 1000 && hk_engine_room(g.e, p); i++) {
		rig_send(&g, p, sent++);
		rig_ack(&g, 2, sent, 16);
	}
	CHECK_CMP(sent, <, 1000);
	CHECK_CMP(sent, >=, 16);
	for (uint32_t i = 0; i < sent; i++) {
		CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1);
		CHECK_EQ(token, i);
	}
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_CMP(hk_engine_room(g.e, p), >, 0);
	rig_end(&g);
}

/* Control frames do not make peers: only a message is worth a place in the table. */
static void table_of_peers_is_bounded(void)
{
	struct rig g;

	rig_config(&g);
	g.cfg.max_peers = 4;
	rig_start(&g);
	CHECK_EQ(rig_ack(&g, 50, 0, 64), HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_find(g.e, 50), HK_PEER_NONE);
	for (uint32_t i = 2; i < 6; i++) {
		CHECK_EQ(rig_data(&g, i, 0), HK_RX_DELIVER);
		CHECK(g.rx.new_peer);
		CHECK_EQ(hk_engine_peer_state(g.e, g.rx.peer), HK_PEER_HEARD);
		CHECK_EQ(hk_engine_peer_endpoint(g.e, g.rx.peer), i);
		CHECK_EQ(rig_data(&g, i, 1), HK_RX_DELIVER);
		CHECK(!g.rx.new_peer);
	}
	CHECK_EQ(rig_data(&g, 6, 0), HK_RX_DROP);
	CHECK_CMP(hk_engine_counters(g.e)->drop_peers, >=, 1);
	CHECK_EQ(hk_engine_peer_find(g.e, 6), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, 6, RIG_EPOCH(6), g.now), HK_PEER_NONE);
	/* those who are in stay served */
	CHECK_EQ(rig_data(&g, 3, 2), HK_RX_DELIVER);
	CHECK(hk_engine_peer_add(g.e, 3, RIG_EPOCH(3), g.now) != HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_state(g.e, hk_engine_peer_find(g.e, 3)), HK_PEER_ACTIVE);
	rig_end(&g);
}

static void peers_are_added_once(void)
{
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	CHECK_EQ(rig_add(&g, 2), p);
	CHECK_EQ(hk_engine_peer_add(g.e, 2, RIG_EPOCH(2) + 1, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, 3, 0, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_add(g.e, RIG_SELF, 5, g.now), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_find(g.e, 3), HK_PEER_NONE);
	CHECK_EQ(hk_engine_peer_state(g.e, 7), HK_PEER_FREE);
	CHECK_EQ(hk_engine_room(g.e, HK_PEER_NONE), 0);
	rig_end(&g);
}

/* ---- acknowledgements that lie ------------------------------------------------------------- */

static void ack_of_what_was_never_sent(void)
{
	struct rig g;
	uint64_t token;
	struct hk_wire_sack all;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	rig_send(&g, p, 1);
	rig_send(&g, p, 2);
	rig_ack(&g, 2, 3, 64); /* only 0 and 1 were sent */
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);
	CHECK_CMP(hk_engine_counters(g.e)->drop_window, >=, 1);
	rig_ack(&g, 2, UINT32_MAX, 64); /* before the first: an old one */
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);

	/* a bitmap full of packets beyond the last */
	memset(&all, 0xff, sizeof(all));
	all.bits[0] &= ~UINT64_C(1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);
	rig_input(&g, &h, &all, 0);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1); /* number 1 it may well have */
	CHECK_EQ(token, 2);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 1);
	CHECK_EQ(token, 1);
	CHECK_EQ(hk_engine_reap(g.e, &token, 1), 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	rig_end(&g);
}

/* A window of 65535 is not believed, and an older ack does not take credit back. */
static void credit_that_lies(void)
{
	struct rig g;
	struct hk_peer_info info;

	rig_config(&g);
	g.cfg.window = 64;
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	rig_ack(&g, 2, 0, UINT16_MAX);
	hk_engine_peer_info(g.e, p, &info);
	CHECK_CMP(info.credit, <=, 64);
	unsigned before = info.credit;
	rig_ack(&g, 2, 0, 0);
	hk_engine_peer_info(g.e, p, &info);
	CHECK_EQ(info.credit, before);
	for (unsigned i = 0; i < 200; i++) {
		if (hk_engine_room(g.e, p))
			rig_send(&g, p, i);
	}
	CHECK_CMP(hk_engine_unacked(g.e, p), <=, 64);
	rig_end(&g);
}

/* ---- fragments ----------------------------------------------------------------------------- */

static enum hk_rx_verdict fragment(struct rig *g, uint32_t psn, uint8_t frag, uint8_t frags,
				   uint8_t am)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_DATA);
	h.psn = psn;
	h.frag = frag;
	h.frags = frags;
	h.am = am;
	return rig_input(g, &h, NULL, 1000 + psn);
}

static void fragments_in_any_order(void)
{
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	rig_add(&g, 2);
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_DROP); /* once is enough */
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 3, 0, 1, 8), HK_RX_DELIVER); /* another message overtakes */
	CHECK_EQ(g.rx.count, 1);
	CHECK_EQ(g.rx.am, 8);
	CHECK_EQ(fragment(&g, 1, 1, 3, 9), HK_RX_DELIVER);
	CHECK_EQ(g.rx.count, 3);
	CHECK_EQ(g.rx.am, 9);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(g.rx.tokens[i], 1000 + i);
	CHECK_EQ(fragment(&g, 1, 1, 3, 9), HK_RX_DROP);
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->rx_duplicates, 3);
	CHECK_EQ(hk_engine_counters(g.e)->rx_packets, 4);
	rig_end(&g);
}

/* Siblings that do not agree about their message are not put together. */
static void fragments_that_contradict(void)
{
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	rig_add(&g, 2);
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 1, 1, 3, 10), HK_RX_DROP); /* another id */
	CHECK_EQ(fragment(&g, 1, 1, 4, 9), HK_RX_DROP);  /* another count */
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 2);
	CHECK_EQ(fragment(&g, 1, 1, 3, 9), HK_RX_HOLD); /* as it should be */
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_DELIVER);
	/* says it began before what was delivered long ago */
	CHECK_EQ(fragment(&g, 3, 3, 4, 9), HK_RX_DROP);
	CHECK_EQ(hk_engine_counters(g.e)->drop_fragment, 3);
	rig_end(&g);
}

/* Half a message of a peer that is gone: its buffers come back, each once. */
static void half_a_message_comes_back(void)
{
	struct rig g;
	uint64_t tokens[8];
	enum hk_verdict why;

	rig_config(&g);
	rig_start(&g);
	hk_peer p = rig_add(&g, 2);
	rig_send(&g, p, 500);
	CHECK_EQ(fragment(&g, 0, 0, 3, 9), HK_RX_HOLD);
	CHECK_EQ(fragment(&g, 2, 2, 3, 9), HK_RX_HOLD);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_RESET);
	h.src_epoch = 777;
	h.tsecr = RIG_EPOCH(2);
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(why, HK_VERDICT_RESTARTED);
	CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	CHECK_EQ(hk_engine_reap(g.e, tokens, 8), 1);
	CHECK_EQ(tokens[0], 500);
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 1), 1);
	uint64_t first = tokens[0];
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 8), 1);
	CHECK_EQ(first + tokens[0], 1000 + 1002);
	CHECK_EQ(hk_engine_reap_rx(g.e, tokens, 8), 0);
	CHECK_EQ(hk_engine_reap(g.e, tokens, 8), 0);
	rig_end(&g);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"configuration_is_checked", configuration_is_checked},
		{"arena_is_checked", arena_is_checked},
		{"idle_peer_is_small", idle_peer_is_small},
		{"arena_may_move", arena_may_move},
		{"headers_say_what_they_should", headers_say_what_they_should},
		{"timestamps_are_never_zero", timestamps_are_never_zero},
		{"echo_counts_the_hold", echo_counts_the_hold},
		{"echo_is_never_zero", echo_is_never_zero},
		{"first_rtt_sample", first_rtt_sample},
		{"acks_wait_or_hurry", acks_wait_or_hurry},
		{"window_updates_are_rare", window_updates_are_rare},
		{"strangers_are_counted", strangers_are_counted},
		{"wrong_epoch_is_refused", wrong_epoch_is_refused},
		{"stale_reset_is_ignored", stale_reset_is_ignored},
		{"incarnations_are_ordered", incarnations_are_ordered},
		{"late_release_is_harmless", late_release_is_harmless},
		{"who_never_reaps_is_stopped", who_never_reaps_is_stopped},
		{"table_of_peers_is_bounded", table_of_peers_is_bounded},
		{"peers_are_added_once", peers_are_added_once},
		{"ack_of_what_was_never_sent", ack_of_what_was_never_sent},
		{"credit_that_lies", credit_that_lies},
		{"fragments_in_any_order", fragments_in_any_order},
		{"fragments_that_contradict", fragments_that_contradict},
		{"half_a_message_comes_back", half_a_message_comes_back},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

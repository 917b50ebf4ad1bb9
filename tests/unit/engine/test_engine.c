/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine.c: one engine: configuration, memory, creation of peers, headers.
 */
#include "tests/support/rig.h"

/* ---- configuration and memory -------------------------------------------------------------- */

TEST(configuration_is_checked)
{
	_Alignas(64) char arena[64];
	RIG(g);
	CHECK(hk_engine_size(&g.cfg) != 0);
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		struct hk_engine_config c = g.cfg;                                                 \
		c.field = value;                                                                   \
		CHECK_MSG(hk_engine_size(&c) == 0, #field " = " #value " was accepted");           \
		CHECK(hk_engine_init(arena, SIZE_MAX, &c) == NULL);                                \
	} while (0)
	REFUSED(epoch, 0);
	REFUSED(max_peers, 0);
	REFUSED(tx_blocks, 0);
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
	REFUSED(max_peers, (1u << 24) + 1);
	REFUSED(tx_blocks, HK_TX_BLOCKS_MAX + 1);
	REFUSED(rx_budget, (1u << 24) + 1);
	REFUSED(rx_budget, HK_WIRE_MAX_FRAGS - 1);
	REFUSED(window, 24);
	REFUSED(window_bytes, 0);
	REFUSED(link_mbps, HK_LINK_MBPS_MAX + 1);
#undef REFUSED
	struct hk_engine_config c = g.cfg;

	c.max_peers = c.rx_budget = 1u << 24;
	c.tx_blocks = HK_TX_BLOCKS_MAX;
	c.link_mbps = HK_LINK_MBPS_MAX;
	CHECK(hk_engine_size(&c) != 0);
	c.max_peers = c.tx_blocks = c.window_bytes = c.resend_cap = c.ack_every = 1;
	c.rx_budget = HK_WIRE_MAX_FRAGS;
	c.min_rto = c.max_rto = c.initial_rto = c.peer_timeout = c.target_delay = 1;
	CHECK(hk_engine_size(&c) != 0);
	for (uint16_t w = 8; w <= HK_WIRE_WINDOW; w *= 2) {
		g.cfg.window = w;
		CHECK(hk_engine_size(&g.cfg) != 0);
	}
}

TEST(defaults_in_figures)
{
	struct hk_engine_config c;

	hk_engine_config_default(&c);
	CHECK(c.max_peers == 1024 && c.tx_blocks == 64 && c.rx_budget == 1024);
	CHECK(c.window == 256 && c.window_bytes == 1 << 20);
	CHECK(c.resend_cap == 32 && c.ack_every == 32 && !c.protection && !c.classes);
	CHECK_EQ(c.ack_delay, 30 * HK_USEC);
	CHECK(c.min_rto == 2 * HK_MSEC && c.max_rto == 200 * HK_MSEC);
	CHECK(c.initial_rto == 20 * HK_MSEC && c.peer_timeout == 30 * HK_SEC);
	CHECK(c.keepalive == 5 * HK_SEC && c.target_delay == 200 * HK_USEC && c.link_mbps == 0);
}

TEST(arena_is_checked)
{
	RIG(g);
	size_t bytes = hk_engine_size(&g.cfg);
	char *arena = aligned_alloc(64, bytes + 64);
	CHECK(arena != NULL);
	CHECK(hk_engine_init(arena, bytes - 1, &g.cfg) == NULL);
	CHECK(hk_engine_init(arena + 8, bytes, &g.cfg) == NULL);
	CHECK(hk_engine_init(arena, bytes, &g.cfg) != NULL);
	free(arena);
}

/* engine.h limits the memory of an idle peer, for any size of the table. */
TEST(idle_peer_is_small)
{
	RIG(g);
	for (uint32_t peers = 64; peers <= 65536; peers *= 4) {
		struct hk_engine_config c = g.cfg;
		c.max_peers = peers;
		size_t before = hk_engine_size(&c);
		c.max_peers = 2 * peers;
		size_t each = (hk_engine_size(&c) - before) / peers;
		CHECK_CMP(each, <=, HK_ENGINE_PEER_BYTES);
	}
}

/* A table for many peers needs memory only for those that exist: most of its pages are not written.
 */
TEST(a_large_table_costs_what_is_used)
{
	enum { PAGE = 4096 };
	unsigned written = 0;

	RIG(g);
	g.cfg.max_peers = 65536;
	g.cfg.tx_blocks = 64;
	g.cfg.rx_budget = 64;
	rig_start(&g);
	for (uint32_t i = 2; i < 10; i++)
		(void)rig_add(&g, i);
	size_t bytes = hk_engine_size(&g.cfg);

	CHECK_CMP(bytes, >, 65536 * sizeof(uint64_t) * 40);
	for (size_t at = 0; at + PAGE <= bytes; at += PAGE) {
		size_t i = 0;

		while (i < PAGE && ((uint8_t *)g.arena)[at + i] == 0xa5)
			i++;
		written += i < PAGE;
	}
	CHECK_CMP(written, <=, 12);
}

/* The arena may be moved to another address, because it contains no pointers. */
TEST(arena_may_move)
{
	uint64_t token;

	RIG(g);
	hk_peer p = rig_pair(&g);
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
}

/* ---- headers ------------------------------------------------------------------------------- */

TEST(headers_say_what_they_should)
{
	RIG(g);
	g.cfg.protection = HK_PROTECTION_CRC;
	hk_peer p = rig_pair(&g);
	struct hk_packet pkt = {
		.token = 5, .len = 100, .type = HK_WIRE_DATA, .am = 200, .frag = 0, .frags = 2};
	struct hk_wire_hdr h;

	CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
	CHECK_EQ(h.version, HK_WIRE_VERSION_BYTE(HK_WIRE_CRC));
	CHECK_EQ(h.type, HK_WIRE_DATA);
	CHECK(!(h.flags & HK_WIRE_F_RESENT));
	CHECK_EQ(h.len, 100);
	CHECK_EQ(h.job, RIG_KEY);
	CHECK_EQ(h.src, RIG_SELF);
	CHECK_EQ(h.dst, 2);
	CHECK_EQ(h.src_epoch, RIG_EPOCH(RIG_SELF));
	CHECK_EQ(h.dst_epoch, RIG_EPOCH(2));
	CHECK_EQ(h.am, 200);
	CHECK_EQ(h.frag, 0);
	CHECK_EQ(h.frags, 2);
	CHECK_EQ(h.marks, 0);
	CHECK_EQ(h.tsecr, 0); /* no timestamp has come yet */
	CHECK_EQ(h.tsval, (uint32_t)(g.now >> HK_WIRE_TS_SHIFT));
	uint32_t psn = h.psn;
	pkt.frag = 1;
	CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
	CHECK_EQ(h.psn, psn + 1);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2);
	CHECK_EQ(hk_engine_unacked(g.e, HK_PEER_NONE), 2);
}

/* A timestamp of 0 means none, so a clock that reads 0 must not produce it. */
TEST(timestamps_are_never_zero)
{
	RIG(g);
	g.now = UINT64_C(1) << (32 + HK_WIRE_TS_SHIFT);
	rig_start(&g);
	CHECK_EQ(rig_send(&g, rig_add(&g, 2), 1).tsval, 1);
}

/* The echo grows by the time that the engine waited, so that the peer measures only the network. */
TEST(echo_counts_the_hold)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.tsval = 1000;
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	g.now += 160 * HK_USEC;
	CHECK_EQ(rig_send(&g, p, 1).tsecr, 1000 + (160 * HK_USEC >> HK_WIRE_TS_SHIFT));
}

/* An echo of 0 would mean that no timestamp came, so the engine never computes it. */
TEST(echo_is_never_zero)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.tsval = (uint32_t) - (int32_t)(16 * HK_USEC >> HK_WIRE_TS_SHIFT);
	CHECK_EQ(rig_input(&g, &h, NULL, 0), HK_RX_DELIVER);
	g.now += 16 * HK_USEC;
	CHECK_EQ(rig_send(&g, p, 1).tsecr, 1);
}

/* The first sample is the RTT, half of it its variation (RFC 6298, 2.2). */
TEST(first_rtt_sample)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	uint32_t tsval = rig_send(&g, p, 1).tsval;
	g.now += 32 * HK_USEC;
	rig_echo(&g, 1, tsval, 0);
	struct hk_peer_info info = rig_info(&g, p);
	CHECK_EQ(info.srtt, 32 * HK_USEC);
	CHECK_EQ(info.rttvar, 16 * HK_USEC);
	CHECK_EQ(info.min_rtt, 32 * HK_USEC);
}

/* ---- when an ack goes out ------------------------------------------------------------------ */

TEST(acks_wait_or_hurry)
{
	RIG(g);
	g.cfg.ack_delay = 40 * HK_USEC;
	g.cfg.ack_every = 4;
	rig_pair(&g);
	/* one packet: the acknowledgement may wait, and comes in time */
	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 0);
	CHECK_EQ(hk_engine_deadline(g.e), g.now + 40 * HK_USEC);
	CHECK_EQ(rig_next(&g), 1);
	CHECK_EQ(rig_out(&g, 0).type, HK_WIRE_ACK);
	CHECK_EQ(rig_out(&g, 0).ack, 1);
	CHECK_EQ(g.out[0].token, 0);
	CHECK_EQ(hk_engine_counters(g.e)->tx_acks, 1);
	CHECK_EQ(hk_engine_counters(g.e)->tx_probes, 0);
	/* the fourth packet: the acknowledgement comes at once */
	for (uint32_t psn = 1; psn < 4; psn++) {
		CHECK_EQ(rig_data(&g, 2, psn), HK_RX_DELIVER);
		CHECK_EQ(rig_poll(&g), 0);
	}
	CHECK_EQ(rig_data(&g, 2, 4), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 5);
	/* a gap, and the packet that fills it: at once */
	CHECK_EQ(rig_data(&g, 2, 6), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 5);
	CHECK_EQ(g.out[0].bytes[HK_WIRE_HLEN], 1 << 1);
	CHECK_EQ(rig_data(&g, 2, 5), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 7);
	/* a duplicate: at once, because the sender missed our acknowledgement; also on request */
	CHECK_EQ(rig_data(&g, 2, 3), HK_RX_DROP);
	CHECK_EQ(rig_poll(&g), 1);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	h.psn = 7;
	h.flags = HK_WIRE_F_ACK_NOW;
	CHECK_EQ(rig_input(&g, &h, NULL, 7), HK_RX_DELIVER);
	CHECK_EQ(rig_poll(&g), 1);
	/* our own packet carries the acknowledgement */
	CHECK_EQ(rig_data(&g, 2, 8), HK_RX_DELIVER);
	CHECK_EQ(rig_send(&g, hk_engine_peer_find(g.e, 2), 1).ack, 9);
	CHECK_EQ(rig_poll(&g), 0);
}

/* The first packet without an acknowledgement says when it leaves, and later ones do not delay it.
 */
TEST(an_ack_waits_for_the_first_packet)
{
	RIG(g);
	g.cfg.ack_delay = 40 * HK_USEC;
	rig_pair(&g);
	uint64_t due = g.now + g.cfg.ack_delay;

	for (uint32_t psn = 0; psn < 4; psn++) {
		rig_data(&g, 2, psn);
		CHECK_EQ(hk_engine_deadline(g.e), due);
		g.now += 10 * HK_USEC;
	}
	CHECK_EQ(g.now, due);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(rig_out(&g, 0).ack, 4);
}

/* Releasing buffers one by one sends no update to a peer with credit. A peer without credit gets
 * an update at once for the first free buffer. */
TEST(window_updates_are_rare)
{
	RIG(g);
	g.cfg.window = 16;
	g.cfg.rx_budget = 1024;
	hk_peer p = rig_pair(&g);
	uint32_t psn = 0;
	for (; psn < 4; psn++) {
		CHECK_EQ(rig_data(&g, 2, psn), HK_RX_DELIVER);
		hk_engine_rx_held(g.e, p, 1);
	}
	rig_next(&g);
	CHECK_EQ(rig_out(&g, 0).credit, 12);
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
	CHECK_EQ(last.credit, 0);
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_rx_held(g.e, p, -1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_CMP(rig_out(&g, 0).credit, >, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_classes.c: a network that sends small packets before bulk.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

#define SMALL HK_LONG_FRAME - 1
#define BULK  HK_LONG_FRAME

/* Sends packets of these lengths, 50 us apart. */
static hk_peer send_packets(struct rig *g, bool classes, const uint16_t *len, unsigned n)
{
	g->cfg.classes = classes;
	hk_peer p = rig_pair(g);

	for (unsigned i = 0; i < n; i++) {
		struct hk_packet pkt = {.token = i, .len = len[i], .type = HK_WIRE_PUT};
		struct hk_wire_hdr h;

		CHECK(hk_engine_send(g->e, p, &pkt, g->now, &h));
		g->now += 50 * HK_USEC;
	}
	return p;
}

/* The packets of @bits, of those that were sent, have arrived, and no other. Returns how many the
 * engine then believes to be lost. */
static unsigned lost_after(struct rig *g, hk_peer p, uint64_t bits)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_ACK);
	const struct hk_wire_sack sack = {{bits}};

	h.ack = hk_rec(g->e, p)->tx_una;
	h.tsecr = (uint32_t)((g->now - 50 * HK_USEC) >> HK_WIRE_TS_SHIFT);
	rig_input(g, &h, &sack, 0);
	return hk_rec(g->e, p)->lost;
}

TEST(small_packets_overtake_bulk)
{
	static const uint16_t len[] = {BULK, SMALL, SMALL, BULK};

	RIG(g);
	hk_peer p = send_packets(&g, true, len, 4);
	CHECK_EQ(lost_after(&g, p, 1 << 1), 0);
	CHECK_EQ(lost_after(&g, p, 1 << 1 | 1 << 2), 0);
	CHECK_EQ(lost_after(&g, p, 1 << 1 | 1 << 2 | 1 << 3), 1);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 1);
}

TEST(without_classes_no_packet_overtakes)
{
	static const uint16_t len[] = {BULK, SMALL};

	RIG(g);
	hk_peer p = send_packets(&g, false, len, 2);
	CHECK_EQ(lost_after(&g, p, 1 << 1), 1);
}

/* Each later arrival shows that an earlier small packet is lost. */
TEST(bulk_overtakes_nothing)
{
	for (unsigned i = 0; i < 2; i++) {
		const uint16_t len[] = {SMALL, i ? BULK : SMALL};

		RIG(g);
		hk_peer p = send_packets(&g, true, len, 2);
		CHECK_EQ(lost_after(&g, p, 1 << 1), 1);
	}
}

/* Bulk that arrives late does not replace later bulk, which arrived before. */
TEST(the_latest_bulk_counts)
{
	static const uint16_t len[] = {BULK, BULK, BULK, BULK};

	RIG(g);
	hk_peer p = send_packets(&g, true, len, 4);
	CHECK_EQ(lost_after(&g, p, 1 << 2), 2);
	CHECK_EQ(hk_rec(g.e, p)->rack.bulk_sent, g.now - 100 * HK_USEC);
	CHECK_EQ(lost_after(&g, p, 1 << 1 | 1 << 2), 1);
	CHECK_EQ(hk_rec(g.e, p)->rack.bulk_sent, g.now - 100 * HK_USEC);
}

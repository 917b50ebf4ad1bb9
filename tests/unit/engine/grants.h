/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/grants.h: what the tests of grants share: a rig on a wire with a switch, the
 * grants among its outputs, and its budget.
 */
#ifndef HK_TESTS_ENGINE_GRANTS_H
#define HK_TESTS_ENGINE_GRANTS_H

#include "engine/internal.h"
#include "tests/support/rig.h"

#define LONG 1024u

/* With 10 Gbit/s and 4 us of round trip, as it is believed at first: 5000 bytes, and 20 us of
 * queue. The quantum is a quarter of it, in whole packets. */
#define BUDGET  30000u
#define QUANTUM (BUDGET / 4 / LONG * LONG)

static inline hk_peer switched(struct rig *g)
{
	g->cfg.link_mbps = 10000;
	return rig_pair(g);
}

static inline bool send_len(struct rig *g, hk_peer p, uint16_t len, struct hk_wire_hdr *h)
{
	struct hk_packet pkt = {.token = 1, .len = len, .type = HK_WIRE_PUT};

	return hk_engine_send(g->e, p, &pkt, g->now, h);
}

/* The last grant for @endpoint among the outputs; NULL: none. */
static inline bool out_grant(const struct rig *g, uint32_t endpoint, struct hk_wire_grant *grant)
{
	bool any = false;

	for (unsigned i = 0; i < g->outs; i++) {
		struct hk_frame f = rig_out_frame(g, i);

		if (f.h.dst == endpoint && f.h.flags & HK_WIRE_F_GRANT) {
			*grant = f.grant;
			any = true;
		}
	}
	return any;
}

/* Bytes that @endpoint may have sent, by the last poll; 0: it was not told. */
static inline uint32_t granted_to(const struct rig *g, uint32_t endpoint)
{
	struct hk_wire_grant grant = {0};

	return out_grant(g, endpoint, &grant) ? grant.granted : 0;
}

/* Adds peers 3, 4, …; all of them and peer 2 want @bytes. */
static inline void crowd(struct rig *g, unsigned peers, uint32_t bytes)
{
	for (uint32_t endpoint = 2; endpoint < 2 + peers; endpoint++) {
		if (endpoint > 2)
			rig_add(g, endpoint);
		rig_grant(g, endpoint, 0, bytes);
	}
	rig_poll(g);
}

/* Peer 2 has the whole budget since the returned time, and peer 3 waits for 3000 bytes. The longest
 * packet of bulk has 1250 bytes, which the link carries in 1000 ns. */
static inline uint64_t one_has_all(struct rig *g)
{
	switched(g);
	rig_bulk(g, 2, 0, 1250);
	rig_grant(g, 2, 0, 1 << 20);
	rig_add(g, 3);
	rig_grant(g, 3, 0, 3000);
	rig_add(g, 4);
	rig_poll(g);
	CHECK_EQ(granted_to(g, 2), 1250 + BUDGET);
	CHECK_EQ(granted_to(g, 3), 0);
	return g->now;
}

#endif /* HK_TESTS_ENGINE_GRANTS_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant_draw.c: which sender a receiver grants next, and for how
 * long.
 */
#include "tests/unit/engine/grants.h"

/* Senders that want 3000 bytes each time. The budget is enough for ten of them. Eight more have
 * their turn and get the next grants in order. The others wait to be drawn. */
struct queue {
	uint32_t psn[64], wanted[64], granted[64]; /* by endpoint */
	unsigned asks, asked[64];
	unsigned grants;
	struct {
		uint32_t endpoint;
		unsigned asked; /* number of its request among all */
	} order[600];
};

static void note_grants(struct rig *g, struct queue *q)
{
	rig_poll(g);
	for (unsigned i = 0; i < g->outs; i++) {
		struct hk_frame f = rig_out_frame(g, i);
		uint32_t to = f.h.dst;

		if (!(f.h.flags & HK_WIRE_F_GRANT) || f.grant.granted == q->granted[to])
			continue;
		q->granted[to] = f.grant.granted;
		q->order[q->grants].endpoint = to;
		q->order[q->grants++].asked = q->asked[to];
	}
}

static void ask(struct rig *g, struct queue *q, uint32_t endpoint)
{
	q->wanted[endpoint] += 3000;
	q->asked[endpoint] = q->asks++;
	rig_grant(g, endpoint, 0, q->wanted[endpoint]);
	note_grants(g, q);
}

/* Sender @i of the order uses its grant, so that one more gets a grant. */
static uint32_t use_grant(struct rig *g, struct queue *q, unsigned i)
{
	uint32_t endpoint = q->order[i].endpoint;
	unsigned before = q->grants;

	rig_bulk(g, endpoint, q->psn[endpoint]++, 1500);
	rig_bulk(g, endpoint, q->psn[endpoint]++, 1500);
	note_grants(g, q);
	CHECK_EQ(q->grants, before + 1);
	return endpoint;
}

static void queue_up(struct rig *g, struct queue *q, uint32_t first, uint32_t last)
{
	for (uint32_t endpoint = first; endpoint <= last; endpoint++) {
		rig_add(g, endpoint);
		ask(g, q, endpoint);
	}
}

/* Endpoints 2 to 39 ask. When the first of those that wait has been drawn, 40 to 49 ask as well.
 * All that have waited before are drawn first. @gone ends before its turn. */
static void draw_batches(uint32_t self, uint32_t gone, struct queue *q)
{
	RIG(g);
	g.cfg.max_peers = 64;
	g.cfg.endpoint = self;
	g.cfg.link_mbps = 10000;
	rig_start(&g);
	memset(q, 0, sizeof(*q));
	queue_up(&g, q, 2, 39);
	CHECK_EQ(q->grants, 10);
	use_grant(&g, q, 0);
	queue_up(&g, q, 40, 49);
	if (gone) {
		struct hk_wire_hdr bye = rig_hdr(&g, gone, HK_WIRE_BYE);

		rig_input(&g, &bye, NULL, 0);
	}
	unsigned last = gone ? 47 : 48, in_order = 18 - (gone && gone < 20);
	unsigned first_batch = 20 - (gone >= 20 && gone < 40);

	for (unsigned i = 1; q->grants < last; i++)
		use_grant(&g, q, i);
	for (unsigned i = 0; i < last; i++) {
		uint32_t endpoint = q->order[i].endpoint;

		CHECK(endpoint != gone);
		if (i < in_order)
			CHECK_EQ(endpoint, i + 2 + (gone && i + 2 >= gone));
		else
			CHECK_EQ(endpoint >= 40, i >= in_order + first_batch);
	}
}

TEST(all_that_wait_are_drawn_before_later_ones)
{
	struct queue q;

	draw_batches(1, 0, &q);
	for (uint32_t gone = 13; gone < 50; gone++)
		draw_batches(1, gone, &q);
}

/* In an exchange between all hosts, receivers that drew alike would choose the same senders. */
TEST(receivers_draw_differently)
{
	struct queue a, b;

	draw_batches(1, 0, &a);
	draw_batches(77, 0, &b);
	CHECK(memcmp(a.order, b.order, sizeof(a.order)) != 0);
}

/* Four wait at a time. The first of them to be drawn is about as often the one that has waited
 * longest as any other. */
TEST(senders_are_drawn_at_random)
{
	enum { GROUPS = 100 };
	struct queue q = {0};
	unsigned times[4] = {0};

	RIG(g);
	g.cfg.max_peers = 64;
	g.cfg.link_mbps = 10000;
	rig_start(&g);
	queue_up(&g, &q, 2, 23);
	for (unsigned i = 0; q.grants < 18 + 4 * GROUPS; i++)
		ask(&g, &q, use_grant(&g, &q, i));
	for (unsigned first = 18; first < q.grants; first += 4) {
		unsigned before = 0;

		for (unsigned i = 1; i < 4; i++)
			before += q.order[first + i].asked < q.order[first].asked;
		times[before]++;
	}
	for (unsigned i = 0; i < 4; i++) {
		CHECK_CMP(times[i], >, GROUPS / 8);
		CHECK_CMP(times[i], <, GROUPS / 2);
	}
}

/* Eight senders get quanta in order until one of them has had 64 KiB. Then it is the turn of one
 * that waits. Four packets of this length are what the link carries in a round trip, so no sender
 * is new. */
TEST(a_turn_lasts_64_kib)
{
	enum { LEN = 1250, QUANTUM_NOW = BUDGET / 4 };
	const uint32_t quanta = (64 * 1024 + QUANTUM_NOW - 1) / QUANTUM_NOW;
	struct queue q = {0};

	RIG(g);
	g.cfg.max_peers = 16;
	g.cfg.link_mbps = 10000;
	rig_start(&g);
	rig_add(&g, 15);
	rig_bulk(&g, 15, 0, LEN); /* shows its length */
	struct hk_wire_hdr bye = rig_hdr(&g, 15, HK_WIRE_BYE);

	rig_input(&g, &bye, NULL, 0);
	for (uint32_t endpoint = 2; endpoint < 15; endpoint++) {
		rig_add(&g, endpoint);
		rig_grant(&g, endpoint, 0, 1 << 20);
		note_grants(&g, &q);
	}
	/* peer 2 was alone, and got the whole budget */
	CHECK_EQ(q.granted[2], 4 * QUANTUM_NOW);
	CHECK_EQ(q.grants, 1);
	uint32_t sent[16] = {0}, want = 3, last = 2;

	for (unsigned i = 0; last < 10; i++) {
		uint32_t from = q.order[i].endpoint;

		CHECK_CMP(i, <, q.grants);
		while (sent[from] < q.granted[from] && last < 10) {
			unsigned before = q.grants;

			rig_bulk(&g, from, q.psn[from]++, LEN);
			sent[from] += LEN;
			note_grants(&g, &q);
			if (q.grants == before)
				continue;
			CHECK_EQ(q.grants, before + 1);
			last = q.order[before].endpoint;
			CHECK(last == want || last >= 10);
			want = want == 9 ? 2 : want + 1;
		}
	}
	CHECK_EQ(q.granted[2], quanta * QUANTUM_NOW);
	for (uint32_t endpoint = 3; endpoint < 10; endpoint++)
		CHECK_EQ(q.granted[endpoint], (quanta - 3) * QUANTUM_NOW);
}

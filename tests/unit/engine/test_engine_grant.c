/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_grant.c: bulk waits for grants of its receiver.
 *
 * tools/sim shows what grants do for a network; the random networks of tests/sim check that nothing
 * is sent without one, and that everything arrives. These tests have the rules one by one.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

#define LONG 1024u

static hk_peer switched(struct rig *g)
{
	g->cfg.link_mbps = 10000;
	return rig_pair(g);
}

static bool send_len(struct rig *g, hk_peer p, uint16_t len, struct hk_wire_hdr *h)
{
	struct hk_packet pkt = {.token = 1, .len = len, .type = HK_WIRE_PUT};

	return hk_engine_send(g->e, p, &pkt, g->now, h);
}

/* The last grant for @endpoint among the outputs; NULL: none. */
static bool out_grant(const struct rig *g, uint32_t endpoint, struct hk_wire_grant *grant)
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
static uint32_t granted_to(const struct rig *g, uint32_t endpoint)
{
	struct hk_wire_grant grant = {0};

	return out_grant(g, endpoint, &grant) ? grant.granted : 0;
}

/* ---- the sender ---------------------------------------------------------------------------- */

TEST(bulk_waits_for_a_grant)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h;

	CHECK(hk_engine_granted(g.e, p, LONG - 1, g.now));
	CHECK(send_len(&g, p, LONG - 1, &h));
	CHECK(!(h.flags & HK_WIRE_F_BULK));
	rig_ack(&g, 2, 1, 64);
	CHECK(!hk_engine_granted(g.e, p, LONG, g.now));
	CHECK(!send_len(&g, p, LONG, &h));
	CHECK_EQ(hk_engine_counters(g.e)->no_grant, 1);
	rig_grant(&g, 2, 1, 0);
	CHECK(hk_engine_granted(g.e, p, LONG, g.now));
	CHECK(send_len(&g, p, LONG, &h)); /* one byte lets the whole packet go */
	CHECK(h.flags & HK_WIRE_F_BULK);
	CHECK(!send_len(&g, p, LONG, &h));
	rig_grant(&g, 2, LONG, 0); /* that much has been sent */
	CHECK(!send_len(&g, p, LONG, &h));
	rig_grant(&g, 2, LONG + 1, 0);
	CHECK(send_len(&g, p, LONG, &h));
}

TEST(an_old_grant_changes_nothing)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h;

	rig_grant(&g, 2, 2 * LONG, 0);
	rig_grant(&g, 2, LONG, 0); /* overtaken by the one before */
	CHECK(send_len(&g, p, LONG, &h));
	CHECK(send_len(&g, p, LONG, &h));
	CHECK(!send_len(&g, p, LONG, &h));
}

TEST(a_wire_with_two_ends_needs_no_grants)
{
	RIG(g);
	hk_peer p = rig_pair(&g);
	struct hk_wire_hdr h;

	CHECK(hk_engine_granted(g.e, p, 60000, g.now));
	CHECK(send_len(&g, p, 60000, &h));
	CHECK(!(h.flags & HK_WIRE_F_BULK));
	hk_engine_want(g.e, p, 1 << 20, g.now);
	CHECK_EQ(rig_poll(&g), 0);
}

TEST(a_sender_says_what_it_wants_at_once)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};
	struct hk_wire_hdr h;

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 5000);
	CHECK_EQ(grant.granted, 0);
	CHECK_EQ(rig_out(&g, 0).type, HK_WIRE_ACK);
	hk_engine_want(g.e, p, 5000, g.now); /* nothing new */
	CHECK_EQ(rig_poll(&g), 0);
	hk_engine_want(g.e, p, 7000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	/* the sum includes what was sent */
	rig_grant(&g, 2, 2 * LONG, 0);
	CHECK(send_len(&g, p, LONG, &h));
	CHECK(send_len(&g, p, LONG, &h));
	hk_engine_want(g.e, p, 7000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 2 * LONG + 7000);
}

/* A request must not be lost because a data frame acknowledges all that is to be acknowledged. */
TEST(a_data_frame_does_not_replace_a_request)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};

	hk_engine_want(g.e, p, 5000, g.now);
	rig_send(&g, p, 1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
}

/* Nor must a grant. */
TEST(a_data_frame_does_not_replace_a_grant)
{
	RIG(g);
	hk_peer p = switched(&g);

	rig_grant(&g, 2, 0, 5000);
	rig_send(&g, p, 1);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 5000);
}

TEST(a_lost_request_is_repeated)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(rig_next(&g) > 0);
		CHECK(out_grant(&g, 2, &grant));
		CHECK_EQ(grant.wanted, 5000);
		CHECK(rig_out(&g, 0).flags & HK_WIRE_F_ACK_NOW);
	}
	rig_grant(&g, 2, 6000, 0);
	g.now += HK_SEC;
	CHECK_EQ(rig_poll(&g), 0);
}

/* While other packets are in flight no timer asks, so the next call does. */
TEST(a_request_is_repeated_while_small_packets_move)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	rig_send(&g, p, 1);
	g.now += g.cfg.initial_rto + 1;
	hk_engine_want(g.e, p, 5000, g.now);
	rig_poll(&g);
	CHECK(out_grant(&g, 2, &grant));
}

TEST(a_sender_forgets_a_grant_that_it_does_not_use)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h;

	rig_grant(&g, 2, 10 * LONG, 0);
	g.now += 499 * HK_USEC;
	CHECK(send_len(&g, p, LONG, &h)); /* this uses it */
	g.now += 499 * HK_USEC;
	CHECK(send_len(&g, p, LONG, &h));
	g.now += 500 * HK_USEC;
	CHECK(!send_len(&g, p, LONG, &h));
	/* then it asks again, at once */
	rig_poll(&g);
	hk_engine_want(g.e, p, 3 * LONG, g.now);
	rig_poll(&g);
	struct hk_wire_grant grant = {0};

	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 5 * LONG);
}

/* It asks again although it wants no more than before. */
TEST(a_forgotten_grant_is_asked_for_at_once)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_grant grant = {0};
	struct hk_wire_hdr h;

	hk_engine_want(g.e, p, 4 * LONG, g.now);
	rig_poll(&g);
	rig_grant(&g, 2, 4 * LONG, 0);
	CHECK(send_len(&g, p, LONG, &h));
	g.now += 500 * HK_USEC;
	hk_engine_want(g.e, p, 3 * LONG, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	CHECK_EQ(grant.wanted, 4 * LONG);
	CHECK(!hk_engine_granted(g.e, p, LONG, g.now));
}

/* An acknowledgement repeats the request, so the next repeat is due a whole timeout later. */
TEST(a_request_that_was_just_repeated_is_not_repeated)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
	struct hk_wire_grant grant = {0};
	uint64_t start = g.now;

	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	rig_send(&g, p, 1);
	g.now = start + g.cfg.initial_rto - 1000;
	h.flags = HK_WIRE_F_ACK_NOW;
	rig_input(&g, &h, NULL, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(out_grant(&g, 2, &grant));
	g.now = start + 2 * g.cfg.initial_rto - 1000;
	hk_engine_want(g.e, p, 5000, g.now);
	rig_poll(&g);
	CHECK(!out_grant(&g, 2, &grant));
	g.now++;
	hk_engine_want(g.e, p, 5000, g.now);
	rig_poll(&g);
	CHECK(out_grant(&g, 2, &grant));
}

/* With keepalives, too, a lost request is repeated after the timeout. When a part is granted, the
 * wait for the rest begins with that. */
TEST(a_request_is_repeated_in_time)
{
	const uint64_t step = UINT64_C(10240000);

	RIG(g);
	g.cfg.keepalive = 5 * HK_SEC;
	g.cfg.initial_rto = step;
	hk_peer p = switched(&g);
	uint64_t start = g.now;
	struct hk_wire_grant grant;

	rig_data(&g, 2, 0);
	hk_engine_want(g.e, p, 5000, g.now);
	CHECK_EQ(rig_poll(&g), 1);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK(out_grant(&g, 2, &grant));
		CHECK_EQ(g.now - start, ((2u << i) - 1) * step);
	}
	rig_grant(&g, 2, 3000, 0);
	CHECK_EQ(rig_next(&g), 1);
	CHECK_EQ(g.now - start, 8 * step);
}

/* A request includes the bytes that were sent, and does not become less by sending. */
TEST(a_sender_wants_at_least_what_it_has_sent)
{
	for (uint32_t wanted = 0; wanted <= 5000; wanted += 5000) {
		RIG(g);
		hk_peer p = switched(&g);
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
		struct hk_wire_grant grant = {0};

		hk_engine_want(g.e, p, wanted, g.now);
		rig_poll(&g);
		rig_grant(&g, 2, 2000, 0);
		CHECK(send_len(&g, p, LONG, &(struct hk_wire_hdr){0}));
		h.flags = HK_WIRE_F_ACK_NOW;
		rig_input(&g, &h, NULL, 0);
		CHECK_EQ(rig_poll(&g), 1);
		CHECK(out_grant(&g, 2, &grant));
		CHECK_EQ(grant.wanted, HK_MAX(wanted, LONG));
	}
}

/* Our NIC gets no more bulk than it sends in 20 us, or in the time of two packets. The caller
 * tries again when the next fits. */
TEST(the_nic_has_a_short_queue)
{
	static const struct {
		uint32_t mbps;
		uint16_t len;
		unsigned packets;
		uint64_t time; /* of one, ns */
	} table[] = {{10000, 1250, 21, 1000}, {1000, 1500, 3, 12000}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		unsigned sent = 0;
		struct hk_wire_hdr h;

		RIG(g);
		g.cfg.link_mbps = table[i].mbps;
		hk_peer p = rig_pair(&g);

		hk_rec(g.e, p)->cwnd = 64u << 8;
		rig_grant(&g, 2, 1 << 20, 0);
		while (sent < 64 && send_len(&g, p, table[i].len, &h))
			sent++;
		CHECK_EQ(sent, table[i].packets);
		CHECK_EQ(hk_engine_deadline(g.e), g.now + table[i].time);
		g.now += table[i].time;
		CHECK_EQ(rig_poll(&g), 0);
		CHECK(send_len(&g, p, table[i].len, &h));
		CHECK(!send_len(&g, p, table[i].len, &h));
	}
}

/* Not even a small packet may go to a number that no peer has. */
TEST(an_unknown_peer_is_granted_nothing)
{
	RIG(g);
	hk_peer p = switched(&g);

	CHECK(hk_engine_granted(g.e, p, 1, g.now));
	CHECK(!hk_engine_granted(g.e, p + 1, 1, g.now));
}

/* ---- the receiver -------------------------------------------------------------------------- */

/* With 10 Gbit/s and 4 us of round trip, as it is believed at first: 5000 bytes, and 20 us of
 * queue. The quantum is a quarter of it, in whole packets. */
#define BUDGET  30000u
#define QUANTUM (BUDGET / 4 / LONG * LONG)

TEST(a_receiver_grants_a_quantum_at_once)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 1 << 20);
	CHECK_EQ(rig_poll(&g), 1);
	/* nobody else waits: quantum after quantum, up to the budget */
	CHECK_EQ(granted_to(&g, 2), BUDGET / QUANTUM * QUANTUM);
	/* what arrives makes room */
	g.now += 20 * HK_USEC;
	for (uint32_t psn = 0; psn < 4; psn++)
		rig_bulk(&g, 2, psn, LONG);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 2), <=, BUDGET); /* less than a quantum has */
	for (uint32_t psn = 4; psn < 8; psn++)
		rig_bulk(&g, 2, psn, LONG);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), BUDGET / QUANTUM * QUANTUM + QUANTUM);
}

TEST(a_short_request_gets_what_it_wants)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 3000);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), 3000);
}

/* Adds peers 3, 4, …; all of them and peer 2 want @bytes. */
static void crowd(struct rig *g, unsigned peers, uint32_t bytes)
{
	for (uint32_t endpoint = 2; endpoint < 2 + peers; endpoint++) {
		if (endpoint > 2)
			rig_add(g, endpoint);
		rig_grant(g, endpoint, 0, bytes);
	}
	rig_poll(g);
}

TEST(all_grants_stay_within_the_budget)
{
	RIG(g);
	uint32_t sum = 0;

	switched(&g);
	crowd(&g, 7, 30000);
	for (uint32_t endpoint = 2; endpoint < 9; endpoint++)
		sum += granted_to(&g, endpoint);
	CHECK_CMP(sum, <=, BUDGET);
	CHECK_CMP(sum, >, BUDGET - QUANTUM);
}

/* A message of few frames would hold receive buffers between two grants. The last one may exceed
 * the budget, or the link would idle. */
TEST(an_eager_message_is_granted_whole)
{
	RIG(g);
	switched(&g);
	crowd(&g, 4, 18000);
	uint32_t sum = 0;

	for (uint32_t endpoint = 2; sum + QUANTUM <= BUDGET; endpoint++) {
		CHECK_EQ(granted_to(&g, endpoint), 18000);
		sum += 18000;
	}
	CHECK_EQ(granted_to(&g, 4), 0);
}

/* Senders whose turn it is go on before others begin. */
TEST(few_senders_have_their_turn)
{
	enum { PEERS = 20, TURNS = 8 };
	RIG(g);
	uint32_t sent[2 + PEERS] = {0}, psn[2 + PEERS] = {0}, may[2 + PEERS] = {0}, sum = 0;
	const uint32_t each = 50 * LONG;

	g.cfg.max_peers = PEERS;
	switched(&g);
	crowd(&g, PEERS, each);
	while (sum < PEERS * each) {
		unsigned begun = 0;
		uint32_t before = sum;

		for (uint32_t i = 2; i < 2 + PEERS; i++) {
			may[i] = HK_MAX(may[i], granted_to(&g, i));
			begun += may[i] != 0;
		}
		if (sum < (TURNS / 2) * each)
			CHECK_CMP(begun, <=, TURNS + 1); /* peer 2 was alone at first */
		for (uint32_t i = 2; i < 2 + PEERS; i++) {
			if (sent[i] >= may[i])
				continue;
			g.now += HK_USEC;
			rig_bulk(&g, i, psn[i]++, LONG);
			sent[i] += LONG;
			sum += LONG;
		}
		CHECK_MSG(sum > before, "nobody may send");
		rig_poll(&g);
	}
}

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
 * that waits. */
TEST(a_turn_lasts_64_kib)
{
	const uint32_t quanta = (64 * 1024 + QUANTUM - 1) / QUANTUM;
	struct queue q = {0};

	RIG(g);
	g.cfg.max_peers = 16;
	g.cfg.link_mbps = 10000;
	rig_start(&g);
	for (uint32_t endpoint = 2; endpoint < 16; endpoint++) {
		rig_add(&g, endpoint);
		rig_grant(&g, endpoint, 0, 1 << 20);
		note_grants(&g, &q);
	}
	/* peer 2 was alone, and got the whole budget */
	CHECK_EQ(q.granted[2], 4 * QUANTUM);
	CHECK_EQ(q.grants, 1);
	uint32_t sent[16] = {0}, want = 3, last = 2;

	for (unsigned i = 0; last < 10; i++) {
		uint32_t from = q.order[i].endpoint;

		CHECK_CMP(i, <, q.grants);
		while (sent[from] < q.granted[from] && last < 10) {
			unsigned before = q.grants;

			rig_bulk(&g, from, q.psn[from]++, LONG);
			sent[from] += LONG;
			note_grants(&g, &q);
			if (q.grants == before)
				continue;
			CHECK_EQ(q.grants, before + 1);
			last = q.order[before].endpoint;
			CHECK(last == want || last >= 10);
			want = want == 9 ? 2 : want + 1;
		}
	}
	CHECK_EQ(q.granted[2], quanta * QUANTUM);
	for (uint32_t endpoint = 3; endpoint < 10; endpoint++)
		CHECK_EQ(q.granted[endpoint], (quanta - 3) * QUANTUM);
}

/* A message of 20 KiB is eager, and a longer one is not. Another peer leaves space for a quantum,
 * so the eager one exceeds the budget. */
TEST(an_eager_message_has_20_kib)
{
	for (uint32_t more = 0; more < 2; more++) {
		RIG(g);
		switched(&g);
		rig_add(&g, 3);
		rig_grant(&g, 3, 0, 20000);
		rig_grant(&g, 2, 0, (20u << 10) + more);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 2), more ? QUANTUM : 20u << 10);
	}
}

/* A sender that does not answer, while the link idles, has others to serve. */
TEST(a_busy_sender_is_passed_over)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 3000);
	CHECK_EQ(rig_poll(&g), 0); /* the budget is used up */
	CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + 100 * HK_USEC);
	CHECK(rig_next(&g) > 0);
	CHECK_EQ(granted_to(&g, 3), 3000);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 0);
	/* what peer 2 has open still holds when it can send */
	CHECK_EQ(rig_bulk(&g, 2, 0, LONG), HK_RX_PUT);
	g.now += HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 2); /* peer 3 as well */
}

/* A packet that waits in the queue in front of a busy link looks the same. */
TEST(nobody_is_passed_over_while_the_link_is_busy)
{
	RIG(g);
	uint32_t psn = 0;

	switched(&g);
	rig_grant(&g, 3, 0, 1 << 20);
	rig_poll(&g);
	uint32_t may = granted_to(&g, 3);

	rig_grant(&g, 2, 0, 1 << 20);
	rig_grant(&g, 4, 0, 1 << 20);
	for (unsigned i = 0; i < 500; i++) {
		g.now += HK_USEC; /* 1 250 bytes */
		if (psn * LONG < may)
			rig_bulk(&g, 3, psn++, LONG);
		rig_poll(&g);
		may = HK_MAX(may, granted_to(&g, 3));
		if (granted_to(&g, 2) || granted_to(&g, 4))
			break;
	}
	CHECK_CMP(psn, <, 100); /* others had their turn in time */
}

/* Peer 2 has the whole budget since the returned time, and peer 3 waits for 3000 bytes. The longest
 * packet of bulk has 1250 bytes, which the link carries in 1000 ns. */
static uint64_t one_has_all(struct rig *g)
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

/* A sender stalls if it does not answer for 5 us and twice the round trip with a packet, 4 + 1 us.
 * It is passed over once our link was idle for 6 us. The link is busy for 1080 ns with each packet,
 * but what it received more than 12 us ago does not matter. */
TEST(a_sender_is_passed_over_on_time)
{
	static const struct {
		unsigned packets; /* of peer 4, all at 14 us */
		uint64_t want;
	} table[] = {
		{0, 15000},
		{5, 15000},
		{9, 2000 + 9 * 1080 + 6000},
		{20, 14000 + 1080 + 6000},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		uint64_t start = one_has_all(&g);

		g.now = start + 14000;
		for (uint32_t psn = 0; psn < table[i].packets; psn++)
			CHECK_EQ(rig_bulk(&g, 4, psn, 1250), HK_RX_PUT);
		rig_poll(&g);
		CHECK_EQ(hk_engine_deadline(g.e) - start, table[i].want);
		g.now = start + table[i].want - 1;
		hk_grants_due(g.e, g.now);
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 3), 0);
		g.now++;
		rig_poll(&g);
		CHECK_EQ(granted_to(&g, 3), 3000);
	}
}

/* Nobody else wants what a lone sender has open, however long it does not answer. */
TEST(a_lone_sender_is_not_passed_over)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	g.now += 900 * HK_USEC;
	rig_grant(&g, 2, 0, 1 << 20);
	CHECK_EQ(g.e->grant.stalled, 0);
	CHECK_EQ(g.e->grant.out, 4 * QUANTUM);
	CHECK(g.e->grant.turns == 1 && g.e->grant.waiting == 0);
}

/* A sender that was passed over keeps its grant, but not its turn. After a millisecond without use
 * the grant ends. */
TEST(a_stalled_grant_ends)
{
	RIG(g);
	uint64_t start = one_has_all(&g);

	g.now = start + 15000;
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 3), 3000);
	CHECK_EQ(g.e->grant.stalled, BUDGET);
	CHECK_EQ(g.e->grant.out, 3000);
	CHECK_EQ(g.e->grant.turns, 0);
	g.now += HK_USEC * 100;
	while (rig_poll(&g) > 0)
		;
	CHECK_EQ(hk_engine_deadline(g.e), UINT64_MAX); /* nobody waits for what is open */
	g.now = start + HK_MSEC - 1;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(g.e->grant.stalled, BUDGET);
	g.now++;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(g.e->grant.stalled, 0);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 1);
	/* it had asked for more, so it has another turn */
	hk_grants_due(g.e, g.now);
	CHECK_EQ(g.e->grant.turns, 1);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 2), >, 1250);
}

/* Somebody waits for the end of a stalled grant. */
TEST(a_stalled_grant_ends_in_time)
{
	RIG(g);
	uint64_t start = one_has_all(&g);

	rig_grant(&g, 3, 0, 1 << 20);
	g.now = start + 15000;
	rig_poll(&g);
	CHECK_EQ(g.e->grant.stalled, BUDGET);
	CHECK_EQ(g.e->grant.turns, 1);
	g.now += 100 * HK_USEC;
	while (rig_poll(&g) > 0)
		;
	CHECK_EQ(hk_engine_deadline(g.e) - start, HK_MSEC);
}

/* Of all that do not answer, 384 KiB may stall. After that others wait until grants end. */
TEST(stalled_grants_are_bounded)
{
	enum { PEERS = 150, EACH = 3072 };

	RIG(g);
	g.cfg.max_peers = PEERS;
	g.cfg.link_mbps = 10000;
	rig_start(&g);
	for (uint32_t endpoint = 2; endpoint < 2 + PEERS; endpoint++) {
		rig_add(&g, endpoint);
		rig_grant(&g, endpoint, 0, EACH);
	}
	uint64_t end = g.now + 900 * HK_USEC;

	do {
		rig_poll(&g);
		g.now = HK_MAX(g.now, hk_engine_deadline(g.e));
	} while (g.now < end);
	CHECK_EQ(g.e->grant.stalled, 384 << 10);
	CHECK_EQ(g.e->grant.out, BUDGET / EACH * EACH);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 0);
}

/* The peer that has not used its grant for longest loses it first. */
TEST(each_grant_has_its_own_end)
{
	const uint64_t life = HK_MSEC;
	RIG(g);

	switched(&g);
	rig_add(&g, 3);
	rig_add(&g, 4);
	uint64_t start = g.now;

	rig_grant(&g, 2, 0, 3000);
	g.now = start + 1000;
	rig_grant(&g, 3, 0, 3000);
	g.now = start + 2000;
	rig_bulk(&g, 2, 0, LONG); /* uses a part */
	rig_poll(&g);
	g.now = start + 1000 + life - 1;
	rig_grant(&g, 4, 0, 0); /* a peer that wants nothing; the engine looks at the grants */
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 0);
	g.now++;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 1);
	g.now = start + 2000 + life;
	rig_grant(&g, 4, 0, 0);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 2);
}

TEST(a_grant_that_is_not_used_goes_to_others)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + HK_MSEC);
	g.now += HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 1);
	/* it may have asked again before, so it gets another; after that it must ask */
	g.now += HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(hk_engine_counters(g.e)->grants_unused, 2);
	g.now += 10 * HK_MSEC;
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), 0);
	rig_grant(&g, 2, 0, 1 << 20);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 2), >, 0);
}

TEST(the_turn_of_a_peer_that_ends_is_free)
{
	RIG(g);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 3000);
	struct hk_wire_hdr bye = rig_hdr(&g, 2, HK_WIRE_BYE);

	rig_input(&g, &bye, NULL, 0);
	rig_add(&g, 4);
	rig_grant(&g, 4, 0, 2000);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 3), 3000);
	CHECK_EQ(granted_to(&g, 4), 2000);
	CHECK_EQ(g.e->grant.out, 5000);
}

/* The next quantum rides on an acknowledgement while nobody else waits. */
TEST(a_lone_sender_need_not_ask_again)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 3000);
	rig_poll(&g);
	g.now += 20 * HK_USEC;
	rig_bulk(&g, 2, 0, 1500);
	rig_bulk(&g, 2, 1, 1500);
	CHECK(rig_next(&g) > 0);
	CHECK_EQ(granted_to(&g, 2), 3000 + 5 * 1500); /* packets are longer than believed */
}

/* The budget must have space for all of it. */
TEST(a_lone_sender_gets_the_rest_of_the_budget)
{
	for (uint32_t less = 0; less < 2; less++) {
		RIG(g);
		switched(&g);
		rig_add(&g, 3);
		rig_add(&g, 4);
		rig_grant(&g, 3, 0, 20000);
		rig_grant(&g, 4, 0, BUDGET - QUANTUM - 20000 + 1 - less);
		rig_bulk(&g, 2, 0, LONG);
		CHECK_EQ(g.e->grant.out, BUDGET + 1 - less - (less ? 0 : QUANTUM));
	}
}

/* A grant leaves with one frame. After that a data frame replaces an acknowledgement again. */
TEST(a_grant_is_told_once)
{
	RIG(g);
	hk_peer p = switched(&g);

	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 3000);
	rig_data(&g, 2, 0);
	rig_send(&g, p, 1);
	g.now += g.cfg.ack_delay;
	CHECK_EQ(rig_poll(&g), 0);
}

/* A peer may ask before its first packet. */
TEST(a_request_introduces_its_sender)
{
	RIG(g);
	switched(&g);
	CHECK_EQ(rig_grant(&g, 5, 0, 3000), HK_RX_CONTROL);
	CHECK(g.rx.new_peer);
	CHECK_CMP(g.rx.peer, !=, HK_PEER_NONE);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 5), 3000);
	/* an ack without a request does not */
	rig_grant(&g, 6, 3000, 0);
	CHECK_EQ(g.rx.result, HK_RX_DROP);
	CHECK_EQ(hk_engine_peer_find(g.e, 6), HK_PEER_NONE);
}

/* The peer's port may be of another kind than ours. */
TEST(a_receiver_that_needs_no_grants_gives_them)
{
	RIG(g);
	rig_pair(&g);
	rig_grant(&g, 2, 0, 3000);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(granted_to(&g, 2), 3000);
}

TEST(a_resend_counts_once)
{
	RIG(g);
	switched(&g);
	rig_grant(&g, 2, 0, 1 << 20);
	rig_poll(&g);
	uint32_t before = granted_to(&g, 2);

	g.now += 10 * HK_USEC;
	for (unsigned i = 0; i < 20; i++)
		CHECK_EQ(rig_bulk(&g, 2, 0, LONG), i ? HK_RX_DROP : HK_RX_PUT);
	rig_poll(&g);
	CHECK_EQ(granted_to(&g, 2), before);
}

/* A packet without a grant, of a peer that believes to need none, takes nothing from others. */
TEST(bulk_without_a_grant_is_taken)
{
	RIG(g);
	switched(&g);
	for (uint32_t psn = 0; psn < 60; psn++)
		CHECK_EQ(rig_bulk(&g, 2, psn, 1500), HK_RX_PUT);
	rig_add(&g, 3);
	rig_grant(&g, 3, 0, 30000);
	rig_poll(&g);
	CHECK_CMP(granted_to(&g, 3), >=, QUANTUM);
}

/* ---- the budget ------------------------------------------------------------------------------ */

/* The budget is the bytes that the link carries in 4 us, and a queue of 20 us: at least two packets
 * and at most 80 KiB. The quantum is a quarter of it, in whole packets. The queue in front of our
 * NIC has 20 us, or two packets. */
TEST(the_budget_in_figures)
{
	static const struct {
		uint32_t mbps;
		uint16_t packet;
		uint32_t budget, quantum;
		uint64_t nic_queue;
	} table[] = {
		{10000, 0, 5000 + 25000, 7 * 1024, 20000},
		{0, 0, 5000 + 25000, 7 * 1024, 20000}, /* as for 10 Gbit/s */
		{0, 1500, 5000 + 25000, 5 * 1500, 20000},
		{1000, 1500, 500 + 3000, 1500, 24000},
		{100000, 2000, 50000 + 81920, 16 * 2000, 20000},
		{1000000, 2000, 512 << 10, 65 * 2000, 20000},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		RIG(g);
		g.cfg.link_mbps = table[i].mbps;
		rig_pair(&g);
		CHECK_EQ(hk_engine_deadline(g.e), UINT64_MAX); /* nobody waits */
		if (table[i].packet)
			rig_bulk(&g, 2, 0, table[i].packet);
		CHECK_EQ(g.e->grant.budget, table[i].budget);
		CHECK_EQ(g.e->grant.quantum, table[i].quantum);
		CHECK_EQ(g.e->nic_queue, table[i].nic_queue);
	}
}

/* ---- the budget follows the round trip ------------------------------------------------------- */

/* A packet of bulk from @endpoint that echoes the frame that we sent @rtt ago. */
static void bulk_from(struct rig *g, uint32_t endpoint, uint32_t psn, uint64_t rtt)
{
	struct hk_wire_hdr h = rig_hdr(g, endpoint, HK_WIRE_PUT);

	h.psn = psn;
	h.len = LONG;
	h.flags = HK_WIRE_F_BULK;
	h.tsecr = (uint32_t)((g->now - rtt) >> HK_WIRE_TS_SHIFT);
	rig_input(g, &h, NULL, psn);
}

static void bulk_after(struct rig *g, uint32_t psn, uint64_t rtt)
{
	bulk_from(g, 2, psn, rtt);
}

/* Single packets of peer 2 have round trips of @rtt for long. Returns how much it is granted when
 * it then asks for more. */
static uint32_t budget_after(struct rig *g, uint64_t rtt)
{
	uint32_t psn = 0;

	for (unsigned i = 0; i < 40; i++) {
		rig_grant(g, 2, 0, (psn + 1) * LONG);
		rig_poll(g);
		g->now += HK_MSEC;
		bulk_after(g, psn++, rtt);
		g->now += 2 * HK_MSEC; /* forgets what it was granted ahead */
		rig_poll(g);
	}
	rig_grant(g, 2, 0, 1 << 24);
	rig_poll(g);
	return granted_to(g, 2) - psn * LONG;
}

TEST(a_longer_round_trip_has_a_larger_budget)
{
	RIG(g);
	RIG(h);
	switched(&g);
	switched(&h);
	uint32_t shorter = budget_after(&g, 16 * HK_USEC), longer = budget_after(&h, 80 * HK_USEC);

	/* whole quanta of 20 000 + 25 000 and of 100 000 + 25 000 */
	CHECK_EQ(shorter, 45000 / (10 * LONG) * (10 * LONG));
	CHECK_EQ(longer, 125000 / (30 * LONG) * (30 * LONG));
}

TEST(a_faster_link_has_a_larger_budget)
{
	RIG(g);
	g.cfg.link_mbps = 100000;
	rig_pair(&g);
	/* 80 KiB of queue at most, and 100 000 bytes in 8 us */
	uint32_t budget = budget_after(&g, 8 * HK_USEC);

	CHECK_EQ(budget, 181920 / (44 * LONG) * (44 * LONG));
}

/* A shorter round trip counts at once. A longer one counts when none was shorter for a period of
 * more than 10 ms, from the end of the one before. */
TEST(the_least_round_trip_of_a_period_counts)
{
	static const struct {
		uint64_t at, rtt, base; /* ms; ns; ns */
	} table[] = {
		{0, 3200, 3200},   {2, 8000, 3200},   {10, 8000, 3200}, {12, 9600, 3200},
		{22, 9600, 3200},  {24, 16000, 9600}, {26, 9600, 9600}, {36, 9600, 9600},
		{37, 16000, 9600}, {38, 6400, 6400},
	};

	RIG(g);
	switched(&g);
	uint64_t start = g.now;

	for (uint32_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		g.now = start + table[i].at * HK_MSEC;
		hk_grants_due(g.e, g.now + 2 * HK_MSEC); /* nothing is granted */
		CHECK_EQ(g.e->grant.out, 0);
		bulk_after(&g, i, table[i].rtt);
		CHECK_EQ(g.e->grant.base, table[i].base);
		CHECK_EQ(g.e->grant.budget, table[i].base * 5 / 4 + 25000);
	}
}

/* Granted bytes beyond a round trip wait at the switch, stalled ones too, and their time does not
 * count. The rest never makes the round trip shorter. */
TEST(the_queue_at_the_switch_does_not_count)
{
	RIG(g);
	RIG(h);
	switched(&g);
	crowd(&g, 1, 1 << 20);
	bulk_from(&g, 2, 0, 40000);
	CHECK_EQ(g.e->grant.rtt, 40000 - (4 * QUANTUM * 4 / 5 - 4000));
	bulk_from(&g, 2, 1, 3200);
	CHECK_EQ(g.e->grant.rtt, 4000);
	CHECK_EQ(g.e->grant.base, 4000);

	uint64_t start = one_has_all(&h);

	h.now = start + 15000;
	rig_poll(&h);
	CHECK(h.e->grant.stalled == BUDGET && h.e->grant.out == 3000);
	bulk_from(&h, 4, 0, 40000);
	CHECK_EQ(h.e->grant.rtt, 40000 - ((BUDGET + 3000) * 4 / 5 - 4000));
}

/* The echo leaves out how long the peer waited, so a busy peer does not make the budget larger. */
TEST(a_request_is_echoed)
{
	RIG(g);
	hk_peer p = switched(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK), sent;

	rig_grant(&g, 2, 1 << 20, 0);
	g.now += 100 * HK_USEC;
	CHECK(send_len(&g, p, LONG, &sent));
	CHECK_EQ(sent.tsecr, h.tsval + (100 * HK_USEC >> HK_WIRE_TS_SHIFT));
}

/* A grant that waited because we were not polling does not measure the network. */
TEST(a_grant_may_have_waited)
{
	RIG(g);
	hk_peer p = switched(&g);

	hk_engine_set_not_polling(g.e, true);
	rig_grant(&g, 2, 1 << 20, 0);
	CHECK(rig_send(&g, p, 1).flags & HK_WIRE_F_NOT_POLLING);
	rig_ack(&g, 2, 1, 64);
	hk_engine_set_not_polling(g.e, false);
	rig_grant(&g, 2, 1 << 20, 0);
	CHECK(!(rig_send(&g, p, 2).flags & HK_WIRE_F_NOT_POLLING));
}

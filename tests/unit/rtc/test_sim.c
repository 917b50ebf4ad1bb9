/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_sim.c: thousands of small clusters on a bad network, each from one seed.
 *
 * Two to five nodes send messages of all three classes. Meanwhile frames are lost, duplicated and
 * late, and nodes are cut off, leave, crash and come back. The invariants:
 *
 *   retry    An incarnation of the receiver handles a request at most once.
 *            A request ends once, by the right reply or by being given up.
 *            On a working network with all nodes present, it is answered.
 *   latest   A handler sees ascending numbers of each incarnation of a sender.
 *   all      Payloads arrive as they were sent.
 *            On a working network, all nodes become members.
 *            No buffer is missing at the end.
 *
 *   test_sim [--seed N] [--runs N]
 *
 * Built with PROTECTED, the nodes have a secret; with SEAL true, payloads are encrypted.
 */
#include "tests/unit/rtc/loop.h"

#ifdef PROTECTED
#include "rtc/keys.h"

static struct hk_rtc_protect *by_secret(const struct hk_rtc_config *c)
{
	static const uint8_t secret[HK_AGREE_LEN] = {1};
	const struct hk_rtc_keys_config k = {
		.node = c->node, .nodes = c->nodes, .key = c->key, .secret = secret, .seal = SEAL};
	struct hk_rtc_protect *p;

	CHECK_OK(hk_rtc_keys_open(&k, &p, ERR));
	return p;
}
#else
#define by_secret NULL
#endif

#define KEY      0xabcdu
#define NODES    5
#define REQUESTS 40000

enum { NOTE, STATE, REQUEST };

/* Every payload: its sender (node and incarnation), a serial number, and a checksum of both. */
struct body {
	uint32_t node, life, serial, check;
};

enum fate { OPEN, ANSWERED, GIVEN_UP };

struct request {
	uint32_t number;
	uint16_t dst;
	uint8_t fate;
	uint32_t handled_by[4]; /* incarnations that handled it */
	unsigned handled;
};

struct peer_view {
	uint32_t life, number;
};

struct sim_node {
	struct hk_rtc *rtc;
	uint16_t number;
	uint32_t life; /* incarnation, ascending over all nodes */
	unsigned asked, first_request;
	struct peer_view latest[NODES];
};

static struct loop_net net;
static struct sim_node nodes[NODES];
static unsigned count;
static uint32_t lives;
static struct request request[REQUESTS];
static unsigned requests;
static uint64_t total_answered, total_given_up, total_handled, total_retries;

static uint32_t check_of(const struct body *b)
{
	struct hk_rng r = {((uint64_t)b->node << 48) ^ ((uint64_t)b->life << 24) ^ b->serial};
	return (uint32_t)hk_rng_next(&r);
}

static struct body body_of(const struct hk_msg *m)
{
	struct body b;
	CHECK_EQ(m->len, sizeof(b));
	memcpy(&b, m->data, sizeof(b));
	CHECK(b.check == check_of(&b));
	return b;
}

static struct body make_body(const struct sim_node *s, uint32_t serial)
{
	struct body b = {.node = s->number, .life = s->life, .serial = serial};
	b.check = check_of(&b);
	return b;
}

/* ---- handlers -------------------------------------------------------------------------------- */

static void on_note(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		CHECK(body_of(&m[i]).node == m[i].src);
		if (m[i].number % 3 == 0)
			m[i].action = HK_RTC_REPLY;
	}
}

static void on_state(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	struct sim_node *s = arg;
	for (unsigned i = 0; i < n; i++) {
		struct body b = body_of(&m[i]);
		struct peer_view *v = &s->latest[m[i].src];
		CHECK(b.node == m[i].src && b.life >= v->life);
		CHECK(b.life > v->life || (int32_t)(m[i].number - v->number) > 0);
		*v = (struct peer_view){b.life, m[i].number};
	}
}

static void on_request(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	struct sim_node *s = arg;
	for (unsigned i = 0; i < n; i++) {
		struct body b = body_of(&m[i]);
		struct request *q = &request[b.serial];
		CHECK(b.serial < requests && q->dst == s->number);
		for (unsigned k = 0; k < q->handled; k++)
			CHECK_MSG(q->handled_by[k] != s->life, "request %u was handled twice",
				  b.serial);
		CHECK(q->handled < HK_ARRAY_LEN(q->handled_by));
		q->handled_by[q->handled++] = s->life;
		total_handled++;
		b.check = ~b.check;
		memcpy(m[i].data, &b, sizeof(b));
		m[i].action = HK_RTC_REPLY;
		/* defer some of them before the reply */
		if (hk_rng_below(&net.rng, 20) == 0) {
			m[i].action = HK_RTC_DEFER;
			q->handled--;
			total_handled--;
			b.check = ~b.check;
			memcpy(m[i].data, &b, sizeof(b));
		}
	}
}

static void on_reply(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	struct sim_node *s = arg;
	for (unsigned i = 0; i < n; i++) {
		struct body b;
		CHECK_EQ(m[i].len, sizeof(b));
		memcpy(&b, m[i].data, sizeof(b));
		b.check = ~b.check;
		CHECK(b.check == check_of(&b));
		struct request *q = &request[b.serial];
		CHECK_MSG(b.life == s->life && b.node == s->number,
			  "a reply to an earlier incarnation");
		CHECK(q->number == m[i].number && q->dst == m[i].src);
		CHECK_MSG(q->fate == OPEN, "request %u ended twice", b.serial);
		q->fate = ANSWERED;
		total_answered++;
	}
}

static void on_given_up(struct hk_rtc *r, void *arg, uint16_t dst, uint32_t number)
{
	struct sim_node *s = arg;
	for (unsigned i = s->first_request; i < requests; i++) {
		struct request *q = &request[i];
		if (q->number != number || q->dst != dst || q->fate != OPEN)
			continue;
		q->fate = GIVEN_UP;
		total_given_up++;
		return;
	}
	FAIL("given up: a request that was not open");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void start(uint16_t i)
{
	struct sim_node *s = &nodes[i];
	struct hk_rtc_config c;
	struct hk_rtc_type types[] = {
		{.name = "note", .on_message = on_note, .arg = s},
		{.name = "state", .class = HK_RTC_LATEST, .on_message = on_state, .arg = s},
		{.name = "request",
		 .class = HK_RTC_RETRY,
		 .on_message = on_request,
		 .on_reply = on_reply,
		 .on_given_up = on_given_up,
		 .arg = s,
		 .timeout_us = 200,
		 .tries = 6},
	};

	hk_rtc_defaults(&c);
	c.node = i;
	c.nodes = (uint16_t)count;
	c.key = KEY;
	c.buffers = 512;
	c.alive_ms = 1;
	memset(s->latest, 0, sizeof(s->latest));
	s->number = i;
	s->life = ++lives;
	s->first_request = requests;
	s->rtc = loop_open(&net, &c, (uint16_t)(s->life < 8 ? 0xfff7 + s->life : s->life - 7));
	for (uint8_t t = 0; t < HK_ARRAY_LEN(types); t++)
		CHECK_OK(hk_rtc_register(s->rtc, t, &types[t], ERR));
}

static void end(uint16_t i, bool crash)
{
	struct sim_node *s = &nodes[i];
	struct hk_rtc_type_stats ts;
	CHECK(hk_rtc_type_stats(s->rtc, REQUEST, &ts));
	total_retries += ts.retries;
	loop_close(&net, s->rtc, crash);
	s->rtc = NULL;
}

static void poll_all(uint64_t step)
{
	net.now += step;
	for (unsigned i = 0; i < count; i++)
		if (nodes[i].rtc)
			hk_rtc_poll(nodes[i].rtc);
}

static void say_something(struct sim_node *s)
{
	uint16_t dst = (uint16_t)hk_rng_below(&net.rng, count);
	uint8_t type = (uint8_t)hk_rng_below(&net.rng, 3);

	if (dst == s->number || !hk_rtc_is_member(s->rtc, dst) || requests == REQUESTS)
		return;
	struct body b = make_body(s, type == REQUEST ? requests : lives);
	uint32_t number;
	int rc = hk_rtc_send(s->rtc, dst, type, &b, sizeof(b), &number);
	CHECK(rc == 0 || rc == -11);
	if (rc == 0 && type == REQUEST)
		request[requests++] = (struct request){.number = number, .dst = dst};
}

static void something_happens(void)
{
	uint16_t i = (uint16_t)hk_rng_below(&net.rng, count);

	switch (hk_rng_below(&net.rng, 5)) {
	case 0:
		net.cut[i] = !net.cut[i];
		break;
	case 1:
	case 2:
		if (nodes[i].rtc)
			end(i, hk_rng_below(&net.rng, 2));
		else
			start(i);
		break;
	default:
		net.drop = (uint32_t)hk_rng_below(&net.rng, 4) * 100000;
		net.dup = (uint32_t)hk_rng_below(&net.rng, 3) * 100000;
		net.late = (uint32_t)hk_rng_below(&net.rng, 3) * 200000;
	}
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void bad_times(void)
{
	for (unsigned round = 0; round < 400; round++) {
		poll_all(hk_rng_range(&net.rng, 1, 60) * HK_USEC);
		for (unsigned i = 0; i < count; i++)
			if (nodes[i].rtc && hk_rng_below(&net.rng, 2))
				say_something(&nodes[i]);
		if (hk_rng_below(&net.rng, 60) == 0)
			something_happens();
	}
}

static void good_times(void)
{
	net.drop = net.dup = net.late = 0;
	memset(net.cut, 0, sizeof(net.cut));
	for (uint16_t i = 0; i < count; i++)
		if (!nodes[i].rtc)
			start(i);
	/* ten intervals detect crashed nodes; requests to them end after 200 µs x 63 */
	for (unsigned round = 0; round < 600; round++)
		poll_all(50 * HK_USEC);
	for (unsigned i = 0; i < count; i++)
		CHECK_MSG(hk_rtc_members(nodes[i].rtc) == count, "node %u sees %u of %u", i,
			  hk_rtc_members(nodes[i].rtc), count);
	/* requests from now on are answered */
	unsigned first = requests;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < count; i++)
			say_something(&nodes[i]);
		poll_all(20 * HK_USEC);
	}
	for (unsigned round = 0; round < 20; round++)
		poll_all(20 * HK_USEC);
	for (unsigned k = first; k < requests; k++)
		CHECK_MSG(request[k].fate == ANSWERED && request[k].handled == 1,
			  "request %u on a sound network: fate %u, handled %u times", k,
			  request[k].fate, request[k].handled);
	/* live nodes have no open request left */
	for (unsigned i = 0; i < count; i++)
		CHECK_EQ(nodes[i].rtc->requests.open, 0);
}

static void one_run(uint64_t seed)
{
	loop_init(&net, seed);
	net.protect = by_secret;
	net.delay = hk_rng_range(&net.rng, 1, 30) * HK_USEC;
	count = (unsigned)hk_rng_range(&net.rng, 2, NODES);
	requests = 0;
	lives = 0;
	memset(nodes, 0, sizeof(nodes));
	for (uint16_t i = 0; i < count; i++)
		start(i);
	bad_times();
	good_times();
	for (uint16_t i = 0; i < count; i++)
		end(i, false);
	loop_done(&net);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, runs = 2000;

	hk_test_now.program = argv[0];
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			seed = hk_test_seed_from(argv[i + 1]);
		else if (strcmp(argv[i], "--runs") == 0)
			runs = hk_test_seed_from(argv[i + 1]);
	}
	for (uint64_t i = 0; i < runs; i++) {
		hk_test_now.seed = seed + i;
		snprintf(hk_test_now.replay, sizeof(hk_test_now.replay),
			 "%s --seed %" PRIu64 " --runs 1", argv[0], seed + i);
		one_run(seed + i);
	}
	printf("ok %" PRIu64 " runs: %" PRIu64 " answered, %" PRIu64 " given up, %" PRIu64
	       " handled, %" PRIu64 " asked again\n",
	       runs, total_answered, total_given_up, total_handled, total_retries);
	/* check that the runs covered these cases */
	CHECK(runs < 100 || (total_answered > total_given_up && total_given_up > 0));
	CHECK(runs < 100 || total_retries > 0);
	return 0;
}

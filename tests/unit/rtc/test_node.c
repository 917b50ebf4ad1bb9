/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_node.c: what a node does with messages, on the network of loop.h.
 */
#include "tests/unit/rtc/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define KEY 0x1234u

static struct loop_net net;
static struct hk_rtc *node[4];

static struct hk_rtc_config config(uint16_t self, uint16_t nodes)
{
	struct hk_rtc_config c;
	hk_rtc_defaults(&c);
	c.node = self;
	c.nodes = nodes;
	c.key = KEY;
	c.buffers = 512;
	return c;
}

static void add_type(struct hk_rtc *r, uint8_t type, const struct hk_rtc_type *t)
{
	struct hk_error err = {""};
	CHECK_MSG(hk_rtc_register(r, type, t, &err) == 0, "%s", err.text);
}

static void open_all(unsigned n)
{
	loop_init(&net, hk_test_now.seed);
	memset(node, 0, sizeof(node));
	for (unsigned i = 0; i < n; i++) {
		struct hk_rtc_config c = config((uint16_t)i, (uint16_t)n);
		node[i] = loop_open(&net, &c, 1);
	}
}

/* They meet. */
static void meet(unsigned n)
{
	loop_run(&net, node, n, 20, 2 * HK_USEC);
	for (unsigned i = 0; i < n; i++)
		CHECK_EQ(hk_rtc_members(node[i]), n);
}

static void close_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (node[i])
			loop_close(&net, node[i], false);
	loop_done(&net);
}

static struct hk_rtc_type_stats stats_of(struct hk_rtc *r, uint8_t type)
{
	struct hk_rtc_type_stats s;
	CHECK(hk_rtc_type_stats(r, type, &s));
	return s;
}

/* ---- handlers -------------------------------------------------------------------------------- */

struct seen {
	unsigned calls, messages, largest;
	uint32_t values[1024];
	uint32_t numbers[1024];
	uint8_t types[1024];
};

static uint32_t value_of(const struct hk_msg *m)
{
	uint32_t v = 0;
	memcpy(&v, m->data, HK_MIN(sizeof(v), m->len));
	return v;
}

static void note(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	struct seen *s = arg;
	(void)r;
	CHECK(n >= 1 && n <= HK_RTC_BURST);
	s->calls++;
	s->largest = HK_MAX(s->largest, n);
	for (unsigned i = 0; i < n; i++) {
		unsigned at = s->messages++ % 1024;
		CHECK_EQ(m[i].verdict, HK_RTC_DROP);
		CHECK_EQ(m[i].room, LOOP_PAYLOAD);
		s->values[at] = value_of(&m[i]);
		s->numbers[at] = m[i].number;
		s->types[at] = m[i].type;
		CHECK_EQ(m[i].type, m[0].type);
	}
}

static void add_one(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	if (arg)
		note(r, arg, m, n);
	for (unsigned i = 0; i < n; i++) {
		uint32_t v = value_of(&m[i]) + 1;
		memcpy(m[i].data, &v, sizeof(v));
		m[i].verdict = HK_RTC_REPLY;
	}
}

static void send_value(struct hk_rtc *r, uint16_t dst, uint8_t type, uint32_t v)
{
	CHECK_EQ(hk_rtc_send(r, dst, type, &v, sizeof(v), NULL), 0);
}

/* ---- the simplest thing ---------------------------------------------------------------------- */

static void question_and_answer(void)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {.name = "add", .on_message = add_one, .arg = &asked};
	struct hk_rtc_type client = {.name = "add", .on_answer = note, .arg = &answered};

	open_all(2);
	add_type(node[0], 7, &server);
	add_type(node[1], 7, &client);
	meet(2);
	for (uint32_t i = 0; i < 40; i++)
		send_value(node[1], 0, 7, i);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	CHECK_EQ(asked.messages, 40);
	CHECK_EQ(answered.messages, 40);
	CHECK(asked.largest == HK_RTC_BURST); /* 32 at a time, not one by one */
	for (uint32_t i = 0; i < 40; i++) {
		CHECK_EQ(answered.values[i], i + 1);
		CHECK_EQ(answered.numbers[i], asked.numbers[i]);
	}
	CHECK_EQ(stats_of(node[0], 7).replied, 40);
	CHECK_EQ(stats_of(node[1], 7).sent, 40);
	CHECK_EQ(stats_of(node[1], 7).answers, 40);
	close_all(2);
}

/* A mixed burst comes as one run of each type, each in the order in which it was sent. */
static void runs_of_a_type(void)
{
	static struct seen seen;
	struct hk_rtc_type t = {.name = "t", .on_message = note, .arg = &seen};

	memset(&seen, 0, sizeof(seen));
	open_all(2);
	for (uint8_t i = 0; i < 2; i++)
		for (uint8_t type = 10; type < 13; type++)
			add_type(node[i], type, &t);
	meet(2);
	for (uint32_t i = 0; i < 30; i++)
		send_value(node[1], 0, (uint8_t)(10 + hk_rng_below(&hk_test_rng, 3)), i);
	loop_run(&net, node, 2, 10, 2 * HK_USEC);
	CHECK_EQ(seen.messages, 30);
	CHECK_EQ(seen.calls, 3);
	for (unsigned i = 1; i < 30; i++)
		CHECK(seen.types[i] != seen.types[i - 1] || seen.values[i] > seen.values[i - 1]);
	close_all(2);
}

static void without_copy(void)
{
	struct seen seen = {0};
	struct hk_rtc_type t = {.name = "t", .on_message = note, .arg = &seen};

	open_all(2);
	add_type(node[0], 0, &t);
	add_type(node[1], 0, &t);
	meet(2);
	void *at = hk_rtc_begin(node[1]);
	CHECK(at != NULL && (uintptr_t)at % 32 == 0);
	CHECK(hk_rtc_begin(node[1]) == at); /* begun, and nothing else */
	memcpy(at, &(uint32_t){77}, 4);
	CHECK_EQ(hk_rtc_end(node[1], 0, 99, 4, NULL), -EINVAL); /* not lost by that */
	CHECK_EQ(hk_rtc_end(node[1], 0, 0, 4, NULL), 0);
	CHECK_EQ(hk_rtc_end(node[1], 0, 0, 4, NULL), -EAGAIN); /* none was begun */
	loop_run(&net, node, 2, 10, 2 * HK_USEC);
	CHECK_EQ(seen.messages, 1);
	CHECK_EQ(seen.values[0], 77);
	CHECK(hk_rtc_begin(node[1]) != NULL); /* what is begun at the end is given back */
	close_all(2);
}

static void sends_that_cannot_be(void)
{
	struct hk_rtc_type t = {.name = "t"};
	char big[LOOP_PAYLOAD + 1] = "";

	open_all(2);
	add_type(node[1], 0, &t);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, "x", 1, NULL), -ENOTCONN); /* they have not met */
	meet(2);
	CHECK_EQ(hk_rtc_send(node[1], 0, 1, "x", 1, NULL), -EINVAL);
	CHECK_EQ(hk_rtc_send(node[1], 0, 255, "x", 1, NULL), -EINVAL);
	CHECK_EQ(hk_rtc_send(node[1], 1, 0, "x", 1, NULL), -EINVAL);
	CHECK_EQ(hk_rtc_send(node[1], 2, 0, "x", 1, NULL), -ENOTCONN);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, big, sizeof(big), NULL), -EMSGSIZE);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, big, sizeof(big) - 1, NULL), 0);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, NULL, 0, NULL), 0);
	loop_run(&net, node, 2, 5, 2 * HK_USEC);
	struct hk_rtc_stats s;
	hk_rtc_stats(node[0], &s);
	CHECK_EQ(s.unknown_type, 2); /* node 0 knows no type */
	close_all(2);
}

static void registrations_that_cannot_be(void)
{
	const struct hk_rtc_type ok = {.name = "t"};
	struct hk_rtc_type t = ok;
	struct hk_error err;

	open_all(1);
	CHECK_EQ(hk_rtc_register(node[0], HK_RTC_MAX_TYPES, &t, &err), -EINVAL);
	CHECK(strstr(err.text, "fix: "));
	t.name = "";
	CHECK_EQ(hk_rtc_register(node[0], 0, &t, &err), -EINVAL);
	t = ok;
	t.class = HK_RTC_RETRY + 1;
	CHECK_EQ(hk_rtc_register(node[0], 0, &t, &err), -EINVAL);
	t = ok;
	t.budget_ns = UINT32_MAX;
	CHECK_EQ(hk_rtc_register(node[0], 0, &t, &err), -EINVAL);
	CHECK_EQ(hk_rtc_register(node[0], 0, &ok, &err), 0);
	CHECK_EQ(hk_rtc_register(node[0], 0, &ok, &err), -EEXIST);
	hk_rtc_poll(node[0]);
	CHECK_EQ(hk_rtc_register(node[0], 1, &ok, &err), -EBUSY);
	close_all(1);
}

static void configurations_that_cannot_be(void)
{
	static const struct {
		uint16_t node, nodes;
		unsigned buffers, alive, workers;
		const char *says;
	} bad[] = {
		{0, 0, 0, 0, 0, "1 to 1024"},      {0, 1025, 0, 0, 0, "1 to 1024"},
		{4, 4, 0, 0, 0, "from 0 to 3"},    {0, 1, 10, 0, 0, "256 to"},
		{0, 1, 0, 10001, 0, "at most 10"}, {0, 1, 0, 0, 65, "at most 64"},
	};
	struct hk_rtc *r;

	loop_init(&net, 1);
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_rtc_config c = config(bad[i].node, bad[i].nodes);
		struct hk_error err = {""};
		c.buffers = bad[i].buffers;
		c.alive_ms = bad[i].alive;
		c.workers = bad[i].workers;
		CHECK_EQ(loop_try(&net, &c, 1, &r, &err), -EINVAL);
		CHECK_MSG(strstr(err.text, bad[i].says), "%u says: %s", i, err.text);
	}
	int nowhere[] = {1000};
	struct hk_rtc_config c = config(0, 1);
	struct hk_error err = {""};
	c.workers = 1;
	c.worker_cpu = nowhere;
	CHECK(loop_try(&net, &c, 1, &r, &err) < 0);
	CHECK_MSG(strstr(err.text, "processor"), "it says: %s", err.text);
}

/* ---- what the network brings ----------------------------------------------------------------- */

static void strange_messages(void)
{
	struct seen seen = {0};
	struct hk_rtc_type t = {.name = "t", .on_message = note, .arg = &seen};
	const struct hk_msg_hdr good = {.ver_flags = HK_MSG_VERSION,
					.src = 1,
					.dst = 0,
					.key = KEY,
					.number = 1,
					.epoch = 1};
	struct hk_msg_hdr h;
	struct hk_rtc_stats s;
	uint8_t bytes[HK_MSG_HLEN + 40] = {0};

	open_all(2);
	add_type(node[0], 0, &t);
	add_type(node[1], 0, &t);
	meet(2);
#define BRINGS(change, length)                                                                     \
	do {                                                                                       \
		h = good;                                                                          \
		change;                                                                            \
		hk_msg_put(bytes, &h);                                                             \
		loop_inject(&net, 0, bytes, length);                                               \
	} while (0)
	BRINGS(h.ver_flags = 2, sizeof(bytes));
	BRINGS(h.len = 41, sizeof(bytes));
	BRINGS(h.len = 0, 17);
	BRINGS(h.key++, sizeof(bytes));
	BRINGS(h.dst = 2, sizeof(bytes));
	BRINGS(h.src = 2, sizeof(bytes));
	BRINGS(h.src = 0xffff, sizeof(bytes));
	BRINGS(h.type = 5, sizeof(bytes));
	BRINGS(h.type = 250, sizeof(bytes));
	BRINGS(h.epoch = 0xfff0, sizeof(bytes));              /* an earlier incarnation */
	BRINGS(h.ver_flags |= HK_MSG_F_REPLY, sizeof(bytes)); /* nobody asked, nobody cares */
	loop_run(&net, node, 2, 2, HK_USEC);
	hk_rtc_stats(node[0], &s);
	CHECK_EQ(s.bad, 3);
	CHECK_EQ(s.other_job, 1);
	CHECK_EQ(s.not_for_us, 1);
	CHECK_EQ(s.not_member, 3);
	CHECK_EQ(s.unknown_type, 2);
	CHECK_EQ(seen.messages, 0);
	BRINGS(h.len = 40, sizeof(bytes));
	loop_run(&net, node, 2, 2, HK_USEC);
	CHECK_EQ(seen.messages, 1);
	close_all(2);
}

static void random_bytes(void)
{
	struct seen seen = {0};
	struct hk_rtc_type t[] = {{.name = "a", .on_message = note, .arg = &seen},
				  {.name = "b", .class = HK_RTC_LATEST, .on_message = add_one},
				  {.name = "c", .class = HK_RTC_RETRY, .on_message = add_one}};

	open_all(3);
	for (uint8_t i = 0; i < 3; i++)
		add_type(node[0], i, &t[i]);
	for (unsigned i = 0; i < 10000; i++) {
		uint8_t bytes[HK_MSG_HLEN + 30];
		struct hk_msg_hdr h;
		for (unsigned k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)hk_rng_next(&hk_test_rng);
		memcpy(&h, bytes, sizeof(h));
		h.ver_flags = (uint8_t)((h.ver_flags & 0x70) | HK_MSG_VERSION);
		h.key = KEY;
		h.dst = 0;
		h.src = (uint16_t)hk_rng_below(&hk_test_rng, 4);
		h.len %= 40;
		h.type = h.type & 8 ? (uint8_t)(0xf0 | h.type) : h.type % 4;
		h.epoch %= 4;
		if (hk_rng_below(&hk_test_rng, 8))
			hk_msg_put(bytes, &h);
		loop_inject(&net, 0, bytes, hk_rng_below(&hk_test_rng, sizeof(bytes) + 1));
		loop_run(&net, node, 3, i % 4 == 0, 50 * HK_USEC);
	}
	loop_run(&net, node, 1, 10, HK_USEC);
	close_all(3);
}

/* ---- delivery -------------------------------------------------------------------------------- */

static void inject(uint16_t to, uint16_t from, uint8_t type, uint32_t number, uint32_t value)
{
	uint8_t bytes[HK_MSG_HLEN + 4];
	const struct hk_msg_hdr h = {.ver_flags = HK_MSG_VERSION,
				     .type = type,
				     .len = 4,
				     .src = from,
				     .dst = to,
				     .key = KEY,
				     .number = number,
				     .epoch = 1};
	hk_msg_put(bytes, &h);
	memcpy(bytes + HK_MSG_HLEN, &value, 4);
	loop_inject(&net, to, bytes, sizeof(bytes));
}

static void latest_wins(void)
{
	struct seen seen = {0};
	struct hk_rtc_type t = {
		.name = "t", .class = HK_RTC_LATEST, .on_message = note, .arg = &seen};
	static const uint32_t numbers[] = {5, 4, 5, 6, 9, 7, 0xfffffff0, 10};

	open_all(2);
	add_type(node[0], 0, &t);
	meet(1 + 1);
	for (unsigned i = 0; i < HK_ARRAY_LEN(numbers); i++)
		inject(0, 1, 0, numbers[i], numbers[i]);
	loop_run(&net, node, 2, 2, HK_USEC);
	CHECK_EQ(seen.messages, 4);
	CHECK(seen.values[0] == 5 && seen.values[1] == 6 && seen.values[2] == 9);
	CHECK_EQ(seen.values[3], 10);
	CHECK_EQ(stats_of(node[0], 0).stale, 4);
	close_all(2);
}

static unsigned given_up;

static void on_given_up(struct hk_rtc *r, void *arg, uint16_t dst, uint32_t number)
{
	(void)r;
	(void)arg;
	CHECK(dst == 0 && number != 0);
	given_up++;
}

/* The first answer is lost; the question comes again, is not handled again, and the answer is repeated. */
static void retry_until_answered(void)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {
		.name = "q", .class = HK_RTC_RETRY, .on_message = add_one, .arg = &asked};
	struct hk_rtc_type client = {.name = "q",
				     .class = HK_RTC_RETRY,
				     .on_answer = note,
				     .on_given_up = on_given_up,
				     .arg = &answered};

	given_up = 0;
	open_all(2);
	add_type(node[0], 3, &server);
	add_type(node[1], 3, &client);
	meet(2);
	send_value(node[1], 0, 3, 41);
	net.now += 5 * HK_USEC;
	net.cut[1] = true; /* the question has left; the answer will not come through */
	hk_rtc_poll(node[0]);
	CHECK_EQ(asked.messages, 1);
	net.cut[1] = false;
	loop_run(&net, node, 2, 50, 100 * HK_USEC);
	CHECK_EQ(asked.messages, 1);
	CHECK_EQ(answered.messages, 1);
	CHECK_EQ(answered.values[0], 42);
	CHECK_EQ(stats_of(node[0], 3).repeated, 1);
	CHECK_EQ(stats_of(node[1], 3).retries, 1);
	/* answered: that is the end of it */
	loop_run(&net, node, 2, 100, HK_MSEC);
	CHECK_EQ(stats_of(node[1], 3).retries, 1);
	CHECK_EQ(given_up, 0);
	close_all(2);
}

/* A handler that says nothing about a question answers it with nothing. */
static void dropped_question_is_answered(void)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {
		.name = "q", .class = HK_RTC_RETRY, .on_message = note, .arg = &asked};
	struct hk_rtc_type client = {
		.name = "q", .class = HK_RTC_RETRY, .on_answer = note, .arg = &answered};

	open_all(2);
	add_type(node[0], 3, &server);
	add_type(node[1], 3, &client);
	meet(2);
	send_value(node[1], 0, 3, 41);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	CHECK_EQ(asked.messages, 1);
	CHECK_EQ(answered.messages, 1);
	CHECK_EQ(answered.values[0], 0); /* no payload */
	close_all(2);
}

static void never_answered(void)
{
	struct hk_rtc_type t = {.name = "q",
				.class = HK_RTC_RETRY,
				.on_given_up = on_given_up,
				.timeout_us = 100,
				.tries = 3};
	struct hk_rtc_type deaf = {.name = "q"};
	int rc = 0;
	unsigned sent = 0;

	given_up = 0;
	open_all(2);
	add_type(node[0], 3, &deaf);
	add_type(node[1], 3, &t);
	meet(2);
	while ((rc = hk_rtc_send(node[1], 0, 3, "x", 1, NULL)) == 0)
		sent++;
	CHECK_EQ(rc, -EAGAIN);
	CHECK_EQ(sent, 512 / 4); /* a quarter of the buffers */
	/* sent at 0, 100 and 300 us; given up at 700 */
	loop_run(&net, node, 2, 6, 100 * HK_USEC);
	CHECK_EQ(given_up, 0);
	loop_run(&net, node, 2, 12, 50 * HK_USEC);
	CHECK_EQ(given_up, sent);
	CHECK_EQ(stats_of(node[1], 3).retries, 2 * sent);
	CHECK_EQ(stats_of(node[1], 3).given_up, sent);
	CHECK_EQ(hk_rtc_send(node[1], 0, 3, "x", 1, NULL), 0);
	/* it leaves: no reason to wait */
	loop_close(&net, node[0], false);
	node[0] = NULL;
	loop_run(&net, node, 2, 5, 5 * HK_USEC);
	CHECK_EQ(given_up, sent + 1);
	close_all(2);
}

/* ---- deferral -------------------------------------------------------------------------------- */

static unsigned defers_left;

static void defer_some(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	add_one(r, arg, m, n);
	for (unsigned i = 0; i < n && defers_left; i++, defers_left--)
		m[i].verdict = HK_RTC_DEFER;
}

/* Without workers: again, when nothing comes. */
static void defer_on_the_core(void)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {.name = "d", .on_message = defer_some, .arg = &asked};
	struct hk_rtc_type client = {.name = "d", .on_answer = note, .arg = &answered};

	defers_left = 5;
	open_all(2);
	add_type(node[0], 3, &server);
	add_type(node[1], 3, &client);
	meet(2);
	for (uint32_t i = 0; i < 10; i++)
		send_value(node[1], 0, 3, 10 * i);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	CHECK_EQ(asked.messages, 15);
	CHECK_EQ(answered.messages, 10);
	CHECK_EQ(stats_of(node[0], 3).deferred, 5);
	/* and when there is no room, they are dropped and counted */
	defers_left = 1000;
	for (uint32_t i = 0; i < 140; i++) {
		send_value(node[1], 0, 3, i);
		if (i % 28 == 27) {
			hk_rtc_flush(node[1]);
			net.now += 10 * HK_USEC;
			hk_rtc_poll(node[0]);
		}
	}
	CHECK_EQ(stats_of(node[0], 3).deferred, 5 + 128);
	CHECK_EQ(stats_of(node[0], 3).defer_full, 12);
	close_all(2);
}

struct slow {
	uint64_t cost; /* ns of the test's clock, a message */
	unsigned on_core, elsewhere;
	pthread_t core;
};

static void be_slow(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	struct slow *s = arg;
	if (pthread_equal(pthread_self(), s->core))
		s->on_core += n;
	else
		s->elsewhere += n;
	__atomic_fetch_add(&net.now, s->cost * n, __ATOMIC_SEQ_CST);
	add_one(r, NULL, m, n);
}

static void ask_and_wait(struct seen *answered, unsigned n)
{
	unsigned want = answered->messages + n;
	for (unsigned i = 0; i < n; i++)
		send_value(node[1], 0, 3, i);
	hk_rtc_flush(node[1]);
	while (answered->messages < want) { /* the test's time limit ends it, if nothing does */
		/* while the worker measures, only its own handler moves time */
		if (hk_workers_held(node[0]->workers) == 0)
			__atomic_fetch_add(&net.now, 5 * HK_USEC, __ATOMIC_SEQ_CST);
		hk_rtc_poll(node[0]);
		hk_rtc_poll(node[1]);
	}
}

/* Over the budget they move to a worker; when they cost less, back. */
static void budget(void)
{
	struct seen answered = {0};
	struct slow slow = {.cost = 50, .core = pthread_self()};
	struct hk_rtc_type server = {
		.name = "s", .on_message = be_slow, .arg = &slow, .budget_ns = 100};
	struct hk_rtc_type client = {.name = "s", .on_answer = note, .arg = &answered};
	struct hk_rtc_config c = config(0, 2);

	loop_init(&net, 1);
	c.workers = 1;
	node[0] = loop_open(&net, &c, 1);
	c = config(1, 2);
	node[1] = loop_open(&net, &c, 1);
	add_type(node[0], 3, &server);
	add_type(node[1], 3, &client);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	for (unsigned i = 0; i < 20; i++)
		ask_and_wait(&answered, 8);
	CHECK_EQ(slow.elsewhere, 0);
	CHECK_EQ(stats_of(node[0], 3).recent_ns, 46); /* on its way to 50 */
	CHECK_EQ(stats_of(node[0], 3).bursts_over_budget, 0);
	slow.cost = 150;
	for (unsigned i = 0; i < 40; i++)
		ask_and_wait(&answered, 8);
	CHECK(slow.elsewhere >= 100);
	CHECK_EQ(stats_of(node[0], 3).deferred, slow.elsewhere);
	CHECK(stats_of(node[0], 3).bursts_over_budget > 0);
	CHECK(stats_of(node[0], 3).worker_ns >= 100 * 150);
	unsigned before = slow.on_core;
	slow.cost = 10;
	for (unsigned i = 0; i < 40; i++)
		ask_and_wait(&answered, 8);
	CHECK(slow.on_core > before);
	CHECK_EQ(stats_of(node[0], 3).messages, slow.on_core + slow.elsewhere);
	CHECK_EQ(answered.messages, 800);
	close_all(2);
}

static atomic_int may_return; /* 0: the handler waits; 2: it has */

static void hang(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	(void)r;
	(void)arg;
	(void)m;
	(void)n;
	while (atomic_load(&may_return) == 0)
		sched_yield();
	atomic_store(&may_return, 2);
}

static void defer(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	if (pthread_equal(pthread_self(), *(pthread_t *)arg)) {
		for (unsigned i = 0; i < n; i++)
			m[i].verdict = HK_RTC_DEFER;
		return;
	}
	hang(r, arg, m, n);
}

/* A handler that does not return does not keep the program from ending; the other node hears goodbye. */
static void close_with_a_handler_that_hangs(void)
{
	pthread_t core = pthread_self();
	struct hk_rtc_type server = {.name = "s", .on_message = defer, .arg = &core};
	struct hk_rtc_type client = {.name = "s"};
	struct hk_rtc_config c = config(0, 2);

	loop_init(&net, 1);
	c.workers = 1;
	c.timeout_ms = 20;
	node[0] = loop_open(&net, &c, 1);
	c = config(1, 2);
	node[1] = loop_open(&net, &c, 1);
	add_type(node[0], 3, &server);
	add_type(node[1], 3, &client);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	send_value(node[1], 0, 3, 7);
	hk_rtc_flush(node[1]);
	loop_run(&net, node, 2, 5, 2 * HK_USEC);
	CHECK_EQ(hk_workers_held(node[0]->workers), 1);
	CHECK_EQ(hk_rtc_close(node[0]), -ETIMEDOUT);
	CHECK_EQ(hk_rtc_members(node[0]), 2); /* its memory is still there */
	loop_run(&net, &node[1], 1, 5, 2 * HK_USEC);
	CHECK_EQ(hk_rtc_members(node[1]), 1);
	atomic_store(&may_return, 1);
	while (atomic_load(&may_return) != 2)
		sched_yield();
	CHECK_EQ(hk_rtc_close(node[0]),
		 0); /* now it can be given back, for the sake of leak checkers */
	node[0] = NULL;
	close_all(2);
}

/* ---- time ------------------------------------------------------------------------------------ */

static unsigned ticks;

static void tick(struct hk_rtc *r, void *arg)
{
	(void)r;
	ticks += *(unsigned *)arg;
}

static void timers(void)
{
	unsigned one = 1, thousand = 1000;

	ticks = 0;
	open_all(1);
	int a = hk_rtc_timer(node[0], 10 * HK_USEC, 10 * HK_USEC, tick, &one);
	int b = hk_rtc_timer(node[0], 55 * HK_USEC, 0, tick, &thousand);
	CHECK(a >= 0 && b >= 0 && a != b);
	loop_run(&net, node, 1, 50, HK_USEC);
	CHECK_EQ(ticks, 5);
	loop_run(&net, node, 1, 50, HK_USEC);
	CHECK_EQ(ticks, 1010);
	hk_rtc_cancel(node[0], b); /* it is over: nothing happens */
	int c = hk_rtc_timer(node[0], HK_USEC, 0, tick, &thousand);
	hk_rtc_cancel(node[0], b); /* and not to its successor either */
	hk_rtc_cancel(node[0], a);
	CHECK(c != b);
	loop_run(&net, node, 1, 50, HK_USEC);
	CHECK_EQ(ticks, 2010);
	int last = 0;
	for (unsigned i = 0; i <= 256; i++)
		last = hk_rtc_timer(node[0], HK_SEC, 0, tick, &one);
	CHECK_EQ(last, -ENOSPC);
	close_all(1);
}

/* Waiting for all ends, and names who did not come. */
static void wait_for_all(void)
{
	struct hk_error err = {""};

	loop_init(&net, 1);
	struct hk_rtc_config c = config(1, 4);
	c.timeout_ms = 5;
	node[0] = NULL;
	node[1] = loop_open(&net, &c, 1);
	net.step = HK_MSEC; /* each look at the clock */
	CHECK_EQ(hk_rtc_wait_all(node[1], &err), -ETIMEDOUT);
	CHECK_MSG(strstr(err.text, "3 of 4 nodes did not come within 5 ms: 0, 2, 3; fix: "), "%s",
		  err.text);
	hk_rtc_stop(node[1]);
	CHECK_EQ(hk_rtc_wait_all(node[1], &err), -ECANCELED);
	net.step = 0;
	close_all(2);
}

/* ---- members --------------------------------------------------------------------------------- */

static int balance[4];

static void on_member(struct hk_rtc *r, void *arg, uint16_t n, bool joined)
{
	(void)r;
	(void)arg;
	balance[n] += joined ? 1 : -1;
	CHECK(balance[n] == 0 || balance[n] == 1);
}

static void members_come_and_go(void)
{
	struct hk_rtc_stats s;
	struct hk_rtc_config c = config(0, 3);
	unsigned n;

	memset(balance, 0, sizeof(balance));
	loop_init(&net, 1);
	memset(node, 0, sizeof(node));
	c.on_member = on_member;
	c.topology = HK_RTC_RING;
	node[0] = loop_open(&net, &c, 1);
	loop_run(&net, node, 3, 10, HK_MSEC);
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	CHECK_EQ(hk_rtc_pick(node[0]), -1);
	for (uint16_t i = 1; i < 3; i++) {
		c = config(i, 3);
		node[i] = loop_open(&net, &c, 1);
	}
	loop_run(&net, node, 3, 20, 5 * HK_USEC);
	CHECK_EQ(hk_rtc_members(node[0]), 3);
	const uint16_t *near = hk_rtc_neighbours(node[0], &n);
	CHECK(n == 2 && near[0] == 1 && near[1] == 2);
	/* one says goodbye, and is gone at once */
	loop_close(&net, node[1], false);
	node[1] = NULL;
	loop_run(&net, node, 3, 5, 5 * HK_USEC);
	CHECK(!hk_rtc_is_member(node[0], 1) && hk_rtc_is_member(node[0], 2));
	/* one dies, and is found out after a second */
	loop_close(&net, node[2], true);
	node[2] = NULL;
	loop_run(&net, node, 3, 90, 10 * HK_MSEC);
	CHECK(hk_rtc_is_member(node[0], 2));
	loop_run(&net, node, 3, 30, 10 * HK_MSEC);
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	CHECK_EQ(hk_rtc_pick(node[0]), -1);
	/* it comes back, and again before anybody notices that it died */
	c = config(2, 3);
	node[2] = loop_open(&net, &c, 2);
	loop_run(&net, node, 3, 200, HK_MSEC);
	CHECK(hk_rtc_is_member(node[0], 2));
	loop_close(&net, node[2], true);
	node[2] = loop_open(&net, &c, 3);
	loop_run(&net, node, 3, 20, 10 * HK_USEC);
	CHECK_EQ(hk_rtc_members(node[0]), 2);
	hk_rtc_stats(node[0], &s);
	CHECK(s.joined == 4 && s.left == 1 && s.lost == 2);
	close_all(3);
}

/* A node that could not poll for a long time holds nobody for dead. */
static void long_absence(void)
{
	struct hk_rtc_stats s;

	open_all(2);
	meet(2);
	for (unsigned i = 0; i < 100; i++)
		loop_run(&net, node + 1, 1, 1, 100 * HK_MSEC); /* node 0 is away for ten seconds */
	loop_run(&net, node, 2, 30, 50 * HK_MSEC);
	hk_rtc_stats(node[0], &s);
	CHECK(s.lost == 0 && hk_rtc_members(node[0]) == 2);
	CHECK_EQ(hk_rtc_members(node[1]), 2);
	close_all(2);
}

/* A node that was not heard for a while is no new one when it is heard again: what it asked before is not
 * handled again. */
static void lost_and_back(void)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_stats s;
	struct hk_rtc_type server = {
		.name = "q", .class = HK_RTC_RETRY, .on_message = add_one, .arg = &asked};
	struct hk_rtc_type client = {.name = "q",
				     .class = HK_RTC_RETRY,
				     .on_answer = note,
				     .arg = &answered,
				     .timeout_us = 2000000};

	open_all(2);
	add_type(node[0], 3, &server);
	add_type(node[1], 3, &client);
	meet(2);
	send_value(node[1], 0, 3, 41);
	net.mute[0] = true; /* the answer is lost */
	loop_run(&net, node, 2, 5, 5 * HK_USEC);
	CHECK_EQ(asked.messages, 1);
	net.mute[0] = false;
	net.mute[1] = true;
	loop_run(&net, node, 2, 150, 10 * HK_MSEC);
	CHECK(!hk_rtc_is_member(node[0], 1) && hk_rtc_is_member(node[1], 0));
	net.mute[1] = false;
	loop_run(&net, node, 2, 100, 10 * HK_MSEC);
	hk_rtc_stats(node[0], &s);
	CHECK(s.lost == 1 && s.joined == 2 && hk_rtc_is_member(node[0], 1));
	CHECK_EQ(asked.messages, 1);
	CHECK_EQ(answered.messages, 1);
	CHECK_EQ(answered.values[0], 42);
	close_all(2);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void json(void)
{
	struct hk_rtc_type t = {.name = "a \"quoted\" name", .on_message = add_one};
	char text[4096], small[64];

	open_all(2);
	add_type(node[0], 5, &t);
	meet(2);
	int n = hk_rtc_stats_json(node[0], text, sizeof(text));
	CHECK(n > 0 && strlen(text) == (size_t)n && text[0] == '{' && text[n - 1] == '}');
	CHECK(strstr(text, "\"backend\": \"loop\"") && strstr(text, "\"members\": 2"));
	CHECK(strstr(text, "\"a \\\"quoted\\\" name\": {\"type\": 5, \"budget_ns\": 0"));
	CHECK(!strchr(text, '\n'));
	CHECK_EQ(hk_rtc_stats_json(node[0], small, sizeof(small)), -ENOSPC);
	CHECK(strlen(small) < sizeof(small));
	CHECK_EQ(hk_rtc_stats_json(node[0], text, (size_t)n), -ENOSPC);
	CHECK_EQ(hk_rtc_stats_json(node[0], text, (size_t)n + 1), n);
	close_all(2);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"question_and_answer", question_and_answer},
		{"runs_of_a_type", runs_of_a_type},
		{"without_copy", without_copy},
		{"sends_that_cannot_be", sends_that_cannot_be},
		{"registrations_that_cannot_be", registrations_that_cannot_be},
		{"configurations_that_cannot_be", configurations_that_cannot_be},
		{"strange_messages", strange_messages},
		{"random_bytes", random_bytes},
		{"latest_wins", latest_wins},
		{"retry_until_answered", retry_until_answered},
		{"dropped_question_is_answered", dropped_question_is_answered},
		{"never_answered", never_answered},
		{"defer_on_the_core", defer_on_the_core},
		{"budget", budget},
		{"close with a handler that hangs", close_with_a_handler_that_hangs},
		{"wait for all", wait_for_all},
		{"timers", timers},
		{"members_come_and_go", members_come_and_go},
		{"long_absence", long_absence},
		{"lost_and_back", lost_and_back},
		{"json", json},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

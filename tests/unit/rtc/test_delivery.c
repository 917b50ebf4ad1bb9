/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_delivery.c: delivery classes, and handlers that defer or exceed their budget.
 */
#include "tests/unit/rtc/node_rig.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

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
	hk_msg_encode(bytes, &h);
	memcpy(bytes + HK_MSG_HLEN, &value, 4);
	loop_inject(&net, to, bytes, sizeof(bytes));
}

TEST(latest_wins)
{
	struct seen seen = {0};
	struct hk_rtc_type t = {
		.name = "t", .class = HK_RTC_LATEST, .on_message = note, .arg = &seen};
	static const uint32_t numbers[] = {5, 4, 5, 6, 9, 7, 0xfffffff0, 10};

	open_all(2);
	add_type(node[0], 0, &t);
	meet(2);
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
	CHECK(dst == 0 && number != 0);
	given_up++;
}

/* The first reply is lost. The request comes again, is not handled again, and gets the stored
 * reply. */
TEST(retry_until_answered)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {
		.name = "q", .class = HK_RTC_RETRY, .on_message = add_one, .arg = &asked};
	struct hk_rtc_type client = {.name = "q",
				     .class = HK_RTC_RETRY,
				     .on_reply = note,
				     .on_given_up = on_given_up,
				     .arg = &answered};

	given_up = 0;
	open_two(3, &server, &client);
	send_value(node[1], 0, 3, 41);
	net.now += 5 * HK_USEC;
	net.cut[1] = true; /* the request has left; the reply will be lost */
	hk_rtc_poll(node[0]);
	CHECK_EQ(asked.messages, 1);
	net.cut[1] = false;
	loop_run(&net, node, 2, 50, 100 * HK_USEC);
	CHECK_EQ(asked.messages, 1);
	CHECK_EQ(answered.messages, 1);
	CHECK_EQ(answered.values[0], 42);
	CHECK_EQ(stats_of(node[0], 3).repeated, 1);
	CHECK_EQ(stats_of(node[1], 3).retries, 1);
	/* no retries after the reply */
	loop_run(&net, node, 2, 100, HK_MSEC);
	CHECK_EQ(stats_of(node[1], 3).retries, 1);
	CHECK_EQ(given_up, 0);
	close_all(2);
}

/* If the handler drops a request, the reply has no payload. */
TEST(dropped_request_is_answered)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {
		.name = "q", .class = HK_RTC_RETRY, .on_message = note, .arg = &asked};
	struct hk_rtc_type client = {
		.name = "q", .class = HK_RTC_RETRY, .on_reply = note, .arg = &answered};

	open_two(3, &server, &client);
	send_value(node[1], 0, 3, 41);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	CHECK_EQ(asked.messages, 1);
	CHECK_EQ(answered.messages, 1);
	CHECK_EQ(answered.values[0], 0); /* no payload */
	close_all(2);
}

/* Messages of the other classes get no reply that the handler did not ask for. */
TEST(only_a_request_is_answered_by_default)
{
	for (enum hk_rtc_class class = HK_RTC_BEST_EFFORT; class < HK_RTC_RETRY; class ++) {
		struct seen asked = {0}, answered = {0};
		struct hk_rtc_type server = {
			.name = "q", .class = class, .on_message = note, .arg = &asked};
		struct hk_rtc_type client = {
			.name = "q", .class = class, .on_reply = note, .arg = &answered};

		open_two(3, &server, &client);
		send_value(node[1], 0, 3, 41);
		loop_run(&net, node, 2, 20, 2 * HK_USEC);
		CHECK_EQ(asked.messages, 1);
		CHECK_EQ(answered.messages, 0);
		close_all(2);
	}
}

TEST(never_answered)
{
	struct hk_rtc_type t = {.name = "q",
				.class = HK_RTC_RETRY,
				.on_given_up = on_given_up,
				.timeout_us = 100,
				.tries = 3};
	struct hk_rtc_type silent = {.name = "q"};
	int rc = 0;
	unsigned sent = 0;

	given_up = 0;
	open_two(3, &silent, &t);
	while ((rc = hk_rtc_send(node[1], 0, 3, "x", 1, NULL)) == 0)
		sent++;
	CHECK_EQ(rc, -EAGAIN);
	CHECK_EQ(sent, 512 / 4); /* a quarter of the buffers */
	/* sent at 0, 100 and 300 µs; given up at 700 µs */
	loop_run(&net, node, 2, 6, 100 * HK_USEC);
	CHECK_EQ(given_up, 0);
	loop_run(&net, node, 2, 12, 50 * HK_USEC);
	CHECK_EQ(given_up, sent);
	CHECK_EQ(stats_of(node[1], 3).retries, 2 * sent);
	CHECK_EQ(stats_of(node[1], 3).given_up, sent);
	CHECK_EQ(hk_rtc_send(node[1], 0, 3, "x", 1, NULL), 0);
	/* the node leaves, so its requests are given up at once */
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
		m[i].action = HK_RTC_DEFER;
}

/* Without handler threads a deferred message is handled again when no message arrives. */
TEST(defer_on_the_core)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {.name = "d", .on_message = defer_some, .arg = &asked};
	struct hk_rtc_type client = {.name = "d", .on_reply = note, .arg = &answered};

	defers_left = 5;
	open_two(3, &server, &client);
	for (uint32_t i = 0; i < 10; i++)
		send_value(node[1], 0, 3, 10 * i);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	CHECK_EQ(asked.messages, 15);
	CHECK_EQ(answered.messages, 10);
	CHECK_EQ(stats_of(node[0], 3).deferred, 5);
	/* without space they are dropped and counted */
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
	uint64_t cost; /* cost of a message in ns of the test's clock */
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
	while (answered->messages < want) { /* the test's time limit also ends this loop */
		/* while the thread measures, only its handler advances time */
		if (hk_rtc_threads_outstanding(node[0]->threads) == 0)
			__atomic_fetch_add(&net.now, 5 * HK_USEC, __ATOMIC_SEQ_CST);
		hk_rtc_poll(node[0]);
		hk_rtc_poll(node[1]);
	}
}

/* Opens two nodes that are members of each other. Node 0 serves type 3 and has a handler thread.
 * @timeout_ms: node 0's limit for it at the end (0: default). */
static void open_with_thread(unsigned timeout_ms, const struct hk_rtc_type *server,
			     const struct hk_rtc_type *client)
{
	struct hk_rtc_config c = config(0, 2);

	loop_init(&net, 1);
	c.threads = 1;
	c.timeout_ms = timeout_ms;
	node[0] = loop_open(&net, &c, 1);
	c = config(1, 2);
	node[1] = loop_open(&net, &c, 1);
	add_type(node[0], 3, server);
	add_type(node[1], 3, client);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
}

/* A type over its budget moves to a handler thread; when it costs less, it moves back. */
TEST(budget)
{
	struct seen answered = {0};
	struct slow slow = {.cost = 50, .core = pthread_self()};
	struct hk_rtc_type server = {
		.name = "s", .on_message = be_slow, .arg = &slow, .budget_ns = 100};
	struct hk_rtc_type client = {.name = "s", .on_reply = note, .arg = &answered};

	open_with_thread(0, &server, &client);
	for (unsigned i = 0; i < 20; i++)
		ask_and_wait(&answered, 8);
	CHECK_EQ(slow.elsewhere, 0);
	CHECK_EQ(stats_of(node[0], 3).recent_ns, 46); /* approaching 50 */
	CHECK_EQ(stats_of(node[0], 3).bursts_over_budget, 0);
	slow.cost = 150;
	for (unsigned i = 0; i < 40; i++)
		ask_and_wait(&answered, 8);
	CHECK(slow.elsewhere >= 100);
	CHECK_EQ(stats_of(node[0], 3).deferred, slow.elsewhere);
	CHECK(stats_of(node[0], 3).bursts_over_budget > 0);
	CHECK(stats_of(node[0], 3).thread_ns >= 100 * 150);
	unsigned before = slow.on_core;
	slow.cost = 10;
	for (unsigned i = 0; i < 40; i++)
		ask_and_wait(&answered, 8);
	CHECK(slow.on_core > before);
	CHECK_EQ(stats_of(node[0], 3).messages, slow.on_core + slow.elsewhere);
	CHECK_EQ(answered.messages, 800);
	close_all(2);
}

static atomic_int may_return; /* 0: the handler waits; 1: it may return; 2: it has returned */

static void hang(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	while (atomic_load(&may_return) == 0)
		sched_yield();
	atomic_store(&may_return, 2);
}

static void defer(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	if (pthread_equal(pthread_self(), *(pthread_t *)arg)) {
		for (unsigned i = 0; i < n; i++)
			m[i].action = HK_RTC_DEFER;
		return;
	}
	hang(r, arg, m, n);
}

/* A handler that does not return does not keep a program from ending, and the other node gets the
 * leave message. */
TEST(close_with_a_handler_that_hangs)
{
	pthread_t core = pthread_self();
	struct hk_rtc_type server = {.name = "s", .on_message = defer, .arg = &core};
	struct hk_rtc_type client = {.name = "s"};

	open_with_thread(20, &server, &client);
	send_value(node[1], 0, 3, 7);
	hk_rtc_flush(node[1]);
	loop_run(&net, node, 2, 5, 2 * HK_USEC);
	CHECK_EQ(hk_rtc_threads_outstanding(node[0]->threads), 1);
	CHECK_EQ(hk_rtc_close(node[0]), -ETIMEDOUT);
	CHECK_EQ(hk_rtc_members(node[0]), 2); /* its memory still exists */
	loop_run(&net, &node[1], 1, 5, 2 * HK_USEC);
	CHECK_EQ(hk_rtc_members(node[1]), 1);
	atomic_store(&may_return, 1);
	while (atomic_load(&may_return) != 2)
		sched_yield();
	CHECK_EQ(hk_rtc_close(node[0]),
		 0); /* now it is freed, so that leak checkers do not report it */
	node[0] = NULL;
	close_all(2);
}

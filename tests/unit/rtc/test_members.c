/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_members.c: timers, waiting for all nodes, and membership.
 */
#include "tests/unit/rtc/node_rig.h"

#include <errno.h>

/* ---- time ------------------------------------------------------------------------------------ */

static unsigned ticks;

static void tick(struct hk_rtc *r, void *arg)
{
	ticks += *(unsigned *)arg;
}

TEST(timers)
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
	hk_rtc_cancel(node[0], b); /* no effect: the timer has ended */
	int c = hk_rtc_timer(node[0], HK_USEC, 0, tick, &thousand);
	hk_rtc_cancel(node[0], b); /* no effect on the timer that uses its entry now */
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

/* The wait ends, and its error names the missing nodes. */
TEST(wait_for_all)
{
	loop_init(&net, 1);
	struct hk_rtc_config c = config(1, 4);
	c.timeout_ms = 5;
	node[0] = NULL;
	node[1] = loop_open(&net, &c, 1);
	net.step = HK_MSEC; /* for each reading of the clock */
	CHECK_REFUSED(hk_rtc_wait_all(node[1], ERR), -ETIMEDOUT,
		      "3 of 4 nodes did not join within 5 ms: 0, 2, 3; fix: ");
	hk_rtc_stop(node[1]);
	CHECK_EQ(hk_rtc_wait_all(node[1], ERR), -ECANCELED);
	net.step = 0;
	close_all(2);
}

/* ---- members --------------------------------------------------------------------------------- */

static int balance[4];

static void on_member(struct hk_rtc *r, void *arg, uint16_t n, bool joined)
{
	balance[n] += joined ? 1 : -1;
	CHECK(balance[n] == 0 || balance[n] == 1);
}

TEST(members_come_and_go)
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
	const uint16_t *neighbour = hk_rtc_neighbours(node[0], &n);
	CHECK(n == 2 && neighbour[0] == 1 && neighbour[1] == 2);
	/* a node that leaves is removed at once */
	loop_close(&net, node[1], false);
	node[1] = NULL;
	loop_run(&net, node, 3, 5, 5 * HK_USEC);
	CHECK(!hk_rtc_is_member(node[0], 1) && hk_rtc_is_member(node[0], 2));
	/* a node that crashes is removed after a second */
	loop_close(&net, node[2], true);
	node[2] = NULL;
	loop_run(&net, node, 3, 90, 10 * HK_MSEC);
	CHECK(hk_rtc_is_member(node[0], 2));
	loop_run(&net, node, 3, 30, 10 * HK_MSEC);
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	CHECK_EQ(hk_rtc_pick(node[0]), -1);
	/* it comes back, and restarts again before the others notice its end */
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

/* A node that could not poll for a long time does not remove the others. */
TEST(long_absence)
{
	struct hk_rtc_stats s;

	open_all(2);
	meet(2);
	for (unsigned i = 0; i < 100; i++)
		/* node 0 does not poll for ten seconds */
		loop_run(&net, node + 1, 1, 1, 100 * HK_MSEC);
	loop_run(&net, node, 2, 30, 50 * HK_MSEC);
	hk_rtc_stats(node[0], &s);
	CHECK(s.lost == 0 && hk_rtc_members(node[0]) == 2);
	CHECK_EQ(hk_rtc_members(node[1]), 2);
	close_all(2);
}

/* A node that was lost and returns is the same incarnation: its earlier requests are not
 * handled again. */
TEST(lost_and_back)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_stats s;
	struct hk_rtc_type server = {
		.name = "q", .class = HK_RTC_RETRY, .on_message = add_one, .arg = &asked};
	struct hk_rtc_type client = {.name = "q",
				     .class = HK_RTC_RETRY,
				     .on_reply = note,
				     .arg = &answered,
				     .timeout_us = 2000000};

	open_two(3, &server, &client);
	send_value(node[1], 0, 3, 41);
	net.mute[0] = true; /* the reply is lost */
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

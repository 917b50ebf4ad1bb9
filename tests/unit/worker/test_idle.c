/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_idle.c: when a rank that waits sleeps in place of a yield.
 */
#include "worker/idle.h"
#include "tests/support/hk_test.h"

#define QUICK (2 * HK_USEC)
#define TURN  (3 * HK_MSEC) /* what a yield takes beside a task that computes */

/* Polls in vain until it must sleep, at most @most times; a yield takes @yield. Returns the number
 * of yields. */
static unsigned yields_before_sleep(struct hk_idle *i, uint64_t *now, uint64_t yield, unsigned most)
{
	for (unsigned n = 0; n < most; n++) {
		if (hk_idle_poll(i, *now, false, false))
			return n;
		*now += yield;
	}
	return most;
}

/* From the first sleep, which the caller has seen, to the next yield, which takes @yield. Returns
 * the number of sleeps. */
static unsigned sleeps_before_yield(struct hk_idle *i, uint64_t *now, uint64_t yield)
{
	unsigned n = 1;

	while (hk_idle_poll(i, *now, false, false)) {
		*now += HK_IDLE_SLEEP;
		n++;
		i->polls = 0; /* sleeps without frames are another test's */
	}
	*now += yield;
	return n;
}

/* Quick yields continue until nothing has arrived for long. Then the rank sleeps until something
 * arrives. */
TEST(yields_that_are_quick_go_on)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int k = 0; k < 100; k++) {
		CHECK_EQ(yields_before_sleep(&i, &now, QUICK, HK_IDLE_POLLS - 1),
			 HK_IDLE_POLLS - 1);
		hk_idle_busy(&i);
	}
	CHECK_EQ(yields_before_sleep(&i, &now, QUICK, 100000), HK_IDLE_POLLS);
	for (int k = 0; k < 100; k++)
		CHECK_EQ(hk_idle_poll(&i, now += HK_IDLE_SLEEP, false, false), HK_IDLE_SLEEP);
	hk_idle_busy(&i);
	CHECK_EQ(yields_before_sleep(&i, &now, QUICK, 100000), HK_IDLE_POLLS);
}

/* Beside a task that computes, the backoff doubles up to its maximum. */
TEST(slow_yields_are_replaced)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;
	unsigned want = HK_IDLE_BACKOFF_FIRST;

	for (int round = 0; round < 12; round++) {
		unsigned n = yields_before_sleep(&i, &now, TURN, 100);

		CHECK_MSG(n <= 2, "%u yields before the sleeps of round %d", n, round);
		CHECK_EQ(sleeps_before_yield(&i, &now, TURN), want);
		want = HK_MIN(2 * want, (unsigned)HK_IDLE_BACKOFF_MAX);
	}
	/* the core is free again: yields, and then a short round if it is not */
	hk_idle_busy(&i);
	CHECK_EQ(yields_before_sleep(&i, &now, QUICK, 500), 500);
	CHECK(yields_before_sleep(&i, &now, TURN, 100) < 4);
	CHECK_EQ(sleeps_before_yield(&i, &now, QUICK), HK_IDLE_BACKOFF_FIRST);
}

/* Between two polls the application computes: that does not count as a slow yield. */
TEST(computing_is_no_slow_yield)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int k = 0; k < 1000; k++) {
		CHECK_EQ(yields_before_sleep(&i, &now, QUICK, 5), 5);
		now += 20 * HK_MSEC;
		CHECK_EQ(hk_idle_poll(&i, now, false, false), 0);
		now += QUICK;
		hk_idle_busy(&i);
		now += 20 * HK_MSEC;
	}
}

/* A silent peer may need this very core, and yields do not give it to another session. */
TEST(the_core_is_left_to_a_silent_peer)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;
	unsigned check_count = 0, sleeps = 0;

	for (int k = 0; k < 6400; k++) {
		if (i.polls >= 640)
			i.polls = 0; /* other peers send */
		bool checks = hk_idle_checks_silence(&i);

		check_count += checks;
		sleeps += hk_idle_poll(&i, now, checks, false) > 0;
		now += QUICK;
	}
	CHECK(check_count >= 40 && check_count <= 100);
	CHECK_MSG(sleeps >= 3000, "%u sleeps of 6400 polls", sleeps);
	/* the peer sends */
	hk_idle_busy(&i);
	while (hk_idle_poll(&i, now, false, false))
		now += HK_IDLE_SLEEP;
	CHECK_EQ(yields_before_sleep(&i, &now, QUICK, 500), 500);
}

/* While its receivers accept nothing, the rank leaves its turns to others. Afterwards it yields as
 * before. */
TEST(the_core_is_left_to_others_while_receivers_take_nothing)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int round = 0; round < 10; round++) {
		unsigned yields = 0;

		while (!hk_idle_checks_not_polling(&i)) {
			CHECK_EQ(hk_idle_poll(&i, now += QUICK, false, false), 0);
			yields++;
		}
		CHECK_EQ(yields, HK_IDLE_BLOCKED_POLLS);
		for (int k = 0; k < 20; k++)
			CHECK_EQ(hk_idle_poll(&i, now += HK_IDLE_SLEEP, false, true),
				 HK_IDLE_SLEEP);
		CHECK_EQ(hk_idle_poll(&i, now += HK_IDLE_SLEEP, false, false), 0);
		hk_idle_busy(&i);
	}
}

/* A rank that shares its core is expected after the turns of the others; one long turn is forgotten
 * in time. */
TEST(is_expected_after_the_turns_of_others)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	(void)hk_idle_poll(&i, now, false, false);
	CHECK_EQ(hk_idle_next_poll_at(&i), now);
	for (int k = 0; k < 100; k++) {
		now += QUICK;
		(void)hk_idle_poll(&i, now, false, false);
		CHECK_EQ(hk_idle_next_poll_at(&i), now + QUICK);
	}
	now += 30 * QUICK;
	(void)hk_idle_poll(&i, now, false, false);
	CHECK_EQ(hk_idle_next_poll_at(&i), now + 30 * QUICK);
	for (int k = 0; k < 100; k++)
		(void)hk_idle_poll(&i, now += QUICK, false, false);
	CHECK_CMP(hk_idle_next_poll_at(&i), <, now + 2 * QUICK + 8);
	(void)hk_idle_poll(&i, now += HK_IDLE_LATE_MAX, false, false);
	CHECK_EQ(hk_idle_next_poll_at(&i), now + HK_IDLE_LATE_MAX);
	/* time in which frames arrive does not count as a turn of others */
	hk_idle_busy(&i);
	uint64_t late = i.late;

	(void)hk_idle_poll(&i, now += HK_IDLE_LATE_MAX, false, false);
	CHECK_CMP(i.late, <, late);
}

/* Computation between two polls does not count as turns of others. */
TEST(computing_is_no_turn_of_others)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int k = 0; k < 100; k++) {
		(void)hk_idle_poll(&i, now += TURN, false, false);
		CHECK_EQ(i.late, 0);
		i.polls = i.sleeps_left = 0; /* sleeps are another test's */
	}
}

/* A sleep lasts at least as long as requested. */
TEST(a_sleep_is_no_turn_of_others)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	CHECK_EQ(hk_idle_poll(&i, now, true, false), HK_IDLE_SLEEP);
	CHECK_EQ(hk_idle_next_poll_at(&i), now + HK_IDLE_SLEEP);
	now += HK_IDLE_SLEEP + 3 * HK_USEC;
	CHECK_EQ(hk_idle_poll(&i, now, true, false), HK_IDLE_SLEEP);
	CHECK_EQ(hk_idle_next_poll_at(&i), now + HK_IDLE_SLEEP + 3 * HK_USEC);
}

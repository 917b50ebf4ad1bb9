/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mpi/test_idle.c: when a rank that waits sleeps in place of a yield.
 */
#include "mpi/idle.h"
#include "tests/unit/hk_test.h"

#define QUICK (2 * HK_USEC)
#define TURN  (3 * HK_MSEC) /* what a yield takes beside a task that computes */

/* Polls in vain until it is to sleep, at most @most times; a yield takes @yield. Returns the yields. */
static unsigned yields_before_nap(struct hk_idle *i, uint64_t *now, uint64_t yield, unsigned most)
{
	for (unsigned n = 0; n < most; n++) {
		if (hk_idle_poll(i, *now, false, false))
			return n;
		*now += yield;
	}
	return most;
}

/* From the first nap, which the caller was told of, to the next yield, which takes @yield. Returns the naps. */
static unsigned naps_before_yield(struct hk_idle *i, uint64_t *now, uint64_t yield)
{
	unsigned n = 1;

	while (hk_idle_poll(i, *now, false, false)) {
		*now += HK_IDLE_NAP;
		n++;
		i->polls = 0; /* naps for want of frames are another test's */
	}
	*now += yield;
	return n;
}

/* Until nothing has come for long; then there are naps until something comes. */
static void yields_that_are_quick_go_on(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int k = 0; k < 100; k++) {
		CHECK_EQ(yields_before_nap(&i, &now, QUICK, HK_IDLE_LONG - 1), HK_IDLE_LONG - 1);
		hk_idle_busy(&i);
	}
	CHECK_EQ(yields_before_nap(&i, &now, QUICK, 100000), HK_IDLE_LONG);
	for (int k = 0; k < 100; k++)
		CHECK_EQ(hk_idle_poll(&i, now += HK_IDLE_NAP, false, false), HK_IDLE_NAP);
	hk_idle_busy(&i);
	CHECK_EQ(yields_before_nap(&i, &now, QUICK, 100000), HK_IDLE_LONG);
}

/* Beside who computes a rank is not asleep for long: it sleeps more and more, not for ever. */
static void slow_yields_are_replaced(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;
	unsigned want = HK_IDLE_FIRST;

	for (int round = 0; round < 12; round++) {
		unsigned n = yields_before_nap(&i, &now, TURN, 100);

		CHECK_MSG(n <= 2, "%u yields before the naps of round %d", n, round);
		CHECK_EQ(naps_before_yield(&i, &now, TURN), want);
		want = HK_MIN(2 * want, (unsigned)HK_IDLE_MOST);
	}
	/* the core is free again: yields, and then a short round if it is not */
	hk_idle_busy(&i);
	CHECK_EQ(yields_before_nap(&i, &now, QUICK, 500), 500);
	CHECK(yields_before_nap(&i, &now, TURN, 100) < 4);
	CHECK_EQ(naps_before_yield(&i, &now, QUICK), HK_IDLE_FIRST);
}

/* Between two polls the application computes: that is no yield that took long. */
static void computing_is_no_slow_yield(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int k = 0; k < 1000; k++) {
		CHECK_EQ(yields_before_nap(&i, &now, QUICK, 5), 5);
		now += 20 * HK_MSEC;
		CHECK_EQ(hk_idle_poll(&i, now, false, false), 0);
		now += QUICK;
		hk_idle_busy(&i);
		now += 20 * HK_MSEC;
	}
}

/* Whoever is silent may need this very core, which yields do not give to another session. */
static void the_core_is_left_to_a_silent_peer(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;
	unsigned looks = 0, naps = 0;

	for (int k = 0; k < 6400; k++) {
		if (i.polls >= 640)
			i.polls = 0; /* others say something */
		bool look = hk_idle_looks(&i);

		looks += look;
		naps += hk_idle_poll(&i, now, look, false) > 0;
		now += QUICK;
	}
	CHECK(looks >= 40 && looks <= 100);
	CHECK_MSG(naps >= 3000, "%u naps of 6400 polls", naps);
	/* it speaks */
	hk_idle_busy(&i);
	while (hk_idle_poll(&i, now, false, false))
		now += HK_IDLE_NAP;
	CHECK_EQ(yields_before_nap(&i, &now, QUICK, 500), 500);
}

/* While its receivers take nothing, its turns are left to others; once they do it yields as before. */
static void the_core_is_left_to_others_while_receivers_take_nothing(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int round = 0; round < 10; round++) {
		unsigned yields = 0;

		while (!hk_idle_looks_held(&i)) {
			CHECK_EQ(hk_idle_poll(&i, now += QUICK, false, false), 0);
			yields++;
		}
		CHECK_EQ(yields, HK_IDLE_HELD);
		for (int k = 0; k < 20; k++)
			CHECK_EQ(hk_idle_poll(&i, now += HK_IDLE_NAP, false, true), HK_IDLE_NAP);
		CHECK_EQ(hk_idle_poll(&i, now += HK_IDLE_NAP, false, false), 0);
		hk_idle_busy(&i);
	}
}

/* Who shares its core with others is expected when their turns are over; not for ever, if these took long once. */
static void is_expected_after_the_turns_of_others(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	(void)hk_idle_poll(&i, now, false, false);
	CHECK_EQ(hk_idle_back_at(&i), now);
	for (int k = 0; k < 100; k++) {
		now += QUICK;
		(void)hk_idle_poll(&i, now, false, false);
		CHECK_EQ(hk_idle_back_at(&i), now + QUICK);
	}
	now += 30 * QUICK;
	(void)hk_idle_poll(&i, now, false, false);
	CHECK_EQ(hk_idle_back_at(&i), now + 30 * QUICK);
	for (int k = 0; k < 100; k++)
		(void)hk_idle_poll(&i, now += QUICK, false, false);
	CHECK_CMP(hk_idle_back_at(&i), <, now + 2 * QUICK + 8);
	(void)hk_idle_poll(&i, now += HK_IDLE_LATE, false, false);
	CHECK_EQ(hk_idle_back_at(&i), now + HK_IDLE_LATE);
	/* what passes while something comes is nobody's turn */
	hk_idle_busy(&i);
	uint64_t late = i.late;

	(void)hk_idle_poll(&i, now += HK_IDLE_LATE, false, false);
	CHECK_CMP(i.late, <, late);
}

/* Who computes between two polls is away as soon as ever. */
static void computing_is_no_turn_of_others(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	for (int k = 0; k < 100; k++) {
		(void)hk_idle_poll(&i, now += TURN, false, false);
		CHECK_EQ(i.late, 0);
		i.polls = i.naps = 0; /* naps are another test's */
	}
}

/* A nap lasts as long as it is meant to, and then some. */
static void a_nap_is_no_turn_of_others(void)
{
	struct hk_idle i = {0};
	uint64_t now = HK_SEC;

	CHECK_EQ(hk_idle_poll(&i, now, true, false), HK_IDLE_NAP);
	CHECK_EQ(hk_idle_back_at(&i), now + HK_IDLE_NAP);
	now += HK_IDLE_NAP + 3 * HK_USEC;
	CHECK_EQ(hk_idle_poll(&i, now, true, false), HK_IDLE_NAP);
	CHECK_EQ(hk_idle_back_at(&i), now + HK_IDLE_NAP + 3 * HK_USEC);
}

int main(int argc, char **argv)
{
	static const struct hk_test table[] = {
		{"yields_that_are_quick_go_on", yields_that_are_quick_go_on},
		{"slow_yields_are_replaced", slow_yields_are_replaced},
		{"computing_is_no_slow_yield", computing_is_no_slow_yield},
		{"the_core_is_left_to_a_silent_peer", the_core_is_left_to_a_silent_peer},
		{"the_core_is_left_to_others_while_receivers_take_nothing",
		 the_core_is_left_to_others_while_receivers_take_nothing},
		{"is_expected_after_the_turns_of_others", is_expected_after_the_turns_of_others},
		{"computing_is_no_turn_of_others", computing_is_no_turn_of_others},
		{"a_nap_is_no_turn_of_others", a_nap_is_no_turn_of_others},
	};
	return hk_test_main(argc, argv, table, HK_ARRAY_LEN(table));
}

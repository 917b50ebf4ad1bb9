/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_cpu_budget.c: when a core counts as crowded, and how long the switch may
 * have the priority there.
 */
#include "hostd/cpu_budget.h"
#include "tests/support/hk_test.h"

#define QUICK (5 * HK_USEC)
#define TURN  (4 * HK_MSEC) /* a yield beside a thread that computes: one tick */

/* Reports one yield. Returns how long the core counts as crowded after it. */
static uint64_t crowded_for(struct hk_cpu_budget *p, uint64_t *now, uint64_t yield)
{
	uint64_t end, before = *now;

	*now += yield;
	hk_cpu_budget_yielded(p, before, *now);
	for (end = *now; hk_cpu_budget_crowded(p, end); end += HK_MSEC)
		;
	return end - *now;
}

TEST(quick_yields_go_on)
{
	struct hk_cpu_budget p;
	uint64_t now = HK_SEC;

	hk_cpu_budget_init(&p, HK_SEC);
	CHECK(!hk_cpu_budget_crowded(&p, now));
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(crowded_for(&p, &now, QUICK), 0);
}

/* The switch tries yields again, less and less often, without an end. */
TEST(slow_yields_end_for_a_while)
{
	struct hk_cpu_budget p;
	uint64_t now = HK_SEC, want = HK_CPU_BUDGET_MIN_CROWDED;

	hk_cpu_budget_init(&p, HK_SEC);
	for (int i = 0; i < 10; i++) {
		uint64_t got = crowded_for(&p, &now, TURN);

		CHECK_EQ(got, want);
		now += got;
		want = HK_MIN(2 * want, HK_CPU_BUDGET_MAX_CROWDED);
	}
	CHECK_EQ(crowded_for(&p, &now, QUICK), 0); /* no thread computes any longer */
	CHECK_EQ(crowded_for(&p, &now, TURN), HK_CPU_BUDGET_MIN_CROWDED);
}

/* The clock may have any rate: here 2.6 ticks per ns. */
TEST(times_are_the_clock_s)
{
	struct hk_cpu_budget p;
	uint64_t slow = HK_CPU_BUDGET_SLOW_YIELD * 26 / 10,
		 first = HK_CPU_BUDGET_MIN_CROWDED * 26 / 10;

	hk_cpu_budget_init(&p, 2600 * UINT64_C(1000000));
	hk_cpu_budget_yielded(&p, 100, 100 + slow - 1);
	CHECK(!hk_cpu_budget_crowded(&p, 100 + slow - 1));
	hk_cpu_budget_yielded(&p, 100, 100 + slow);
	CHECK(hk_cpu_budget_crowded(&p, 100 + slow + first - 1));
	CHECK(!hk_cpu_budget_crowded(&p, 100 + slow + first));
}

/* Frames come one by one: work with the priority and pauses without it alternate, and the switch
 * makes longer pauses if it must. */
TEST(no_longer_with_priority_than_without)
{
	static const uint64_t works[] = {1, 8, 50, 500}, sleeps[] = {0, 2, 8, 100, 1000};
	struct hk_cpu_budget p;

	for (size_t w = 0; w < HK_ARRAY_LEN(works); w++) {
		for (size_t s = 0; s < HK_ARRAY_LEN(sleeps); s++) {
			uint64_t with = 0, without = 0, forced = 0, work = works[w] * HK_USEC,
				 turns = 10000;

			hk_cpu_budget_init(&p, HK_SEC);
			for (uint64_t i = 0; i < turns; i++) {
				uint64_t pause = sleeps[s] * HK_USEC;

				hk_cpu_budget_spend(&p, work);
				with += work;
				if (hk_cpu_budget_left(&p) == 0) {
					pause = HK_MAX(pause, hk_cpu_budget_wait_ns(&p));
					forced++;
				}
				hk_cpu_budget_refund(&p, pause);
				without += pause;
				CHECK_CMP(with, <=, without + HK_CPU_BUDGET + work);
			}
			/* no pause is forced if the switch sleeps long enough by itself */
			if (works[w] <= sleeps[s] && work < HK_CPU_BUDGET)
				CHECK_EQ(forced, 0);
		}
	}
}

/* After any work, a bounded sleep restores the balance. After any sleep, the balance is one budget.
 */
TEST(the_balance_is_bounded)
{
	struct hk_cpu_budget p;

	hk_cpu_budget_init(&p, 2600 * UINT64_C(1000000));
	CHECK_EQ(hk_cpu_budget_left(&p), HK_CPU_BUDGET * 26 / 10);
	hk_cpu_budget_spend(&p, UINT64_MAX);
	CHECK_EQ(hk_cpu_budget_left(&p), 0);
	uint64_t fast = hk_cpu_budget_wait_ns(&p);

	CHECK_EQ(fast, HK_CPU_BUDGET_MAX_DEBT + HK_CPU_BUDGET / 2);
	hk_cpu_budget_refund(&p, fast * 26 / 10);
	CHECK_EQ(hk_cpu_budget_left(&p), HK_CPU_BUDGET * 26 / 10 / 2);
	hk_cpu_budget_refund(&p, UINT64_MAX);
	CHECK_EQ(hk_cpu_budget_left(&p), HK_CPU_BUDGET * 26 / 10);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_pace.c: when the switch takes its core for crowded.
 */
#include "host/pace.h"
#include "tests/unit/hk_test.h"

#define QUICK (5 * HK_USEC)
#define TURN  (4 * HK_MSEC) /* what a yield takes beside a task that computes: a tick */

/* One yield; how long the core counts as crowded from its end on. */
static uint64_t crowded_for(struct hk_pace *p, uint64_t *now, uint64_t yield)
{
	uint64_t end, before = *now;

	*now += yield;
	hk_pace_yielded(p, before, *now);
	for (end = *now; hk_pace_crowded(p, end); end += HK_MSEC)
		;
	return end - *now;
}

static void quick_yields_go_on(void)
{
	struct hk_pace p;
	uint64_t now = HK_SEC;

	hk_pace_init(&p, HK_SEC);
	CHECK(!hk_pace_crowded(&p, now));
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(crowded_for(&p, &now, QUICK), 0);
}

/* They are tried again, less and less often, but never given up. */
static void slow_yields_end_for_a_while(void)
{
	struct hk_pace p;
	uint64_t now = HK_SEC, want = HK_PACE_FIRST;

	hk_pace_init(&p, HK_SEC);
	for (int i = 0; i < 10; i++) {
		uint64_t got = crowded_for(&p, &now, TURN);

		CHECK_EQ(got, want);
		now += got;
		want = HK_MIN(2 * want, HK_PACE_MOST);
	}
	CHECK_EQ(crowded_for(&p, &now, QUICK), 0); /* it computes no more */
	CHECK_EQ(crowded_for(&p, &now, TURN), HK_PACE_FIRST);
}

/* The clock may be any: here it ticks 2.6 times a ns. */
static void times_are_the_clock_s(void)
{
	struct hk_pace p;
	uint64_t slow = HK_PACE_SLOW * 26 / 10, first = HK_PACE_FIRST * 26 / 10;

	hk_pace_init(&p, 2600 * UINT64_C(1000000));
	hk_pace_yielded(&p, 100, 100 + slow - 1);
	CHECK(!hk_pace_crowded(&p, 100 + slow - 1));
	hk_pace_yielded(&p, 100, 100 + slow);
	CHECK(hk_pace_crowded(&p, 100 + slow + first - 1));
	CHECK(!hk_pace_crowded(&p, 100 + slow + first));
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"quick_yields_go_on", quick_yields_go_on},
		{"slow_yields_end_for_a_while", slow_yields_end_for_a_while},
		{"times_are_the_clock_s", times_are_the_clock_s},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

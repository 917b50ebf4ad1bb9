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

/* Frames that come one by one: it works, and sleeps, or works as others do, in turn; and sleeps longer if it must. */
static void prompt_no_longer_than_else(void)
{
	static const uint64_t works[] = {1, 8, 50, 500}, sleeps[] = {0, 2, 8, 100, 1000};
	struct hk_pace p;

	for (size_t w = 0; w < HK_ARRAY_LEN(works); w++) {
		for (size_t s = 0; s < HK_ARRAY_LEN(sleeps); s++) {
			uint64_t prompt = 0, not_prompt = 0, forced = 0, work = works[w] * HK_USEC,
				 turns = 10000;

			hk_pace_init(&p, HK_SEC);
			for (uint64_t i = 0; i < turns; i++) {
				uint64_t pause = sleeps[s] * HK_USEC;

				hk_pace_prompt(&p, work);
				prompt += work;
				if (hk_pace_ration(&p) == 0) {
					pause = HK_MAX(pause, hk_pace_fast(&p));
					forced++;
				}
				hk_pace_else(&p, pause);
				not_prompt += pause;
				CHECK_CMP(prompt, <=, not_prompt + HK_PACE_RATION + work);
			}
			/* and is not kept from it who sleeps long enough by itself */
			if (works[w] <= sleeps[s] && work < HK_PACE_RATION)
				CHECK_EQ(forced, 0);
		}
	}
}

/* However long it was kept at its work, it may be prompt again after some sleep; however long it slept, it may
 * be for a ration. */
static void nothing_is_held_against_it_for_long(void)
{
	struct hk_pace p;

	hk_pace_init(&p, 2600 * UINT64_C(1000000));
	CHECK_EQ(hk_pace_ration(&p), HK_PACE_RATION * 26 / 10);
	hk_pace_prompt(&p, UINT64_MAX);
	CHECK_EQ(hk_pace_ration(&p), 0);
	uint64_t fast = hk_pace_fast(&p);

	CHECK_EQ(fast, HK_PACE_DEBT + HK_PACE_RATION / 2);
	hk_pace_else(&p, fast * 26 / 10);
	CHECK_EQ(hk_pace_ration(&p), HK_PACE_RATION * 26 / 10 / 2);
	hk_pace_else(&p, UINT64_MAX);
	CHECK_EQ(hk_pace_ration(&p), HK_PACE_RATION * 26 / 10);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"quick_yields_go_on", quick_yields_go_on},
		{"slow_yields_end_for_a_while", slow_yields_end_for_a_while},
		{"times_are_the_clock_s", times_are_the_clock_s},
		{"prompt_no_longer_than_else", prompt_no_longer_than_else},
		{"nothing_is_held_against_it_for_long", nothing_is_held_against_it_for_long},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

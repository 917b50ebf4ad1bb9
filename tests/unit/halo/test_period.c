/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/halo/test_period.c: sizes that repeat (halo/interpose/watch.h): what is found and when, against a
 * plain look back over all messages; schedules; what is learnt from one that did not hold.
 */
#include "halo/interpose/watch.h"
#include "tests/unit/hk_test.h"

#define MOST 400

/* The shortest period whose last two are alike, of @n messages; 0: none. What was before is as HK_SIZE_NONE. */
static int look_back(const uint32_t *bytes, int n)
{
	for (int p = 1; p <= HK_PERIOD_MOST && p < n; p++) {
		int k = n - p;

		while (k < n && bytes[k] == (k < p ? HK_SIZE_NONE : bytes[k - p]))
			k++;
		if (k == n && bytes[n - 1] != HK_SIZE_NONE)
			return p;
	}
	return 0;
}

static void found_as_a_look_back_finds(void)
{
	uint32_t bytes[MOST];

	for (int round = 0; round < 300; round++) {
		struct hk_watch w = {0};
		uint64_t from = hk_rng_below(&hk_test_rng, 1000);
		int period = (int)hk_rng_range(&hk_test_rng, 1, 40), n = 0;

		hk_watch_init(&w, from);
		for (; n < MOST; n++) {
			bytes[n] = n >= period && !hk_rng_chance(&hk_test_rng, 20000)
					   ? bytes[n - period]
					   : (uint32_t)hk_rng_below(&hk_test_rng, 4) * 100;
			if (bytes[n] == 300)
				bytes[n] = HK_SIZE_NONE;
			CHECK_EQ(hk_watch_note(&w, from + (uint64_t)n, bytes[n]),
				 look_back(bytes, n + 1));
		}
	}
}

static void a_schedule_goes_on_as_the_period(void)
{
	for (int round = 0; round < 300; round++) {
		struct hk_watch w = {0};
		struct hk_schedule s;
		uint64_t from = hk_rng_below(&hk_test_rng, 1000), at = from;
		int period = (int)hk_rng_range(&hk_test_rng, 1, HK_PERIOD_MOST), found = 0;
		uint32_t bytes[HK_PERIOD_MOST], base = (uint32_t)hk_rng_below(&hk_test_rng, 1000);

		/* The last size comes once in a period, so none that is shorter ends there. */
		for (int k = 0; k < period; k++)
			bytes[k] = base + (k == period - 1 ? 7 : (uint32_t)k % 7);
		hk_watch_init(&w, from);
		for (int k = 0; k < 2 * period; k++, at++)
			found = hk_watch_note(&w, at, bytes[k % period]);
		CHECK_EQ(found, period);
		CHECK(hk_watch_holds(&w, period));
		CHECK(hk_watch_schedule(&w, at - 1, period, &s));
		CHECK(hk_schedule_valid(&s));
		CHECK_EQ(s.sizes, HK_MIN(period, HK_STREAMS));
		for (uint64_t k = at; k < at + 100; k++)
			CHECK_EQ(s.bytes[hk_schedule_at(&s, k)],
				 bytes[(k - from) % (uint64_t)period]);
		CHECK_EQ(hk_watch_note(&w, at, base + 100), 0);
		CHECK(!hk_watch_holds(&w, period));
	}
}

static void no_schedule_of_too_many_or_too_large(void)
{
	struct hk_watch w = {0}, large = {0};
	struct hk_schedule s;

	hk_watch_init(&w, 0);
	hk_watch_init(&large, 0);
	for (int k = 0; k < 18; k++)
		CHECK_EQ(hk_watch_note(&w, (uint64_t)k, (uint32_t)k % 9), k == 17 ? 9 : 0);
	CHECK(!hk_watch_schedule(&w, 17, 9, &s));
	hk_watch_note(&large, 0, HK_SIZE_MOST + 1);
	CHECK_EQ(hk_watch_note(&large, 1, HK_SIZE_MOST + 1), 1);
	CHECK(!hk_watch_schedule(&large, 1, 1, &s));
	hk_watch_note(&large, 2, HK_SIZE_MOST);
	CHECK_EQ(hk_watch_note(&large, 3, HK_SIZE_MOST), 1);
	CHECK(hk_watch_schedule(&large, 3, 1, &s));
}

static void sleeps_where_nothing_repeats(void)
{
	struct hk_watch w = {0};
	uint64_t at = 0;

	for (hk_watch_init(&w, 0); at < 512; at++)
		CHECK_EQ(hk_watch_note(&w, at, (uint32_t)at), 0);
	for (; at < 512 + 16384 + 1; at++)
		CHECK_EQ(hk_watch_note(&w, at, 8), 0);
	CHECK_EQ(hk_watch_note(&w, at, 8), 1);
}

/* 8 bytes, and every eighth message 16. */
static uint32_t levels(uint64_t index)
{
	return index % 8 == 2 ? 16 : 8;
}

static void a_longer_period_is_learnt_from_what_was_strange(void)
{
	struct hk_watch w = {0};
	struct hk_schedule s;
	uint64_t at = 3;

	for (hk_watch_init(&w, 3); at < 5; at++)
		hk_watch_note(&w, at, 8);
	CHECK(hk_watch_schedule(&w, 4, 1, &s));
	hk_watch_strange(&w, 10, &s, 5);
	for (at = 10; at < 25; at++)
		CHECK_EQ(hk_watch_note(&w, at, levels(at)), at >= 20 ? 8 : 0);
}

static void a_short_period_that_did_not_hold_has_to_be_long(void)
{
	struct hk_watch w = {0};
	struct hk_schedule s = {.period = 1, .sizes = 1, .bytes = {8}};

	for (uint64_t strikes = 1, at = 100; strikes <= 4; strikes++, at += 1000) {
		uint64_t alike = (uint64_t)HK_PERIOD_MOST << strikes;

		hk_watch_strange(&w, at, &s, at - 50);
		CHECK_EQ(hk_watch_note(&w, at, 16), 0);
		for (uint64_t k = 1; k < alike && k < 500; k++)
			CHECK_EQ(hk_watch_note(&w, at + k, 8), 0);
		if (alike < 500)
			CHECK_EQ(hk_watch_note(&w, at + alike, 8), 1);
	}
}

static void what_the_other_end_sends_is_checked(void)
{
	const struct hk_schedule good = {
		.period = 2, .sizes = 2, .at = {0, 1}, .bytes = {HK_SIZE_MOST, 0}};
	struct hk_schedule s = good;

	CHECK(hk_schedule_valid(&s));
	s.period = 0;
	CHECK(!hk_schedule_valid(&s));
	s.period = HK_PERIOD_MOST + 1;
	CHECK(!hk_schedule_valid(&s));
	s = good;
	s.sizes = 0;
	CHECK(!hk_schedule_valid(&s));
	s.sizes = HK_STREAMS + 1;
	CHECK(!hk_schedule_valid(&s));
	s = good;
	s.at[1] = 2;
	CHECK(!hk_schedule_valid(&s));
	s = good;
	s.bytes[1] = HK_SIZE_MOST + 1;
	CHECK(!hk_schedule_valid(&s));
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"found_as_a_look_back_finds", found_as_a_look_back_finds},
		{"a_schedule_goes_on_as_the_period", a_schedule_goes_on_as_the_period},
		{"no_schedule_of_too_many_or_too_large", no_schedule_of_too_many_or_too_large},
		{"sleeps_where_nothing_repeats", sleeps_where_nothing_repeats},
		{"a_longer_period_is_learnt_from_what_was_strange",
		 a_longer_period_is_learnt_from_what_was_strange},
		{"a_short_period_that_did_not_hold_has_to_be_long",
		 a_short_period_that_did_not_hold_has_to_be_long},
		{"what_the_other_end_sends_is_checked", what_the_other_end_sends_is_checked},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

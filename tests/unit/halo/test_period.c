/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/halo/test_period.c: sizes that repeat (halo/promote/period.h). Which period is found
 * when, compared with a plain search over all messages; schedules; and the lesson from one that
 * ended early.
 */
#include "halo/promote/period.h"
#include "tests/support/hk_test.h"

#define MOST 400

/* The period that explains the most of @n messages, if its last two repetitions are alike; 0: none.
 * Sizes before the first count as HK_SIZE_NONE. */
static int search(const uint32_t *bytes, int n)
{
	int found = 0, most = 0;

	for (int p = 1; bytes[n - 1] != HK_SIZE_NONE && p <= HK_PERIOD_MAX; p++) {
		int run = 0;

		while (run < n && bytes[n - 1 - run] ==
					  (n - 1 - run < p ? HK_SIZE_NONE : bytes[n - 1 - run - p]))
			run++;
		if (run >= p && run + p > most) {
			most = run + p;
			found = p;
		}
	}
	return found;
}

TEST(found_as_a_plain_search_finds)
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
			CHECK_EQ(hk_watch_add(&w, from + (uint64_t)n, bytes[n]),
				 search(bytes, n + 1));
		}
	}
}

TEST(a_schedule_goes_on_as_the_period)
{
	for (int round = 0; round < 300; round++) {
		struct hk_watch w = {0};
		struct hk_schedule s;
		uint64_t from = hk_rng_below(&hk_test_rng, 1000), at = from;
		int period = (int)hk_rng_range(&hk_test_rng, 1, HK_PERIOD_MAX), found = 0;
		uint32_t bytes[HK_PERIOD_MAX], base = (uint32_t)hk_rng_below(&hk_test_rng, 1000);

		/* The last size occurs once in a period, so no shorter period ends there. */
		for (int k = 0; k < period; k++)
			bytes[k] = base + (k == period - 1 ? HK_STREAMS_MAX - 1
							   : (uint32_t)k % (HK_STREAMS_MAX - 1));
		hk_watch_init(&w, from);
		for (int k = 0; k < 2 * period; k++, at++)
			found = hk_watch_add(&w, at, bytes[k % period]);
		CHECK_EQ(found, period);
		CHECK(hk_watch_holds(&w, period));
		CHECK(hk_watch_schedule(&w, at - 1, period, &s));
		CHECK(hk_schedule_valid(&s));
		CHECK_EQ(s.sizes, HK_MIN(period, HK_STREAMS_MAX));
		for (uint64_t k = at; k < at + 100; k++)
			CHECK_EQ(s.bytes[hk_schedule_at(&s, k)],
				 bytes[(k - from) % (uint64_t)period]);
		CHECK_EQ(hk_watch_add(&w, at, base + 100), 0);
		CHECK(!hk_watch_holds(&w, period));
	}
}

TEST(no_schedule_of_too_many_or_too_large)
{
	struct hk_watch w = {0}, large = {0};
	struct hk_schedule s;

	hk_watch_init(&w, 0);
	hk_watch_init(&large, 0);
	for (uint32_t many = HK_STREAMS_MAX + 1, k = 0; k < 2 * many; k++)
		CHECK_EQ(hk_watch_add(&w, k, k % many), k == 2 * many - 1 ? (int)many : 0);
	CHECK(!hk_watch_schedule(&w, 2 * HK_STREAMS_MAX + 1, HK_STREAMS_MAX + 1, &s));
	hk_watch_add(&large, 0, HK_SIZE_MAX + 1);
	CHECK_EQ(hk_watch_add(&large, 1, HK_SIZE_MAX + 1), 1);
	CHECK(!hk_watch_schedule(&large, 1, 1, &s));
	hk_watch_add(&large, 2, HK_SIZE_MAX);
	CHECK_EQ(hk_watch_add(&large, 3, HK_SIZE_MAX), 1);
	CHECK(hk_watch_schedule(&large, 3, 1, &s));
}

TEST(pauses_where_nothing_repeats)
{
	struct hk_watch w = {0};
	uint64_t at = 0;

	for (hk_watch_init(&w, 0); at < 512; at++)
		CHECK_EQ(hk_watch_add(&w, at, (uint32_t)at), 0);
	for (uint64_t asleep = 512; asleep <= 4 * 16384; asleep *= 2) {
		uint64_t awake = at + HK_MIN(asleep, 16384U) + 1;

		for (; at < awake; at++)
			CHECK_EQ(hk_watch_add(&w, at, 8), 0);
		CHECK_EQ(hk_watch_add(&w, at++, 8), 1);
		for (awake = at + 510; at < awake; at++)
			CHECK_EQ(hk_watch_add(&w, at, (uint32_t)at), 0);
	}
}

/* 8 bytes; every eighth message has 16. */
static uint32_t levels(uint64_t index)
{
	return index % 8 == 2 ? 16 : 8;
}

TEST(a_longer_period_is_learnt_from_a_schedule_that_ended)
{
	struct hk_watch w = {0};
	struct hk_schedule s;
	uint64_t at = 3;

	for (hk_watch_init(&w, 3); at < 5; at++)
		hk_watch_add(&w, at, 8);
	CHECK(hk_watch_schedule(&w, 4, 1, &s));
	hk_watch_ended(&w, 10, &s, 5);
	for (at = 10; at < 25; at++)
		CHECK_EQ(hk_watch_add(&w, at, levels(at)), at >= 20 ? 8 : 0);
}

/* After a schedule that lasted for @worth messages: how many equal messages does the next schedule,
 * of period 1, need? */
static uint64_t needed(struct hk_watch *w, uint64_t worth)
{
	static uint64_t at = 1000;
	const struct hk_schedule s = {.period = 1, .sizes = 1, .bytes = {8}};
	uint64_t alike = 1;

	for (uint64_t end = at + 100; at < end; at++) /* so that no period includes earlier ones */
		hk_watch_add(w, at, (uint32_t)at);
	hk_watch_ended(w, at, &s, at - worth);
	CHECK_EQ(hk_watch_add(w, at, 16), 0);
	while (alike < 500 && !hk_watch_add(w, at + alike, 8))
		alike++;
	at += alike + 1;
	return alike;
}

TEST(a_period_after_a_short_schedule_must_last_longer)
{
	struct hk_watch w = {0};

	for (uint64_t need = 8; need < 500; need *= 2)
		CHECK_EQ(needed(&w, 15), need);
	CHECK_EQ(needed(&w, 16), 256); /* between WORTH_LITTLE and WORTH_MUCH */
	for (uint64_t need = 128; need >= 2; need /= 2)
		CHECK_EQ(needed(&w, 48), need);
	CHECK_EQ(needed(&w, 48), 2);
	hk_watch_back_off(&w);
	CHECK_EQ(needed(&w, (uint64_t)-30), 16); /* it ended before it began */
}

TEST(a_period_is_found_after_many_failures)
{
	struct hk_watch w = {0};
	uint64_t at = 0;

	hk_watch_init(&w, 0);
	for (int k = 0; k < 40; k++)
		hk_watch_back_off(&w);
	while (at < 500 && !hk_watch_add(&w, at, 8))
		at++;
	CHECK(at < 500);
}

/* ---- what applications send ------------------------------------------------------------------ */

/* A copy of the sender's decisions (sender.c). The two ends agree while it sends @lag messages. */
struct played {
	struct hk_watch watch;
	struct hk_schedule schedule;
	uint64_t sent, start, puts;
	enum { PLAIN, PROPOSED, PROMOTED } state;
	int demoted, lag;
};

static void play(struct played *o, uint32_t bytes)
{
	if (o->state == PROMOTED &&
	    bytes == o->schedule.bytes[hk_schedule_at(&o->schedule, o->sent)]) {
		o->sent++;
		o->puts++;
		return;
	}
	if (o->state == PROMOTED) {
		hk_watch_ended(&o->watch, o->sent, &o->schedule, o->start);
		o->state = PLAIN;
		o->demoted++;
	}
	uint64_t index = o->sent++;
	int period = hk_watch_add(&o->watch, index, bytes);

	if (o->state == PROPOSED && o->sent >= o->start) {
		bool holds = hk_watch_holds(&o->watch, o->schedule.period);

		o->state = holds ? PROMOTED : PLAIN;
		if (!holds)
			hk_watch_back_off(&o->watch);
	} else if (o->state == PLAIN && period &&
		   hk_watch_schedule(&o->watch, index, period, &o->schedule)) {
		o->state = PROPOSED;
		o->start = o->sent + (uint64_t)o->lag;
	}
}

static void play_all(struct played *o, int n, const uint32_t *bytes)
{
	for (int k = 0; k < n; k++)
		play(o, bytes[k]);
}

/* HPCG: a multigrid cycle of four levels and a product for each iteration. */
static void multigrid(struct played *o)
{
	for (int k = 0; k < 100; k++)
		play_all(o, 11, (uint32_t[]){128, 128, 128, 64, 64, 32, 32, 16, 32, 64, 128});
}

/* BoomerAMG's cycle as a preconditioner: many levels, each with sizes of its own. */
static void algebraic(struct played *o)
{
	for (int k = 0; k < 100; k++) {
		play_all(o, 18,
			 (uint32_t[]){480, 480, 144, 480, 480, 104, 560, 560, 104, 368, 368, 80,
				      192, 192, 16, 80, 80, 8});
		play_all(o, 17,
			 (uint32_t[]){32, 32, 24, 32, 32, 80, 56, 192, 72, 368, 168, 560, 208, 480,
				      168, 480, 480});
	}
}

/* LAMMPS, miniMD: forces in both directions. Every 20 steps atoms move, and sizes change. */
static void molecules(struct played *o)
{
	for (uint32_t k = 0; k < 20; k++) {
		play_all(o, 6, (uint32_t[]){4, 4, 896 + k, 4, 20224 - k, 20448 + k});
		for (int step = 0; step < 19; step++)
			play_all(o, 4,
				 (uint32_t[]){15144 + k, 15672 - k, 15168 + k, 15336 + 8 * k});
	}
}

/* CloverLeaf: the fields of a step, some of equal length. */
static void hydrodynamics(struct played *o)
{
	for (int k = 0; k < 100; k++)
		play_all(o, 6, (uint32_t[]){4200, 840, 840, 6720, 10080, 10080});
}

/* TeaLeaf: 20 inner steps for each outer one. */
static void inner_and_outer(struct played *o)
{
	for (int k = 0; k < 50; k++) {
		play(o, 496);
		for (int inner = 0; inner < 20; inner++)
			play(o, 2048);
	}
}

/* Short runs of two to seven equal sizes that never repeat. */
static void nothing(struct played *o)
{
	for (uint32_t k = 0; k < 1000; k++)
		for (uint32_t same = 0; same < 2 + k % 6; same++)
			play(o, 1000 + k);
}

TEST(periods_of_applications_are_found)
{
	static const struct {
		void (*send)(struct played *o);
		double least, most; /* of its messages, by puts */
		int demoted;        /* at most */
	} all[] = {
		{multigrid, 0.9, 1, 3},     {algebraic, 0.9, 1, 2},        {molecules, 0.65, 1, 25},
		{hydrodynamics, 0.9, 1, 2}, {inner_and_outer, 0.75, 1, 3}, {nothing, 0, 0.01, 3},
	};

	for (int lag = 2; lag <= 8; lag++)
		for (size_t k = 0; k < HK_ARRAY_LEN(all); k++) {
			struct played o = {.lag = lag};

			all[k].send(&o);
			double share = (double)o.puts / (double)o.sent;

			CHECK(share >= all[k].least && share <= all[k].most);
			CHECK(o.demoted <= all[k].demoted);
		}
}

TEST(a_malformed_schedule_is_refused)
{
	const struct hk_schedule good = {
		.period = 2, .sizes = 2, .at = {0, 1}, .bytes = {HK_SIZE_MAX, 0}};
	struct hk_schedule s = good;

	CHECK(hk_schedule_valid(&s));
	s.period = 0;
	CHECK(!hk_schedule_valid(&s));
	s.period = HK_PERIOD_MAX + 1;
	CHECK(!hk_schedule_valid(&s));
	s = good;
	s.sizes = 0;
	CHECK(!hk_schedule_valid(&s));
	s.sizes = HK_STREAMS_MAX + 1;
	CHECK(!hk_schedule_valid(&s));
	s = good;
	s.at[1] = 2;
	CHECK(!hk_schedule_valid(&s));
	s = good;
	s.bytes[1] = HK_SIZE_MAX + 1;
	CHECK(!hk_schedule_valid(&s));
}

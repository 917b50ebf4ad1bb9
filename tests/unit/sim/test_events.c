/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's events, its series of values over time, and its statistics.
 */
#include "sim/events.h"
#include "sim/run.h"
#include "sim/series.h"

#include "tests/support/hk_test.h"

#define START 1000000
#define DELAY 500

TEST(events_come_in_the_order_of_their_times)
{
	struct events q;
	struct event ev;
	uint64_t before = START;
	unsigned came = 0;

	events_init(&q, START, DELAY);
	for (unsigned i = 0; i < 5000; i++)
		events_add(&q, START + hk_rng_below(&hk_test_rng, 1000), EVENT_CALL, i, 0);
	for (; events_next(&q, UINT64_MAX, &ev); came++) {
		CHECK_CMP(ev.at, >=, before);
		CHECK_EQ(q.now, ev.at);
		before = ev.at;
		if (came % 2 == 0 && came < 4000) /* more are added meanwhile */
			events_add(&q, q.now + hk_rng_below(&hk_test_rng, 1000), EVENT_WAKE, 0, 0);
	}
	CHECK_EQ(came, 7000);
	CHECK_EQ(q.done, 7000);
	events_free(&q);
}

TEST(events_of_one_time_come_in_the_order_of_their_creation)
{
	struct events q;
	struct event ev;

	events_init(&q, START, DELAY);
	for (unsigned i = 0; i < 3000; i++) {
		if (i % 3)
			events_add(&q, START + DELAY, EVENT_CALL, i, 0);
		else
			events_add_arrival(&q, i, 0);
	}
	for (unsigned i = 0; i < 3000; i++) {
		CHECK(events_next(&q, UINT64_MAX, &ev));
		CHECK_EQ(ev.a, i);
		CHECK_EQ(ev.kind, i % 3 ? EVENT_CALL : EVENT_ARRIVE);
	}
	CHECK(!events_next(&q, START + 2 * DELAY, &ev));
	CHECK_EQ(q.now, START + 2 * DELAY);
	events_free(&q);
}

TEST(the_queue_of_arrivals_grows)
{
	struct events q;
	struct event ev;
	unsigned out = 0;

	events_init(&q, START, DELAY);
	for (unsigned i = 0; i < 20000; i++) {
		events_add_arrival(&q, i, 0);
		if (i % 4 == 0) { /* its head wanders before it grows */
			CHECK(events_next(&q, UINT64_MAX, &ev));
			CHECK_EQ(ev.a, out++);
		}
	}
	for (; events_next(&q, UINT64_MAX, &ev); out++)
		CHECK_EQ(ev.a, out);
	CHECK_EQ(out, 20000);
	events_free(&q);
}

TEST(an_event_at_the_limit_waits)
{
	struct events q;
	struct event ev;

	events_init(&q, START, DELAY);
	events_add(&q, START + 10, EVENT_CALL, 0, 0);
	CHECK(!events_next(&q, START + 10, &ev));
	CHECK_EQ(q.now, START + 10);
	CHECK(events_next(&q, START + 11, &ev));
	events_free(&q);
}

static void check_near(double value, double right)
{
	CHECK_MSG(value > right * 0.999999 && value < right * 1.000001, "%g, not %g", value, right);
}

TEST(a_series_keeps_mean_and_maximum_however_long_it_is)
{
	struct series s = {0};
	uint64_t now = START, first = now, width = 0;
	double area = 0;

	for (unsigned i = 0; i < 20000; i++) {
		uint32_t value = (uint32_t)hk_rng_below(&hk_test_rng, 1000);
		uint64_t next = now + hk_rng_range(&hk_test_rng, 0, 1000000);

		series_set(&s, now, i == 7000 ? 5000 : value);
		area += (i == 7000 ? 5000.0 : value) * (double)(next - now);
		CHECK_CMP(s.width, >=, width);
		width = s.width;
		now = next;
	}
	check_near(series_mean(&s, first, now), area / (double)(now - first));
	/* the bins have the same area, and one of them the maximum */
	double sum = 0;
	uint32_t max = 0;

	for (uint32_t i = 0; i < s.used; i++) {
		sum += s.bin[i].area;
		max = HK_MAX(max, s.bin[i].max);
	}
	check_near(sum, area);
	CHECK_EQ(max, 5000);
	CHECK_CMP(s.used, >, SERIES_BINS / 2);
	series_free(&s);
}

TEST(a_series_puts_values_where_they_belong)
{
	struct series s = {0};
	unsigned i = 0;

	/* 100 until the middle, and then 300 */
	series_set(&s, START, 100);
	for (uint64_t ms = 1; ms <= 10; ms++)
		series_set(&s, START + ms * HK_MSEC * SIM_NS, ms < 5 ? 100 : 300);
	CHECK_CMP(s.used, <=, 10 * HK_MSEC * SIM_NS / s.width + 1);
	for (; (i + 1) * s.width <= 5 * HK_MSEC * SIM_NS; i++)
		check_near(s.bin[i].area, 100.0 * (double)s.width);
	for (i++; (i + 1) * s.width <= 10 * HK_MSEC * SIM_NS; i++)
		check_near(s.bin[i].area, 300.0 * (double)s.width);
	CHECK_CMP(i, >, SERIES_BINS / 2 - 2);
	series_free(&s);
}

TEST(quantiles_are_the_nearest_ranks)
{
	float sample[100];

	for (unsigned i = 0; i < 100; i++)
		sample[i] = (float)((i * 37) % 100 + 1);
	run_sort(sample, 100);
	CHECK_EQ((int)run_quantile(sample, 100, 0), 1);
	CHECK_EQ((int)run_quantile(sample, 100, .5), 50);
	CHECK_EQ((int)run_quantile(sample, 100, .99), 99);
	CHECK_EQ((int)run_quantile(sample, 100, .985), 99);
	CHECK_EQ((int)run_quantile(sample, 100, .501), 51);
	CHECK_EQ((int)run_quantile(sample, 100, 1), 100);
	CHECK_EQ((int)run_quantile(sample, 1, .99), 1);
	CHECK_EQ((int)run_quantile(sample, 0, .99), 0);
}

TEST(jains_index_is_one_for_equal_flows_and_falls_to_one_of_n)
{
	struct flow equal[4] = {{.bytes = 7}, {.bytes = 7}, {.bytes = 7}, {.bytes = 7}};
	struct flow lone[4] = {{.bytes = 7}};
	struct run r = {.flow = equal, .flows = 4};

	CHECK_EQ((int)(run_jain(&r) * 1000), 1000);
	r.flow = lone;
	CHECK_EQ((int)(run_jain(&r) * 1000), 250);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of bench/rtc_load: when packets are due, sums, and quantiles. The clock is a
 * number of the test.
 */
#include "bench/pace.h"
#include "bench/quantiles.h"
#include "examples/add.h"
#include "tests/support/hk_test.h"

/* Takes all that is due, and returns it. */
static unsigned send_due(struct hk_pace *p, uint64_t now)
{
	unsigned n = hk_pace_due(p, now);

	hk_pace_take(p, n);
	return n;
}

TEST(a_packet_is_due_when_its_time_has_passed)
{
	struct hk_pace p;

	hk_pace_start(&p, 1000000, 32, 5000);
	CHECK_EQ(send_due(&p, 5999), 0);
	CHECK_EQ(send_due(&p, 6000), 1);
	CHECK_EQ(send_due(&p, 6000), 0);
	CHECK_EQ(send_due(&p, 9999), 3);
	CHECK_EQ(send_due(&p, 10000), 1);
}

/* 3 packets a second are due at thirds of a second, which no number of ns is. */
TEST(fractions_add_up)
{
	const uint64_t rates[] = {1, 3, 7919, 1234567, 14880952, 148809523};

	for (unsigned k = 0; k < HK_ARRAY_LEN(rates); k++) {
		struct hk_pace p;
		uint64_t now = 77, sent = 0;
		/* never so long that more than the depth comes due */
		uint64_t longest = HK_MIN(30 * HK_SEC / rates[k], HK_SEC / 10);
		hk_pace_start(&p, rates[k], 32, now);
		for (unsigned i = 0; i < 20000; i++) {
			now += 1 + hk_rng_below(&hk_test_rng, longest);
			sent += send_due(&p, now);
		}
		CHECK_EQ(sent, (uint64_t)((unsigned __int128)(now - 77) * rates[k] / HK_SEC));
		CHECK_EQ(p.skipped, 0);
	}
}

TEST(packets_are_skipped_after_a_gap_and_counted)
{
	struct hk_pace p;

	hk_pace_start(&p, 1000000, 32, 0);
	CHECK_EQ(send_due(&p, 1000500), 32); /* 1000.5 came due */
	CHECK_EQ(p.skipped, 968);
	CHECK_EQ(send_due(&p, 1000999), 0);
	CHECK_EQ(send_due(&p, 1001000), 1); /* the half is not lost */
	CHECK_EQ(send_due(&p, 1001000 + 3600 * HK_SEC), 32);
	CHECK_EQ(p.skipped, 968 + 3600000000u - 32);
}

/* A sender that cannot send all of them at once. */
TEST(packets_that_are_not_taken_stay_due)
{
	struct hk_pace p;

	hk_pace_start(&p, 1000000, 32, 0);
	CHECK_EQ(hk_pace_due(&p, 20000), 20);
	hk_pace_take(&p, 5);
	CHECK_EQ(hk_pace_due(&p, 20000), 15);
	CHECK_EQ(hk_pace_due(&p, 40000), 32);
	CHECK_EQ(p.skipped, 3);
}

TEST(both_sums_are_the_expected_one)
{
	uint16_t values[ADD_VALUES];
	const uint16_t first[] = {0, 1, 60000, UINT16_MAX - ADD_VALUES + 1};

	for (unsigned k = 0; k < HK_ARRAY_LEN(first); k++) {
		add_fill(values, first[k]);
		for (uint64_t repeat = 1; repeat <= 100; repeat *= 10) {
			CHECK_EQ(add_values(values, repeat, false), add_expected(first[k], repeat));
			CHECK_EQ(add_values(values, repeat, true), add_expected(first[k], repeat));
		}
	}
	for (unsigned i = 0; i < ADD_VALUES; i++)
		values[i] = (uint16_t)hk_rng_next(&hk_test_rng);
	CHECK_EQ(add_plain(values, 3), add_vector(values, 3));
}

TEST(buckets_are_in_order_and_each_holds_its_own_value)
{
	static struct hk_quantiles q;

	for (unsigned i = 0; i < HK_QUANTILES_BUCKETS; i++) {
		uint64_t value = hk_quantiles_value(i);
		if (i > 0)
			CHECK(value > hk_quantiles_value(i - 1));
		hk_quantiles_add(&q, value);
		CHECK_EQ(q.count[i], 1);
		hk_quantiles_add(&q, i + 1 < HK_QUANTILES_BUCKETS ? hk_quantiles_value(i + 1) - 1
								  : UINT64_MAX);
		CHECK_EQ(q.count[i], 2);
	}
}

TEST(quantiles_are_at_most_a_bucket_below)
{
	static struct hk_quantiles q;

	CHECK_EQ(hk_quantiles_at(&q, 0.5), 0);
	for (uint64_t v = 1; v <= 100000; v++)
		hk_quantiles_add(&q, v);
	const double of[] = {0.01, 0.5, 0.99, 1};
	for (unsigned i = 0; i < HK_ARRAY_LEN(of); i++) {
		double exact = of[i] * 100000, value = (double)hk_quantiles_at(&q, of[i]);
		CHECK(value <= exact && value >= exact * 31 / 32 - 1);
	}
}

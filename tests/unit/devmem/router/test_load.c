/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/router/test_load.c: the frames of a load, and the numbers that it prints.
 */
#include "devmem/router/load.h"
#include "devmem/router/header.h"
#include "tests/support/hk_test.h"

static uint8_t frame[HK_LOAD_FRAMES][HK_LOAD_FRAME];

/* The text of a JSON object with the fields that the function of the other arguments writes. */
#define TEXT(call)                                                                                 \
	({                                                                                         \
		static char text_[512];                                                            \
		FILE *out = fmemopen(text_, sizeof(text_), "w");                                   \
		CHECK(out != NULL);                                                                \
		call;                                                                              \
		CHECK(fclose(out) == 0);                                                           \
		text_;                                                                             \
	})

TEST(frames_are_packets_in_turn_for_each_network)
{
	hk_load_frames(frame, 2, NULL, 0);
	for (unsigned i = 0; i < HK_LOAD_FRAMES; i++) {
		struct hk_ip ip;
		CHECK_EQ(hk_ip4_read(frame[i], HK_LOAD_FRAME, HK_LOAD_FRAME, &ip),
			 HK_RESULT_FORWARD);
		CHECK_EQ(ip.length, HK_LOAD_FRAME - HK_ETHER_LEN);
		CHECK_EQ(hk_be32(ip.dst), 10u << 24 | i % 2 << 16 | (i * 13 & 0xffff));
		CHECK(hk_source_ok(4, ip.src));
	}
}

TEST(frames_for_a_table_are_spread_over_it)
{
	struct hk_table_prefix *t;

	CHECK_OK(hk_table_make(1, 2 * HK_LOAD_FRAMES, 1, &t, ERR));
	hk_load_frames(frame, 1, t, 2 * HK_LOAD_FRAMES);
	for (unsigned i = 0; i < HK_LOAD_FRAMES; i++)
		CHECK_EQ(hk_be32(frame[i] + HK_ETHER_LEN + 16), t[2 * i].address);
	free(t);
}

TEST(a_stamp_leaves_the_header_alone)
{
	struct hk_ip ip;

	hk_load_frames(frame, 1, NULL, 0);
	hk_load_stamp(frame[0], UINT64_MAX - 1);
	CHECK(hk_load_stamped(frame[0]) == UINT64_MAX - 1);
	CHECK_EQ(hk_ip4_read(frame[0], HK_LOAD_FRAME, HK_LOAD_FRAME, &ip), HK_RESULT_FORWARD);
}

TEST(delays_have_quantiles)
{
	struct hk_load_delays d;

	CHECK(hk_load_delays_begin(&d, 100));
	for (unsigned i = 0; i < 150; i++) /* those beyond 100 are not kept */
		hk_load_delays_add(&d, i < 100 ? 99 - i : 5000);
	CHECK_STR(TEXT(hk_load_delays_end(&d, 1e6, out)),
		  "\"p50_us\": 50.000, \"p99_us\": 99.000, \"samples\": 100");
	CHECK(hk_load_delays_begin(&d, 1));
	CHECK_STR(TEXT(hk_load_delays_end(&d, 1e6, out)), "\"samples\": 0");
}

TEST(a_cost_is_that_of_most_chunks)
{
	struct hk_load_cost c;

	CHECK(hk_load_cost_begin(&c));
	for (unsigned i = 0; i < 9; i++)
		hk_load_cost_add(&c, (i == 4 ? 1000 : 20) * HK_LOAD_BATCH, HK_LOAD_BATCH);
	hk_load_cost_add(&c, 77, 1); /* no chunk yet */
	CHECK_STR(TEXT(hk_load_cost_end(&c, 1e9, out)), "\"busy_ns\": 20.00");
	CHECK(hk_load_cost_begin(&c));
	CHECK_STR(TEXT(hk_load_cost_end(&c, 1e9, out)), "\"busy_ns\": null");
}

TEST(rates_are_of_whole_batches)
{
	struct hk_load_rates r;

	CHECK(hk_load_rates_begin(&r, 3));
	for (unsigned i = 0; i < 5; i++) {
		hk_load_rates_add(&r, HK_LOAD_BATCH - 1);
		CHECK_EQ(r.done, HK_MIN(i, 3u));
		hk_load_rates_add(&r, 1);
	}
	CHECK_EQ(r.done, 3);
	memcpy(r.rate, (double[]){3, 1, 2}, 3 * sizeof(double));
	CHECK_STR(TEXT(hk_load_rates_end(&r, out)),
		  "\"best\": 3.000, \"upper\": 3.000, \"median\": 2.000, "
		  "\"unit\": \"million/s\"");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/seal/test_window.c: the window of received counters, beside a plain list of them.
 */
#include "seal/window.h"
#include "tests/support/hk_test.h"

#define MOST 20000

TEST(counters_come_once)
{
	static bool came[MOST];
	struct hk_seal_window w = {0};
	uint64_t newest = 0;

	memset(came, 0, sizeof(came));
	for (unsigned i = 0; i < 200000; i++) {
		/* near the newest, sometimes far before or behind it */
		uint64_t far = hk_rng_below(&hk_test_rng, 50) ? 100 : 3000;
		uint64_t back = hk_rng_below(&hk_test_rng, 2 * far);
		uint64_t c = newest + hk_rng_below(&hk_test_rng, far);
		c -= HK_MIN(c, back);
		if (c >= MOST)
			break;
		bool is_new = hk_seal_window_is_new(&w, c);
		CHECK(!is_new || (c && !came[c]));
		CHECK(is_new || c == 0 || came[c] || newest >= c + HK_SEAL_WINDOW);
		if (is_new) {
			hk_seal_window_mark(&w, c);
			came[c] = true;
			newest = HK_MAX(newest, c);
		}
		CHECK_EQ(w.newest, newest);
	}
	CHECK_CMP(newest, >, MOST / 2);
}

TEST(edges)
{
	struct hk_seal_window w = {0};

	CHECK(!hk_seal_window_is_new(&w, 0));
	hk_seal_window_mark(&w, 1);
	CHECK(!hk_seal_window_is_new(&w, 1) && hk_seal_window_is_new(&w, 2));
	hk_seal_window_mark(&w, HK_SEAL_WINDOW);
	CHECK(!hk_seal_window_is_new(&w, 1) && hk_seal_window_is_new(&w, 2));
	hk_seal_window_mark(&w, HK_SEAL_WINDOW + 1);
	CHECK(!hk_seal_window_is_new(&w, 1) && hk_seal_window_is_new(&w, 2));
	hk_seal_window_mark(&w, HK_SEAL_WINDOW + 2);
	CHECK(!hk_seal_window_is_new(&w, 2) && hk_seal_window_is_new(&w, 3));
	hk_seal_window_mark(&w, UINT64_MAX);
	CHECK(!hk_seal_window_is_new(&w, HK_SEAL_WINDOW + 3));
	CHECK(hk_seal_window_is_new(&w, UINT64_MAX - HK_SEAL_WINDOW + 1));
	CHECK(!hk_seal_window_is_new(&w, UINT64_MAX - HK_SEAL_WINDOW));
}

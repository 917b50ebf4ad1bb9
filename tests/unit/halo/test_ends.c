/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/halo/test_ends.c: the numbers by which other ranks name the ends of channels
 * (halo/promote/ends.h).
 */
#include "halo/promote/ends.h"
#include "tests/support/hk_test.h"

static char end[3000];

TEST(only_the_other_end_finds_one_and_as_what_it_is)
{
	struct hk_ends t = {0};
	uint32_t sender, receiver;

	CHECK(hk_ends_find(&t, 0, HK_END_SENDER, 0) == NULL);
	CHECK(hk_ends_find(&t, 1, HK_END_SENDER, 0) == NULL);
	sender = hk_ends_add(&t, HK_END_SENDER, 2, &end[0]);
	receiver = hk_ends_add(&t, HK_END_RECEIVER, 3, &end[1]);
	CHECK(sender != 0 && receiver != 0 && sender != receiver);
	CHECK(hk_ends_find(&t, sender, HK_END_SENDER, 2) == &end[0]);
	CHECK(hk_ends_find(&t, receiver, HK_END_RECEIVER, 3) == &end[1]);
	CHECK(hk_ends_find(&t, sender, HK_END_RECEIVER, 2) == NULL);
	CHECK(hk_ends_find(&t, receiver, HK_END_SENDER, 3) == NULL);
	CHECK(hk_ends_find(&t, sender, HK_END_SENDER, 3) == NULL);
	CHECK(hk_ends_find(&t, receiver, HK_END_RECEIVER, 2) == NULL);
	for (uint32_t k = 0; k < 100000; k++) {
		uint32_t number = (uint32_t)hk_rng_next(&hk_test_rng);

		CHECK(number == sender || hk_ends_find(&t, number, HK_END_SENDER, 2) == NULL);
	}
	CHECK(hk_ends_find(&t, 0, HK_END_SENDER, 2) == NULL);
	hk_ends_free(&t);
	CHECK(hk_ends_find(&t, sender, HK_END_SENDER, 2) == NULL);
}

TEST(an_index_is_used_again_and_its_old_numbers_find_nothing)
{
	uint32_t number[HK_ARRAY_LEN(end)] = {0}, old[1000] = {0};
	struct hk_ends t = {0};

	for (uint32_t round = 0; round < 200000; round++) {
		size_t k = hk_rng_below(&hk_test_rng, HK_ARRAY_LEN(end));
		enum hk_end_kind kind = k % 2 ? HK_END_SENDER : HK_END_RECEIVER;
		uint32_t *gone = &old[round % HK_ARRAY_LEN(old)];

		if (number[k]) {
			CHECK(hk_ends_find(&t, number[k], kind, (int)k) == &end[k]);
			hk_ends_remove(&t, number[k]);
			*gone = number[k];
			number[k] = 0;
		} else {
			number[k] = hk_ends_add(&t, kind, (int)k, &end[k]);
			CHECK(number[k] != 0);
		}
		for (int other = 0; *gone && other < 2; other++)
			CHECK(hk_ends_find(&t, *gone, other ? HK_END_SENDER : HK_END_RECEIVER,
					   (int)k) == NULL);
	}
	CHECK(t.count <= HK_ARRAY_LEN(end) && t.capacity <= 2 * HK_ARRAY_LEN(end));
	hk_ends_free(&t);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sdn/tagger/test_pending.c: requests of nonblocking collectives are found until they
 * are removed.
 */
#include "sdn/tagger/pending.h"
#include "tests/support/hk_test.h"

static char handle[2 * HK_TAGGER_PENDING];

TEST(found_in_the_order_of_the_array)
{
	struct hk_tagger_pending_found found[HK_TAGGER_PENDING];
	const void *array[] = {&handle[3], &handle[1], NULL, &handle[0]};

	CHECK_EQ(hk_tagger_pending_find(array, 4, found), 0);
	hk_tagger_pending_add(&handle[0], 4);
	hk_tagger_pending_add(&handle[1], 9);
	CHECK_EQ(hk_tagger_pending_find(array, 4, found), 2);
	CHECK_EQ(found[0].index, 1);
	CHECK_EQ(found[0].function, 9);
	CHECK(found[0].request == &handle[1]);
	CHECK_EQ(found[1].index, 3);
	CHECK_EQ(found[1].function, 4);
	hk_tagger_pending_remove(&handle[0]);
	CHECK_EQ(hk_tagger_pending_find(array, 4, found), 1);
	hk_tagger_pending_remove(&handle[0]); /* unknown: no effect */
	hk_tagger_pending_remove(&handle[1]);
	CHECK_EQ(hk_tagger_pending_find(array, 4, found), 0);
}

TEST(what_finds_no_room_is_not_remembered)
{
	struct hk_tagger_pending_found found[HK_TAGGER_PENDING];
	const void *array[2 * HK_TAGGER_PENDING];

	hk_tagger_pending_add(NULL, 4);
	for (int i = 0; i < 2 * HK_TAGGER_PENDING; i++) {
		array[i] = &handle[i];
		hk_tagger_pending_add(&handle[i], (uint32_t)i % 14);
	}
	CHECK_EQ(hk_tagger_pending_find(array, 2 * HK_TAGGER_PENDING, found), HK_TAGGER_PENDING);
	for (unsigned i = 0; i < HK_TAGGER_PENDING; i++) {
		CHECK_EQ(found[i].index, i);
		CHECK_EQ(found[i].function, i % 14);
	}
	for (int i = 0; i < 2 * HK_TAGGER_PENDING; i += 2)
		hk_tagger_pending_remove(&handle[i]);
	CHECK_EQ(hk_tagger_pending_find(array, 2 * HK_TAGGER_PENDING, found),
		 HK_TAGGER_PENDING / 2);
	for (int i = 1; i < HK_TAGGER_PENDING; i += 2)
		hk_tagger_pending_remove(&handle[i]);
	CHECK_EQ(hk_tagger_pending_find(array, 2 * HK_TAGGER_PENDING, found), 0);
}

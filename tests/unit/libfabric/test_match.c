/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_match.c: the matcher against a model, on random series of receives and
 * messages.
 */
#include "libfabric/match.h"
#include "match_model.h"
#include "tests/support/hk_test.h"

#define SERIES 20000
#define BYTES  3 * 120

TEST(series_at_random)
{
	size_t met = 0;

	for (unsigned i = 0; i < SERIES; i++) {
		uint8_t data[BYTES];

		for (size_t k = 0; k < sizeof(data); k++)
			data[k] = (uint8_t)hk_rng_next(&hk_test_rng);
		met += match_by_both(data, sizeof(data));
	}
	CHECK(met > SERIES * 20ul);
}

TEST(first_of_two)
{
	struct hk_match_list posted;
	struct hk_match_item any = {.ignore = UINT64_MAX, .source = HK_MATCH_ANY};
	struct hk_match_item same = {.tag = 7, .source = 3}, message = {.tag = 7, .source = 3};

	hk_match_init(&posted);
	hk_match_append(&posted, &any);
	hk_match_append(&posted, &same);
	CHECK(hk_match_message(&posted, &message) == &any);
	hk_match_remove(&posted, &any);
	CHECK(hk_match_message(&posted, &message) == &same);
	hk_match_remove(&posted, &same);
	CHECK(hk_match_message(&posted, &message) == NULL);
	hk_match_append(&posted, &any); /* the end of an empty list is right again */
	CHECK(posted.first == &any && any.next == NULL);
}

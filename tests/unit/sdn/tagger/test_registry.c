/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sdn/tagger/test_registry.c: ranks take and free slots.
 */
#include "sdn/tagger/registry.h"
#include "tests/support/hk_test.h"

#include <errno.h>

static struct hk_tagger_registry r;

TEST(slots_differ_and_come_back)
{
	bool taken[HK_TAGGER_SLOTS] = {false};

	memset(&r, 0, sizeof(r));
	for (uint32_t i = 0; i < HK_TAGGER_SLOTS; i++) {
		int slot = hk_tagger_registry_join(&r, i, 2000, 100 + i, ERR);
		CHECK_CMP(slot, >=, 0);
		CHECK_CMP(slot, <, HK_TAGGER_SLOTS);
		CHECK(!taken[slot]);
		taken[slot] = true;
	}
	CHECK_EQ(hk_tagger_registry_count(&r), HK_TAGGER_SLOTS);
	CHECK_REFUSED(hk_tagger_registry_join(&r, 1999, 2000, 9999, ERR), -ENOSPC, "256 ranks");
	hk_tagger_registry_leave(&r, 77);
	CHECK_EQ(hk_tagger_registry_join(&r, 1999, 2000, 9999, ERR), 77);
}

TEST(nobody_is_two)
{
	memset(&r, 0, sizeof(r));
	int slot = hk_tagger_registry_join(&r, 3, 8, 100, ERR);
	CHECK_CMP(slot, >=, 0);
	CHECK_REFUSED(hk_tagger_registry_join(&r, 3, 8, 101, ERR), -EEXIST,
		      "process 100 is rank 3");
	CHECK_REFUSED(hk_tagger_registry_join(&r, 4, 8, 100, ERR), -EEXIST, "process 100");
	hk_tagger_registry_leave(&r, (uint32_t)slot);
	CHECK_CMP(hk_tagger_registry_join(&r, 3, 8, 101, ERR), >=, 0);
}

TEST(what_a_tag_cannot_say)
{
	memset(&r, 0, sizeof(r));
	CHECK_REFUSED(hk_tagger_registry_join(&r, 0, 2049, 100, ERR), -ERANGE, "2049 ranks");
	CHECK_REFUSED(hk_tagger_registry_join(&r, 8, 8, 100, ERR), -ERANGE, "rank 8 in a job of 8");
	CHECK_REFUSED(hk_tagger_registry_join(&r, 0, 0, 100, ERR), -ERANGE, "rank 0 in a job of 0");
	CHECK_CMP(hk_tagger_registry_join(&r, 2047, 2048, 100, ERR), >=, 0);
}

/* Two programs at once in one job would both have a rank 0. One after the other is allowed. */
TEST(one_program_at_a_time)
{
	memset(&r, 0, sizeof(r));
	int slot = hk_tagger_registry_join(&r, 0, 2, 100, ERR);
	CHECK_REFUSED(hk_tagger_registry_join(&r, 2, 4, 101, ERR), -EINVAL, "others reported 2");
	hk_tagger_registry_leave(&r, (uint32_t)slot);
	CHECK_CMP(hk_tagger_registry_join(&r, 2, 4, 101, ERR), >=, 0);
}

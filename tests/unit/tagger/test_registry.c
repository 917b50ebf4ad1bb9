/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/tagger/test_registry.c: ranks take slots and give them back.
 */
#include "tagger/registry.h"
#include "tests/unit/hk_test.h"

#include <errno.h>

static struct hk_registry r;

static void refused(int rc, int want, const struct hk_error *err, const char *says)
{
	CHECK_EQ(rc, want);
	CHECK_MSG(strstr(err->text, says) != NULL, "it says: %s", err->text);
}

static void slots_differ_and_come_back(void)
{
	bool taken[HK_TAGGER_SLOTS] = {false};
	struct hk_error err;

	memset(&r, 0, sizeof(r));
	for (uint32_t i = 0; i < HK_TAGGER_SLOTS; i++) {
		int slot = hk_registry_join(&r, i, 2000, 100 + i, &err);
		CHECK_CMP(slot, >=, 0);
		CHECK_CMP(slot, <, HK_TAGGER_SLOTS);
		CHECK(!taken[slot]);
		taken[slot] = true;
	}
	CHECK_EQ(hk_registry_count(&r), HK_TAGGER_SLOTS);
	refused(hk_registry_join(&r, 1999, 2000, 9999, &err), -ENOSPC, &err, "256 ranks");
	hk_registry_leave(&r, 77);
	CHECK_EQ(hk_registry_join(&r, 1999, 2000, 9999, &err), 77);
}

static void nobody_is_two(void)
{
	struct hk_error err;

	memset(&r, 0, sizeof(r));
	int slot = hk_registry_join(&r, 3, 8, 100, &err);
	CHECK_CMP(slot, >=, 0);
	refused(hk_registry_join(&r, 3, 8, 101, &err), -EEXIST, &err, "process 100 is rank 3");
	refused(hk_registry_join(&r, 4, 8, 100, &err), -EEXIST, &err, "process 100");
	hk_registry_leave(&r, (uint32_t)slot);
	CHECK_CMP(hk_registry_join(&r, 3, 8, 101, &err), >=, 0);
}

static void what_a_tag_cannot_say(void)
{
	struct hk_error err;

	memset(&r, 0, sizeof(r));
	refused(hk_registry_join(&r, 0, 2049, 100, &err), -ERANGE, &err, "2049 ranks");
	refused(hk_registry_join(&r, 8, 8, 100, &err), -ERANGE, &err, "rank 8 of 8");
	refused(hk_registry_join(&r, 0, 0, 100, &err), -ERANGE, &err, "rank 0 of 0");
	CHECK_CMP(hk_registry_join(&r, 2047, 2048, 100, &err), >=, 0);
}

/* Two programs in one job would both have a rank 0; one after the other is fine. */
static void one_program_at_a_time(void)
{
	struct hk_error err;

	memset(&r, 0, sizeof(r));
	int slot = hk_registry_join(&r, 0, 2, 100, &err);
	refused(hk_registry_join(&r, 2, 4, 101, &err), -EINVAL, &err, "others said 2");
	hk_registry_leave(&r, (uint32_t)slot);
	CHECK_CMP(hk_registry_join(&r, 2, 4, 101, &err), >=, 0);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"slots_differ_and_come_back", slots_differ_and_come_back},
		{"nobody_is_two", nobody_is_two},
		{"what_a_tag_cannot_say", what_a_tag_cannot_say},
		{"one_program_at_a_time", one_program_at_a_time},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

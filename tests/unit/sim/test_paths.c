/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a simulated host spreads frames over its ports.
 */
#include "sim/paths.h"

#include "tests/support/hk_test.h"

#define NOW (1000 * HK_SEC)

TEST(bulk_goes_by_the_path_with_the_fewest_in_flight)
{
	struct paths p;
	unsigned by[3] = {0};

	paths_init(&p, 3);
	for (unsigned i = 0; i < 30; i++) {
		unsigned path = paths_pick(&p, true, 0);

		paths_sent(&p, path);
		by[path]++;
	}
	CHECK_EQ(by[0], 10);
	CHECK_EQ(by[1], 10);
	CHECK_EQ(by[2], 10);
	paths_acked(&p, 1, false);
	paths_acked(&p, 1, false);
	CHECK_EQ(paths_pick(&p, true, 0), 1);
	CHECK_EQ(paths_pick(&p, true, 1 << 1), 0);
	CHECK_EQ(paths_pick(&p, false, 0), 0);
	CHECK_EQ(paths_pick(&p, false, 1 << 0), 1);
	CHECK_EQ(paths_pick(&p, false, 7), 0); /* all are stuck: the caller waits */
}

/* Loses a packet of path 1 each ms while path 0 delivers, until the path is paused. Returns after
 * how many. */
static unsigned lose(struct paths *p, uint64_t from, unsigned others)
{
	for (unsigned i = 0; i < 100; i++) {
		if (paths_mask(p) == 1)
			return i;
		for (unsigned k = 0; k < others; k++)
			paths_acked(p, 0, false);
		paths_lost(p, 1, 0, from + i * HK_MSEC);
	}
	return 100;
}

TEST(a_path_that_delivers_nothing_pauses_and_is_tried_again)
{
	struct paths p;

	paths_init(&p, 2);
	CHECK_EQ(paths_mask(&p), 3);
	CHECK_EQ(lose(&p, NOW, 1), 21); /* 20 ms of silence */
	CHECK_EQ(paths_for_reply(&p, 1), 0);
	CHECK_EQ(paths_pick(&p, true, 0), 0);
	CHECK_EQ(p.resume_at, NOW + 20 * HK_MSEC + HK_SEC);
	paths_resume(&p, p.resume_at - 1);
	CHECK_EQ(paths_mask(&p), 1);
	paths_resume(&p, p.resume_at);
	CHECK_EQ(paths_mask(&p), 3);
	CHECK_EQ(paths_for_reply(&p, 1), 1);
	CHECK_EQ(lose(&p, NOW + 2 * HK_SEC, 8), 1); /* one loss is enough now */
}

TEST(a_path_does_not_pause_without_reason)
{
	struct paths p;

	paths_init(&p, 2);
	CHECK_EQ(lose(&p, NOW, 0), 100); /* the others deliver nothing either */
	paths_init(&p, 2);
	for (unsigned i = 0; i < 100; i++) {
		paths_acked(&p, 0, false);
		paths_acked(&p, 1, false);
		paths_lost(&p, 1, 0, NOW + i * 10 * HK_MSEC);
	}
	CHECK_EQ(paths_mask(&p), 3);
	/* the last one never pauses */
	paths_init(&p, 1);
	for (unsigned i = 0; i < 100; i++)
		paths_lost(&p, 0, 0, NOW + i * 10 * HK_MSEC);
	CHECK_EQ(paths_mask(&p), 1);
}

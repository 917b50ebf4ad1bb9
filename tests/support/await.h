/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/await.h: waits that end.
 *
 * A test waits for a condition, never for a time. The limit of a wait is far beyond what it takes,
 * so it decides only how soon a broken test fails.
 */
#ifndef HK_TEST_AWAIT_H
#define HK_TEST_AWAIT_H

#include "base/clock.h"
#include "tests/support/hk_test.h"

#include <time.h>

/* For a step that has nothing to do but to let others run: 1 ms. */
static inline void pause_1ms(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Repeats the statement that follows until @cond is true. Fails after @ms. */
#define AWAIT(ms, cond, ...)                                                                       \
	do {                                                                                       \
		int64_t await_end_ = hk_clock_ms() + (ms);                                         \
		while (!(cond)) {                                                                  \
			CHECK_MSG(hk_clock_ms() < await_end_, "waited %d ms in vain for: %s",      \
				  (int)(ms), #cond);                                               \
			__VA_ARGS__;                                                               \
		}                                                                                  \
	} while (0)

#endif

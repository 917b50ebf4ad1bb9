/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/clock.h: nanoseconds, read once or twice for each burst. Internal to rtc/.
 *
 * The processor's time stamp counter, which runs at one rate on all cores of what is built today, scaled by
 * what CLOCK_MONOTONIC said while the node was opened. Other processors read CLOCK_MONOTONIC. Tests
 * give a clock of their own.
 */
#ifndef HK_RTC_CLOCK_H
#define HK_RTC_CLOCK_H

#include "base/common.h"

#include <time.h>

struct hk_clock {
	uint64_t tick0, ns0;
	uint64_t mult; /* ns a tick, times 2^32 */
	uint64_t (*fake)(void *arg);
	void *arg;
};

static inline uint64_t hk_clock_monotonic(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * HK_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t hk_clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return hk_clock_monotonic();
#endif
}

static inline uint64_t hk_clock_now(const struct hk_clock *c)
{
	if (HK_UNLIKELY(c->fake != NULL))
		return c->fake(c->arg);
	return c->ns0 +
	       (uint64_t)(((unsigned __int128)(hk_clock_ticks() - c->tick0) * c->mult) >> 32);
}

/* Begins to measure, and ends it at least 10 ms later (it waits if it must). */
void hk_clock_begin(struct hk_clock *c);
void hk_clock_end(struct hk_clock *c);

#endif

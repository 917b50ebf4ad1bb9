/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/clock.h: time in nanoseconds, read once or twice for each burst. Internal to rtc/.
 *
 * On x86 it is the time stamp counter, which runs at one rate on all cores of current processors.
 * Its rate is measured against CLOCK_MONOTONIC while the node opens. Other processors read
 * CLOCK_MONOTONIC itself. Tests install a clock of their own.
 */
#ifndef HK_RTC_CLOCK_H
#define HK_RTC_CLOCK_H

#include "base/clock.h"

struct hk_rtc_clock {
	uint64_t tick0, ns0;
	uint64_t mult; /* ns a tick, times 2^32 */
	uint64_t (*fake)(void *arg);
	void *arg;
};

static inline uint64_t hk_rtc_clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return hk_clock_ns();
#endif
}

static inline uint64_t hk_rtc_clock_now(const struct hk_rtc_clock *c)
{
	if (HK_UNLIKELY(c->fake != NULL))
		return c->fake(c->arg);
	return c->ns0 +
	       (uint64_t)(((unsigned __int128)(hk_rtc_clock_ticks() - c->tick0) * c->mult) >> 32);
}

/* hk_rtc_clock_begin() starts to measure the rate. hk_rtc_clock_end() ends that, and sleeps if less
 * than 10 ms have passed. */
void hk_rtc_clock_begin(struct hk_rtc_clock *c);
void hk_rtc_clock_end(struct hk_rtc_clock *c);

#endif

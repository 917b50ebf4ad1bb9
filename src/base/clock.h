/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/clock.h: the monotonic clock, in nanoseconds, milliseconds and seconds.
 */
#ifndef HK_BASE_CLOCK_H
#define HK_BASE_CLOCK_H

#include "base/common.h"

#include <time.h>

static inline uint64_t hk_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

static inline int64_t hk_clock_ms(void)
{
	return (int64_t)(hk_clock_ns() / HK_MSEC);
}

static inline double hk_clock_s(void)
{
	return (double)hk_clock_ns() / 1e9;
}

#endif

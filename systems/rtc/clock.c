/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/clock.c: measures the rate of the time stamp counter.
 */
#include "rtc/clock.h"

#define MEASURE (10 * HK_MSEC)

/* Reads both clocks at the same moment. It keeps the shortest of several tries, because the thread
 * may be preempted between two reads. */
static void read_both(uint64_t *tick, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	*tick = *ns = 0;
	for (int i = 0; i < 8; i++) {
		uint64_t a = hk_rtc_clock_ticks(), t = hk_clock_ns(), b = hk_rtc_clock_ticks();
		if (b - a < best) {
			best = b - a;
			*tick = a + best / 2;
			*ns = t;
		}
	}
}

void hk_rtc_clock_begin(struct hk_rtc_clock *c)
{
	*c = (struct hk_rtc_clock){.mult = UINT64_C(1) << 32};
	read_both(&c->tick0, &c->ns0);
}

void hk_rtc_clock_end(struct hk_rtc_clock *c)
{
	uint64_t tick, ns;
	struct timespec rest = {0};
	uint64_t passed = hk_clock_ns() - c->ns0;

	if (passed < MEASURE) {
		rest.tv_nsec = (long)(MEASURE - passed);
		nanosleep(&rest, NULL);
	}
	read_both(&tick, &ns);
	if (tick > c->tick0 && ns > c->ns0)
		c->mult = (uint64_t)(((unsigned __int128)(ns - c->ns0) << 32) / (tick - c->tick0));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/timers.h: the timers of a node. Internal to rtc/; pure.
 *
 * A table that is searched only when the earliest is due: with a few hundred timers that costs less than
 * keeping them in order.
 */
#ifndef HK_RTC_TIMERS_H
#define HK_RTC_TIMERS_H

#include "rtc/rtc.h"

#define HK_TIMERS 256

struct hk_timer {
	uint64_t due; /* UINT64_MAX: free */
	uint64_t period;
	hk_rtc_timer_fn fn;
	void *arg;
	uint32_t serial; /* so that a late cancel does not meet the next user of the place */
};

struct hk_timers {
	uint64_t due; /* nothing is due before */
	struct hk_timer timer[HK_TIMERS];
};

void hk_timers_init(struct hk_timers *t);

/* -ENOSPC: all run. */
int hk_timers_add(struct hk_timers *t, uint64_t due, uint64_t period, hk_rtc_timer_fn fn,
		  void *arg);
void hk_timers_cancel(struct hk_timers *t, int id);

/* Calls what is due; each timer once at the most, however late it is. Timers may be added and cancelled
 * meanwhile. */
void hk_timers_run(struct hk_timers *t, uint64_t now, struct hk_rtc *rtc);

#endif

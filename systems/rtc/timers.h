/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/timers.h: the timers of a node. Internal to rtc/; pure.
 *
 * They are in a table, which is searched only when the earliest timer is due. With a few hundred
 * timers that costs less than a sorted structure.
 */
#ifndef HK_RTC_TIMERS_H
#define HK_RTC_TIMERS_H

#include "hikyaku/rtc.h"

#define HK_RTC_TIMERS_MAX 256

struct hk_rtc_timer {
	uint64_t due; /* UINT64_MAX: free entry */
	uint64_t period;
	hk_rtc_timer_fn fn;
	void *arg;
	uint32_t serial; /* use count of the entry: makes the id of an ended timer invalid */
};

struct hk_rtc_timers {
	uint64_t due; /* earliest time of any timer */
	struct hk_rtc_timer timer[HK_RTC_TIMERS_MAX];
};

void hk_rtc_timers_init(struct hk_rtc_timers *t);

/* Returns an id, or -ENOSPC if the table is full. */
int hk_rtc_timers_add(struct hk_rtc_timers *t, uint64_t due, uint64_t period, hk_rtc_timer_fn fn,
		      void *arg);
void hk_rtc_timers_cancel(struct hk_rtc_timers *t, int id);

/* Calls the functions of due timers; each at most once, however late it is. They may add and cancel
 * timers. */
void hk_rtc_timers_run(struct hk_rtc_timers *t, uint64_t now, struct hk_rtc *rtc);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/timers.c: see timers.h. An id combines the table entry and its use count.
 */
#include "rtc/timers.h"

#include "base/common.h"

#include <errno.h>

#define SERIALS (INT32_MAX / HK_RTC_TIMERS_MAX)

void hk_rtc_timers_init(struct hk_rtc_timers *t)
{
	t->due = UINT64_MAX;
	for (unsigned i = 0; i < HK_RTC_TIMERS_MAX; i++)
		t->timer[i] = (struct hk_rtc_timer){.due = UINT64_MAX};
}

int hk_rtc_timers_add(struct hk_rtc_timers *t, uint64_t due, uint64_t period, hk_rtc_timer_fn fn,
		      void *arg)
{
	for (unsigned i = 0; i < HK_RTC_TIMERS_MAX; i++) {
		struct hk_rtc_timer *e = &t->timer[i];
		if (e->due != UINT64_MAX)
			continue;
		uint32_t serial = (e->serial + 1) % SERIALS;
		*e = (struct hk_rtc_timer){HK_MIN(due, UINT64_MAX - 1), period, fn, arg, serial};
		t->due = HK_MIN(t->due, e->due);
		return (int)(serial * HK_RTC_TIMERS_MAX + i);
	}
	return -ENOSPC;
}

void hk_rtc_timers_cancel(struct hk_rtc_timers *t, int id)
{
	if (id < 0)
		return;
	struct hk_rtc_timer *e = &t->timer[(unsigned)id % HK_RTC_TIMERS_MAX];
	if (e->serial == (unsigned)id / HK_RTC_TIMERS_MAX)
		e->due = UINT64_MAX;
}

void hk_rtc_timers_run(struct hk_rtc_timers *t, uint64_t now, struct hk_rtc *rtc)
{
	if (now < t->due)
		return;
	t->due = UINT64_MAX; /* timers added from here on lower it again */
	for (unsigned i = 0; i < HK_RTC_TIMERS_MAX; i++) {
		struct hk_rtc_timer *e = &t->timer[i];
		if (e->due > now) {
			t->due = HK_MIN(t->due, e->due);
			continue;
		}
		/* the period counts from the due time, unless the next due time has passed as well
		 */
		uint64_t next = e->period ? e->due + e->period : UINT64_MAX;
		e->due = e->period && next <= now ? now + e->period : next;
		t->due = HK_MIN(t->due, e->due);
		e->fn(rtc, e->arg);
	}
}

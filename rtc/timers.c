/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/timers.c: see timers.h. An id is the place in the table and its serial number.
 */
#include "rtc/timers.h"

#include "base/common.h"

#include <errno.h>

#define SERIALS (INT32_MAX / HK_TIMERS)

void hk_timers_init(struct hk_timers *t)
{
	t->due = UINT64_MAX;
	for (unsigned i = 0; i < HK_TIMERS; i++)
		t->timer[i] = (struct hk_timer){.due = UINT64_MAX};
}

int hk_timers_add(struct hk_timers *t, uint64_t due, uint64_t period, hk_rtc_timer_fn fn, void *arg)
{
	for (unsigned i = 0; i < HK_TIMERS; i++) {
		struct hk_timer *e = &t->timer[i];
		if (e->due != UINT64_MAX)
			continue;
		uint32_t serial = (e->serial + 1) % SERIALS;
		*e = (struct hk_timer){HK_MIN(due, UINT64_MAX - 1), period, fn, arg, serial};
		t->due = HK_MIN(t->due, e->due);
		return (int)(serial * HK_TIMERS + i);
	}
	return -ENOSPC;
}

void hk_timers_cancel(struct hk_timers *t, int id)
{
	if (id < 0)
		return;
	struct hk_timer *e = &t->timer[(unsigned)id % HK_TIMERS];
	if (e->serial == (unsigned)id / HK_TIMERS)
		e->due = UINT64_MAX;
}

void hk_timers_run(struct hk_timers *t, uint64_t now, struct hk_rtc *rtc)
{
	if (now < t->due)
		return;
	t->due = UINT64_MAX; /* what is added from here on lowers it again */
	for (unsigned i = 0; i < HK_TIMERS; i++) {
		struct hk_timer *e = &t->timer[i];
		if (e->due > now) {
			t->due = HK_MIN(t->due, e->due);
			continue;
		}
		/* the next one counts from when this one was due, unless that has passed as well */
		uint64_t next = e->period ? e->due + e->period : UINT64_MAX;
		e->due = e->period && next <= now ? now + e->period : next;
		t->due = HK_MIN(t->due, e->due);
		e->fn(rtc, e->arg);
	}
}

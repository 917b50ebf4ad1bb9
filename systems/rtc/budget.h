/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/budget.h: measures the cost of a message type, and decides whether handler threads handle it.
 * Internal to rtc/; pure.
 *
 * DESIGN NOTES
 *
 * Problem: a slow handler on the core delays reception. Its type must move to handler threads, and
 * move back when it is fast again, without flapping.
 *
 * Approach: the time of a burst, divided by its messages, is smoothed (weight of a new sample:
 * 1/8). Deferral begins when the smoothed cost exceeds the budget. It ends when the cost, now
 * measured on the handler threads, is below three quarters of the budget.
 *
 * A burst during which the core was preempted seems arbitrarily expensive. So a sample counts as at
 * most one and a half times the budget: about nine such bursts in succession are needed to begin
 * deferral.
 */
#ifndef HK_RTC_BUDGET_H
#define HK_RTC_BUDGET_H

#include "base/common.h"

struct hk_rtc_budget {
	uint32_t limit;    /* budget in ns a message; 0: none */
	uint32_t smoothed; /* cost in 1/16 ns */
	bool over;         /* whether the type is deferred */
};

/* Adds a sample: @n messages took @ns. Returns true if this burst exceeded the budget. */
static inline bool hk_rtc_budget_sample(struct hk_rtc_budget *b, uint64_t ns, unsigned n)
{
	uint64_t each = (ns * 16) / n;
	bool expensive = b->limit && each > (uint64_t)b->limit * 16;
	uint64_t most = b->limit ? (uint64_t)b->limit * 24 : UINT32_MAX / 2;

	each = HK_MIN(each, HK_MIN(most, UINT32_MAX / 2));
	b->smoothed = (uint32_t)(((uint64_t)b->smoothed * 7 + each) / 8);
	if (b->limit)
		b->over = b->over ? b->smoothed >= (uint64_t)b->limit * 12
				  : b->smoothed > (uint64_t)b->limit * 16;
	return expensive;
}

static inline uint32_t hk_rtc_budget_recent(const struct hk_rtc_budget *b)
{
	return b->smoothed / 16;
}

#endif

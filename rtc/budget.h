/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/budget.h: what a message of a type costs, and whether its handlers belong on worker cores.
 * Internal to rtc/; pure.
 *
 * The cost is measured over a burst, divided by its messages, and smoothed (1/8 of each new one). A burst that
 * lost the processor looks arbitrarily dear, so a sample counts at most one and a half times the budget: about nine bursts in a
 * row must be over it. Deferral ends when the cost, now measured on the workers, is below three quarters.
 */
#ifndef HK_RTC_BUDGET_H
#define HK_RTC_BUDGET_H

#include "base/common.h"

struct hk_budget {
	uint32_t limit;    /* ns a message; 0: none */
	uint32_t smoothed; /* ns, times 16 */
	bool over;         /* to be deferred */
};

/* @n messages took @ns. True: this burst was over the budget. */
static inline bool hk_budget_sample(struct hk_budget *b, uint64_t ns, unsigned n)
{
	uint64_t each = (ns * 16) / n;
	bool dear = b->limit && each > (uint64_t)b->limit * 16;
	uint64_t most = b->limit ? (uint64_t)b->limit * 24 : UINT32_MAX / 2;

	each = HK_MIN(each, HK_MIN(most, UINT32_MAX / 2));
	b->smoothed = (uint32_t)(((uint64_t)b->smoothed * 7 + each) / 8);
	if (b->limit)
		b->over = b->over ? b->smoothed >= (uint64_t)b->limit * 12
				  : b->smoothed > (uint64_t)b->limit * 16;
	return dear;
}

static inline uint32_t hk_budget_recent(const struct hk_budget *b)
{
	return b->smoothed / 16;
}

#endif

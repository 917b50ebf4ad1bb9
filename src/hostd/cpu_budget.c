/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/cpu_budget.c: whether the core is crowded, and the CPU budget there.
 */
#include "hostd/cpu_budget.h"

static uint64_t ticks(uint64_t ns, uint64_t hz)
{
	return (uint64_t)((__uint128_t)ns * hz / HK_SEC);
}

void hk_cpu_budget_init(struct hk_cpu_budget *p, uint64_t hz)
{
	*p = (struct hk_cpu_budget){
		.slow_yield = ticks(HK_CPU_BUDGET_SLOW_YIELD, hz),
		.min_crowded = ticks(HK_CPU_BUDGET_MIN_CROWDED, hz),
		.max_crowded = ticks(HK_CPU_BUDGET_MAX_CROWDED, hz),
		.full = (int64_t)ticks(HK_CPU_BUDGET, hz),
		.max_debt = (int64_t)ticks(HK_CPU_BUDGET_MAX_DEBT, hz),
	};
	p->balance = p->full;
}

void hk_cpu_budget_yielded(struct hk_cpu_budget *p, uint64_t before, uint64_t after)
{
	if (after - before < p->slow_yield) {
		p->crowded_for = 0;
		return;
	}
	p->crowded_for = p->crowded_for ? HK_MIN(2 * p->crowded_for, p->max_crowded)
					: p->min_crowded;
	p->crowded_until = after + p->crowded_for;
}

/* Limits @ticks to the size of the whole range, so that sums do not overflow. */
static int64_t bounded(const struct hk_cpu_budget *p, uint64_t ticks)
{
	return (int64_t)HK_MIN(ticks, (uint64_t)(p->full + p->max_debt));
}

void hk_cpu_budget_spend(struct hk_cpu_budget *p, uint64_t ticks)
{
	p->balance = HK_MAX(p->balance - bounded(p, ticks), -p->max_debt);
}

void hk_cpu_budget_refund(struct hk_cpu_budget *p, uint64_t ticks)
{
	p->balance = HK_MIN(p->balance + bounded(p, ticks), p->full);
}

uint64_t hk_cpu_budget_wait_ns(const struct hk_cpu_budget *p)
{
	return (uint64_t)(p->full / 2 - p->balance) * HK_CPU_BUDGET / (uint64_t)p->full;
}

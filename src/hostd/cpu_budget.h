/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/cpu_budget.h: how the switch waits on a core that it shares with ranks.
 *
 * DESIGN NOTES
 *
 * Problem: without frames the switch yields its core, which works well beside ranks that wait: each
 * gets the core in turn. But a rank that computes keeps the core until the kernel's next tick, some
 * milliseconds later. A thread that sleeps and has a wakeup priority (hostd/wakeup_priority.h) gets
 * the core as soon as it is woken. It must not yield, though: it would get the core again before
 * the threads that it yields to, or it alone would ever get it.
 *
 * Approach: the switch measures how long a yield takes. After a slow one the core counts as
 * *crowded* for a while. On a crowded core the switch does not yield, and sleeps as soon as there
 * is nothing to do. It has the wakeup priority while it sleeps, and gives it up before it yields.
 *
 * Frames that come one by one would wake it again and again, each time before all other threads. So
 * a *CPU budget* limits its time with that priority. Work with the priority is taken from the
 * budget; sleep, and work without the priority, is paid into it. When the budget is used up, the
 * switch sleeps and ignores signals until half of it is back.
 *
 * Invariant: in any interval the time with priority exceeds the time without it by at most one
 * budget and one round of the switch.
 */
#ifndef HK_HOSTD_CPU_BUDGET_H
#define HK_HOSTD_CPU_BUDGET_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_CPU_BUDGET_SLOW_YIELD HK_MSEC /* so long a yield takes if another thread computes */
/* How long the core counts as crowded after a slow yield. The time doubles with each further one.
 */
#define HK_CPU_BUDGET_MIN_CROWDED (16 * HK_MSEC)
#define HK_CPU_BUDGET_MAX_CROWDED (512 * HK_MSEC)
#define HK_CPU_BUDGET             (200 * HK_USEC)
#define HK_CPU_BUDGET_MAX_DEBT    (5 * HK_CPU_BUDGET)

/* All times are ticks of a monotonic clock, since the switch needs them in each empty round. */
struct hk_cpu_budget {
	uint64_t slow_yield, min_crowded, max_crowded; /* the constants above */
	uint64_t crowded_until;                        /* time */
	uint64_t crowded_for;                          /* duration after the last slow yield */
	int64_t full, max_debt;                        /* the constants above */
	int64_t balance;                               /* from -max_debt to full */
};

/* @hz: ticks per second of the clock. */
void hk_cpu_budget_init(struct hk_cpu_budget *p, uint64_t hz);

static inline bool hk_cpu_budget_crowded(const struct hk_cpu_budget *p, uint64_t now)
{
	return now < p->crowded_until;
}

/* Reports a yield that lasted from @before to @after. */
void hk_cpu_budget_yielded(struct hk_cpu_budget *p, uint64_t before, uint64_t after);

/* Takes time with priority from the budget; pays time without it, asleep or working, into it. */
void hk_cpu_budget_spend(struct hk_cpu_budget *p, uint64_t ticks);
void hk_cpu_budget_refund(struct hk_cpu_budget *p, uint64_t ticks);

/* How long the switch may work with priority from now on. */
static inline uint64_t hk_cpu_budget_left(const struct hk_cpu_budget *p)
{
	return p->balance > 0 ? (uint64_t)p->balance : 0;
}

/* How long to sleep, in ns, until half of the budget is back; only if nothing of it is left. */
uint64_t hk_cpu_budget_wait_ns(const struct hk_cpu_budget *p);

#endif

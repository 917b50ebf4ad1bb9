/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/pace.h: how the switch waits, where its core is not its own.
 *
 * The switch yields between frames, which is good beside ranks that wait: each gets the core in turn. A rank that
 * computes keeps it until the kernel's next tick, some milliseconds later. Who sleeps instead, and is prompt
 * (host/prompt.h), gets the core as soon as it is woken. But a prompt thread that yields gets it again and again before
 * those it yields to, or is the only one to get it.
 *
 * So yields are timed. When one took long the core is *crowded* for a while: the switch yields no more, and sleeps as
 * soon as there is nothing to do. It is prompt while it sleeps, and ordinary while it yields.
 *
 * Frames that come one by one would wake it for ever, each time with the core before all others. So it has a *ration* of
 * prompt time: what it works then takes from it; what it sleeps, or works as an ordinary thread, gives back. When it is used up
 * the switch sleeps without listening until there is some. Over any while it is prompt no longer than it is not, and a ration
 * more, but for what one long round may take.
 */
#ifndef HK_HOST_PACE_H
#define HK_HOST_PACE_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_PACE_SLOW   HK_MSEC        /* a yield that took so long: somebody computes */
#define HK_PACE_FIRST  (16 * HK_MSEC) /* so long no yields are tried; each time twice as long, … */
#define HK_PACE_MOST   (512 * HK_MSEC) /* … up to this */
#define HK_PACE_RATION (200 * HK_USEC)
#define HK_PACE_DEBT   (5 * HK_PACE_RATION) /* at the most */

/* Times are ticks of a monotonic clock, since each empty round looks at them. */
struct hk_pace {
	uint64_t slow, first, most; /* the times above */
	uint64_t until, span;
	int64_t whole, debt, ration; /* the last from -debt to whole */
};

/* @hz: the clock's ticks a second. */
void hk_pace_init(struct hk_pace *p, uint64_t hz);

static inline bool hk_pace_crowded(const struct hk_pace *p, uint64_t now)
{
	return now < p->until;
}

/* After a yield. */
void hk_pace_yielded(struct hk_pace *p, uint64_t before, uint64_t after);

/* It has worked for so long, being prompt; it has slept, or worked and was not, for so long. */
void hk_pace_prompt(struct hk_pace *p, uint64_t ticks);
void hk_pace_else(struct hk_pace *p, uint64_t ticks);

/* So long it may work from now on, being prompt. */
static inline uint64_t hk_pace_ration(const struct hk_pace *p)
{
	return p->ration > 0 ? (uint64_t)p->ration : 0;
}

/* If that is nothing: how long to sleep, in ns, until it may work for half a ration. */
uint64_t hk_pace_fast(const struct hk_pace *p);

#endif

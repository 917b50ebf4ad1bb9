/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/pace.c: whether the core is crowded, and how long one may be prompt there.
 */
#include "host/pace.h"

static uint64_t ticks(uint64_t ns, uint64_t hz)
{
	return (uint64_t)((__uint128_t)ns * hz / HK_SEC);
}

void hk_pace_init(struct hk_pace *p, uint64_t hz)
{
	*p = (struct hk_pace){
		.slow = ticks(HK_PACE_SLOW, hz),
		.first = ticks(HK_PACE_FIRST, hz),
		.most = ticks(HK_PACE_MOST, hz),
		.whole = (int64_t)ticks(HK_PACE_RATION, hz),
	};
	p->ration = p->whole;
}

void hk_pace_yielded(struct hk_pace *p, uint64_t before, uint64_t after)
{
	if (after - before < p->slow) {
		p->span = 0;
		return;
	}
	p->span = p->span ? HK_MIN(2 * p->span, p->most) : p->first;
	p->until = after + p->span;
}

void hk_pace_worked(struct hk_pace *p, uint64_t ticks)
{
	/* not below: what was longer than it may be was the machine's doing */
	p->ration = HK_MAX(p->ration - (int64_t)HK_MIN(ticks, (uint64_t)p->whole * 2), -p->whole);
}

void hk_pace_slept(struct hk_pace *p, uint64_t ticks)
{
	p->ration = HK_MIN(p->ration + (int64_t)HK_MIN(ticks, (uint64_t)p->whole * 2), p->whole);
}

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
		.debt = (int64_t)ticks(HK_PACE_DEBT, hz),
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

/* Both are far below 2^62, whatever the clock says. */
static int64_t bounded(const struct hk_pace *p, uint64_t ticks)
{
	return (int64_t)HK_MIN(ticks, (uint64_t)(p->whole + p->debt));
}

void hk_pace_prompt(struct hk_pace *p, uint64_t ticks)
{
	p->ration = HK_MAX(p->ration - bounded(p, ticks), -p->debt);
}

void hk_pace_else(struct hk_pace *p, uint64_t ticks)
{
	p->ration = HK_MIN(p->ration + bounded(p, ticks), p->whole);
}

uint64_t hk_pace_fast(const struct hk_pace *p)
{
	return (uint64_t)(p->whole / 2 - p->ration) * HK_PACE_RATION / (uint64_t)p->whole;
}

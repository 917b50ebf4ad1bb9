/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/pace.c: whether the core is crowded.
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
	};
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/pace.c: whether the core is crowded, and the thread's slice.
 */
#include "host/pace.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

void hk_pace_yielded(struct hk_pace *p, uint64_t before, uint64_t after)
{
	if (after - before < HK_PACE_SLOW) {
		p->span = 0;
		return;
	}
	p->span = p->span ? HK_MIN(2 * p->span, HK_PACE_MOST) : HK_PACE_FIRST;
	p->until = after + p->span;
}

void hk_pace_slice(bool brief)
{
	struct sched_attr a = {.size = sizeof(a)};

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) != 0)
		return;
	a.sched_runtime = brief ? HK_PACE_SLICE : 0;
	(void)syscall(SYS_sched_setattr, 0, &a, 0);
}

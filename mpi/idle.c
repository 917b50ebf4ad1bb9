/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/idle.c: when a rank that waits sleeps in place of a yield.
 */
#include "mpi/idle.h"

/* One long pause between two polls may be the application's, which computed. */
#define SLOW_ENOUGH 2

static void note_yield(struct hk_idle *i, uint64_t took)
{
	if (took < HK_IDLE_SLOW) {
		i->slow = 0;
		i->round = 0;
		return;
	}
	if (++i->slow < SLOW_ENOUGH)
		return;
	i->slow = 0;
	i->round = i->round ? HK_MIN(2 * i->round, (unsigned)HK_IDLE_MOST) : HK_IDLE_FIRST;
	i->naps = i->round;
}

/* A longer pause is the application's, or nothing to count on. */
static void note_late(struct hk_idle *i, uint64_t now)
{
	uint64_t late = i->due && now > i->due ? now - i->due : 0;

	i->late = HK_MAX(late <= HK_IDLE_LATE ? late : 0, i->late - i->late / 8);
}

static uint64_t next(struct hk_idle *i, uint64_t now, bool silent, bool held)
{
	if (i->left && now > i->left)
		note_yield(i, now - i->left);
	i->left = 0;
	i->polls++;
	if (silent && i->naps == 0)
		i->naps = HK_IDLE_FIRST;
	if (i->naps > 0) {
		i->naps--;
		return HK_IDLE_NAP;
	}
	if (held || i->polls > HK_IDLE_LONG)
		return HK_IDLE_NAP;
	i->left = now;
	return 0;
}

uint64_t hk_idle_poll(struct hk_idle *i, uint64_t now, bool silent, bool held)
{
	note_late(i, now);
	uint64_t nap = next(i, now, silent, held);

	i->due = now + nap;
	return nap;
}

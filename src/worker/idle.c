/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/idle.c: when a rank that waits sleeps in place of a yield.
 */
#include "worker/idle.h"

/* Consecutive slow yields before the rank sleeps. One long pause between two polls may be the
 * application's computation. */
#define SLOW_YIELDS 2

static void note_yield(struct hk_idle *i, uint64_t took)
{
	if (took < HK_IDLE_SLOW_YIELD) {
		i->slow = 0;
		i->backoff = 0;
		return;
	}
	if (++i->slow < SLOW_YIELDS)
		return;
	i->slow = 0;
	i->backoff = i->backoff ? HK_MIN(2 * i->backoff, (unsigned)HK_IDLE_BACKOFF_MAX)
				: HK_IDLE_BACKOFF_FIRST;
	i->sleeps_left = i->backoff;
}

/* A longer pause is the application's, or does not predict the next one. */
static void note_late(struct hk_idle *i, uint64_t now)
{
	uint64_t late = i->due && now > i->due ? now - i->due : 0;

	i->late = HK_MAX(late <= HK_IDLE_LATE_MAX ? late : 0, i->late - i->late / 8);
}

static uint64_t next(struct hk_idle *i, uint64_t now, bool silent, bool blocked)
{
	if (i->yielded_at && now > i->yielded_at)
		note_yield(i, now - i->yielded_at);
	i->yielded_at = 0;
	i->polls++;
	if (silent && i->sleeps_left == 0)
		i->sleeps_left = HK_IDLE_BACKOFF_FIRST;
	if (i->sleeps_left > 0) {
		i->sleeps_left--;
		return HK_IDLE_SLEEP;
	}
	if (blocked || i->polls > HK_IDLE_POLLS)
		return HK_IDLE_SLEEP;
	i->yielded_at = now;
	return 0;
}

uint64_t hk_idle_poll(struct hk_idle *i, uint64_t now, bool silent, bool blocked)
{
	note_late(i, now);
	uint64_t sleep_ns = next(i, now, silent, blocked);

	i->due = now + sleep_ns;
	return sleep_ns;
}

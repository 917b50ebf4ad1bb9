/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/idle.h: when a waiting rank gives its core to others, where ranks share cores.
 *
 * DESIGN NOTES
 *
 * Problem: A rank that waits can yield. sched_yield(2) is good between ranks of one session that
 * all wait. Otherwise the kernel gives a task that yields its next turn late. All other tasks on
 * the core have a slice first (since 6.18, some ms). Moreover, the kernel never gives the core to
 * another session (autogroup) or control group, to which the awaited process may belong. A short
 * sleep solves both: the core is free, and the task gets it back soon after it wakes.
 *
 * Approach: the rank sleeps in place of a yield in four cases.
 *  - Yields have taken long.
 *  - A peer is silent.
 *  - Receivers hold back all that waits to be sent. Then each turn of this rank is useless, and
 *    delays all others on the core.
 *  - Nothing has arrived for many polls. Ranks that yield to each other for seconds can keep
 *    hikyakud's switch, in another session, from carrying the frames that they wait for.
 *
 * It is a pure state machine: the caller passes the time, and sleeps.
 */
#ifndef HK_WORKER_IDLE_H
#define HK_WORKER_IDLE_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(default)

#define HK_IDLE_SLEEP         (50 * HK_USEC)
#define HK_IDLE_SLOW_YIELD    HK_MSEC        /* a yield that took so long: others wanted the core */
#define HK_IDLE_SILENT        (10 * HK_MSEC) /* a peer with a core answers sooner */
#define HK_IDLE_LATE_MAX      (200 * HK_USEC) /* the longest turn of others that is predicted */
#define HK_IDLE_BACKOFF_FIRST 64              /* sleeps before the next yield; doubles each time */
#define HK_IDLE_BACKOFF_MAX   4096            /* the maximum of these */
/* Polls in vain before the rank sleeps. Each takes a few µs, so a sleep adds little to the wait. */
#define HK_IDLE_POLLS 1000
/* The same, if the receivers hold back all that waits to be sent. */
#define HK_IDLE_BLOCKED_POLLS 16

/* All zero at first. */
struct hk_idle {
	uint64_t yielded_at;  /* when the last poll in vain returned for a yield; 0: it did not */
	unsigned slow;        /* consecutive slow yields */
	unsigned sleeps_left; /* before the next yield */
	unsigned backoff;     /* sleeps of the last backoff */
	unsigned polls;       /* in vain */
	uint64_t due;         /* next poll if no other task had the core; 0: something arrived */
	/* ns: the longest time that others recently had the core between two polls; it decays */
	uint64_t late;
};

/* True if the caller should check now for a silent peer, which costs more than a poll. */
static inline bool hk_idle_checks_silence(const struct hk_idle *i)
{
	return i->sleeps_left == 0 && i->polls % 64 == 63;
}

/* True if the caller should check now whether the receivers hold back all that waits to be sent. */
static inline bool hk_idle_checks_not_polling(const struct hk_idle *i)
{
	return i->polls >= HK_IDLE_BLOCKED_POLLS;
}

/* After a poll that brought nothing, begun at @now. @silent: a peer has not acknowledged anything
 * for HK_IDLE_SILENT. @blocked: the receivers hold back all that waits to be sent. Returns
 * how many ns to sleep in place of a yield, or 0. */
uint64_t hk_idle_poll(struct hk_idle *i, uint64_t now, bool silent, bool blocked);

/* After hk_idle_poll(): when the next poll is expected, by the turns that others had lately. Until
 * then a rank that waits for its core does not count as not polling. */
static inline uint64_t hk_idle_next_poll_at(const struct hk_idle *i)
{
	return i->due + i->late;
}

/* After a poll that brought something. */
static inline void hk_idle_busy(struct hk_idle *i)
{
	i->yielded_at = 0;
	i->due = 0;
	i->polls = 0;
}

#pragma GCC visibility pop

#endif

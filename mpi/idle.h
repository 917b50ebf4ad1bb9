/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/idle.h: what a rank that waits does with its core, where others need it (mpi_yield_when_idle).
 *
 * Open MPI yields. sched_yield(2) is good between ranks of one session that all wait. Otherwise the kernel
 * gives a task that yields its next turn only when those it shares the core with have had a slice each (since
 * 6.18, some ms), and never gives the core to another session (autogroup) or control group, where those
 * waited for may be. A short sleep does both: the core is free, and who wakes up soon has it.
 *
 * So this sleeps in place of a yield, when yields are seen to take long, when a peer says nothing, when what it has to send
 * waits for receivers who take nothing (each of its turns would be for nothing, and delay all others on the core), and once
 * nothing has come for many polls: ranks of a session that yield to each other for seconds can keep a switch,
 * of another session, from ever carrying what they wait for. A pure state machine: the caller tells the time, and sleeps.
 */
#ifndef HK_MPI_IDLE_H
#define HK_MPI_IDLE_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_IDLE_NAP    (50 * HK_USEC)
#define HK_IDLE_SLOW   HK_MSEC        /* a yield that took so long: others wanted the core */
#define HK_IDLE_SILENT (10 * HK_MSEC) /* whoever has a core answers sooner */
#define HK_IDLE_LONG   1000 /* polls in vain, a few µs each: a nap more is a small part of the wait */
#define HK_IDLE_HELD   16 /* … if all that waits to be sent is held back by its receivers */
#define HK_IDLE_LATE   (200 * HK_USEC) /* the longest that a turn of others is expected to take */
#define HK_IDLE_FIRST  64   /* naps before yields are tried again; each time twice as many, … */
#define HK_IDLE_MOST   4096 /* … up to this */

/* All zero at first. */
struct hk_idle {
	uint64_t left;  /* when the last poll in vain returned without a nap; 0: it did not */
	unsigned slow;  /* yields in a row that took long */
	unsigned naps;  /* to come */
	unsigned round; /* naps of the last round */
	unsigned polls; /* in vain */
	uint64_t
		due; /* when the next poll would be if nobody else had the core; 0: something came */
	uint64_t
		late; /* how long others had it between two polls: the longest, which is forgotten by and by */
};

/* Should the caller look now whether a peer is silent? It costs more than a poll. */
static inline bool hk_idle_looks(const struct hk_idle *i)
{
	return i->naps == 0 && i->polls % 64 == 63;
}

/* The same: is all that waits to be sent is held back by its receivers? */
static inline bool hk_idle_looks_held(const struct hk_idle *i)
{
	return i->polls >= HK_IDLE_HELD;
}

/* After a poll that brought nothing, begun at @now. @silent: a peer has not acknowledged anything for
 * HK_IDLE_SILENT. @held: what waits to be sent is held back, as above. Returns how many ns to sleep in place of a yield, or 0. */
uint64_t hk_idle_poll(struct hk_idle *i, uint64_t now, bool silent, bool held);

/* After hk_idle_poll(): when the next poll is to be expected, by the turns that others had lately. Until then who waits
 * for its core is not to be taken for one that has left. */
static inline uint64_t hk_idle_back_at(const struct hk_idle *i)
{
	return i->due + i->late;
}

/* After a poll that brought something. */
static inline void hk_idle_busy(struct hk_idle *i)
{
	i->left = 0;
	i->due = 0;
	i->polls = 0;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/locks.h: the lock of one rank's window: requests are granted in their order, several
 * shared ones together. So nobody starves, and nobody asks twice. Pure; its user locks around it.
 *
 * A rank has one request at a time, so its number names it. All may lie in memory that processes
 * share.
 */
#ifndef HK_OSC_LOCKS_H
#define HK_OSC_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define HK_OSC_NOBODY UINT32_MAX

/* The request of a rank that waits. */
struct hk_osc_waiter {
	uint32_t next; /* rank */
	bool waits, exclusive;
};

struct hk_osc_lock {
	uint32_t readers;    /* that hold it */
	bool writer;         /* holds it */
	uint32_t head, tail; /* of the waiting ranks */
};

void hk_osc_lock_init(struct hk_osc_lock *l);

/* May a request have the lock at once? Then it has it. */
bool hk_osc_lock_try(struct hk_osc_lock *l, bool exclusive);

/* Appends the request of @rank, which hk_osc_lock_try() refused. @all: the waiters, by rank. */
void hk_osc_lock_wait(struct hk_osc_lock *l, struct hk_osc_waiter *all, uint32_t rank,
		      bool exclusive);

/* Gives one holder's lock back. False: nobody holds it. */
bool hk_osc_lock_release(struct hk_osc_lock *l);

/* The next rank that has the lock now, taken off the list. HK_OSC_NOBODY: there is none. */
uint32_t hk_osc_lock_next(struct hk_osc_lock *l, struct hk_osc_waiter *all);

#endif

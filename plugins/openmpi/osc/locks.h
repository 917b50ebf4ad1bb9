/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/locks.h: the lock of one rank's window. Of the ranks that wait, the one that has not
 * had it for the longest time is next, and several shared ones have it together. Pure; its user
 * locks around it.
 *
 * So nobody starves: while a rank waits, each other one gets the lock at most once. The order of
 * requests has the same bound, but is not fair. The owner of the window asks again at once, and a
 * rank on another node only after a round trip. So of eight ranks the owner got the lock 15 % more
 * often than its share.
 *
 * A rank has one request at a time, so its number names it. All may lie in memory that processes
 * share. If one of them damages it, the order is wrong, but everything here ends, and touches these
 * ranks alone.
 */
#ifndef HK_OSC_LOCKS_H
#define HK_OSC_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define HK_OSC_NOBODY UINT32_MAX

/* A rank. */
struct hk_osc_waiter {
	uint64_t granted; /* the number of its last grant; 0: none */
	uint32_t next;    /* rank that waits behind it */
	bool waits, exclusive;
};

struct hk_osc_waiters {
	struct hk_osc_waiter *of;
	uint32_t ranks;
};

struct hk_osc_lock {
	uint64_t grants;     /* so far */
	uint32_t readers;    /* that hold it */
	bool writer;         /* holds it */
	uint32_t head, tail; /* of the waiting ranks */
};

void hk_osc_lock_init(struct hk_osc_lock *l);

/* May @rank have the lock at once? Then it has it. @all: the ranks. */
bool hk_osc_lock_try(struct hk_osc_lock *l, struct hk_osc_waiters all, uint32_t rank,
		     bool exclusive);

/* Adds the request of @rank, which hk_osc_lock_try() refused. */
void hk_osc_lock_wait(struct hk_osc_lock *l, struct hk_osc_waiters all, uint32_t rank,
		      bool exclusive);

/* Gives one holder's lock back. False: nobody holds it. */
bool hk_osc_lock_release(struct hk_osc_lock *l);

/* The next rank that has the lock now, taken off the list. HK_OSC_NOBODY: there is none. */
uint32_t hk_osc_lock_next(struct hk_osc_lock *l, struct hk_osc_waiters all);

#endif

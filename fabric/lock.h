/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/lock.h: a lock biased to one side.
 *
 * The application's thread enters the fabric millions of times a second; the helper thread a
 * thousand times at the most. An ordinary lock would cost the application an atomic instruction
 * each time. Here it pays two plain stores and a load: the helper pays for both, by
 * membarrier(2), which makes every thread of the process pass a memory barrier. It is Dekker's
 * algorithm with the owner's barrier moved to the helper:
 *
 *   owner:  owner_in = 1; (compiler barrier)       helper: helper = IN; membarrier();
 *           if (helper != OUT) wait;                       if (owner_in) back off; else inside
 *
 * After membarrier() returns, either the owner had stored owner_in before it (the helper sees it
 * and backs off), or the owner's later load sees that the helper is there. The helper never waits for the
 * owner: it tries, and comes again.
 *
 * A membarrier() interrupts every core that runs one of ours, 15 to 40 us of a virtual machine, and a helper looks
 * thousands of times a second at an owner that computes. So who leaves stays NEAR, and the lock leans to neither side:
 * whichever comes first takes it by one atomic instruction, the helper back to IN, the owner to OWNER. An owner that comes
 * and goes leaves it NEAR as well; only every so often, since it may have come to stay, it moves it to OUT, so that the lock leans
 * to it again. So while it computes between, there is one membarrier() for HK_BIASED_STAYS of its entries.
 *
 * The helper may be a process of its own (the polling process), when the lock lies in shared memory:
 * then both register for barriers across processes. Should it die inside, whoever notices declares
 * the lock broken, and the owner gets in, to find out that what the lock guarded is lost.
 */
#ifndef HK_FABRIC_LOCK_H
#define HK_FABRIC_LOCK_H

#include "base/common.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum hk_biased_helper {
	HK_HELPER_OUT,
	HK_HELPER_IN,   /* or about to find that the owner is */
	HK_HELPER_NEAR, /* it has left, and the lock leans to nobody */
	HK_HELPER_OWNER /* … the same, but that the owner is inside */
};

#define HK_BIASED_STAYS 1000 /* at some ns each, less than a membarrier() takes */

struct hk_biased_lock {
	_Atomic int owner_in;
	int depth;               /* the owner re-enters: a handler sends */
	bool near;               /* it is in, and leaves the lock near */
	unsigned entries;        /* … so often since it leaned to it */
	_Atomic int helper;      /* enum hk_biased_helper */
	_Atomic int owner_waits; /* the helper is inside, and shall come out soon */
	_Atomic int broken;
	bool processes; /* owner and helper are two */
};

/* By the owner, before the helper exists; with @processes by each of the two. Returns 0, or -1 if the
 * kernel lacks membarrier. */
static inline int hk_biased_register(struct hk_biased_lock *l, bool processes)
{
	l->processes = processes;
	return (int)syscall(SYS_membarrier,
			    processes ? MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
				      : MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
			    0, 0);
}

/* The helper may have been taken off the core that the owner waits on, inside. Yielding lets it go on only if the
 * scheduler has both in one group (sched(7), autogroups), and here a loop of it was seen to keep everybody else from a
 * core for half a minute. So the owner sleeps when yielding has not helped. */
#define HK_BIASED_YIELDS 100
#define HK_BIASED_NAP_NS 20000

static inline void hk_biased_wait(unsigned tries)
{
	const struct timespec nap = {.tv_nsec = HK_BIASED_NAP_NS};

	if (tries < HK_BIASED_YIELDS)
		sched_yield();
	else
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

static inline bool hk_biased_move(struct hk_biased_lock *l, int from, int to)
{
	return atomic_compare_exchange_strong(&l->helper, &from, to);
}

static inline bool hk_biased_helper_in(const struct hk_biased_lock *l)
{
	return atomic_load_explicit(&l->helper, memory_order_acquire) == HK_HELPER_IN;
}

static inline void hk_biased_enter(struct hk_biased_lock *l)
{
	if (l->depth++)
		return;
	atomic_store_explicit(&l->owner_in, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	while (HK_UNLIKELY(atomic_load_explicit(&l->helper, memory_order_acquire))) {
		bool stays = l->entries >= HK_BIASED_STAYS;

		if (hk_biased_move(l, HK_HELPER_NEAR, stays ? HK_HELPER_OUT : HK_HELPER_OWNER)) {
			l->near = !stays;
			l->entries = stays ? 0 : l->entries + 1;
			return;
		}
		/* it is inside, or about to find that we are; both end soon */
		atomic_store_explicit(&l->owner_in, 0, memory_order_release);
		atomic_store_explicit(&l->owner_waits, 1, memory_order_relaxed);
		for (unsigned tries = 0; hk_biased_helper_in(l) &&
					 !atomic_load_explicit(&l->broken, memory_order_relaxed);
		     tries++)
			hk_biased_wait(tries);
		atomic_store_explicit(&l->owner_waits, 0, memory_order_relaxed);
		atomic_store_explicit(&l->owner_in, 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&l->broken, memory_order_relaxed))
			return;
	}
}

static inline void hk_biased_leave(struct hk_biased_lock *l)
{
	if (--l->depth)
		return;
	atomic_store_explicit(&l->owner_in, 0, memory_order_release);
	if (HK_UNLIKELY(l->near)) {
		l->near = false;
		atomic_store_explicit(&l->helper, HK_HELPER_NEAR, memory_order_release);
	}
}

static inline bool hk_biased_try_helper(struct hk_biased_lock *l)
{
	/* An owner that was taken off its core inside is the ordinary case where the helper has that core: then the
	 * barrier, which interrupts every core, is for nothing. */
	if (atomic_load_explicit(&l->owner_in, memory_order_relaxed))
		return false;
	/* helpers may be two, the polling process and a thread of ours: one at a time */
	if (hk_biased_move(l, HK_HELPER_NEAR, HK_HELPER_IN))
		return true;
	if (!hk_biased_move(l, HK_HELPER_OUT, HK_HELPER_IN))
		return false;
	if (syscall(SYS_membarrier,
		    l->processes ? MEMBARRIER_CMD_GLOBAL_EXPEDITED
				 : MEMBARRIER_CMD_PRIVATE_EXPEDITED,
		    0, 0) == 0 &&
	    !atomic_load_explicit(&l->owner_in, memory_order_acquire))
		return true;
	atomic_store_explicit(&l->helper, HK_HELPER_OUT, memory_order_release);
	return false;
}

static inline void hk_biased_leave_helper(struct hk_biased_lock *l)
{
	atomic_store_explicit(&l->helper, HK_HELPER_NEAR, memory_order_release);
}

#endif

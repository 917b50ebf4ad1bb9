/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/lock.h: the lock between a worker's owner, which is the application's thread, and its
 * progress proxies.
 *
 * DESIGN NOTES
 *
 * Problem. The owner enters the worker millions of times a second, a proxy a thousand times at
 * most. An ordinary lock would cost the owner an atomic instruction each time.
 *
 * Approach. The lock is biased to the owner, which pays two plain stores and a load. The proxy pays
 * for both sides, by membarrier(2), which makes every thread of the process pass a memory barrier.
 * This is Dekker's algorithm with the owner's barrier moved to the proxy:
 *
 *   owner:  owner_in = 1; (compiler barrier)           proxy:  state = PROXY_IN; membarrier();
 *           if (state != TO_OWNER) wait;                       if (owner_in) back off; else inside
 *
 * After membarrier() returns, one of two things holds. Either the owner had stored owner_in before,
 * and the proxy sees that and backs off. Or the owner's later load sees the proxy. The proxy never
 * waits for the owner: it tries, and tries again later.
 *
 * Unbiased state. A membarrier() interrupts every core that runs a thread of ours; that takes 15 to
 * 40 us of a virtual machine. A proxy polls thousands of times a second while the owner computes.
 * So a proxy that leaves makes the lock unbiased (TO_NEITHER). Then the first side that comes takes
 * it by one atomic instruction: a proxy makes it PROXY_IN again, the owner OWNER_IN. An owner that
 * enters and leaves also leaves it unbiased. But the owner may have come to stay. So after
 * HK_BIASED_STAYS entries it makes the lock biased again (TO_OWNER). While the owner computes
 * between its entries, that is one membarrier() for HK_BIASED_STAYS of them.
 *
 * Processes. The proxy may be another process, hikyakud's poller, when the lock lies in shared
 * memory. Then both register for barriers across processes. If the poller dies inside, the process
 * that notices it declares the lock broken. The owner then gets in, to find out that what the lock
 * guarded is lost.
 */
#ifndef HK_WORKER_LOCK_H
#define HK_WORKER_LOCK_H

#include "base/common.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum hk_biased_state {
	HK_BIASED_TO_OWNER,   /* biased: the owner enters without an atomic instruction */
	HK_BIASED_PROXY_IN,   /* a proxy is inside, or about to find that the owner is */
	HK_BIASED_TO_NEITHER, /* unbiased, and nobody is inside */
	HK_BIASED_OWNER_IN,   /* unbiased, and the owner is inside */
};

#define HK_BIASED_STAYS 1000 /* entries of some ns each take less than a membarrier() */

struct hk_biased_lock {
	_Atomic int owner_in;
	int depth;               /* of the owner's entries: a handler that sends enters again */
	bool unbiased;           /* the owner is inside, and leaves the lock unbiased */
	unsigned entries;        /* entries of the owner since the lock was biased */
	_Atomic int state;       /* enum hk_biased_state */
	_Atomic int owner_waits; /* the owner wants the proxy to leave soon */
	_Atomic int broken;
	bool processes; /* owner and proxy are two processes */
};

/* Call this as the owner, before there is a proxy; with @processes in each process. Returns 0,
 * or -1 if the kernel lacks membarrier(2). */
static inline int hk_biased_register(struct hk_biased_lock *l, bool processes)
{
	l->processes = processes;
	return (int)syscall(SYS_membarrier,
			    processes ? MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
				      : MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
			    0, 0);
}

/* Waits for a proxy that is inside. The proxy may have been taken off the core on which the
 * owner waits. Yielding lets the proxy run only if the scheduler has both in one group
 * (sched(7), autogroups). A loop of yields was seen to keep all other threads off a core for
 * half a minute. So the owner sleeps when yielding has not helped. */
#define HK_BIASED_YIELDS   100
#define HK_BIASED_SLEEP_NS 20000

static inline void hk_biased_wait(unsigned tries)
{
	const struct timespec interval = {.tv_nsec = HK_BIASED_SLEEP_NS};

	if (tries < HK_BIASED_YIELDS)
		sched_yield();
	else
		clock_nanosleep(CLOCK_MONOTONIC, 0, &interval, NULL);
}

static inline bool hk_biased_change(struct hk_biased_lock *l, int from, int to)
{
	return atomic_compare_exchange_strong(&l->state, &from, to);
}

static inline bool hk_biased_proxy_in(const struct hk_biased_lock *l)
{
	return atomic_load_explicit(&l->state, memory_order_acquire) == HK_BIASED_PROXY_IN;
}

static inline void hk_biased_enter(struct hk_biased_lock *l)
{
	if (l->depth++)
		return;
	atomic_store_explicit(&l->owner_in, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	while (HK_UNLIKELY(atomic_load_explicit(&l->state, memory_order_acquire))) {
		bool stays = l->entries >= HK_BIASED_STAYS;

		if (hk_biased_change(l, HK_BIASED_TO_NEITHER,
				     stays ? HK_BIASED_TO_OWNER : HK_BIASED_OWNER_IN)) {
			l->unbiased = !stays;
			l->entries = stays ? 0 : l->entries + 1;
			return;
		}
		/* the proxy is inside, or about to find that the owner is; both end soon */
		atomic_store_explicit(&l->owner_in, 0, memory_order_release);
		atomic_store_explicit(&l->owner_waits, 1, memory_order_relaxed);
		for (unsigned tries = 0; hk_biased_proxy_in(l) &&
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
	if (HK_UNLIKELY(l->unbiased)) {
		l->unbiased = false;
		atomic_store_explicit(&l->state, HK_BIASED_TO_NEITHER, memory_order_release);
	}
}

static inline bool hk_biased_try_proxy(struct hk_biased_lock *l)
{
	/* If the owner was taken off its core inside, the proxy mostly has that core. Then the
	 * barrier, which interrupts every core, would be of no use. */
	if (atomic_load_explicit(&l->owner_in, memory_order_relaxed))
		return false;
	/* there may be two proxies, the poller and a thread of this process: one at a time */
	if (hk_biased_change(l, HK_BIASED_TO_NEITHER, HK_BIASED_PROXY_IN))
		return true;
	if (!hk_biased_change(l, HK_BIASED_TO_OWNER, HK_BIASED_PROXY_IN))
		return false;
	if (syscall(SYS_membarrier,
		    l->processes ? MEMBARRIER_CMD_GLOBAL_EXPEDITED
				 : MEMBARRIER_CMD_PRIVATE_EXPEDITED,
		    0, 0) == 0 &&
	    !atomic_load_explicit(&l->owner_in, memory_order_acquire))
		return true;
	atomic_store_explicit(&l->state, HK_BIASED_TO_OWNER, memory_order_release);
	return false;
}

static inline void hk_biased_leave_proxy(struct hk_biased_lock *l)
{
	atomic_store_explicit(&l->state, HK_BIASED_TO_NEITHER, memory_order_release);
}

#endif

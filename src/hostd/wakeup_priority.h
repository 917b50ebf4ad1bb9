/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/wakeup_priority.h: a priority with which a thread has its core as soon as it is woken, even
 * beside threads that compute.
 *
 * Poller and switch sleep most of the time, and work for some microseconds when they are signalled.
 * The kernel gives an ordinary thread the core at once as long as the thread has used less than its
 * share. Otherwise the thread waits for a tick, some milliseconds. Two ways avoid that:
 *
 * - Real-time priority: SCHED_FIFO, the lowest (sched(7)). The thread always gets the core at once.
 *   It needs a permission: RLIMIT_RTPRIO of 1, or CAP_SYS_NICE. In a cgroup with the `cpu`
 *   controller of version 1 it needs a real-time share there, too.
 * - A short time slice: sched_setattr(2), Linux 6.12. The thread gets the core at once if its share
 *   is not used up. It needs no permission.
 *
 * Rules for a thread that has this priority:
 *
 * - It must not spin until another thread does something, as DPDK's locks do. The other thread may
 *   be on the same core, which it does not get while this one spins.
 * - It must not work for long, since no other thread gets the core meanwhile. It sleeps as long as
 *   it works, or gives up the priority.
 *
 * If it hangs, the kernel kills its process after HK_WAKEUP_PRIORITY_MAX_CPU of CPU time without a
 * sleep (RLIMIT_RTTIME).
 */
#ifndef HK_HOSTD_WAKEUP_PRIORITY_H
#define HK_HOSTD_WAKEUP_PRIORITY_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <stdbool.h>

#define HK_WAKEUP_PRIORITY_SLICE   (100 * HK_USEC) /* the shortest that the kernel accepts */
#define HK_WAKEUP_PRIORITY_MAX_CPU (2 * HK_SEC)
#define HK_WAKEUP_PRIORITY         1

/* Keeps the permission for a real-time priority in a process that is about to change its user. */
void hk_wakeup_priority_keep_permission(void);

/* The capabilities (bits of CAP_*) that a process needs for a real-time priority: none with that
 * permission. */
uint64_t hk_wakeup_priority_capabilities(void);

/* From now on the wakeup priority of this process's threads is a real-time priority. Returns 0, or
 * a negative errno with the reason in @why if the process may not have one: then it is a short time
 * slice. Does not change the calling thread. No thread may have the wakeup priority during the
 * call. */
int hk_wakeup_priority_realtime(struct hk_error *why);

/* Gives the calling thread the wakeup priority, or takes it away. Older kernels have no time
 * slices, and some sandboxes forbid the call: then nothing changes. True if the thread has a
 * real-time priority now; threads and processes that it starts do not inherit it. */
bool hk_wakeup_priority_set(bool on);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/prompt.h: a thread that has its core as soon as it is woken, whoever computes there.
 *
 * Poller and switch sleep most of the time, and work for some microseconds when they are rung for. Beside a rank that
 * computes an ordinary thread waits for that: the kernel gives it the core at once as long as it has used less than its
 * share, and else with a later tick, some milliseconds on. There are two ways out:
 *
 *   real-time priority   SCHED_FIFO, the lowest (sched(7)): always at once. Needs a right: RLIMIT_RTPRIO of 1, or
 *                        CAP_SYS_NICE; and in a cgroup with the `cpu` controller of version 1 a share there.
 *   a short slice        sched_setattr(2), Linux 6.12: at once if its share is not used up. Needs none.
 *
 * A prompt thread must not wait for another one by spinning, as DPDK's locks do: who is waited for may be on the same core,
 * and gets it no more. And it must not work for long at a time, since nobody else has the core while it does. So who is prompt
 * either sleeps as long as it works, or becomes ordinary again. Should it get stuck, the kernel kills its process after
 * HK_PROMPT_STUCK of CPU without sleep (RLIMIT_RTTIME).
 */
#ifndef HK_HOST_PROMPT_H
#define HK_HOST_PROMPT_H

#include "base/common.h"
#include "base/error.h"

#include <stdbool.h>

#define HK_PROMPT_SLICE    (100 * HK_USEC) /* the shortest that the kernel takes */
#define HK_PROMPT_STUCK    (2 * HK_SEC)
#define HK_PROMPT_PRIORITY 1

/* For a process that is about to become another user: lets it keep the right to a real-time priority. */
void hk_prompt_keep_right(void);

/* From now on prompt threads of this process have a real-time priority. A negative errno and a sentence if it may have
 * none; then they have a short slice. The calling thread stays as it is. Not to be called beside prompt threads. */
int hk_prompt_realtime(struct hk_error *why);

/* Is the calling thread prompt from now on, or ordinary? Older kernels know no slices, and some sandboxes let nobody
 * choose: then all stays as it is. True if it has a real-time priority now: then threads and processes that it starts are ordinary. */
bool hk_prompt(bool prompt);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/poller.h: the loop of the poller, the process that polls for ranks that are not polling.
 *
 * DESIGN NOTES
 *
 * Problem: frames for a rank that computes must be received and acknowledged soon, but a poller
 * that spins takes a core from ranks that compute.
 *
 * Approach: the poller sleeps until it is signalled (port/wakeup.h; it polls once more after the
 * first 50 µs of a sleep). Three kinds of senders signal it:
 *
 * - a peer that waits in vain for the acknowledgement of a rank that is not polling
 * - hikyakud's switch, when a rank does not take its frames
 * - a rank that leaves MPI with messages that are still to be sent
 *
 * It also wakes after `max_sleep_ns`: for the timers of ranks that are not polling, and in case
 * that a signal is missing.
 *
 * Awake, it polls at times that the clock sets:
 *
 *   busy_poll_ns    while frames come, and for `busy_polls` polls after them
 *   idle_poll_ns    while packets are not acknowledged, for at most `unacked_polls`; and for
 *                   `idle_polls` polls before it sleeps again
 *   recheck_ns      once after a signal, if all ranks are polling
 *
 * It sleeps at once when all ranks poll by themselves.
 *
 * The recheck has this reason. A rank counts as not polling 50 µs after its last poll
 * (worker/proxy.c). Its peer sends the signal after 50 µs, too, which may be a little earlier. So a
 * poller that finds all ranks polling polls once more after `recheck_ns`. By then a rank either
 * counts as not polling, or has polled. More polls would take the core from ranks, for which the
 * poller would be signalled again.
 *
 * A sender can signal in a loop while there is nothing to do. After `max_useless` such wakeups in a
 * row the poller ignores signals for `max_sleep_ns` at a time, until one leads to work.
 */
#ifndef HK_HOSTD_POLLER_H
#define HK_HOSTD_POLLER_H

#include "hostd/poller_shared.h"

/* The result of one poll of a worker, in the order of urgency. */
enum hk_proxied {
	HK_PROXIED_POLLING, /* its rank polls by itself */
	HK_PROXIED_IDLE,    /* its rank is not polling, and no frame came */
	HK_PROXIED_UNACKED, /* its rank is not polling, and its packets are not acknowledged */
	HK_PROXIED_BUSY     /* its rank is not polling, and frames came */
};

/* Polls the worker at @worker if its rank is not polling. */
typedef enum hk_proxied (*hk_proxy_poll_fn)(void *worker);

/* Polls every slot once and returns the most urgent result. *@any, unless NULL, is set to whether
 * there is a slot to poll. */
enum hk_proxied hk_poller_round(struct hk_poller_shared *s, hk_proxy_poll_fn poll_worker,
				bool *any);

/* Attaches and detaches ports as the daemon wants; @port has the port of each wire. */
int hk_poller_wires(struct hk_poller_shared *s, void *port[HK_CTL_MAX_NODES], struct hk_error *err);

/* See the design notes. */
struct hk_poller_timing {
	uint32_t max_sleep_ns, idle_poll_ns, busy_poll_ns, recheck_ns;
	unsigned busy_polls;    /* after the last frame */
	unsigned idle_polls;    /* without a frame, before a sleep */
	unsigned unacked_polls; /* while packets are not acknowledged, before a sleep */
	/* Useless wakeups in a row, without a sleep of max_sleep_ns between; four times as many if
	 * their ranks polled by themselves. */
	unsigned max_useless;
};

extern const struct hk_poller_timing hk_poller_timing;

/* Polls until @channel ends, as a thread with wakeup priority (wakeup_priority.h). Returns 0 then,
 * or a negative errno. @wakeup_fd: hk_res_join()'s. */
int hk_poller_loop(struct hk_poller_shared *s, int channel, int wakeup_fd,
		   hk_proxy_poll_fn poll_worker, const struct hk_poller_timing *timing,
		   struct hk_error *err);

/* `hikyakud poller ...`: joins the shared memory, reports to the daemon over the channel and polls.
 * Returns the exit status. */
int hk_poller_main(int argc, char **argv);

#endif

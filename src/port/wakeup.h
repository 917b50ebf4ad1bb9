/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/wakeup.h: waking a poller or switch that sleeps instead of polling.
 *
 * A wakeup is a descriptor on which one thread sleeps, the *sleeper*; other threads *signal* it.
 * Each shared memory has two wakeups, eventfds: the poller sleeps on one, hikyakud's switch on the
 * other. A thread that has produced work for the sleeper signals it. A wire between two memories
 * (memif) has a wakeup as well, its control socket. The driver does not use that socket once the
 * guard has it (port/memif_guard.c): a message sent there wakes the sleeper at the other end. One
 * end may have its guard before the other. So a signal is a message that the driver ignores.
 *
 * DESIGN NOTES
 *
 * Problem: signals must not get lost, but a signal must cost a working thread almost nothing while
 * the sleeper is awake.
 *
 * Approach: Dekker's algorithm, with the signaller's barrier replaced by time (Morrison and Afek,
 * Temporally Bounding TSO, ASPLOS 2015). While the sleeper is awake, a signal is one load.
 *
 *   sleeper:  sleeping = 1, a locked store;            signaller:  produce work;
 *             poll; wait for a signal, at most                     compiler barrier;
 *             HK_WAKEUP_SETTLE; poll again;                        if (sleeping) wake it
 *             wait for a signal
 *
 * Invariants:
 *  - A store leaves its core's buffer in far less than HK_WAKEUP_SETTLE, and at once if the core is
 *    interrupted. If the signaller's work was in memory before the second poll, that poll finds it.
 *    Otherwise the signaller's load came after the store to `sleeping`, and sees it.
 *  - Of several signallers one wakes the sleeper: the one that resets `sleeping`. If it is killed
 *    between the two steps, no signal comes any longer. So a sleeper also wakes by the clock, and
 *    then finds `sleeping` changed. tests/unit/port/test_wakeup_model.c checks this.
 *
 * Requests. The last poll does not find all work. A rank may have left MPI, for example, but not
 * long enough to count as not polling. A *request* for such work sets a word, which the sleeper
 * treats as a signal before it sleeps.
 *
 * Trust. A signal means only that there may be work, and for which sleeper. A sleeper reads a
 * bounded number of messages from a wire at a time and discards them. A peer that signals in a loop
 * only costs CPU time. All processes of a memory can write its words: wrong values there suppress
 * signals, so that a sleeper wakes late.
 *
 * Rejected: membarrier(2), as in worker/lock.h, would need no first wait, but interrupts every
 * core. On a virtual machine that takes longer than most of these sleeps last.
 *
 * Threads. Any thread may signal. Each sleeper is one thread, and a process has at most one.
 */
#ifndef HK_PORT_WAKEUP_H
#define HK_PORT_WAKEUP_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <stdatomic.h>

#pragma GCC visibility push(default)

struct hk_port;

enum hk_wakeup { HK_WAKEUP_POLLER, HK_WAKEUP_SWITCH, HK_WAKEUPS };

struct hk_wakeup_word {
	_Alignas(64) _Atomic uint32_t
		sleeping;             /* bool: the sleeper sets it, a signaller resets it */
	_Atomic uint32_t has_sleeper; /* bool: a thread sleeps on this wakeup at times */
	_Atomic uint32_t requested;   /* bool: a requester sets it, the sleeper resets it */
	_Atomic uint64_t busy_from, busy_until; /* TSC ticks, see hk_wakeup_working() */
};

/* One for each wakeup, in the shared memory; NULL in a process without shared memory. */
extern struct hk_wakeup_word *hk_wakeup_words;

/* ---- signalling ------------------------------------------------------------------------------ */

/* Wakes the sleeper if it sleeps and no other thread is waking it. Returns whether it did. */
bool hk_wakeup_send(enum hk_wakeup b);

/* Signals the sleeper, after the caller has written the work that its poll shall find. While the
 * sleeper is awake this is one load. Returns whether it woke the sleeper. */
static inline bool hk_wakeup_signal(enum hk_wakeup b)
{
	atomic_signal_fence(memory_order_seq_cst);
	return hk_wakeup_words &&
	       HK_UNLIKELY(
		       atomic_load_explicit(&hk_wakeup_words[b].sleeping, memory_order_relaxed)) &&
	       hk_wakeup_send(b);
}

/* Requests attention: signals the sleeper and, if that is awake, has it see the request before it
 * sleeps. Returns whether it woke the sleeper. */
static inline bool hk_wakeup_request(enum hk_wakeup b)
{
	if (hk_wakeup_words)
		atomic_store_explicit(&hk_wakeup_words[b].requested, 1, memory_order_relaxed);
	return hk_wakeup_signal(b);
}

/* Signals sleeper @b at the other end of the wire that is DPDK's port @id here. It makes one system
 * call, which does not wait. False if there is no such wakeup, or if the other end has not read
 * earlier signals. */
bool hk_wakeup_signal_wire(uint16_t id, enum hk_wakeup b);

/* ---- sleeping -------------------------------------------------------------------------------- */

/* Makes this process the sleeper of @b. *@fd becomes readable when it is signalled, here or on a
 * wire of hk_wakeup_listen_wire(). */
int hk_wakeup_listen(enum hk_wakeup b, int *fd, struct hk_error *err);

/* Receives signals on @port's wire too; false if the wire has no wakeup. Closing or detaching the
 * port ends that. A signal on a wire wakes all its listeners. So if a switch listens to wires, the
 * poller does not, and the switch passes signals on. */
bool hk_wakeup_listen_wire(const struct hk_port *port);

/* Adds and removes a descriptor that is readable while there is work, such as a socket that
 * receives frames. These functions do not read it. */
bool hk_wakeup_listen_fd(int fd);
void hk_wakeup_unlisten_fd(int fd);

/* Limit of the first wait after hk_wakeup_prepare_wait(). The sleeper polls after it; further waits
 * may be as long as it likes. */
#define HK_WAKEUP_SETTLE (50 * HK_USEC)

/* The sleeper announces that it is about to sleep: signals wake it from now on. It then polls once
 * more before it waits. */
void hk_wakeup_prepare_wait(enum hk_wakeup b);

/* Returns whether signals still wake the sleeper; false once a thread has begun to wake it. */
bool hk_wakeup_waiting(enum hk_wakeup b);

/* Returns whether there is a request since the last hk_wakeup_finish_wait(). The sleeper calls it
 * after hk_wakeup_prepare_wait() and before it waits. */
bool hk_wakeup_requested(enum hk_wakeup b);

/* The sleeper announces that it is awake and needs no signals. Reads signals and requests, a
 * bounded number at a time, and returns whether there were any. In mode split the switch receives
 * signals for the poller and requests its attention. It therefore calls this now and then while it
 * is awake too. */
bool hk_wakeup_finish_wait(enum hk_wakeup b);

/* ---- shared cores ---------------------------------------------------------------------------- */

/* A sleeper that may share its core with ranks calls this. It reports that it has been awake since
 * @busy_from, and that before @busy_until other threads may see those ranks late for that reason.
 * Both are TSC ticks. */
static inline void hk_wakeup_working(enum hk_wakeup b, uint64_t busy_from, uint64_t busy_until)
{
	atomic_store_explicit(&hk_wakeup_words[b].busy_from, busy_from, memory_order_relaxed);
	atomic_store_explicit(&hk_wakeup_words[b].busy_until, busy_until, memory_order_relaxed);
}

/* Returns since when the ranks that share a core with @b's sleeper may have lost that core; @now if
 * they have not. The result is at most @most ticks ago, because all processes can write the words.
 */
static inline uint64_t hk_wakeup_core_lost(enum hk_wakeup b, uint64_t now, uint64_t most)
{
	const struct hk_wakeup_word *w = &hk_wakeup_words[b];
	uint64_t busy_from = atomic_load_explicit(&w->busy_from, memory_order_relaxed);

	if (now >= atomic_load_explicit(&w->busy_until, memory_order_relaxed) || busy_from >= now)
		return now;
	return HK_MAX(busy_from, now - most);
}

#pragma GCC visibility pop

#endif

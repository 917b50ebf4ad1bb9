/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/bell.h: waking those who sleep instead of polling.
 *
 * A memory that processes share has two *bells*, eventfds, each with one sleeper: the polling process and
 * hikyakud's switch. Who has put something where the sleeper will look rings. A wire between two
 * memories (memif) has a bell as well, its control socket, on which nothing else is said once the
 * link is up (port/memif_guard.c): a byte there is heard by whoever listens at the other end.
 *
 * Ringing costs who works nothing but a load while the sleeper is awake:
 *
 *   sleeper:  sleeps = 1, a locked store;        ringer:  there is work; (compiler barrier)
 *             look; wait for the bell, HK_BELL_SETTLE          if (sleeps) wake
 *             at the most; look once more;
 *             wait for the bell
 *
 * It is Dekker's algorithm with the ringer's barrier replaced by time (Morrison and Afek, Temporally Bounding TSO, ASPLOS
 * 2015): a store leaves its core's buffer in far less than HK_BELL_SETTLE, and at once if the core is interrupted. So
 * either the ringer's work was in memory before the second look, which finds it, or its load came after `sleeps` was, and
 * sees that somebody sleeps. membarrier(2), as in fabric/lock.h, would do the same without the first wait, but interrupts every
 * core: on a virtual machine that takes longer than most of these sleeps last. Of several ringers one wakes: who sets
 * `sleeps` back. Should that one be killed between the two, nobody rings any more: so whoever
 * sleeps also wakes by the clock, and finds `sleeps` changed (tests/unit/port/test_bell_model.c).
 *
 * That is for work which a last look finds. Where it does not (a rank has left MPI, but not yet for so long that it
 * counts as away), an *ask* is remembered: it sets a word, which the sleeper takes for a ring before it sleeps.
 *
 * A bell says that there may be something to do, and for whom. What is read from a wire's is compared with
 * that and thrown away, a bounded amount at a time; who rings in a loop costs CPU. The words that the memory holds
 * are written by all its processes: garbage there makes bells go unheard, and the sleeper late.
 *
 * Threads: ringing by any; each sleeper is one thread, and a process has one at the most.
 */
#ifndef HK_BELL_H
#define HK_BELL_H

#include "base/common.h"
#include "base/error.h"

#include <stdatomic.h>

struct hk_port;

enum hk_bell { HK_BELL_POLLER, HK_BELL_SWITCH, HK_BELLS };

struct hk_bell_word {
	_Alignas(64) _Atomic uint32_t sleeps; /* the sleeper's 1, a ringer's 0 */
	_Atomic uint32_t there;               /* it has a sleeper */
	_Atomic uint32_t asked;               /* an asker's 1, the sleeper's 0 */
	_Atomic uint64_t from, until;         /* the sleeper's: see hk_bell_works() */
};

/* In the shared memory; NULL in a process that shares none. */
extern struct hk_bell_word *hk_bell_words;

/* ---- ringing --------------------------------------------------------------------------------- */

/* Wakes the sleeper, if it sleeps and nobody else does. Whether it did. */
bool hk_bell_wake(enum hk_bell b);

/* After something was written that the sleeper is to find. Does nothing while it is awake. */
static inline bool hk_bell_ring(enum hk_bell b)
{
	atomic_signal_fence(memory_order_seq_cst);
	return hk_bell_words &&
	       HK_UNLIKELY(atomic_load_explicit(&hk_bell_words[b].sleeps, memory_order_relaxed)) &&
	       hk_bell_wake(b);
}

/* Rings, and should the sleeper be awake, it hears so before it sleeps again. Whether it was woken. */
static inline bool hk_bell_ask(enum hk_bell b)
{
	if (hk_bell_words)
		atomic_store_explicit(&hk_bell_words[b].asked, 1, memory_order_relaxed);
	return hk_bell_ring(b);
}

/* Rings for the @b at the other end of the wire that is DPDK's port @id here. One system call, which never waits.
 * False: there is no such bell, or its listener has not taken what was rung before. */
bool hk_bell_ring_wire(uint16_t id, enum hk_bell b);

/* ---- sleeping -------------------------------------------------------------------------------- */

/* This process's sleeper is @b's. @fd is readable when it is rung, here or on a wire of
 * hk_bell_listen_wire(). */
int hk_bell_listen(enum hk_bell b, int *fd, struct hk_error *err);

/* Hears what is rung on @port's wire as well; false if it has no bell. Closing or detaching the port ends
 * it. A ring would wake all who listen: so where there is a switch that hears the wires, the poller does not, and is
 * told by it. */
bool hk_bell_listen_wire(const struct hk_port *port);

/* The same with a descriptor that is readable while there is something to do, such as a socket that
 * receives frames. It is not read here. */
bool hk_bell_listen_fd(int fd);
void hk_bell_unlisten_fd(int fd);

/* The first wait after lying down is no longer; then look, and wait for as long as you like. */
#define HK_BELL_SETTLE (50 * HK_USEC)

/* Says that it is about to sleep: from now on it is rung for. Look for work once more, then wait. */
void hk_bell_lie_down(enum hk_bell b);

/* Is it still rung for? False once somebody has set out to ring. */
bool hk_bell_lies(enum hk_bell b);

/* Has anybody asked since it took in what was rung? Look after lying down, before the wait. */
bool hk_bell_asked(enum hk_bell b);

/* It is awake: not to be rung for. Takes in what was rung and asked, as much as it takes at a time, and returns whether
 * anything was. What the switch hears for the poller (host mode split) it asks for: so it calls this now and then
 * while it is awake, too. */
bool hk_bell_get_up(enum hk_bell b);

/* ---- whose core it was ----------------------------------------------------------------------- */

/* By a sleeper that may share its core with those who are waited for: it has been awake since @from, and a look of
 * another before @until may find them late for that reason. Ticks of the TSC. */
static inline void hk_bell_works(enum hk_bell b, uint64_t from, uint64_t until)
{
	atomic_store_explicit(&hk_bell_words[b].from, from, memory_order_relaxed);
	atomic_store_explicit(&hk_bell_words[b].until, until, memory_order_relaxed);
}

/* By who looks @now: since when others may not have had the core that they share with @b's sleeper, @most ticks ago at
 * the earliest, since these words are written by all. */
static inline uint64_t hk_bell_core_lost(enum hk_bell b, uint64_t now, uint64_t most)
{
	const struct hk_bell_word *w = &hk_bell_words[b];
	uint64_t from = atomic_load_explicit(&w->from, memory_order_relaxed);

	if (now >= atomic_load_explicit(&w->until, memory_order_relaxed) || from >= now)
		return now;
	return HK_MAX(from, now - most);
}

#endif

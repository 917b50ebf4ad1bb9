/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/switch_parts.h: shared by the files of the switch.
 *
 *   switch.c           frames: from ports to pipes and back
 *   switch_loop.c      the thread: rounds, when to sleep and how long, whom to wake
 *   switch_commands.c  what hikyakud's main thread tells the switch: slots and wires
 */
#ifndef HK_HOSTD_SWITCH_PARTS_H
#define HK_HOSTD_SWITCH_PARTS_H

#include "hostd/cpu_budget.h"
#include "hostd/switch.h"

#include <stdatomic.h>
#include <time.h>

/* The longest sleep: the switch finds work at the latest after this, even without a signal. */
#define HK_SWITCH_MAX_SLEEP_NS 5000000
/* While the switch is awake, every so many checks of the ranks also empty the wakeup. This bounds
 * what others can write there when no signal is for the poller. */
#define HK_SWITCH_DRAIN_EACH 64

struct hk_switch_command;

struct hk_switch_entry { /* a slot */
	bool used;
	bool replaced; /* its rank is gone, and a rank in another slot has its address */
	struct hk_switch_slot config;
	struct hk_pipe_share *share;
	struct hk_pipe_end *end[HK_SWITCH_WIRES]; /* NULL: no such wire */
};

/* Times are values of the TSC, and durations are ticks of it. */
struct hk_switch {
	unsigned lcore;
	struct hk_switch_wire wire[HK_SWITCH_WIRES]; /* port NULL: none */
	unsigned wires;                              /* index of the last one, + 1 */
	struct hk_switch_entry slot[HK_CTL_MAX_SLOTS];
	unsigned slots;               /* index of the last one, + 1 */
	unsigned last_slot;           /* of the last frame: probably that of the next one, too */
	struct rte_mempool *tx_mbufs; /* mbufs that point to ranks' frames during a send */
	_Atomic(struct hk_switch_command *) command; /* NULL: none */
	_Atomic clockid_t cpu; /* CPU-time clock of the thread; 0: it has not run yet */
	struct hk_watchdog watchdog;
	struct hk_abort_log abort_log;
	_Atomic bool corrupt[HK_CTL_MAX_SLOTS];
	bool stop;
	bool tx_waits; /* since the last round, frames wait in pipes because a port is full */
	unsigned steps;
	uint64_t now;                    /* of this step */
	uint64_t frames_at;              /* last step that moved frames */
	uint64_t woke_at;                /* end of the last sleep */
	uint64_t waiting_since;          /* start of `waiting` */
	uint64_t accounted_at;           /* until here the CPU budget is up to date */
	uint64_t tx_at[HK_SWITCH_WIRES]; /* last frame sent to each wire */
	uint64_t spin;                   /* duration of polling after the last frame */
	uint64_t signal_after; /* the other end of a wire needs a signal after so long a pause */
	uint64_t check_after, check_after_crowded; /* between checks of the ranks */
	uint64_t max_late;                         /* see hk_wakeup_working(): while awake */
	uint64_t late_after_sleep;      /* see hk_wakeup_working(): after it fell asleep */
	uint64_t settle;                /* HK_WAKEUP_SETTLE */
	int wait_fd[HK_SWITCH_WIRES];   /* sockets of the ports; -1: none */
	bool can_wake[HK_SWITCH_WIRES]; /* frames on this wire end a sleep */
	int wakeup_fd;
	bool waiting;     /* it has asked for signals */
	bool prioritized; /* it has a wakeup priority (hostd/wakeup_priority.h) */
	bool realtime;    /* that is a real-time priority, so the CPU budget pays for its work */
	struct hk_cpu_budget budget;
	unsigned useless_wakeups; /* in a row; weighted, see switch_loop.c */
	/* slots that were given frames, one bit each: since checked_at, and in the period before */
	uint64_t untaken, untaken_before, checked_at;
	unsigned checks;
	bool relays; /* ranks poll some queues of the wires: signals may be for the poller */
	/* written by the thread, read by others */
	struct {
		HK_SWITCH_COUNTERS(HK_COUNTER_ATOMIC)
	} n;
	struct {
		HK_PIPE_COUNTERS(HK_COUNTER_ATOMIC)
	} pipes[HK_CTL_MAX_SLOTS];
};
_Static_assert(HK_CTL_MAX_SLOTS <= 64, "one bit for each slot");

static inline void hk_switch_count(_Atomic uint64_t *n, uint64_t more)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/* ---- switch.c */

/* One round over ports and pipes. Returns the number of frames that it moved. */
unsigned hk_switch_round(struct hk_switch *sw);

/* ---- switch_loop.c */

/* Sets the durations of @sw. */
void hk_switch_set_times(struct hk_switch *sw);

/* One round and what follows from it: commands, signals, yield or sleep. */
void hk_switch_step(struct hk_switch *sw);

/* The thread: @arg is the switch. */
int hk_switch_loop(void *arg);

/* ---- switch_commands.c */

/* In the thread: carries out the command, if there is one. */
void hk_switch_run_commands(struct hk_switch *sw);

/* Carry out a command in the calling thread. */
int hk_switch_do_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *what,
		     struct hk_error *err);
void hk_switch_do_remove(struct hk_switch *sw, unsigned slot);
int hk_switch_do_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		      struct hk_error *err);

/* Create and free a switch without its thread. */
int hk_switch_create(const struct hk_abort_log *log, struct hk_switch **out, struct hk_error *err);
void hk_switch_destroy(struct hk_switch *sw);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/switch_parts.h: what the files of the switch share and nobody else sees.
 *
 *   switch.c           frames: from ports to pipes and back
 *   switch_loop.c      a round after another; when to sleep, how long, and whom to ring for
 *   switch_commands.c  slots and wires come and go, told by hikyakud's main thread
 */
#ifndef HK_HOST_SWITCH_PARTS_H
#define HK_HOST_SWITCH_PARTS_H

#include "host/pace.h"
#include "host/switch.h"

#include <stdatomic.h>
#include <time.h>

#define HK_SWITCH_BEAT_NS 5000000 /* it sleeps so long, should nobody have rung */
#define HK_SWITCH_DRAIN_EACH                                                                       \
	64 /* looks at ranks between those at the bells, where nobody else is rung for by them */

struct hk_switch_command;

/* A slot, as the switch knows it. */
struct hk_switch_entry {
	bool used, old; /* old: its rank is gone, and another has its address */
	struct hk_switch_slot s;
	struct hk_pipe_share *share;
	struct hk_pipe_end *end[HK_SWITCH_WIRES];
};

struct hk_switch {
	unsigned lcore;
	struct hk_switch_wire wire[HK_SWITCH_WIRES]; /* port NULL: none */
	unsigned wires;                              /* above the last one */
	struct hk_switch_entry slot[HK_CTL_MAX_SLOTS];
	unsigned slots; /* above the last one */
	unsigned last;  /* whose the last frame was: mostly the next one's too */
	struct rte_mempool *shadows;
	_Atomic(struct hk_switch_command *) command;
	_Atomic clockid_t cpu; /* of its thread; 0: that has not run yet */
	struct hk_patience patience;
	struct hk_last_words log;
	_Atomic bool bad[HK_CTL_MAX_SLOTS];
	bool stop;
	unsigned turns;
	/* sleeping: times are the TSC's */
	uint64_t now, busy_at, woke, lies_at, first_at, tx_at[HK_SWITCH_WIRES];
	uint64_t spin, fresh, watch, watch_crowded, awake_most, after, settle;
	int wait_fd[HK_SWITCH_WIRES]; /* of ports that are sockets */
	bool wakes
		[HK_SWITCH_WIRES]; /* what comes on this wire wakes us, by a ring or by the kernel */
	int bell;
	bool lies;   /* it is rung for, since lies_at */
	bool prompt; /* host/prompt.h … */
	bool first; /* … and it has the core before all others, or not, since `first_at` or its last sleep */
	struct hk_pace pace;
	unsigned vain;
	/* a bit for each slot that was given frames: since watched_at, and in the period before */
	uint64_t given, given_before, watched_at;
	unsigned watches;
	bool hands_on; /* some wires have pairs that are not ours: who uses those is rung for by us */
	/* written by the thread, read by others */
	_Atomic uint64_t rx_frames, tx_frames, steered, misled, stray, tx_lost, rx_lost, sleeps,
		rung, rings;
	struct {
		_Atomic uint64_t rx_full, rx_share, tx_lost;
	} drops[HK_CTL_MAX_SLOTS];
};
_Static_assert(HK_CTL_MAX_SLOTS <= 64, "a bit for each slot");

static inline void hk_switch_count(_Atomic uint64_t *n, uint64_t more)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/* ---- switch.c */

/* One round over ports and pipes. Returns how many frames it moved. */
unsigned hk_switch_round(struct hk_switch *sw);

/* ---- switch_loop.c */

/* Its times, as ticks of the TSC. */
void hk_switch_times(struct hk_switch *sw);

/* A round, and what is to be done before the next. */
void hk_switch_turn(struct hk_switch *sw);

/* The thread: @arg is the switch. */
int hk_switch_loop(void *arg);

/* ---- switch_commands.c */

/* By the thread: does what it is told, if it is. */
void hk_switch_obey(struct hk_switch *sw);

/* What the commands do; as hk_switch_slot_add() and its like, in the calling thread. */
int hk_switch_do_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *what,
		     struct hk_error *err);
void hk_switch_do_remove(struct hk_switch *sw, unsigned slot);
int hk_switch_do_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		      struct hk_error *err);

/* All of it but its thread. */
int hk_switch_make(const struct hk_last_words *log, struct hk_switch **out, struct hk_error *err);
void hk_switch_unmake(struct hk_switch *sw);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/switch.h: the software switch of host modes *daemon* and *split*: between the ports, or those of their
 * queues that only hikyakud polls, and the pipes of ranks (port/pipe.h). The last rung of steering, which
 * works with every driver.
 *
 * It is one thread, on a logical core of DPDK's that is its own. Received frames go to the slot whose
 * rank they name; what ranks send goes to the port of its pipe. It believes nothing that ranks write:
 * one that writes garbage is served no more, and hk_switch_bad() tells.
 *
 * It spins while there is traffic, lets others run when there is none, and sleeps when there has been none for
 * a moment: until it is rung for (port/bell.h), by a rank that sends or by the switch at the other end of a
 * memif, or a socket of the kernel's has received. If some port can do neither, it naps. It wakes the
 * poller in turn, when a rank does not take what came for it.
 *
 * Threads: all calls by one thread, hikyakud's main one. Each waits until the switch has done it (a round of
 * its loop): as long as it gets no core, at most HK_SWITCH_WAIT_MS; then the process says so and aborts, since nothing of
 * what it was told can be taken back.
 */
#ifndef HK_HOST_SWITCH_H
#define HK_HOST_SWITCH_H

#include "base/error.h"
#include "host/control.h"
#include "host/patience.h"
#include "port/pipe.h"

#define HK_SWITCH_WIRES   32   /* ports, and so pipes of each slot */
#define HK_SWITCH_CPU_MS  2000 /* of its CPU time */
#define HK_SWITCH_WAIT_MS 30000

struct hk_switch;

/* @lcore: a worker of this primary, which has nothing else to do. @log is copied. */
int hk_switch_start(unsigned lcore, const struct hk_last_words *log, struct hk_switch **sw,
		    struct hk_error *err);

/* Ends the thread. Slots and wires must be gone. NULL is allowed. */
void hk_switch_stop(struct hk_switch *sw);

/* A port, or its first few queue pairs: the *eager pool*. A rank's frames all go by one of them, its slot's
 * number tells which, so that they stay in order and a rank that floods one fills no other. */
struct hk_switch_wire {
	struct hk_port *port;
	unsigned queues;            /* pairs 0 to queues - 1 are the switch's */
	struct rte_mempool *copies; /* buffers for frames that are sent by a copy */
};

/* Polls @wire as wire @index from now on; with NULL, polls it no more. The port stays the caller's. */
int hk_switch_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		   struct hk_error *err);

/* A rank as the switch sees it. */
struct hk_switch_slot {
	uint32_t job_key, endpoint;
	struct hk_pipe *pipes; /* [HK_SWITCH_WIRES], in shared memory; by wire */
	struct rte_mempool *tx_pool;
	unsigned share; /* received frames that it may have at once */
};

int hk_switch_slot_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *s,
		       struct hk_error *err);

/* Takes back what the slot's rank has. Nothing of it is touched afterwards. */
int hk_switch_slot_remove(struct hk_switch *sw, unsigned slot, struct hk_error *err);

/* Has the rank in @slot written garbage? */
bool hk_switch_bad(const struct hk_switch *sw, unsigned slot);

struct hk_switch_counters {
	uint64_t rx_frames, tx_frames;
	uint64_t steered;      /* came by their slot's own queue (host/steering.h) … */
	uint64_t misled;       /* … by the queue of a slot that was not theirs */
	uint64_t stray;        /* for no rank of this node */
	uint64_t tx_lost;      /* the port did not take them */
	uint64_t rx_lost;      /* the rank did not: pipe full, or share exceeded */
	uint64_t sleeps, rung; /* … and how often a sleep was ended by a ring, or by a socket */
	uint64_t rings;        /* times that it woke the poller */
};

/* As they were a moment ago. */
void hk_switch_counters(const struct hk_switch *sw, struct hk_switch_counters *n);

/* Frames of a slot's present rank that were dropped: its pipe was full, its share exceeded; the port did not take
 * what it sent. */
struct hk_switch_drops {
	uint64_t rx_full, rx_share, tx_lost;
};

void hk_switch_drops(const struct hk_switch *sw, unsigned slot, struct hk_switch_drops *n);

#endif

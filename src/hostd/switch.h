/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/switch.h: hikyakud's switch, a thread that moves frames between ports and the pipes of
 * ranks (port/pipe.h) in the modes *daemon* and *split*. It works with every driver.
 *
 * The thread runs on a logical core of DPDK that nothing else uses. In mode daemon it polls whole
 * ports; in mode split, only their eager queues. It delivers a received frame to the slot whose
 * rank the frame names. It sends the frames of a pipe to the port that the pipe belongs to.
 *
 * Trust: the switch does not trust what ranks write. It stops serving a rank that writes garbage,
 * and hk_switch_slot_is_corrupt() reports that.
 *
 * Sleep: while frames come it polls. Without frames it yields the core, and after a while it
 * sleeps. A signal (port/wakeup.h) ends the sleep: a rank sends it, or the switch at the other end
 * of a memif. A frame at a kernel socket ends it as well. If a port can do neither, the switch only
 * sleeps for short times. It wakes the poller when a rank does not take its frames.
 *
 * Threads: hikyakud's main thread makes all calls. Each call waits until the switch has carried it
 * out, which takes one round of its loop. Its limits are HK_SWITCH_CPU_MS of the switch's CPU time
 * and HK_SWITCH_WAIT_MS. After that the process writes an abort message and aborts, since it cannot
 * take back a command.
 */
#ifndef HK_HOSTD_SWITCH_H
#define HK_HOSTD_SWITCH_H

#include "hikyaku/error.h"
#include "hostd/control.h"
#include "hostd/counters.h"
#include "hostd/watchdog.h"
#include "port/pipe.h"

#define HK_SWITCH_WIRES   32    /* ports, and pipes of each slot */
#define HK_SWITCH_CPU_MS  2000  /* CPU time of the switch for one command */
#define HK_SWITCH_WAIT_MS 30000 /* wall time for one command */

struct hk_switch;

/* Starts the thread on @lcore, an otherwise idle worker lcore of this primary. @log is copied. */
int hk_switch_start(unsigned lcore, const struct hk_abort_log *log, struct hk_switch **sw,
		    struct hk_error *err);

/* Ends the thread and frees @sw. Slots and wires must have been removed. NULL is allowed. */
void hk_switch_stop(struct hk_switch *sw);

/* The eager queues of a port, or all its queues. All frames of a rank go by one queue pair, which
 * its slot's number selects. So they stay in order, and a rank that floods its queue does not fill
 * the others. */
struct hk_switch_wire {
	struct hk_port *port;
	unsigned queues;            /* the switch's queue pairs: 0 to queues - 1 */
	struct rte_mempool *copies; /* buffers for frames that it must copy to send */
};

/* Polls @wire as wire @index from now on; NULL ends that. The caller owns the port. */
int hk_switch_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		   struct hk_error *err);

/* A rank, as the switch needs it. */
struct hk_switch_slot {
	uint32_t job_key, endpoint;
	struct hk_pipe *pipes; /* [HK_SWITCH_WIRES], in shared memory; by wire */
	struct rte_mempool *tx_pool;
	unsigned share; /* most received frames that the rank may have at once */
};

int hk_switch_slot_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *s,
		       struct hk_error *err);

/* Takes back the buffers that the rank has. The switch does not access its memory afterwards. */
int hk_switch_slot_remove(struct hk_switch *sw, unsigned slot, struct hk_error *err);

/* True if the rank in @slot has written garbage. */
bool hk_switch_slot_is_corrupt(const struct hk_switch *sw, unsigned slot);

/* Any thread may call it; the counters may be some frames old. */
void hk_switch_counters(const struct hk_switch *sw, struct hk_switch_counters *n);

/* Sets HK_PIPE_COUNTERS of @n, of a slot's present rank. */
void hk_switch_pipe_counters(const struct hk_switch *sw, unsigned slot, struct hk_pipe_levels *n);

#endif

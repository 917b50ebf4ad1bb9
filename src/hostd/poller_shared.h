/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/poller_shared.h: the memory through which hikyakud and its poller communicate.
 *
 * DESIGN NOTES
 *
 * Problem: the poller works in the memory of ranks, so garbage there can corrupt the poller. The
 * daemon must decide who owns a slot without trusting it.
 *
 * Approach: the memory is a memfd that the poller inherits, so ranks cannot reach it. The daemon
 * writes which slots the poller may poll; the poller writes what it does. The daemon uses a value
 * of the poller only after it has copied it and checked its range. The slot table is elsewhere, in
 * the daemon's own memory.
 *
 * Invariant: the daemon sets a slot's state to OFF, and then sees `inside` differ from that slot.
 * After that the poller is not in the slot's memory and does not enter it again. This is Dekker's
 * algorithm, once for each slot:
 *
 *   poller:  inside = slot + 1; (fence)      daemon:  state = OFF; (fence)
 *            if (state == ON)                         wait until inside != slot + 1
 *                    poll the slot's worker;
 *            inside = 0
 */
#ifndef HK_HOSTD_POLLER_SHARED_H
#define HK_HOSTD_POLLER_SHARED_H

#include "base/common.h"
#include "hostd/control.h"
#include "hostd/counters.h"

#include <stdatomic.h>

#define HK_POLLER_SHARED_MAGIC   UINT32_C(0x53544b48)
#define HK_POLLER_SHARED_VERSION 4

enum hk_poller_slot_state { HK_POLLER_SLOT_OFF, HK_POLLER_SLOT_ON };

struct hk_poller_shared_slot {  /* one cache line */
	_Atomic uint32_t state; /* by the daemon: enum hk_poller_slot_state */
	char pad0[4];
	_Atomic uint64_t worker; /* by the daemon: address of the worker, in the rank's memory */
	HK_SLOT_COUNTERS(HK_COUNTER_ATOMIC) /* by the poller */
	char pad[32];
};
_Static_assert(sizeof(struct hk_poller_shared_slot) == 64, "one cache line");

/* A wire's port. The poller must attach it before it meets a worker that uses it, and must detach
 * it before the daemon closes it. The poller attaches between its rounds, which can take long. It
 * sets `attached` before it begins, so that the daemon does not close a port meanwhile. */
struct hk_poller_shared_wire {
	_Atomic uint32_t wanted;   /* by the daemon: DPDK's port id + 1; 0: none */
	_Atomic uint32_t attached; /* by the poller: the port id + 1 in use; 0: none */
};

struct hk_poller_shared {
	uint32_t magic, version;
	uint32_t slots;
	uint32_t zero;
	_Atomic uint32_t ready;  /* by the poller: 1 while it polls */
	_Atomic uint32_t inside; /* by the poller: the slot in whose memory it is, + 1; or 0 */
	_Atomic uint32_t wire_changes; /* by the daemon: number of changes of `wanted` */
	char pad[4];
	HK_POLLER_COUNTERS(HK_COUNTER_ATOMIC) /* by the poller; `rounds` is its heartbeat */
	struct hk_poller_shared_slot slot[HK_CTL_MAX_SLOTS];
	struct hk_poller_shared_wire wire[HK_CTL_MAX_NODES];
};

/* Descriptors that the poller inherits. A byte on the channel wakes the poller; the channel's end
 * ends it; it writes error texts there. */
#define HK_POLLER_FD_SHARED  3
#define HK_POLLER_FD_CHANNEL 4
#define HK_POLLER_FD_JANITOR 5 /* hk_daemon.janitor_fd: only open, so that the janitor waits */

#endif

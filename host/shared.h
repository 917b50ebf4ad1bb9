/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/shared.h: what hikyakud and its poller tell each other, in a memory that only the two have.
 *
 * The daemon writes which slots are to be served; the poller writes what it does. It is a memfd
 * that the poller inherits: ranks cannot reach it. The poller itself may go wrong, since it works in
 * the memory of ranks; so the daemon never acts on what it reads here but by a copy whose range it
 * has checked, and what matters (who owns a slot) it keeps elsewhere.
 *
 * The hand-shake is Dekker's, per slot:
 *
 *   poller:  serving = slot + 1; (fence)      daemon:  state = OFF; (fence)
 *            if (state != SERVE) leave;                if (serving != slot + 1) it has let go,
 *            serve; serving = 0                        and will not come again
 */
#ifndef HK_HOST_SHARED_H
#define HK_HOST_SHARED_H

#include "base/common.h"
#include "host/control.h"

#include <stdatomic.h>

#define HK_SHARED_MAGIC   UINT32_C(0x53544b48)
#define HK_SHARED_VERSION 3

enum hk_shared_state { HK_SHARED_OFF, HK_SHARED_SERVE };

struct hk_shared_slot {
	_Atomic uint32_t state; /* daemon's: enum hk_shared_state */
	char pad0[4];
	_Atomic uint64_t fabric; /* daemon's: its address; what lies there is the rank's */
	_Atomic uint64_t looks;  /* poller's: how often it has looked at this slot */
	_Atomic uint64_t away;   /* poller's: how often its owner was away */
	char pad[32];            /* a cache line each */
};
_Static_assert(sizeof(struct hk_shared_slot) == 64, "a cache line each");

/* The poller must attach a wire's port before it may meet a fabric that uses it, and detach before the
 * daemon closes it: the daemon says what it wants, the poller what it has. The poller attaches between its rounds, which can
 * take long, and says that it has it before: so the daemon never closes what is just being attached. */
struct hk_shared_wire {
	_Atomic uint32_t want; /* daemon's: DPDK's port id + 1; 0: none */
	_Atomic uint32_t
		have; /* poller's: the same from when it sets out to attach; 0: it has let go */
};

struct hk_host_shared {
	uint32_t magic, version;
	uint32_t slots;
	uint32_t zero;
	_Atomic uint32_t ready;   /* poller's: 1 when it polls */
	_Atomic uint32_t serving; /* poller's: 0, or slot + 1 while it is in its memory */
	_Atomic uint64_t rounds;  /* poller's heartbeat: rounds over all slots */
	_Atomic uint32_t changes; /* daemon's: grows when a `want` has changed */
	char pad[4];
	_Atomic uint64_t sleeps, rung, in_vain; /* poller's: how often it lay down, was rung for, …
						 * and again before there was anything to do */
	struct hk_shared_slot slot[HK_CTL_MAX_SLOTS];
	struct hk_shared_wire wire[HK_CTL_MAX_NODES];
};

/* Descriptors that the poller inherits. */
#define HK_POLLER_FD_SHARED  3
#define HK_POLLER_FD_CHANNEL 4 /* a byte wakes it; the end of it ends it; it writes errors there */

#endif

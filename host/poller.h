/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/poller.h: the loop of the process that serves absent ranks.
 *
 * It sleeps until it is rung for (port/bell.h; the first 50 µs apart, then it looks once more): by a peer of an absent rank that waits for an
 * acknowledgement in vain, by hikyakud's switch whose frames a rank does not take, by a rank that leaves
 * messages to be sent later. It wakes by the clock as well, each `beat_ns`: for the timers of absent
 * ranks, and in case that nobody rings.
 *
 * Awake it looks at the ranks by the clock: each `busy_ns` while frames come and for `keen` looks
 * after them, and each `watch_ns` while something is outstanding; after `rest` looks without either, or
 * when all owners are back, it sleeps again. An owner counts as away 50 µs after its last poll (fabric/async.c), and who waits
 * for it rings after 50 µs, which may be a little earlier. So who was rung for and finds all owners present looks once more
 * after `soon_ns`, when they are away, or have polled. Further looks would keep them off their core, for
 * which they would be rung for again.
 */
#ifndef HK_HOST_POLLER_H
#define HK_HOST_POLLER_H

#include "host/shared.h"

/* What a look at a fabric found; the more there is to do, the greater. */
enum hk_served {
	HK_SERVED_PRESENT, /* its owner polls */
	HK_SERVED_IDLE,    /* its owner is away, and nothing came */
	HK_SERVED_OWED,    /* … and its packets are not acknowledged */
	HK_SERVED_BUSY     /* its owner is away, and frames came */
};

/* Takes over the fabric at @fabric if its owner is away. */
typedef enum hk_served (*hk_serve_fn)(void *fabric);

/* One look at every slot; returns the most that was found. *@any, if it is not NULL, says whether a
 * slot is to be served at all. */
enum hk_served hk_poller_round(struct hk_host_shared *s, hk_serve_fn serve, bool *any);

/* Attaches and detaches ports as the daemon wants; @port is what lies behind each wire. */
int hk_poller_wires(struct hk_host_shared *s, void *port[HK_CTL_MAX_NODES], struct hk_error *err);

struct hk_poller_pace {
	uint32_t beat_ns, watch_ns, busy_ns, soon_ns;
	unsigned keen; /* looks after the last frame */
	unsigned rest; /* looks without any, before it sleeps */
	unsigned owed; /* the same while something is outstanding */
	/* Rings in a row, no beat of silence between, that led to nothing; of those whose owners came by themselves four
	 * times as many. After one more a beat is slept without listening. */
	unsigned vain;
};

extern const struct hk_poller_pace hk_poller_pace;

/* Serves until @channel ends, as a prompt thread (prompt.h); then 0, or a negative errno with a sentence. @bell: hk_res_bell()'s. */
int hk_poller_loop(struct hk_host_shared *s, int channel, int bell, hk_serve_fn serve,
		   const struct hk_poller_pace *pace, struct hk_error *err);

/* `hikyakud poller …`: joins the shared memory, tells the daemon over its channel and serves. The
 * exit status. */
int hk_poller_main(int argc, char **argv);

#endif

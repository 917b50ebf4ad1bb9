/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/poller.h: the loop of the process that serves absent ranks.
 *
 * It sleeps between looks, by the clock: HK_POLLER_BUSY_NS while frames come and for HK_POLLER_KEEN
 * looks after them, else HK_POLLER_WATCH_NS. An owner counts as away 50 µs after its last poll
 * (fabric/async.c), so a frame for one that has just left MPI waits 50 µs and one such sleep at the
 * most: under 200 µs with what waking up takes. With no slot to serve it sleeps until the daemon
 * wakes it.
 */
#ifndef HK_HOST_POLLER_H
#define HK_HOST_POLLER_H

#include "host/shared.h"

#define HK_POLLER_WATCH_NS 120000
#define HK_POLLER_BUSY_NS  30000
#define HK_POLLER_KEEN     50

/* What a look at a fabric found. */
enum hk_served {
	HK_SERVED_PRESENT, /* its owner polls */
	HK_SERVED_IDLE,    /* its owner is away, and nothing came */
	HK_SERVED_BUSY     /* its owner is away, and frames came */
};

/* Takes over the fabric at @fabric if its owner is away. */
typedef enum hk_served (*hk_serve_fn)(void *fabric);

/* One look at every slot; returns the most that was found. *@any, if it is not NULL, says whether a
 * slot is to be served at all. */
enum hk_served hk_poller_round(struct hk_host_shared *s, hk_serve_fn serve, bool *any);

/* Attaches and detaches ports as the daemon wants; @port is what lies behind each wire. */
int hk_poller_wires(struct hk_host_shared *s, void *port[HK_CTL_MAX_NODES], struct hk_error *err);

/* Serves until @channel ends; then 0, or a negative errno with a sentence. */
int hk_poller_loop(struct hk_host_shared *s, int channel, hk_serve_fn serve, struct hk_error *err);

/* `hikyakud poller …`: joins the shared memory, tells the daemon over its channel and serves. The
 * exit status. */
int hk_poller_main(int argc, char **argv);

#endif

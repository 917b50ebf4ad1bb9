/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/poller.h: the loop of the process that serves absent ranks.
 *
 * It sleeps between looks, by the clock. How long, so that an idle poller costs under 3 % of a core
 * and a frame for a rank that has just left MPI waits under 200 µs: HK_POLLER_WATCH_NS while owners
 * are there (two looks find out that one has gone); HK_POLLER_SERVE_NS while one is away and has
 * been for less than HK_POLLER_KEEN looks, since bursts come then; HK_POLLER_WATCH_NS again after
 * that. With no slot to serve it sleeps until the daemon wakes it.
 */
#ifndef HK_HOST_POLLER_H
#define HK_HOST_POLLER_H

#include "host/shared.h"

#define HK_POLLER_WATCH_NS 90000
#define HK_POLLER_SERVE_NS 40000
#define HK_POLLER_KEEN     2500 /* looks: a tenth of a second */

/* Takes over the fabric at @fabric if its owner is away; returns whether it was. */
typedef bool (*hk_serve_fn)(void *fabric);

/* One look at every slot. Returns true if an owner was away; *@any, if it is not NULL, says whether
 * a slot is to be served at all. */
bool hk_poller_round(struct hk_host_shared *s, hk_serve_fn serve, bool *any);

/* Serves until @channel ends; then 0, or a negative errno. */
int hk_poller_loop(struct hk_host_shared *s, int channel, hk_serve_fn serve);

/* `hikyakud poller …`: joins the shared memory, tells the daemon over its channel and serves. The
 * exit status. */
int hk_poller_main(int argc, char **argv);

#endif

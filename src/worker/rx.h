/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/rx.h: polling the ports, and what waits for the application.
 */
#ifndef HK_WORKER_RX_H
#define HK_WORKER_RX_H

#include "worker/internal.h"

#define HK_RX_BURST  16
#define HK_RX_ROUNDS 4 /* bursts of one port before the next port's turn */
/* Polls of a low-latency port in one call: what Open MPI's progress loop does around a call takes
 * longer than one of them. */
#define HK_POLLS_LOW_LATENCY 4
#define HK_IDLE_CLOCK        8 /* empty polls between two checks of the timers; a power of two */

/* Polls all ports once. @by_proxy: messages go to the rx backlog instead of their handlers.
 * Returns how many frames came. */
unsigned hk_rx_poll(struct hk_worker *w, bool by_proxy);

/* Calls the handler of @am, which may be a bundle. */
void hk_am_deliver(struct hk_worker *w, hk_peer p, uint8_t am, const struct hk_iov *iov,
		   unsigned n);

/* The connection has ended: frees the peer's reorder queue. */
void hk_rx_forget(struct hk_worker *w, hk_peer p);

/* Frees the rx backlog. */
void hk_rx_backlog_drop(struct hk_worker *w);

/* By the RMA proxy: handles what the poller stored of the worker's own messages and of puts. */
void hk_rx_backlog_deliver(struct hk_worker *w);

/* Is the worker broken? Reports it once. Nothing else may be touched then. */
bool hk_worker_broken(struct hk_worker *w);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/txq.h: one transmit queue: a port's queue pair and the frames that wait for it.
 */
#ifndef HK_WORKER_TXQ_H
#define HK_WORKER_TXQ_H

#include "port/port.h"

#define HK_MAX_PORTS 256 /* each wire of a full mesh counts */
#define HK_TX_QUEUE  256 /* frames gathered, or waiting for the port's ring */

/* Frames gathered for one call of the driver. A low-latency port copies them in user space, so
 * there they are sent while they are in the cache. */
#define HK_TX_BURST             32
#define HK_TX_BURST_LOW_LATENCY 4

struct hk_txq {
	struct hk_port *port;
	struct hk_port own_port; /* what `port` points to if the poller uses the port too */
	uint16_t pair;           /* queue pair of the port */
	bool owned;              /* closed with the worker */
	bool system_calls;       /* a poll makes one */
	bool zero_copy;   /* the port copies at transmit: frames may point to the source of a put */
	uint16_t waiting; /* frames in `queue` */
	uint16_t burst;   /* frames that are gathered, at most */
	bool sent;        /* frames have left since the last poll */
	/* With system_calls, in ns: when it may rest, and until when it does now. */
	uint64_t active_until, rest_until;
	/* Set while the queue is half full, in ns. The port has taken nothing since
	 * `stuck_since`; at the last flush that had lasted for `stuck_for`. */
	uint64_t stuck_since, stuck_for;
	struct rte_mbuf *queue[HK_TX_QUEUE];
};

#endif

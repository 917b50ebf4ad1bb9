/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/wires.h: point-to-point wires to peers, from sets of wires (`memif:dir=…`, port/port.h).
 *
 * A wire connects two workers, and both open their end: the one with the lower endpoint number is
 * its server. hk_wires_open() opens all servers first, then all clients, and then waits for the
 * other ends. So workers that open wires to each other at the same time do not wait in a circle.
 * Workers that do not open theirs at the same time call hk_wires_begin(), and then hk_wires_step()
 * until it is done. These wait for nobody.
 *
 * All wires receive into one pool of buffers. If the caller has none, it is that of the first wire,
 * which therefore stays open to the end.
 *
 * Threads: as hikyaku/worker.h.
 */
#ifndef HK_WORKER_WIRES_H
#define HK_WORKER_WIRES_H

#include "hikyaku/worker.h"
#include "port/port.h"

#pragma GCC visibility push(default)

/* The caller fills in the first fields; the last ones are 0. */
struct hk_wires {
	struct hk_worker *worker;
	char spec[HK_PATHS_MAX][HK_PORT_SPEC_MAX]; /* sets of wires */
	unsigned count;                            /* of these */
	uint32_t key, endpoint;                    /* the worker's */
	unsigned buffers;                          /* to receive into */
	int timeout_ms;                            /* for the other end to come up */
	struct rte_mempool *pool;                  /* to receive into, or NULL */

	struct hk_port *owner; /* of the pool */
	bool owner_unused;     /* it is not the worker's */
};

struct hk_wires_peer {
	uint32_t endpoint;
	unsigned count; /* of its sets of wires */
	char name[128]; /* for messages */

	/* Set by hk_wires_open(): the worker's port of each wire; -1: it has failed. */
	int txq[HK_PATHS_MAX];
	struct hk_port *wire[HK_PATHS_MAX];
};

typedef void (*hk_wires_tell_fn)(void *arg, const char *text);

/* Opens the wires to the @n peers of @list and gives them to the worker. Each failure is a sentence
 * to @tell; the other wires work. */
void hk_wires_open(struct hk_wires *w, struct hk_wires_peer *list, size_t n, hk_wires_tell_fn tell,
		   void *arg);

/* Opens the ends of the wires to @peer that are servers. The first failure is a sentence in @err.
 */
int hk_wires_begin(struct hk_wires *w, struct hk_wires_peer *peer, struct hk_error *err);

/* Opens what it can of the wires to @peer. When the other ends of all are there, gives them to the
 * worker and returns 1; they are in `txq` then. The other end may have all of them before, and send
 * by any. So the worker gets none until its caller can add the peer. Returns 0 if some are missing,
 * or a negative errno with a sentence. */
int hk_wires_step(struct hk_wires *w, struct hk_wires_peer *peer, struct hk_error *err);

/* Closes what a peer that is not done has opened. */
void hk_wires_abandon(struct hk_wires *w, struct hk_wires_peer *peer);

/* After the worker has been closed. NULL is allowed. */
void hk_wires_end(struct hk_wires *w);

#pragma GCC visibility pop

#endif

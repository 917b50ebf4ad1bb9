/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/atomic_ops.h: the worker's inside of atomic operations: the table of those in flight, and
 * replies to those of peers.
 */
#ifndef HK_WORKER_ATOMIC_OPS_H
#define HK_WORKER_ATOMIC_OPS_H

#include "worker/atomic.h"

#define HK_ATOMIC_OPS_PER_PEER 64   /* our operations in flight to one peer */
#define HK_ATOMIC_OPS          4096 /* and to all */

struct hk_atomic_ops {
	struct hk_atomic_slot *slot; /* HK_ATOMIC_OPS */
	uint16_t free;               /* first free slot */
};

int hk_atomic_ops_open(struct hk_worker *w);
void hk_atomic_ops_close(struct hk_worker *w);

/* Requests the operations that waited. */
void hk_atomic_ops_run(struct hk_worker *w);

/* The connection to @p has ended: so have our operations on it. */
void hk_atomic_ops_forget(struct hk_worker *w, hk_peer p);

/* Sends the reply of @len bytes in @b. */
void hk_atomic_reply_send(struct hk_worker *w, hk_peer p, hk_buf *b, size_t len);

#endif

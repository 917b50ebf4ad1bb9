/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/atomic_ops.h: the worker's inside of atomic operations: the table of those in flight, and
 * what deferred_cas.c needs to carry out a peer's.
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

/* Carries out the deferred compare-and-swap  of @p and answers in @b; false, and nothing sent,
 * if it misses. */
bool hk_atomic_try(struct hk_worker *w, hk_peer p, struct hk_wire_atomic req, hk_buf *b);

/* Carries it out and answers in any case. */
void hk_atomic_serve(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *req);

/* Has the compare-and-swap  missed? Its `operand` is the value found. */
static inline bool hk_atomic_missed(const struct hk_wire_atomic *req)
{
	return req->size == 8 ? req->operand != req->compare
			      : (uint32_t)req->operand != (uint32_t)req->compare;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/atomic.h: atomic operations on a peer's regions (hikyaku/rma.h), and others that the owner
 * answers.
 *
 * An operation is one message there and one back (wire/atomic.h). The owner's worker carries it
 * out, in progress or in its progress thread, exactly once. The processor's own atomic instructions
 * do the work. So operations of several peers, of the owner itself, and of other processes that map
 * the memory are atomic to each other.
 *
 * `done` means more than that of a put: the owner has carried the operation out. It has also placed
 * everything that was sent to it before, puts included. Of a put alone, the sender only knows that
 * it is acknowledged, maybe by a poller that stores it for the owner. HK_ATOMIC_FENCE after a put
 * tells that its bytes lie in the owner's memory.
 *
 *   const struct hk_wire_atomic add = {
 *           .op = HK_ATOMIC_ADD, .size = 8, .region = r, .offset = 16, .operand = 1};
 *   struct hk_atomic_op a;
 *   hk_worker_atomic(w, owner, &a, &add, NULL, done, arg);     after `done`, a.old is the old value
 *
 * Memory and threads: as hikyaku/rma.h. The struct hk_atomic_op, and the bytes that are written or
 * read, belong to the worker until `done`. Its status:
 *
 *   0          carried out
 *   -ENOTCONN  the connection to the peer has ended
 *   -EACCES    refused: no such region, too short, not for us, or the address is not a multiple of
 *              the size
 */
#ifndef HK_WORKER_ATOMIC_H
#define HK_WORKER_ATOMIC_H

#include "hikyaku/rma.h"
#include "wire/atomic.h"

#pragma GCC visibility push(default)

/* One operation. The caller provides the memory, and reads `old` when it is done. */
struct hk_atomic_op {
	struct hk_op op;
	struct hk_wire_atomic request;
	uint64_t old;      /* the value before; of 4 bytes in the lower half */
	uint32_t room;     /* of a call: bytes that its result may have */
	uint32_t result;   /* bytes that came with the reply */
	const void *more;  /* of a call: the last … */
	uint32_t more_len; /* … bytes of its arguments */
};

/* Bytes that one HK_ATOMIC_WRITE or HK_ATOMIC_READ carries, at most. */
size_t hk_worker_atomic_max(const struct hk_worker *w);

/* Carries out @req, one from HK_ATOMIC_ADD to HK_ATOMIC_CAS, on our own memory at @at, a multiple
 * of its size. Returns the value before. Any thread. */
uint64_t hk_atomic_apply(const struct hk_wire_atomic *req, void *at);

/* Starts the operation @ask on @peer; the worker fills in its token and status. @data: the source
 * of a WRITE, or the destination of a READ, of ask->len bytes. Returns 0, -EINVAL if @ask is not
 * valid, or -ENOTCONN. */
int hk_worker_atomic(struct hk_worker *w, hk_peer peer, struct hk_atomic_op *a,
		     const struct hk_wire_atomic *ask, void *data, hk_done_fn done, void *arg);

/* Do operations of ours on @peer wait here to be sent, because many are in flight? If none does, a
 * message that is sent now arrives behind all that were started. */
bool hk_worker_atomics_wait(const struct hk_worker *w, hk_peer peer);

#pragma GCC visibility pop

#endif

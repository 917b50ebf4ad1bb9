/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/atomic.h: atomic operations on a peer's regions (rma.h), and others that its owner answers.
 *
 * An operation is one message there and one back (wire/atomic.h). Whoever polls at the owner does it: its
 * progress, or its helper thread; each is done exactly once. The processor's own atomic instructions do
 * the work, so operations of several peers, of the owner itself and of others that map the memory
 * are atomic to each other.
 *
 * `done` says more than that of a put (rma.h): the owner has done it, and everything that was sent to it before,
 * puts too, has been placed. A put is known only to be acknowledged, maybe by a polling process that keeps it
 * for the owner: after a put, HK_ATOMIC_FENCE tells that its bytes lie there.
 *
 *   struct hk_atom a;
 *   hk_fabric_atomic(f, owner, &a, &(struct hk_wire_atomic){.op = HK_ATOMIC_ADD, .size = 8, .region = r,
 *                    .offset = 16, .operand = 1}, NULL, done, arg);        … then a.old is what lay there
 *
 * Memory and threads: as rma.h; the struct hk_atom, and the bytes that are written or read, are the fabric's
 * until `done`. Status 0; -ENOTCONN: the peer is lost; -EACCES: refused, since there is no such region,
 * it is too short or not for us, or the address is not a multiple of the size.
 */
#ifndef HK_FABRIC_ATOMIC_H
#define HK_FABRIC_ATOMIC_H

#include "fabric/rma.h"
#include "wire/atomic.h"

/* One operation under way. Made by the caller, which reads `old` when it is done. */
struct hk_atom {
	struct hk_op op;
	struct hk_wire_atomic ask;
	uint64_t old; /* what lay there: a 4-byte one in the lower half */
};

/* Bytes that one HK_ATOMIC_WRITE or HK_ATOMIC_READ carries at the most. */
size_t hk_fabric_atomic_max(const struct hk_fabric *f);

/* Does the operation of @w, one from HK_ATOMIC_ADD to HK_ATOMIC_CAS, on our own memory at @at, a multiple of its size.
 * Returns what lay there. Any thread. */
uint64_t hk_atomic_apply(const struct hk_wire_atomic *w, void *at);

/* Starts the operation that @ask says (its token and status are filled in) on @peer. @data: of WRITE the source, of
 * READ the destination, ask->len bytes. Returns 0, -EINVAL if @ask is none, or -ENOTCONN. */
int hk_fabric_atomic(struct hk_fabric *f, hk_peer peer, struct hk_atom *a,
		     const struct hk_wire_atomic *ask, void *data, hk_done_fn done, void *arg);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/procedure.h: remote procedures: functions of an owner that its peers may call.
 *
 * A procedure has an id among the ids of regions. A peer calls it by hk_worker_call(): `offset`,
 * `operand` and `compare` mean what the two agree, and `len` bytes of arguments come with it. The
 * owner's worker runs the function once for each call, in progress or in one of its proxies, so
 * also while the application computes. It runs the calls of one peer in the order in which they
 * were made, with puts, gets, messages and atomic operations of that peer.
 *
 *   owner:  r = hk_worker_procedure_add(w, fn, arg);                  and tells its peers r
 *   peer:   const struct hk_wire_atomic call = {
 *                   .op = HK_ATOMIC_RPC, .region = r, .operand = 7, .len = 16};
 *           hk_worker_call(w, owner, &a, &call, &bytes, done, arg);
 *                                       after `done`, a.old is the result's operand, and a.result
 *                                       bytes lie at bytes.base
 *
 * The function answers at once, or refuses, or keeps the struct hk_rpc_caller and answers later by
 * hk_worker_rpc_reply(). Until then the call counts as one of those that the peer has in flight.
 */
#ifndef HK_WORKER_PROCEDURE_H
#define HK_WORKER_PROCEDURE_H

#include "worker/atomic.h"

#pragma GCC visibility push(default)

enum hk_rpc_end {
	HK_RPC_DONE,   /* the reply leaves now */
	HK_RPC_DENIED, /* the caller gets -EACCES */
	HK_RPC_LATER,  /* hk_worker_rpc_reply() will send it */
};

/* A call that waits for its reply. */
struct hk_rpc_caller {
	hk_peer peer;
	uint16_t incarnation; /* of the peer: another one gets no reply */
	struct hk_wire_atomic call;
};

/*
 * Carries out @caller->call, whose `len` bytes of arguments lie at @args. It stores the result's
 * value in call.operand, and call.len bytes at @result, which has room for hk_worker_atomic_max().
 * @args and @result do not overlap. It runs under the worker's lock, on any thread. So it must not
 * wait, nor call the worker, except hk_worker_rpc_reply(). It takes only locks that are held
 * shortly.
 */
typedef enum hk_rpc_end hk_procedure_fn(void *arg, struct hk_rpc_caller *caller, const void *args,
					void *result);

/* The memory of a call; all of it is the worker's until `done`. */
struct hk_rpc_bytes {
	void *base;        /* the arguments without the last more_len bytes, and then the result */
	uint32_t room;     /* bytes that the result may have */
	const void *more;  /* the rest of the arguments, or NULL */
	uint32_t more_len; /* at most ask->len */
};

/* Starts the call @ask, with ask->len bytes of arguments. Else as hk_worker_atomic(). A result that
 * is longer than b->room counts as a reply that nobody asked for. */
int hk_worker_call(struct hk_worker *w, hk_peer peer, struct hk_atomic_op *a,
		   const struct hk_wire_atomic *ask, const struct hk_rpc_bytes *b, hk_done_fn done,
		   void *arg);

/* HK_REGION_NONE: the table of regions is full. Ended by hk_worker_region_del(). */
hk_region hk_worker_procedure_add(struct hk_worker *w, hk_procedure_fn *fn, void *arg);

/* Answers @caller by its call.operand and the call.len bytes at @result, which are copied. Any
 * thread, also inside of a procedure. -ENOMEM: no memory; the caller waits for ever. */
int hk_worker_rpc_reply(struct hk_worker *w, const struct hk_rpc_caller *caller,
			const void *result);

#pragma GCC visibility pop

#endif

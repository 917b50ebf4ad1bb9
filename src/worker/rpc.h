/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/rpc.h: the worker's inside of remote procedures (procedure.h). */
#ifndef HK_WORKER_RPC_H
#define HK_WORKER_RPC_H

#include "worker/procedure.h"

#include <stdatomic.h>

struct hk_rpc_reply;

struct hk_rpcs {
	struct hk_rpc_reply *_Atomic posted; /* replies to earlier calls, the last one first */
};

/* Runs the procedure of @call. */
enum hk_rpc_end hk_rpc_serve(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *call,
			     const void *args, void *result);

/* Are there posted replies? Any thread. */
static inline bool hk_rpcs_posted(const struct hk_rpcs *r)
{
	return atomic_load_explicit(&r->posted, memory_order_relaxed) != NULL;
}

/* Sends them. */
void hk_rpc_replies_send(struct hk_worker *w);

void hk_rpc_close(struct hk_worker *w);

#endif

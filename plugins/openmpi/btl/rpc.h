/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/rpc.h: procedures that ranks call of each other (worker/procedure.h), for the osc
 * component of the same build (osc/). The worker calls those of ranks of other nodes, same_node.c
 * those of this node.
 *
 * The osc component finds them through hikyaku/service.h. Functions may be called between MPI_Init
 * and MPI_Finalize, and take the BTL's lock where threads need one, unless they say otherwise.
 */
#ifndef HK_BTL_RPC_H
#define HK_BTL_RPC_H

#include "openmpi/btl/same_node.h"
#include "worker/procedure.h"

struct mca_btl_base_endpoint_t;
struct mca_btl_base_module_t;

/* A call of ours. The caller provides the memory, which is the BTL's until `done`. */
struct hk_btl_call {
	struct mca_btl_base_endpoint_t *ep;
	struct hk_atomic_op far;
	struct hk_same_node_op near;
	hk_done_fn done;
	void *arg;
	uint64_t old;    /* after `done`: the result's operand */
	uint32_t result; /* and its bytes */
};

/* A call to us, while the procedure runs. */
struct hk_btl_caller {
	struct hk_wire_atomic *call;
	const struct hk_rpc_caller *far;        /* of another node, or … */
	const struct hk_same_node_caller *near; /* … of this one */
};

/* A call that will be answered later. */
struct hk_btl_waiting {
	struct hk_wire_atomic call;
	bool is_near;
	union {
		struct hk_rpc_caller far;
		struct hk_same_node_caller near;
	};
};

static inline void hk_btl_caller_keep(struct hk_btl_waiting *to, const struct hk_btl_caller *from)
{
	to->call = *from->call;
	to->is_near = from->near != NULL;
	if (from->near)
		to->near = *from->near;
	else if (from->far)
		to->far = *from->far;
}

/* As hk_procedure_fn. It runs on any thread, two of them at once. */
typedef enum hk_rpc_end hk_btl_procedure_fn(void *arg, struct hk_btl_caller *caller,
					    const void *args, void *result);

/* The caller provides the memory, and sets `fn` and `arg`. */
struct hk_btl_procedure {
	hk_btl_procedure_fn *fn;
	void *arg;
	hk_region id; /* for the callers */
};

struct hk_btl_rpc {
	/* Puts, gets, atomic operations and registered memory: opal/mca/btl/btl.h. */
	struct mca_btl_base_module_t *btl;
	/* Bytes of arguments, and of results, that a call carries. No lock. */
	size_t (*max)(void);
	/* False: the table of regions is full. */
	bool (*add)(struct hk_btl_procedure *p);
	/* When this returns, the procedure has returned, and is not called again. */
	void (*del)(struct hk_btl_procedure *p);
	/* Calls procedure @ask->region of @ep, another process, as hk_worker_call(). b->base has
	 * space for all arguments. `done` may run before this returns. */
	int (*call)(struct mca_btl_base_endpoint_t *ep, struct hk_btl_call *c,
		    const struct hk_wire_atomic *ask, const struct hk_rpc_bytes *b, hk_done_fn done,
		    void *arg);
	/* Is @c of @ep? Of a rank of this node it is not known. Takes no lock. */
	bool (*is_of)(const struct mca_btl_base_endpoint_t *ep, const struct hk_btl_caller *c);
	/* Answers by w->call.operand and the w->call.len bytes at @result. Any thread, also inside
	 * of a procedure; takes no lock. -ENOMEM: the caller waits for ever. */
	int (*reply)(const struct hk_btl_waiting *w, const void *result);
};

extern const struct hk_btl_rpc hk_btl_rpc;

#endif

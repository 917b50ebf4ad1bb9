/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/same_node.h: one-sided operations between ranks of one node (design: same_node.c).
 *
 * A rank opens this once, registers the memory that others may reach, and starts operations on the
 * memory of others. It does not use Open MPI.
 *
 * Threads: any thread may call hk_same_node_add(), _procedure_add(), _del() and _reply(). All other
 * functions are called under one lock of the caller, and call `done` under it. An internal thread
 * serves the other ranks. It runs their procedures, and no callback.
 */
#ifndef HK_BTL_SAME_NODE_H
#define HK_BTL_SAME_NODE_H

#include "worker/procedure.h"

#include <sys/socket.h>
#include <sys/un.h>

/* A rank, as its modex names it. */
struct hk_same_node_name {
	uint32_t key; /* of the job */
	uint32_t endpoint, epoch;
};

/* An operation on a rank of this node. The caller fills it, and must not touch it before `done`,
 * which may read `old`. */
struct hk_same_node_op {
	struct hk_same_node_op *next;
	struct hk_same_node_name to;
	struct hk_wire_atomic request; /* the callee sets its token, and len of a WRITE or READ */
	char *base;   /* source of a WRITE, target of a READ; arguments and result of an RPC */
	uint64_t len; /* bytes of a WRITE, READ or RPC; of other operations their size */
	uint64_t sent, old;
	uint32_t room;   /* bytes of an RPC's result that `base` has space for */
	uint32_t result; /* bytes of it that came */
	unsigned pieces;
	bool queued; /* in the list of operations with pieces to send */
	int status;  /* 0; -EACCES: refused; -ENOTCONN: the rank has died */
	hk_done_fn done;
	void *arg;
};

/* A call of a procedure (worker/procedure.h) that waits for its reply. */
struct hk_same_node_caller {
	struct sockaddr_un to;
	socklen_t to_len;
	struct hk_wire_atomic call;
};

/* As hk_procedure_fn; the server's thread runs it. */
typedef enum hk_rpc_end hk_same_node_fn(void *arg, struct hk_same_node_caller *caller,
					const void *args, void *result);

/* Bytes of arguments, and of results, that a call carries. */
#define HK_SAME_NODE_RPC_MAX 32768u

/* Serves others as @self. Returns 0 or a negative errno with *err. */
int hk_same_node_open(const struct hk_same_node_name *self, struct hk_error *err);

/* Forgets operations in flight. Does nothing if it is not open. */
void hk_same_node_close(void);

/* Others may reach @len bytes at @base, the caller's, as @region, until hk_same_node_del() has
 * returned. Both do nothing if it is not open. */
void hk_same_node_add(uint32_t region, void *base, uint64_t len);
void hk_same_node_del(uint32_t region);

/* Others may call @fn as @region, until hk_same_node_del() has returned. */
void hk_same_node_procedure_add(uint32_t region, hk_same_node_fn *fn, void *arg);

/* Answers @caller, whose call was to be answered later, as hk_worker_rpc_reply() does. */
int hk_same_node_reply(const struct hk_same_node_caller *caller, const void *result);

/* Starts @op; `done` may be called before it returns. */
void hk_same_node_start(struct hk_same_node_op *op);

/* True if an operation of ours is in flight. */
bool hk_same_node_busy(void);

/* Handles answers and sends pieces that waited; never blocks. Call it while operations are in
 * flight. Returns how many messages arrived. */
int hk_same_node_progress(void);

#endif

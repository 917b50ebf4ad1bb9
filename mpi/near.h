/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/near.h: one-sided operations between ranks of one node (near.c says why, and how).
 *
 * A rank opens this once, tells it of the memory that others may reach, and starts operations on that of others.
 * It needs nothing of Open MPI.
 *
 * Threads: hk_near_add() and hk_near_del() may be called by any; all else under one lock of the caller's, from
 * within which `done` is called. A thread of its own serves the others; it calls nobody.
 */
#ifndef HK_MPI_NEAR_H
#define HK_MPI_NEAR_H

#include "fabric/atomic.h"

/* Whose memory: a rank, as its modex names it. */
struct hk_near_name {
	uint32_t key; /* of the job */
	uint32_t endpoint, epoch;
};

/* An operation on a rank of this node. Made by the caller; ours until `done`, which has `old`. */
struct hk_near_op {
	struct hk_near_op *next;
	struct hk_near_name to;
	struct hk_wire_atomic ask; /* its token is filled in, and its len where bytes move */
	char *base;                /* bytes that a WRITE takes, or a READ brings … */
	uint64_t len;              /* … how many; of others their size */
	uint64_t sent, old;
	unsigned pieces;
	bool queued; /* in the list of what has pieces to send */
	int status;  /* 0; -EACCES: refused; -ENOTCONN: the rank has died */
	hk_done_fn done;
	void *arg;
};

/* Serves others as @self. Returns 0 or a negative errno with *err. */
int hk_near_open(const struct hk_near_name *self, struct hk_error *err);

/* Operations that are under way are forgotten. Does nothing if it is not open. */
void hk_near_close(void);

/* Others may reach @len bytes at @base, the caller's, as @region, until hk_near_del() has returned. Both do nothing
 * if it is not open. */
void hk_near_add(uint32_t region, void *base, uint64_t len);
void hk_near_del(uint32_t region);

/* Starts @op; `done` may be called before it returns. */
void hk_near_start(struct hk_near_op *op);

/* Is an operation of ours not done? */
bool hk_near_busy(void);

/* Takes answers in, and sends what waited; never blocks. For who has operations under way. Returns how many messages
 * came. */
int hk_near_progress(void);

#endif

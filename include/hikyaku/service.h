/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/service.h: the worker that an MPI plug-in runs in this process, for other libraries of
 * the process. The halo library and the promoter put through the port and engine that carry MPI's
 * messages.
 *
 * libhikyaku holds one entry: the plug-in publishes its service there in MPI_Init and withdraws it
 * in MPI_Finalize. A process without the plug-in finds NULL.
 *
 * Threads. Any thread that may call MPI may use the service between MPI_Init and MPI_Finalize; each
 * function takes the plug-in's lock where threads need one.
 */
#ifndef HIKYAKU_SERVICE_H
#define HIKYAKU_SERVICE_H

#include "hikyaku/notify.h"

#pragma GCC visibility push(default)

/* Names a process of this mpirun to the others. */
struct hk_identity {
	uint32_t key, endpoint, epoch;
};

struct hk_btl_mcast;
struct hk_btl_rpc;

struct hk_service {
	/* This process's identity. False if there is no worker, or none any more. */
	bool (*identity)(struct hk_identity *me);
	/* The peer of that identity, known at the latest when a message from it was received.
	 * HK_PEER_NONE: there is none that MPI reaches by this worker. */
	hk_peer (*peer)(const struct hk_identity *who);
	/* Is the peer connected? False without a worker. */
	bool (*alive)(hk_peer peer);
	/* "rank 3 on node1"; valid as long as that of hk_worker_peer_name(). */
	const char *(*name)(hk_peer peer);
	/* How many paths reach the peer; 0 without a worker. */
	unsigned (*paths)(hk_peer peer);

	/* As hk_worker_notify_add() and so on, and hk_worker_put_notify(). They need a worker
	 * (identity() is true), except notify_del, which does nothing without one. */
	hk_region (*notify_add)(struct hk_notify_target *t, hk_peer peer,
				const struct hk_layout *to, void *staging, unsigned depth);
	void (*notify_del)(struct hk_notify_target *t);
	void (*notify_open)(struct hk_notify_target *t);
	void (*notify_take)(struct hk_notify_target *t);
	int (*put)(hk_peer peer, struct hk_op *op, const struct hk_layout *from, hk_region remote,
		   uint32_t number, hk_done_fn done, void *arg);

	/* Polls the worker. With @all, and where ranks share cores (mpi_yield_when_idle), polls
	 * everything that MPI polls, which is slower. Handlers of MPI's messages run inside. */
	void (*progress)(bool all);

	/* Multicasts, for the coll component of the same plug-in (openmpi/btl/mcast.h). */
	const struct hk_btl_mcast *mcast;

	/* Calls of procedures, for the osc component of the same plug-in (openmpi/btl/rpc.h). */
	const struct hk_btl_rpc *rpc;
};

/* By the plug-in: @service must last until it is withdrawn by NULL. */
void hk_service_publish(const struct hk_service *service);

/* The published service, or NULL. */
const struct hk_service *hk_service_find(void);

/* A library that all processes of a job must have loaded announces itself before MPI_Init. @name
 * names it and its version, and must last as long as the process. The plug-in publishes that text
 * under HK_SERVICE_COMPANION_KEY in the modex, beside its own address. So each process learns
 * whether all have the library, also if one of them lacks it. One library a process. */
#define HK_SERVICE_COMPANION_KEY "hikyaku.companion.1"
void hk_service_announce_companion(const char *name);
const char *hk_service_companion(void); /* NULL: none */

#pragma GCC visibility pop

#endif

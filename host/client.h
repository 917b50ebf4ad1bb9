/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/client.h: a rank's end of the control socket. Needs neither DPDK nor Open MPI.
 *
 *   hk_host_connect   finds the daemon, or starts it; a slot is ours from here on
 *   (start DPDK as secondary with what hk_host_lease() says)
 *   hk_host_wires     wires to the daemons of the other nodes, whose ids came by the modex
 *   (build the fabric in the shared memory)
 *   hk_host_ready     the poller may serve it
 *   hk_host_watch     be told when the daemon dies
 *   hk_host_goodbye   the poller has let go; (free the fabric, leave DPDK)
 *   hk_host_close     the slot is free for others
 *
 * Each call waits at most as long as it is told, and its error says for whom it waited. Calls return 0 or a negative
 * errno: -ETIMEDOUT; -ECONNRESET: the daemon has gone; -EPROTO: it is of another release; else what the daemon said.
 * Structs and texts that are handed in are copied, or not looked at after the return.
 *
 * Threads: one at a time, but hk_host_lost() and hk_host_lost_text() may be called by any. After fork() the child
 * must not use it; the daemon knows the parent by its process, so an inherited descriptor does no harm.
 */
#ifndef HK_HOST_CLIENT_H
#define HK_HOST_CLIENT_H

#include "host/control.h"

struct hk_host;

struct hk_host_request {
	/* who asks */
	uint32_t job_key;                 /* not 0 */
	uint32_t endpoint;                /* in the job */
	uint32_t local_rank, local_ranks; /* of this job on this node */
	/* whom: NULL: the administrator's daemon if one runs on this node, else the job's own, which
	 * is started if need be. A name: that daemon, which must run. */
	const char *name;
	/* how to start the job's daemon; not used with a daemon that runs */
	const char *program;             /* NULL: $HIKYAKU_DAEMON, else `hikyakud` in PATH */
	const char *port;                /* port spec (port/port.h) */
	const char *cpus;                /* "0-3,8": where it may run; NULL: where this rank may */
	const char *huge_dir;            /* NULL: found */
	unsigned rx_buffers, tx_buffers; /* of each rank; 0: the daemon's default */
	unsigned memory_mb;              /* 0: what the buffers need */
	bool no_poller;
	enum hk_ctl_mode mode; /* 0: the daemon's default */
	unsigned eager_queues; /* 0: the daemon's default */
	unsigned timeout_ms;   /* for everything together; 0: 10 s */
};

/* What the daemon has given; valid until hk_host_close(). */
const struct hk_ctl_welcome *hk_host_lease(const struct hk_host *h);

/* Gets a slot. 0 or a negative errno with a sentence: the daemon's own words if it could not start
 * or refused (too many ranks, another version, another user, …). -ENOENT, -ECONNREFUSED: the named one does not run. */
int hk_host_connect(const struct hk_host_request *req, struct hk_host **h, struct hk_error *err);

/* Wires to the @count nodes in @node (not our own), which the daemon makes and owns; @wire[i] is the one to @node[i].
 * -E2BIG: more than HK_CTL_MAX_NODES. */
int hk_host_wires(struct hk_host *h, const struct hk_ctl_node *node, unsigned count,
		  struct hk_ctl_wire *wire, unsigned timeout_ms, struct hk_error *err);

/* The fabric at @fabric (in the shared memory, 64-byte aligned) may be served from now on. */
int hk_host_ready(struct hk_host *h, const void *fabric, unsigned timeout_ms, struct hk_error *err);

/* Returns when the poller does not touch this rank's memory any more and never will. */
int hk_host_goodbye(struct hk_host *h, unsigned timeout_ms, struct hk_error *err);

/* Closes the connection and ends the watcher. Without hk_host_goodbye() before, the slot stays
 * taken until this process has ended. NULL is allowed. */
void hk_host_close(struct hk_host *h);

/* The connection: readable or closed when there is something to hear of, for those with an event
 * loop of their own. It stays ours: not to be read, nor closed. */
int hk_host_fd(const struct hk_host *h);

/* Starts a thread that sleeps until the daemon closes the connection. Then hk_host_lost() turns true, and
 * after that @lost(@arg) is called once, by that thread, if it is not NULL; it must not call anything
 * here but hk_host_lost() and hk_host_lost_text(). hk_host_close() waits for it. */
int hk_host_watch(struct hk_host *h, void (*lost)(void *arg), void *arg, struct hk_error *err);

/* Has the watcher seen the daemon go? One load. */
bool hk_host_lost(const struct hk_host *h);

/* Why, in a sentence: the daemon's own words if it had any. Call once hk_host_lost() is true. */
const char *hk_host_lost_text(struct hk_host *h);

/* Starts the daemon @name, of job @job_key if that is not 0, and waits until it is ready; of several
 * callers at once, one starts it and the others find it. 0 if it runs, whoever started it.
 * (For hk_host_connect(); in host/start.c.) */
struct hk_rundir;
int hk_host_start(const struct hk_rundir *rd, const struct hk_host_request *req, int64_t deadline,
		  struct hk_error *err);

#endif

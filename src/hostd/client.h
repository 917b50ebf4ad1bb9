/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/client.h: a rank's end of hikyakud's control socket. It needs neither DPDK nor Open MPI.
 *
 * A rank calls in this order:
 *
 *   1. hk_hostd_client_connect()   finds the daemon or starts it; the rank now has a slot
 *   2. (starts DPDK as secondary, with the values of hk_hostd_client_lease())
 *   3. hk_hostd_client_wires()     wires to the daemons of other nodes, whose ids the modex gave
 *   4. (opens the worker in the shared memory)
 *   5. hk_hostd_client_ready()     the poller may poll the worker
 *   6. hk_hostd_client_watch()     starts the thread that reports the daemon's end
 *   7. hk_hostd_client_leave()   the poller has left the rank's memory
 *   8. (closes the worker, leaves DPDK)
 *   9. hk_hostd_client_close()     others may have the slot
 *
 * Errors: calls return 0 or a negative errno with a sentence. -ETIMEDOUT: the daemon did not answer
 * in the given time. -ECONNRESET: the daemon has ended. -EPROTO: the daemon is of another release.
 * Other values come from the daemon.
 *
 * Ownership: a call copies the structs and texts that it is given, or does not use them after it
 * has returned.
 *
 * Threads: one at a time, except that any thread may call hk_hostd_client_lost() and
 * hk_hostd_client_lost_text(). The child of a fork() must not use the client. An inherited
 * descriptor does no harm, since the daemon knows the rank by its process.
 */
#ifndef HK_HOSTD_CLIENT_H
#define HK_HOSTD_CLIENT_H

#include "hostd/control.h"

#include <sched.h>

#pragma GCC visibility push(default)

struct hk_hostd_client;

struct hk_hostd_request {
	/* the rank */
	uint32_t job_key;                 /* never 0 */
	uint32_t endpoint;                /* in the job */
	uint32_t local_rank, local_ranks; /* number of the rank among the job's on this node */
	/* the daemon: the name of one that must run. NULL: the administrator's daemon if it runs on
	 * this node, else the job's own, which the call starts if necessary */
	const char *name;
	uint32_t job_daemon; /* number in the name of the job's own; 0: job_key */
	/* how to start the job's daemon; ignored if it runs */
	const char *program;             /* NULL: $HIKYAKU_DAEMON, else `hikyakud` in PATH */
	const char *port;                /* port spec (port/port.h) */
	const cpu_set_t *cpus;           /* where it may run; NULL: where this thread may */
	const char *huge_dir;            /* mount point of hugetlbfs; NULL: DPDK looks for it */
	unsigned rx_buffers, tx_buffers; /* of each rank; 0: the daemon's default */
	unsigned memory_mb;              /* huge pages; 0: as much as the buffers need */
	bool no_poller;                  /* start the daemon without a poller */
	enum hk_ctl_mode mode;           /* 0: the daemon's default */
	unsigned eager_queues;           /* of each wire; 0: the daemon's default */
	unsigned timeout_ms;             /* limit of the whole call; 0: 10 s */
};

/* The slot and all else that the daemon gave this rank; valid until hk_hostd_client_close(). */
const struct hk_ctl_welcome *hk_hostd_client_lease(const struct hk_hostd_client *h);

/* Gets a slot. The error text is the daemon's own if it could not start or if it refused (too many
 * ranks, another version, another user). -ENOENT, -ECONNREFUSED: the named daemon does not run. On
 * success the caller closes *@h. */
int hk_hostd_client_connect(const struct hk_hostd_request *req, struct hk_hostd_client **h,
			    struct hk_error *err);

/* Gets wires to the @count nodes in @node, all of them other nodes. The daemon makes and owns the
 * wires; @wire[i] leads to @node[i]. -E2BIG: @count exceeds HK_CTL_MAX_NODES. */
int hk_hostd_client_wires(struct hk_hostd_client *h, const struct hk_ctl_node *node, unsigned count,
			  struct hk_ctl_wire *wire, unsigned timeout_ms, struct hk_error *err);

/* Lets the poller poll the worker at @worker, which is in the slot's memory, 64-byte aligned. */
int hk_hostd_client_ready(struct hk_hostd_client *h, const void *worker, unsigned timeout_ms,
			  struct hk_error *err);

/* Removes what this rank has made again of a daemon that was killed. Does nothing if another runs
 * by its name. */
void hk_hostd_client_clean(const struct hk_hostd_client *h);

/* Returns when the poller has left this rank's memory for good. */
int hk_hostd_client_leave(struct hk_hostd_client *h, unsigned timeout_ms, struct hk_error *err);

/* Closes the connection, ends the watcher and frees @h. Without hk_hostd_client_leave() before,
 * the slot stays occupied until this process ends. NULL is allowed. */
void hk_hostd_client_close(struct hk_hostd_client *h);

/* The connection's descriptor, for callers with their own event loop. It becomes readable when the
 * daemon sends an error or closes. The caller must not read or close it. */
int hk_hostd_client_fd(const struct hk_hostd_client *h);

/* Starts a thread, the watcher, that sleeps until the daemon closes the connection. Then
 * hk_hostd_client_lost() becomes true, and the watcher calls @lost(@arg) once unless @lost is NULL.
 * @lost may only call hk_hostd_client_lost() and hk_hostd_client_lost_text().
 * hk_hostd_client_close() waits for it. */
int hk_hostd_client_watch(struct hk_hostd_client *h, void (*lost)(void *arg), void *arg,
			  struct hk_error *err);

/* True if the watcher has seen the daemon end. Costs one load. */
bool hk_hostd_client_lost(const struct hk_hostd_client *h);

/* A sentence with the reason, which the daemon gave if it could. Only after hk_hostd_client_lost()
 * has become true; valid until hk_hostd_client_close(). */
const char *hk_hostd_client_lost_text(struct hk_hostd_client *h);

/* For hk_hostd_client_connect(); in hostd/start.c. Starts the daemon of @rd and waits until it is
 * ready. Of several concurrent callers, one starts the daemon and the others find it. Returns 0 if
 * the daemon runs. */
struct hk_rundir;
int hk_hostd_client_start_daemon(const struct hk_rundir *rd, const struct hk_hostd_request *req,
				 int64_t deadline, struct hk_error *err);

#pragma GCC visibility pop

#endif

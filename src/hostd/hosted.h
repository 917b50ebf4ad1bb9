/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/hosted.h: a worker in a slot of hikyakud, which is a worker in mode hybrid, split or
 * daemon.
 *
 * The process attaches to hikyakud and puts its worker into memory of its slot. In mode hybrid it
 * polls its own queues of ports that the daemon owns. In mode daemon it polls pipes from the
 * daemon, which polls the ports. In mode split it polls pipes, and queues for bulk. While the
 * program computes, the daemon's poller polls in its place.
 *
 * A process calls in this order:
 *
 *   1. hk_hosted_open()          finds the daemon or starts it; the process has a slot
 *   2. hk_hosted_start_dpdk()
 *   3. hk_hosted_memory()        then it opens the worker there (hk_worker_open())
 *   4. hk_hosted_share()         from now on the poller may poll the worker
 *   5. hk_hosted_wires(), hk_hosted_txqs()     for the peers, which are on other nodes
 *   6. hk_hosted_unshare()       then it closes the worker
 *   7. hk_hosted_close()
 *
 * Peers need a struct hk_hosted_node of the worker besides its address. The daemon makes no ports
 * between two processes of one node.
 *
 * DPDK joins the memory of one daemon for the life of the process. So a process does all this once.
 *
 * Errors: 0, or a negative errno with a sentence. If the cause is the daemon's death, the sentence
 * says that.
 *
 * Threads: one at a time.
 */
#ifndef HK_HOSTD_HOSTED_H
#define HK_HOSTD_HOSTED_H

#include "hikyaku/worker.h"
#include "hostd/client.h"

#pragma GCC visibility push(default)

struct hk_hosted;

struct hk_hosted_config {
	const char *mode; /* inline or NULL, hybrid, split, daemon, auto */
	unsigned ports;   /* that the user has named */
	/* the parameters by which the user sets the mode and the ports, for messages */
	const char *mode_parameter, *port_parameter;
	/* all except `mode`, `eager_queues` if the mode has none, and `cpus` */
	struct hk_hostd_request request;
	/* gets sentences for a user who wants to know more; NULL: nobody does */
	void (*note)(const char *text);
};

/* Where a hosted worker is. Values from another process are looked up, and may be anything. */
struct hk_hosted_node {
	uint64_t node_id;            /* of its daemon */
	uint32_t slot, slots, eager; /* of that daemon (struct hk_ctl_welcome) */
};

/* Is there a @mode of this name? -EINVAL: no. @parameter: by which the user named it. */
int hk_hosted_check_mode(const char *mode, const char *parameter, struct hk_error *err);

/* Attaches to hikyakud if cfg->mode asks for it. *@h: NULL in mode inline, which auto chooses if
 * there can be no daemon. -EINVAL: there is no such mode, or the daemon that runs has another one.
 * -ENOTSUP: there are several ports. */
int hk_hosted_open(const struct hk_hosted_config *cfg, struct hk_hosted **h, struct hk_error *err);

/* The slot and all else that the daemon gave; valid until hk_hosted_close(). */
const struct hk_ctl_welcome *hk_hosted_lease(const struct hk_hosted *h);

/* The mode; 0 if @h is NULL: inline. */
enum hk_ctl_mode hk_hosted_mode(const struct hk_hosted *h);

struct hk_hosted_node hk_hosted_node(const struct hk_hosted *h);

/* Starts DPDK as secondary of the daemon. @args: more arguments for it, or NULL. */
int hk_hosted_start_dpdk(struct hk_hosted *h, const char *args, bool verbose, struct hk_error *err);

/* Sets the memory of the worker. */
int hk_hosted_memory(struct hk_hosted *h, struct hk_worker_config *cfg, struct hk_error *err);

/* Lets the poller into @worker, and gives it the pipe of a port that reaches all others. If the
 * daemon dies, the worker is broken (hk_worker_break()). @rma_proxy: a thread serves one-sided
 * operations while the program computes. */
int hk_hosted_share(struct hk_hosted *h, struct hk_worker *worker, bool rma_proxy,
		    struct hk_error *err);

/* Gets wires to the @n nodes in @list, and waits at most @timeout_ms until they are up. Our own
 * node may be among them, and nodes that have a wire already. -ETIMEDOUT: some are not up; another
 * call goes on with them. If the daemon has one port, no wires are needed. */
int hk_hosted_wires(struct hk_hosted *h, const struct hk_hosted_node *list, size_t n,
		    unsigned timeout_ms, struct hk_error *err);

/* Can frames be sent to this node? Not to our own, and not without a wire. */
bool hk_hosted_reaches(const struct hk_hosted *h, uint64_t node_id);

/* Sets the worker's ports to a peer on a node that is reached. *@bulk: -1 if all traffic takes
 * *@txq. */
int hk_hosted_txqs(struct hk_hosted *h, const struct hk_hosted_node *peer, int *txq, int *bulk,
		   struct hk_error *err);

/* Takes the worker back from the poller. If that fails, the poller may stay in it forever, and the
 * process must not enter it again: the worker is broken. */
int hk_hosted_unshare(struct hk_hosted *h, struct hk_error *err);

/* Leaves the daemon and DPDK. NULL is allowed. */
void hk_hosted_close(struct hk_hosted *h);

#pragma GCC visibility pop

#endif

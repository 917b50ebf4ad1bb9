/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/hosted.c: a worker in a slot of hikyakud.
 */
#include "hostd/hosted.h"
#include "base/launcher.h"
#include "base/say.h"
#include "port/pipe.h"
#include "worker/private.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Wires that are attached, by the other node. */
struct node_wire {
	uint64_t node_id;
	struct hk_port *port; /* with queues of ours, attached */
	struct hk_port pipe;  /* with pipes, the one to it, which all peers there share: */
	int txq;
};

struct hk_hosted {
	struct hk_hostd_client *client;
	unsigned timeout_ms;
	struct hk_worker *worker; /* NULL: not shared yet */
	/* The worker that the watcher breaks if the daemon dies; NULL once the poller has left it.
	 * It is in the daemon's memory, which stays mapped. */
	_Atomic(struct hk_worker *) watched;
	struct node_wire wire[HK_CTL_MAX_NODES];
	unsigned wires;
};

/* ---- start --------------------------------------------------------------------------------- */

/* A launcher binds each process to a core. A daemon on the same core would take turns with it, so
 * it starts on all cores that the launcher has here. */
static const cpu_set_t *daemon_cpus(cpu_set_t *set)
{
	pid_t launcher = hk_launcher_process();

	return launcher && sched_getaffinity(launcher, sizeof(*set), set) == 0 ? set : NULL;
}

static int connect_daemon(const struct hk_hosted_config *cfg, enum hk_ctl_mode mode,
			  struct hk_hostd_client **client, struct hk_error *err)
{
	struct hk_hostd_request req = cfg->request;
	cpu_set_t cpus;

	req.mode = mode;
	req.cpus = daemon_cpus(&cpus);
	if (!hk_ctl_mode_has_pipes(mode))
		req.eager_queues = 0;
	return hk_hostd_client_connect(&req, client, err);
}

const struct hk_ctl_welcome *hk_hosted_lease(const struct hk_hosted *h)
{
	return hk_hostd_client_lease(h->client);
}

enum hk_ctl_mode hk_hosted_mode(const struct hk_hosted *h)
{
	return h ? (enum hk_ctl_mode)hk_hosted_lease(h)->mode : 0;
}

struct hk_hosted_node hk_hosted_node(const struct hk_hosted *h)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);

	return (struct hk_hosted_node){l->node_id, l->slot, l->slots, l->eager};
}

/* A daemon that ran already may be of another mode than @mode, which was asked for. */
static int check_mode(const struct hk_hosted_config *cfg, const struct hk_hosted *h,
		      enum hk_ctl_mode mode, struct hk_error *err)
{
	const char *is = hk_ctl_mode_name(hk_hosted_mode(h)), *asked = hk_ctl_mode_name(mode);

	if (hk_hosted_mode(h) == mode)
		return 0;
	return hk_error_set(err, -EINVAL,
			    "hikyakud (%s) is in mode %s, and %s was asked for; fix: start "
			    "it with --mode %s, or set %s to %s",
			    hk_hosted_lease(h)->shared, is, asked, asked, cfg->mode_parameter, is);
}

/* For "auto": hybrid where processes can poll queues of one port. */
static enum hk_ctl_mode choose_mode(const struct hk_hosted_config *cfg)
{
	const char *why, *port = cfg->request.port;
	bool shares = hk_port_spec_shares_queues(port, &why);

	hk_say(cfg->note, "mode auto asks for %s: ranks %s poll queues of port %s: %s",
	       shares ? "hybrid" : "daemon", shares ? "can" : "cannot", port, why);
	return shares ? HK_CTL_HYBRID : HK_CTL_DAEMON;
}

int hk_hosted_check_mode(const char *mode, const char *parameter, struct hk_error *err)
{
	if (!mode || strcmp(mode, "inline") == 0 || strcmp(mode, "auto") == 0 ||
	    hk_ctl_mode_by_name(mode))
		return 0;
	return hk_error_set(err, -EINVAL,
			    "%s: there is no mode \"%s\"; fix: inline, hybrid, split, daemon or "
			    "auto",
			    parameter, mode);
}

/* Which mode is asked for? *@mode: 0: inline. */
static int asked_mode(const struct hk_hosted_config *cfg, enum hk_ctl_mode *mode,
		      struct hk_error *err)
{
	const char *wanted = cfg->mode;
	bool automatic = wanted && strcmp(wanted, "auto") == 0;
	int rc = hk_hosted_check_mode(wanted, cfg->mode_parameter, err);

	*mode = 0;
	if (rc)
		return rc;
	if (!wanted || strcmp(wanted, "inline") == 0)
		return 0;
	if (cfg->ports > 1 && automatic) {
		hk_say(cfg->note, "mode inline: the rank has %u ports", cfg->ports);
		return 0;
	}
	if (cfg->ports > 1)
		return hk_error_set(err, -ENOTSUP,
				    "%s names %u ports, and in mode %s a rank has one; fix: name "
				    "one, or set %s to inline",
				    cfg->port_parameter, cfg->ports, wanted, cfg->mode_parameter);
	*mode = automatic ? choose_mode(cfg) : hk_ctl_mode_by_name(wanted);
	return 0;
}

int hk_hosted_open(const struct hk_hosted_config *cfg, struct hk_hosted **out, struct hk_error *err)
{
	bool automatic = cfg->mode && strcmp(cfg->mode, "auto") == 0;
	enum hk_ctl_mode mode;
	int rc = asked_mode(cfg, &mode, err);

	*out = NULL;
	if (rc || !mode)
		return rc;
	struct hk_hosted *h = calloc(1, sizeof(*h));

	if (!h)
		return hk_error_set(err, -ENOMEM, "no memory for the connection to hikyakud");
	h->timeout_ms = cfg->request.timeout_ms;
	rc = connect_daemon(cfg, mode, &h->client, err);
	if (rc) {
		free(h);
		if (!automatic)
			return rc;
		hk_say(cfg->note, "mode inline, for: %s", err->text);
		return 0;
	}
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);

	hk_say(cfg->note, "mode %s: slot %u of %u of %s, %s", hk_ctl_mode_name(hk_hosted_mode(h)),
	       l->slot, l->slots, l->shared,
	       l->poller ? "its poller polls for ranks that compute" : "no poller");
	rc = automatic ? 0 : check_mode(cfg, h, mode, err);
	if (rc) {
		hk_hostd_client_close(h->client);
		free(h);
		return rc;
	}
	*out = h;
	return 0;
}

static bool daemon_has_ended(const struct hk_hosted *h)
{
	struct pollfd p = {.fd = hk_hostd_client_fd(h->client), .events = POLLIN | POLLRDHUP};

	return poll(&p, 1, 0) == 1;
}

/* Replaces an error by the death of the daemon, if that is its cause. */
static int daemon_error(const struct hk_hosted *h, int rc, struct hk_error *err)
{
	if (rc && daemon_has_ended(h))
		return hk_error_set(err, -EPIPE, "%s", hk_hostd_client_lost_text(h->client));
	return rc;
}

int hk_hosted_start_dpdk(struct hk_hosted *h, const char *args, bool verbose, struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);
	struct hk_eal_config eal = {
		.role = HK_EAL_SECONDARY,
		.shared = l->shared,
		.huge_dir = l->huge_dir[0] ? l->huge_dir : NULL,
		.runtime_dir = l->runtime_dir, /* not of this process's environment */
		.lcore = l->lcore,
		.extra_args = args,
		.verbose = verbose,
	};

	int rc = hk_eal_init(&eal, err);

	/* DPDK opens files of huge pages with O_CREAT, and the janitor may have removed them */
	if (daemon_has_ended(h))
		hk_hostd_client_clean(h->client);
	return daemon_error(h, rc, err);
}

int hk_hosted_memory(struct hk_hosted *h, struct hk_worker_config *cfg, struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);

	cfg->memory = (void *)(uintptr_t)l->memory;
	cfg->memory_len = l->memory_len;
	return daemon_error(h, hk_pool_find(l->tx_pool, &cfg->tx_pool, err), err);
}

/* Our end of the pipe to wire @index of hikyakud's switch. */
static void pipe_to(const struct hk_hosted *h, unsigned index, struct hk_port *port)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);
	struct hk_port_info info = {
		.driver = "pipe",
		.frame_max = (uint16_t)l->frame_max,
		.numa = -1,
		.point_to_point = l->port_kind == HK_CTL_PORT_WIRES,
	};

	snprintf(info.spec, sizeof(info.spec), "pipe %u of %s", index, l->shared);
	memcpy(info.mac, l->mac, sizeof(info.mac));
	hk_pipe_port((struct hk_pipe *)(uintptr_t)l->pipes + index, &info, port);
}

static void daemon_lost(void *arg)
{
	struct hk_hosted *h = arg;
	struct hk_worker *w = atomic_load(&h->watched);

	if (w)
		hk_worker_break(w, hk_hostd_client_lost_text(h->client));
}

/* One port that reaches all others is polled from the start: a peer may send before we know it. */
static int add_one_port(struct hk_hosted *h, struct hk_error *err)
{
	struct hk_port port;

	pipe_to(h, 0, &port);
	return HK_MIN(hk_worker_add_queue(h->worker, &port, 0, err), 0);
}

int hk_hosted_share(struct hk_hosted *h, struct hk_worker *worker, bool rma_proxy,
		    struct hk_error *err)
{
	int rc = hk_worker_share(worker, err);

	h->worker = worker;
	if (rc == 0 && rma_proxy)
		rc = hk_worker_rma_proxy_start(worker, err);
	if (rc == 0 && hk_hosted_lease(h)->port_kind == HK_CTL_PORT_ONE)
		rc = add_one_port(h, err);
	if (rc == 0)
		rc = hk_hostd_client_ready(h->client, worker, h->timeout_ms, err);
	atomic_store(&h->watched, worker);
	if (rc == 0)
		rc = hk_hostd_client_watch(h->client, daemon_lost, h, err);
	return rc;
}

/* ---- wires --------------------------------------------------------------------------------- */

static const struct node_wire *wire_to(const struct hk_hosted *h, uint64_t node_id)
{
	for (unsigned i = 0; i < h->wires; i++)
		if (h->wire[i].node_id == node_id)
			return &h->wire[i];
	return NULL;
}

static int attach(struct hk_hosted *h, struct node_wire *w, const struct hk_ctl_wire *wire,
		  struct hk_error *err)
{
	enum hk_ctl_mode mode = hk_hosted_mode(h);
	int rc = 0;

	*w = (struct node_wire){.node_id = wire->node_id};
	if (hk_ctl_mode_has_queues(mode))
		rc = hk_port_attach(wire->port_id, (int)h->timeout_ms, &w->port, err);
	if (rc == 0 && hk_ctl_mode_has_pipes(mode)) {
		pipe_to(h, wire->pipe, &w->pipe);
		w->txq = hk_worker_add_queue(h->worker, &w->pipe, 0, err);
		rc = HK_MIN(w->txq, 0);
	}
	if (rc)
		hk_port_detach(w->port);
	return rc;
}

/* The nodes of @list to which there is no wire yet. */
static unsigned new_nodes(const struct hk_hosted *h, const struct hk_hosted_node *list, size_t n,
			  struct hk_ctl_node *node)
{
	unsigned count = 0;

	for (size_t i = 0; i < n && h->wires + count < HK_CTL_MAX_NODES; i++) {
		unsigned k = 0;

		while (k < count && node[k].node_id != list[i].node_id)
			k++;
		if (k < count || wire_to(h, list[i].node_id) ||
		    list[i].node_id == hk_hosted_lease(h)->node_id)
			continue;
		node[count++] = (struct hk_ctl_node){list[i].node_id, list[i].slots, list[i].eager};
	}
	return count;
}

int hk_hosted_wires(struct hk_hosted *h, const struct hk_hosted_node *list, size_t n,
		    unsigned timeout_ms, struct hk_error *err)
{
	if (n == 0 || hk_hosted_lease(h)->port_kind == HK_CTL_PORT_ONE)
		return 0;
	struct hk_ctl_node *node = calloc(HK_CTL_MAX_NODES, sizeof(*node));
	struct hk_ctl_wire *wire = calloc(HK_CTL_MAX_NODES, sizeof(*wire));
	int rc = node && wire ? 0 : hk_error_set(err, -ENOMEM, "no memory");
	unsigned count = rc ? 0 : new_nodes(h, list, n, node);

	if (count)
		rc = hk_hostd_client_wires(h->client, node, count, wire, timeout_ms, err);
	for (unsigned i = 0; rc == 0 && i < count; i++) {
		rc = attach(h, &h->wire[h->wires], &wire[i], err);
		h->wires += rc == 0;
	}
	free(node);
	free(wire);
	return daemon_error(h, rc, err);
}

bool hk_hosted_reaches(const struct hk_hosted *h, uint64_t node_id)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);

	return l->port_kind == HK_CTL_PORT_ONE ? node_id != l->node_id
					       : wire_to(h, node_id) != NULL;
}

/* The queue pair for two workers, of the wire between their nodes. The workers have slot i of the
 * node with the lower id and slot j of the other. The pair is i * (slots of the other) + j, after
 * the pairs of hikyakud. So each queue has one user at each end. */
static uint16_t pair_to(const struct hk_hosted *h, const struct hk_hosted_node *peer)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(h);

	return (uint16_t)(l->eager + (l->node_id < peer->node_id
					      ? l->slot * peer->slots + peer->slot
					      : peer->slot * l->slots + l->slot));
}

/* By a queue pair, by the pipe to its node, or by the pipe and for bulk by the pair. */
int hk_hosted_txqs(struct hk_hosted *h, const struct hk_hosted_node *peer, int *txq, int *bulk,
		   struct hk_error *err)
{
	*txq = 0;
	*bulk = -1;
	if (hk_hosted_lease(h)->port_kind == HK_CTL_PORT_ONE)
		return 0;
	const struct node_wire *w = wire_to(h, peer->node_id);
	int own = w->txq;

	if (w->port) {
		int rc = hk_port_take_queue(w->port, pair_to(h, peer), err);

		own = rc ? rc : hk_worker_add_queue(h->worker, w->port, pair_to(h, peer), err);
	}
	if (own < 0)
		return own;
	*txq = hk_ctl_mode_has_pipes(hk_hosted_mode(h)) ? w->txq : own;
	*bulk = own;
	return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

int hk_hosted_unshare(struct hk_hosted *h, struct hk_error *err)
{
	int rc = hk_hostd_client_leave(h->client, h->timeout_ms, err);

	if (rc && h->worker)
		hk_worker_break(h->worker, "hikyakud did not leave the worker");
	atomic_store(&h->watched, NULL);
	return rc;
}

void hk_hosted_close(struct hk_hosted *h)
{
	if (!h)
		return;
	while (h->wires)
		hk_port_detach(h->wire[--h->wires].port);
	hk_eal_end();
	hk_hostd_client_close(h->client);
	free(h);
}

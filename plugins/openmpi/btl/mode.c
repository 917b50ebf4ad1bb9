/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/mode.c: the modes with hikyakud.
 *
 * The rank attaches to hikyakud and puts its worker into memory of its slot. In mode hybrid it
 * polls its own queues of ports that the daemon owns. In mode daemon it polls pipes from the
 * daemon, which polls the ports. In mode split it polls pipes, and queues for bulk. While the rank
 * computes, the daemon's poller polls in its place.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "port/pipe.h"

#include "opal/util/output.h"
#include "opal/util/proc.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

/* Wires that are attached, by the other node. */
struct node_wire {
	uint64_t node_id;
	struct hk_port *port; /* with queues of ours, attached */
	struct hk_port pipe;  /* with pipes, the one to it, which all peers there share: */
	int txq;
};

static struct node_wire wires[HK_CTL_MAX_NODES];
static unsigned wire_count;

/* ---- start --------------------------------------------------------------------------------- */

/* mpirun's process of this node, which has started this rank; 0 if something else has. */
static pid_t launcher(void)
{
	static const char *const names[] = {"orted\n", "prted\n", "mpirun\n", "orterun\n",
					    "prterun\n"};
	char path[40], name[20] = "";
	pid_t parent = getppid();

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)parent);
	FILE *f = fopen(path, "re");
	bool known = f && fgets(name, sizeof(name), f);
	if (f)
		fclose(f);
	for (size_t i = 0; known && i < HK_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return parent;
	return 0;
}

/* mpirun binds each rank to a core. A daemon on the same core would take turns with the rank, so it
 * starts on all cores that mpirun has here. */
static const cpu_set_t *daemon_cpus(cpu_set_t *set)
{
	pid_t parent = launcher();

	return parent && sched_getaffinity(parent, sizeof(*set), set) == 0 ? set : NULL;
}

static int connect_daemon(enum hk_ctl_mode mode, struct hk_error *err)
{
	cpu_set_t cpus;
	struct hk_hostd_request req = {
		.job_key = hk_btl.key,
		.endpoint = hk_btl.endpoint,
		.local_rank = opal_process_info.my_local_rank,
		.local_ranks = opal_process_info.num_local_peers + 1u,
		.name = PARAMS->daemon,
		.program = PARAMS->daemon_program,
		.port = hk_btl.path[0],
		.cpus = daemon_cpus(&cpus),
		.huge_dir = PARAMS->huge_dir ? PARAMS->huge_dir : getenv("HIKYAKU_HUGE_DIR"),
		.rx_buffers = PARAMS->rx_buffers,
		.tx_buffers = PARAMS->tx_buffers,
		.mode = mode,
		.eager_queues = hk_ctl_mode_has_pipes(mode) ? PARAMS->eager_queues : 0,
		.timeout_ms = PARAMS->connect_timeout_ms,
	};

	return hk_hostd_client_connect(&req, &hk_btl.daemon, err);
}

static enum hk_ctl_mode lease_mode(void)
{
	return (enum hk_ctl_mode)hk_hostd_client_lease(hk_btl.daemon)->mode;
}

uint32_t hk_btl_mode_current(void)
{
	return hk_btl.daemon ? lease_mode() : 0;
}

/* A daemon that ran already may be of another mode than @mode, which was asked for. */
static int check_mode(enum hk_ctl_mode mode, struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);
	const char *is = hk_ctl_mode_name(lease_mode()), *asked = hk_ctl_mode_name(mode);

	if (lease_mode() == mode)
		return 0;
	return hk_error_set(err, -EINVAL,
			    "hikyakud (%s) is in mode %s, and %s was asked for; fix: start "
			    "it with --mode %s, or set btl_hikyaku_mode to %s",
			    l->shared, is, asked, asked, is);
}

/* For "auto": hybrid where ranks can poll queues of one port. */
static enum hk_ctl_mode choose_mode(void)
{
	const char *why;
	bool shares = hk_port_spec_shares_queues(hk_btl.path[0], &why);

	opal_output_verbose(1, mca_btl_hikyaku_component.output,
			    "hikyaku: mode auto asks for %s: ranks %s poll queues of port %s: %s",
			    shares ? "hybrid" : "daemon", shares ? "can" : "cannot", hk_btl.path[0],
			    why);
	return shares ? HK_CTL_HYBRID : HK_CTL_DAEMON;
}

/* Attaches to the polling process if the user wants one. With "auto" the rank polls alone if there
 * can be none, and reports the reason. */
int hk_btl_mode_choose(struct hk_error *err)
{
	const char *wanted = PARAMS->mode;
	enum hk_ctl_mode mode;
	bool automatic;
	int rc;

	if (!wanted || strcmp(wanted, "inline") == 0)
		return 0;
	automatic = strcmp(wanted, "auto") == 0;
	if (hk_btl.path_count > 1 && automatic) {
		opal_output_verbose(1, mca_btl_hikyaku_component.output,
				    "hikyaku: mode inline: the rank has %u ports",
				    hk_btl.path_count);
		return 0;
	}
	if (hk_btl.path_count > 1)
		return hk_error_set(err, -ENOTSUP,
				    "btl_hikyaku_port names %u ports, and in mode %s a rank "
				    "has one; fix: name one, or set btl_hikyaku_mode to inline",
				    hk_btl.path_count, wanted);
	mode = hk_ctl_mode_by_name(wanted);
	if (automatic)
		mode = choose_mode();
	if (!mode)
		return hk_error_set(err, -EINVAL,
				    "btl_hikyaku_mode: there is no mode \"%s\"; fix: inline, "
				    "hybrid, split, daemon or auto",
				    wanted);
	rc = connect_daemon(mode, err);
	if (rc == 0) {
		const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);

		opal_output_verbose(1, mca_btl_hikyaku_component.output,
				    "hikyaku: mode %s: slot %u of %u of %s, %s",
				    hk_ctl_mode_name(lease_mode()), l->slot, l->slots, l->shared,
				    l->poller ? "its poller polls for ranks that compute"
					      : "no poller");
		return automatic ? 0 : check_mode(mode, err);
	}
	if (!automatic)
		return rc;
	opal_output_verbose(1, mca_btl_hikyaku_component.output, "hikyaku: mode inline, for: %s",
			    err->text);
	return 0;
}

/* Replaces an error by the death of the daemon, if that is its cause. */
static int daemon_error(int rc, struct hk_error *err)
{
	struct pollfd p = {.fd = hk_hostd_client_fd(hk_btl.daemon), .events = POLLIN | POLLRDHUP};

	if (rc && poll(&p, 1, 0) == 1)
		return hk_error_set(err, -EPIPE, "%s", hk_hostd_client_lost_text(hk_btl.daemon));
	return rc;
}

int hk_btl_mode_join(struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);
	struct hk_eal_config eal = {
		.role = HK_EAL_SECONDARY,
		.shared = l->shared,
		.huge_dir = l->huge_dir[0] ? l->huge_dir : NULL,
		.runtime_dir = l->runtime_dir, /* not of this rank's environment */
		.lcore = l->lcore,
		.extra_args = PARAMS->eal_args,
		.verbose = PARAMS->verbose >= 20,
	};

	return daemon_error(hk_eal_init(&eal, err), err);
}

/* Sets the memory of the worker. */
int hk_btl_mode_memory(struct hk_worker_config *cfg, struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);

	cfg->memory = (void *)(uintptr_t)l->memory;
	cfg->memory_len = l->memory_len;
	return daemon_error(hk_pool_find(l->tx_pool, &cfg->tx_pool, err), err);
}

/* Our end of the pipe to wire @index of hikyakud's switch. */
static void pipe_to(unsigned index, struct hk_port *port)
{
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);
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

/* The worker that the watcher breaks if the daemon dies; NULL once the poller has left it. It is in
 * the daemon's memory, which stays mapped. */
static _Atomic(struct hk_worker *) watched;

static void daemon_lost(void *arg)
{
	struct hk_worker *f = atomic_load(&watched);

	(void)arg;
	if (f)
		hk_worker_break(f, hk_hostd_client_lost_text(hk_btl.daemon));
}

/* One port that reaches all others is polled from the start: a peer may send before we know it. */
static int add_one_port(struct hk_error *err)
{
	struct hk_port port;

	pipe_to(0, &port);
	return HK_MIN(hk_worker_add_queue(hk_btl.worker, &port, 0, err), 0);
}

/* Lets the poller in. */
int hk_btl_mode_share(struct hk_error *err)
{
	int rc = hk_worker_share(hk_btl.worker, err);

	if (rc == 0 && PARAMS->progress_thread)
		rc = hk_worker_rma_proxy_start(hk_btl.worker, err);
	if (rc == 0 && hk_hostd_client_lease(hk_btl.daemon)->port_kind == HK_CTL_PORT_ONE)
		rc = add_one_port(err);
	if (rc == 0)
		rc = hk_hostd_client_ready(hk_btl.daemon, hk_btl.worker, PARAMS->connect_timeout_ms,
					   err);
	atomic_store(&watched, hk_btl.worker);
	if (rc == 0)
		rc = hk_hostd_client_watch(hk_btl.daemon, daemon_lost, NULL, err);
	return rc;
}

/* ---- wires --------------------------------------------------------------------------------- */

static const struct node_wire *wire_to(uint64_t node_id)
{
	for (unsigned i = 0; i < wire_count; i++)
		if (wires[i].node_id == node_id)
			return &wires[i];
	return NULL;
}

static int attach(struct node_wire *w, const struct hk_ctl_wire *wire, struct hk_error *err)
{
	enum hk_ctl_mode mode = lease_mode();
	int rc = 0;

	*w = (struct node_wire){.node_id = wire->node_id};
	if (hk_ctl_mode_has_queues(mode))
		rc = hk_port_attach(wire->port_id, (int)PARAMS->connect_timeout_ms, &w->port, err);
	if (rc == 0 && hk_ctl_mode_has_pipes(mode)) {
		pipe_to(wire->pipe, &w->pipe);
		w->txq = hk_worker_add_queue(hk_btl.worker, &w->pipe, 0, err);
		rc = HK_MIN(w->txq, 0);
	}
	if (rc)
		hk_port_detach(w->port);
	return rc;
}

/* The nodes of @list to which there is no wire yet. */
static unsigned new_nodes(const struct hk_candidate *list, size_t n, struct hk_ctl_node *node)
{
	unsigned count = 0;

	for (size_t i = 0; i < n && wire_count + count < HK_CTL_MAX_NODES; i++) {
		unsigned k = 0;

		while (k < count && node[k].node_id != list[i].m.node_id)
			k++;
		if (k < count || wire_to(list[i].m.node_id) ||
		    list[i].m.node_id == hk_hostd_client_lease(hk_btl.daemon)->node_id)
			continue;
		node[count++] = (struct hk_ctl_node){.node_id = list[i].m.node_id,
						     .slots = list[i].m.slots,
						     .eager = list[i].m.eager};
	}
	return count;
}

static int attach_wires(const struct hk_candidate *list, size_t n, struct hk_error *err)
{
	struct hk_ctl_node *node = calloc(HK_CTL_MAX_NODES, sizeof(*node));
	struct hk_ctl_wire *wire = calloc(HK_CTL_MAX_NODES, sizeof(*wire));
	int rc = node && wire ? 0 : -ENOMEM;
	unsigned count = rc ? 0 : new_nodes(list, n, node);

	if (count)
		rc = hk_hostd_client_wires(hk_btl.daemon, node, count, wire,
					   PARAMS->connect_timeout_ms, err);
	for (unsigned i = 0; rc == 0 && i < count; i++) {
		rc = attach(&wires[wire_count], &wire[i], err);
		wire_count += rc == 0;
	}
	free(node);
	free(wire);
	return daemon_error(rc, err);
}

/* The queue pair for two ranks, of the wire between their nodes. The ranks have slot i of the node
 * with the lower id and slot j of the other. The pair is i * (slots of the other) + j, after the
 * pairs of hikyakud. So each queue has one user at each end. */
static uint16_t pair_to(const struct hk_modex *m)
{
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);

	return (uint16_t)(l->eager + (l->node_id < m->node_id ? l->slot * m->slots + m->slot
							      : m->slot * l->slots + l->slot));
}

/* By a queue pair, by the pipe to its node, or by the pipe and for bulk by the pair. */
static int add_txqs(struct hk_candidate *c, const struct node_wire *w, struct hk_error *err)
{
	int txq = w->txq;

	if (w->port) {
		int rc = hk_port_take_queue(w->port, pair_to(&c->m), err);

		txq = rc ? rc : hk_worker_add_queue(hk_btl.worker, w->port, pair_to(&c->m), err);
	}
	if (txq < 0)
		return txq;
	c->txq = hk_ctl_mode_has_pipes(lease_mode()) ? w->txq : txq;
	c->bulk = txq;
	return 0;
}

void hk_btl_mode_txqs(struct hk_candidate *list, size_t n)
{
	struct hk_error err = {"no memory"};
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(hk_btl.daemon);

	if (l->port_kind == HK_CTL_PORT_ONE) {
		for (size_t i = 0; i < n; i++)
			if (list[i].m.node_id != l->node_id)
				list[i].txq = 0;
		return;
	}

	if (n && attach_wires(list, n, &err) != 0)
		hk_btl_error("%s", err.text);
	for (size_t i = 0; i < n; i++) {
		const struct node_wire *w = wire_to(list[i].m.node_id);

		if (!w) /* of this node, or said above */
			continue;
		if (add_txqs(&list[i], w, &err) != 0)
			hk_btl_error("rank %u on %s: %s", list[i].proc->proc_name.vpid,
				     list[i].m.host, err.text);
	}
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Takes the worker back from the poller. If that fails, the poller may stay in it forever, and the
 * rank must not enter it again. */
void hk_btl_mode_unshare(void)
{
	struct hk_error err;

	if (hk_btl.daemon &&
	    hk_hostd_client_leave(hk_btl.daemon, PARAMS->connect_timeout_ms, &err) != 0) {
		hk_btl_error("%s", err.text);
		if (hk_btl.worker)
			hk_worker_break(hk_btl.worker, "hikyakud did not leave the worker");
	}
	atomic_store(&watched, NULL);
}

void hk_btl_mode_leave(void)
{
	if (!hk_btl.daemon)
		return;
	while (wire_count)
		hk_port_detach(wires[--wire_count].port);
	hk_eal_end();
	hk_hostd_client_close(hk_btl.daemon);
	hk_btl.daemon = NULL;
}

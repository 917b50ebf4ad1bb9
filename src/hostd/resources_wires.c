/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/resources_wires.c: wires: their ports, queues and pools; the steering of the port.
 */
#include "hostd/resources_parts.h"
#include "hostd/steering.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define WIRE_OPEN_MS 2000

static uint32_t fold(uint64_t id)
{
	return (uint32_t)(id ^ id >> 32);
}

static int wire_spec(const struct hk_res *r, const struct hk_res_wire *w, char spec[512],
		     bool *server, struct hk_error *err)
{
	return hk_port_wire_spec(r->port, r->key, fold(r->node_id), fold(w->node_id), spec, 512,
				 server, err);
}

static void socket_of(const char *spec, char path[128])
{
	const char *at = strstr(spec, "socket=");
	size_t n;

	at = at ? at + strlen("socket=") : spec;
	n = strcspn(at, ",;");
	snprintf(path, 128, "%.*s", (int)HK_MIN(n, (size_t)127), at);
}

int hk_res_wire_plan(struct hk_res *r, struct hk_res_wire *w, struct hk_error *err)
{
	char spec[512];

	w->eager = r->info.eager;
	w->queues = w->eager + (hk_ctl_mode_has_queues(r->mode) ? r->slots * w->slots : 0);
	return wire_spec(r, w, spec, &w->server, err);
}

/* The receive pool of queue @k of the wire. Eager queues share one; another queue uses that of this
 * node's slot for which it is (hosted.c). */
static struct rte_mempool *pool_of(const struct hk_res *r, const struct hk_res_wire *w, unsigned k)
{
	if (k < w->eager)
		return r->rx;
	k -= w->eager;
	return r->slot[r->node_id < w->node_id ? k / w->slots : k % r->slots].rx;
}

static int open_queues(struct hk_res *r, const struct hk_res_wire *w, const char *spec,
		       struct hk_port **port, struct hk_error *err)
{
	struct rte_mempool **pool = calloc(w->queues, sizeof(*pool));
	struct hk_port_queues q = {.count = w->queues, .pool = pool};

	if (!pool)
		return hk_error_set(err, -ENOMEM, "no memory for a wire");
	for (unsigned k = 0; k < w->queues; k++)
		pool[k] = pool_of(r, w, k);
	int rc = hk_port_open_queues(spec, &q, WIRE_OPEN_MS, port, err);

	free(pool);
	return rc;
}

/* Opens a wire of which the switch polls the eager queues. */
static int open_for_switch(struct hk_res *r, struct hk_res_wire *w, const char *spec,
			   struct hk_port **port, struct hk_error *err)
{
	unsigned i = 0;

	while (i < HK_SWITCH_WIRES && r->wire_used[i])
		i++;
	if (i == HK_SWITCH_WIRES)
		return hk_error_set(
			err, -ENOSPC,
			"hikyakud's switch has wires to at most %d other nodes; fix: use "
			"mode hybrid, or a port with a network switch",
			HK_SWITCH_WIRES);
	int rc = open_queues(r, w, spec, port, err);

	if (rc == 0) {
		r->wire_used[i] = true;
		w->pipe = (uint16_t)i;
	}
	return rc;
}

int hk_res_wire_open(struct hk_res *r, struct hk_res_wire *w, struct hk_error *err)
{
	struct hk_port *port;
	char spec[512], path[128];
	int rc = wire_spec(r, w, spec, &w->server, err);

	if (rc)
		return rc;
	socket_of(spec, path);
	if (w->server)
		rc = hk_rundir_note(&r->rundir, path, err);
	else if (access(path, F_OK) != 0)
		return -EAGAIN;
	if (rc == 0)
		rc = r->sw ? open_for_switch(r, w, spec, &port, err)
			   : open_queues(r, w, spec, &port, err);
	if (rc) /* the other daemon may have died: the caller tries again until the rank's limit */
		return rc == -ETIMEDOUT ? -EAGAIN : rc;
	w->port = port;
	w->port_id = port->id;
	return 0;
}

static int switch_wire(struct hk_res *r, const struct hk_res_wire *w)
{
	const struct hk_switch_wire wire = {.port = w->port, .queues = w->eager, .copies = r->rx};
	struct hk_error err;

	return hk_switch_wire(r->sw, w->pipe, &wire, &err);
}

bool hk_res_wire_up(struct hk_res *r, struct hk_res_wire *w)
{
	struct hk_error err;

	/* the first time, hk_port_wait_link() also lets secondaries attach */
	if (!w->up) {
		w->up = hk_port_wait_link(w->port, 0, &err) == 0;
		if (w->up && r->sw)
			w->up = switch_wire(r, w) == 0;
	}
	return w->up && hk_port_link(w->port);
}

void hk_res_wire_close(struct hk_res *r, struct hk_res_wire *w)
{
	struct hk_error err;

	if (r->sw) {
		(void)hk_switch_wire(r->sw, w->pipe, NULL, &err);
		r->wire_used[w->pipe] = false;
	}
	hk_port_close(w->port);
	w->port = NULL;
}

/* The steering of wires: by queue, if ranks have their own queue pairs. */
static enum hk_steer_method wire_method(const struct hk_res *r)
{
	return hk_ctl_mode_has_queues(r->mode) ? HK_STEER_QUEUE_INDEX : HK_STEER_SOFTWARE;
}

/* The steering of wires is known before one is open. */
void hk_res_steering(const struct hk_res *r, struct hk_res_steering *out)
{
	struct hk_steer_report report = {.method = wire_method(r)};

	if (r->one) {
		hk_port_steering(r->one, &report);
		hk_steering_describe(&report, out);
		snprintf(out->driver, sizeof(out->driver), "%s", r->one->info.driver);
		return;
	}
	for (unsigned i = 0; i < HK_STEER_QUEUE_INDEX; i++)
		snprintf(report.why[i], sizeof(report.why[i]), "not tried: a memif has no rules");
	snprintf(report.why[HK_STEER_QUEUE_INDEX], sizeof(report.why[0]),
		 "in this mode hikyakud polls for all ranks");
	hk_steering_describe(&report, out);
	if (hk_ctl_mode_has_queues(r->mode) && hk_ctl_mode_has_pipes(r->mode))
		out->text = "queue index (memif) for bulk, software for the rest";
	snprintf(out->driver, sizeof(out->driver), "net_memif");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_wires.c: wires to the daemons of other nodes.
 *
 * The daemon opens a wire when the first rank asks for it, and keeps it. It opens ends that listen
 * before ends that connect, and tries to connect until the other side listens. Then it checks each
 * wire until its link is up. Nothing here waits: the loop calls hk_wires_tick() every
 * HK_WIRE_PERIOD_MS, and handles other requests in between.
 */
#include "hostd/daemon.h"

#include <errno.h>
#include <inttypes.h>

static struct hk_wire *find(struct hk_daemon *d, uint64_t node_id)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state != HK_WIRE_NONE && d->wire[i].state != HK_WIRE_CLOSING &&
		    d->wire[i].link.node_id == node_id)
			return &d->wire[i];
	return NULL;
}

static struct hk_poller_shared_wire *at_poller(struct hk_daemon *d, const struct hk_wire *w)
{
	return &d->shared->wire[w - d->wire];
}

/* Requests that the poller attaches port @want - 1 for the wire, or detaches it if @want is 0. */
static void request_attach(struct hk_daemon *d, const struct hk_wire *w, uint32_t want)
{
	if (!hk_ctl_mode_has_queues(d->o.mode)) /* workers have pipes, which need no port */
		return;
	atomic_store(&at_poller(d, w)->wanted, want);
	atomic_fetch_add(&d->shared->wire_changes, 1);
	hk_poller_wake(d);
}

/* True if the poller has attached or detached the port as wanted, or does not run. */
static bool poller_is_done(struct hk_daemon *d, const struct hk_wire *w)
{
	const struct hk_poller_shared_wire *s = at_poller(d, w);

	return d->poller.pid == 0 || atomic_load(&s->attached) == atomic_load(&s->wanted);
}

/* Closes @w in two steps: first the poller detaches the port, then the daemon closes it. Call it
 * again while the state is HK_WIRE_CLOSING. */
static void close_wire(struct hk_daemon *d, struct hk_wire *w)
{
	if (w->state == HK_WIRE_UP) {
		request_attach(d, w, 0);
		w->state = HK_WIRE_CLOSING;
	}
	if (w->state == HK_WIRE_CLOSING && !poller_is_done(d, w))
		return;
	if (w->state != HK_WIRE_CLOSED)
		hk_res_wire_close(d->res, &w->link);
	*w = (struct hk_wire){.state = HK_WIRE_NONE};
}

/* Closes wires that no rank uses and whose other daemon has ended. */
static void close_dead(struct hk_daemon *d)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++) {
		struct hk_wire *w = &d->wire[i];
		if (w->state != HK_WIRE_NONE && w->users == 0 &&
		    (w->state != HK_WIRE_UP || !hk_res_wire_up(d->res, &w->link)))
			close_wire(d, w);
	}
}

static int add(struct hk_daemon *d, const struct hk_ctl_node *node, struct hk_wire **out,
	       struct hk_error *err)
{
	unsigned i = 0;

	while (i < HK_MAX_WIRES && d->wire[i].state != HK_WIRE_NONE)
		i++;
	if (i == HK_MAX_WIRES)
		return hk_error_set(
			err, -ENOSPC,
			"hikyakud '%s' has wires to %u nodes already; fix: restart it, or "
			"use a port with a network switch",
			d->rd.name, HK_MAX_WIRES);
	struct hk_wire w = {.state = HK_WIRE_CLOSED,
			    .link = {.node_id = node->node_id, .slots = node->slots}};
	int rc = hk_res_wire_plan(d->res, &w.link, err);
	if (rc)
		return rc;
	d->wire[i] = w;
	*out = &d->wire[i];
	return 0;
}

int hk_wires_request(struct hk_daemon *d, unsigned conn, const struct hk_ctl_wires *m,
		     struct hk_error *err)
{
	struct hk_conn *c = &d->conn[conn];
	uint64_t bit = UINT64_C(1) << c->slot;

	if (hk_res_info(d->res)->port_kind != HK_CTL_PORT_WIRES)
		return hk_error_set(err, -EOPNOTSUPP,
				    "port %s of hikyakud '%s' is one port, not a wire set",
				    d->o.port, d->rd.name);
	close_dead(d);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct hk_ctl_node *node = &m->node[i];
		struct hk_wire *w = find(d, node->node_id);
		int rc = 0;

		if (node->node_id == d->node_id)
			rc = hk_error_set(err, -EINVAL, "a node needs no wire to itself");
		else if (!w)
			rc = add(d, node, &w, err);
		else if (w->link.slots != node->slots)
			rc = hk_error_set(err, -EINVAL,
					  "node %016" PRIx64
					  " has %u slots for one rank and %u for "
					  "another",
					  node->node_id, w->link.slots, node->slots);
		if (rc == 0 && node->eager != hk_res_info(d->res)->eager)
			rc = hk_error_set(err, -EINVAL,
					  "node %016" PRIx64
					  " has %u eager queues, but hikyakud '%s' here %u; fix: "
					  "give both the same eager-queues",
					  node->node_id, node->eager, d->rd.name,
					  hk_res_info(d->res)->eager);
		if (rc)
			return rc;
		w->users |= bit;
		c->wire_node[i] = node->node_id;
	}
	c->wires = m->count;
	c->wires_seq = m->hdr.seq;
	c->wires_deadline = hk_clock_ms() + m->timeout_ms;
	hk_wires_tick(d, hk_clock_ms());
	return 0;
}

/* Answers all requests that wait for @w with an error. */
static void fail_waiting(struct hk_daemon *d, struct hk_wire *w, int rc, const char *text)
{
	uint64_t id = w->link.node_id;

	for (unsigned i = 0; i < HK_MAX_CONNS; i++) {
		struct hk_conn *c = &d->conn[i];
		for (unsigned j = 0; c->fd >= 0 && c->wires_seq && j < c->wires; j++)
			if (c->wire_node[j] == id) {
				uint32_t seq = c->wires_seq;
				c->wires_seq = 0;
				hk_conn_error(d, i, seq, rc, text);
			}
	}
}

static void step(struct hk_daemon *d, bool servers)
{
	struct hk_error err;

	for (unsigned i = 0; i < HK_MAX_WIRES; i++) {
		struct hk_wire *w = &d->wire[i];
		if (w->state == HK_WIRE_NONE || w->link.server != servers)
			continue;
		if (w->state == HK_WIRE_CLOSED) {
			int rc = hk_res_wire_open(d->res, &w->link, &err);
			if (rc == 0) {
				w->state = HK_WIRE_OPEN;
			} else if (rc != -EAGAIN) {
				hk_daemon_log(d, "wire to node %016" PRIx64 ": %s", w->link.node_id,
					      err.text);
				fail_waiting(d, w, rc, err.text);
				close_wire(d, w);
				continue;
			}
		}
		if (w->state == HK_WIRE_OPEN && hk_res_wire_up(d->res, &w->link)) {
			w->state = HK_WIRE_UP;
			request_attach(d, w, w->link.port_id + 1u);
			hk_daemon_log(d, "wire to node %016" PRIx64 " is up: port %u, %u queues",
				      w->link.node_id, w->link.port_id, w->link.queues);
		}
	}
}

/* The first wire of the request that is not ready; NULL: all are. */
static const struct hk_wire *missing(struct hk_daemon *d, const struct hk_conn *c)
{
	for (unsigned i = 0; i < c->wires; i++) {
		const struct hk_wire *w = find(d, c->wire_node[i]);
		if (w && (w->state != HK_WIRE_UP || !poller_is_done(d, w)))
			return w;
	}
	return NULL;
}

static void answer(struct hk_daemon *d, unsigned conn)
{
	struct hk_conn *c = &d->conn[conn];
	union hk_ctl_msg m;

	hk_ctl_init(&m, HK_CTL_WIRES_READY, c->wires_seq, c->wires);
	for (unsigned i = 0; i < c->wires; i++) {
		const struct hk_wire *w = find(d, c->wire_node[i]);
		if (!w)
			return; /* fail_waiting() has answered */
		m.wires_ready.wire[i] = (struct hk_ctl_wire){w->link.node_id, w->link.queues,
							     w->link.port_id, w->link.pipe};
	}
	c->wires_seq = 0;
	hk_conn_send(d, conn, &m);
}

void hk_wires_tick(struct hk_daemon *d, int64_t now)
{
	step(d, true);
	step(d, false);
	for (unsigned i = 0; i < HK_MAX_CONNS; i++) {
		struct hk_conn *c = &d->conn[i];
		if (c->fd < 0 || !c->wires_seq)
			continue;
		const struct hk_wire *w = missing(d, c);
		if (!w) {
			answer(d, i);
		} else if (now >= c->wires_deadline) {
			char text[500];
			uint32_t seq = c->wires_seq;
			snprintf(text, sizeof(text),
				 "the wire from %s to node %016" PRIx64
				 " is not up in time (this end %s); fix: check that hikyakud runs "
				 "on that node, and that both use the same directory: port "
				 "%.100s",
				 d->host, w->link.node_id,
				 w->state == HK_WIRE_UP     ? "waits for the poller"
				 : w->state == HK_WIRE_OPEN ? "is open"
							    : "waits for the other to listen",
				 d->o.port);
			c->wires_seq = 0;
			hk_conn_error(d, i, seq, -ETIMEDOUT, text);
		}
	}
}

bool hk_wires_pending(const struct hk_daemon *d)
{
	for (unsigned i = 0; i < HK_MAX_CONNS; i++)
		if (d->conn[i].fd >= 0 && d->conn[i].wires_seq)
			return true;
	return false;
}

void hk_wires_drop_user(struct hk_daemon *d, unsigned slot)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		d->wire[i].users &= ~(UINT64_C(1) << slot);
}

/* hk_res_wire_up() stores the link state for the ranks. */
void hk_wires_check(struct hk_daemon *d, int64_t now)
{
	if (now < d->next_wire_check)
		return;
	d->next_wire_check = now + HK_WIRE_CHECK_MS;
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state == HK_WIRE_UP)
			(void)hk_res_wire_up(d->res, &d->wire[i].link);
	close_dead(d);
}

bool hk_wires_any(const struct hk_daemon *d)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state >= HK_WIRE_UP)
			return true;
	return false;
}

/* Called after the poller has ended. */
void hk_wires_close(struct hk_daemon *d)
{
	/* a rank may still poll its queues: then they close with this process */
	if (hk_slots_used(d) > 0)
		return;
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state != HK_WIRE_NONE)
			close_wire(d, &d->wire[i]);
}

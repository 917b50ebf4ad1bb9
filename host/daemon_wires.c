/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/daemon_wires.c: wires to the daemons of other nodes.
 *
 * A wire is opened when the first rank asks for it, and stays. Ends that listen are opened before
 * those that connect; those are tried again until the other side listens, and each is looked at
 * until its link is up. Nothing here waits: the loop comes back (HK_WIRE_PERIOD_MS), so that status
 * is given and ranks are taken meanwhile.
 */
#include "host/daemon.h"

#include <errno.h>
#include <inttypes.h>

static struct hk_wire *find(struct hk_daemon *d, uint64_t node_id)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state != HK_WIRE_NONE && d->wire[i].state != HK_WIRE_CLOSING &&
		    d->wire[i].w.node_id == node_id)
			return &d->wire[i];
	return NULL;
}

static struct hk_shared_wire *at_poller(struct hk_daemon *d, const struct hk_wire *w)
{
	return &d->shared->wire[w - d->wire];
}

static void tell_poller(struct hk_daemon *d, const struct hk_wire *w, uint32_t want)
{
	if (!hk_ctl_mode_queues(d->o.mode)) /* fabrics have pipes, which need no port */
		return;
	atomic_store(&at_poller(d, w)->want, want);
	atomic_fetch_add(&d->shared->changes, 1);
	hk_poller_wake(d);
}

/* Has the poller, if there is one, done what was told? */
static bool poller_agrees(struct hk_daemon *d, const struct hk_wire *w)
{
	const struct hk_shared_wire *s = at_poller(d, w);

	return d->poller.pid == 0 || atomic_load(&s->have) == atomic_load(&s->want);
}

/* In two steps: the poller lets go of it, then it is closed. */
static void forget(struct hk_daemon *d, struct hk_wire *w)
{
	if (w->state == HK_WIRE_UP) {
		tell_poller(d, w, 0);
		w->state = HK_WIRE_CLOSING;
	}
	if (w->state == HK_WIRE_CLOSING && !poller_agrees(d, w))
		return;
	if (w->state != HK_WIRE_CLOSED)
		hk_res_wire_close(d->res, &w->w);
	*w = (struct hk_wire){.state = HK_WIRE_NONE};
}

/* Nobody uses it, and the other daemon has gone. */
static void forget_dead(struct hk_daemon *d)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++) {
		struct hk_wire *w = &d->wire[i];
		if (w->state != HK_WIRE_NONE && w->users == 0 &&
		    (w->state != HK_WIRE_UP || !hk_res_wire_up(d->res, &w->w)))
			forget(d, w);
	}
}

static int add(struct hk_daemon *d, const struct hk_ctl_node *node, struct hk_wire **out,
	       struct hk_error *err)
{
	unsigned i = 0;

	while (i < HK_MAX_WIRES && d->wire[i].state != HK_WIRE_NONE)
		i++;
	if (i == HK_MAX_WIRES)
		return hk_error_set(err, -ENOSPC,
				    "hikyakud '%s' has wires to %u nodes already; fix: start it "
				    "anew, or use a port with a switch",
				    d->rd.name, HK_MAX_WIRES);
	struct hk_wire w = {.state = HK_WIRE_CLOSED,
			    .w = {.node_id = node->node_id, .slots = node->slots}};
	int rc = hk_res_wire_plan(d->res, &w.w, err);
	if (rc)
		return rc;
	d->wire[i] = w;
	*out = &d->wire[i];
	return 0;
}

int hk_wires_want(struct hk_daemon *d, unsigned conn, const struct hk_ctl_wires *m,
		  struct hk_error *err)
{
	struct hk_conn *c = &d->conn[conn];
	uint64_t bit = UINT64_C(1) << c->slot;

	if (hk_res_info(d->res)->port_kind != HK_CTL_PORT_WIRES)
		return hk_error_set(err, -EOPNOTSUPP,
				    "port %s of hikyakud '%s' is one port, not a set of wires",
				    d->o.port, d->rd.name);
	forget_dead(d);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct hk_ctl_node *node = &m->node[i];
		struct hk_wire *w = find(d, node->node_id);
		int rc = 0;

		if (node->node_id == d->node_id)
			rc = hk_error_set(err, -EINVAL, "a node needs no wire to itself");
		else if (!w)
			rc = add(d, node, &w, err);
		else if (w->w.slots != node->slots)
			rc = hk_error_set(err, -EINVAL,
					  "node %016" PRIx64
					  " has %u slots for one rank and %u for "
					  "another",
					  node->node_id, w->w.slots, node->slots);
		if (rc == 0 && node->eager != hk_res_info(d->res)->eager)
			rc = hk_error_set(err, -EINVAL,
					  "node %016" PRIx64
					  " has %u eager queues, and hikyakud '%s' here %u; fix: "
					  "give both the same eager-queues",
					  node->node_id, node->eager, d->rd.name,
					  hk_res_info(d->res)->eager);
		if (rc)
			return rc;
		w->users |= bit;
		c->wire[i] = node->node_id;
	}
	c->wires = m->count;
	c->wires_seq = m->hdr.seq;
	c->wires_deadline = hk_ctl_now_ms() + m->timeout_ms;
	hk_wires_tick(d, hk_ctl_now_ms());
	return 0;
}

/* Ends the requests of all who wait for @w by an error. */
static void fail_waiting(struct hk_daemon *d, struct hk_wire *w, int rc, const char *text)
{
	uint64_t id = w->w.node_id;

	for (unsigned i = 0; i < HK_MAX_CONNS; i++) {
		struct hk_conn *c = &d->conn[i];
		for (unsigned j = 0; c->fd >= 0 && c->wires_seq && j < c->wires; j++)
			if (c->wire[j] == id) {
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
		if (w->state == HK_WIRE_NONE || w->w.server != servers)
			continue;
		if (w->state == HK_WIRE_CLOSED) {
			int rc = hk_res_wire_open(d->res, &w->w, &err);
			if (rc == 0) {
				w->state = HK_WIRE_OPEN;
			} else if (rc != -EAGAIN) {
				hk_daemon_log(d, "wire to node %016" PRIx64 ": %s", w->w.node_id,
					      err.text);
				fail_waiting(d, w, rc, err.text);
				forget(d, w);
				continue;
			}
		}
		if (w->state == HK_WIRE_OPEN && hk_res_wire_up(d->res, &w->w)) {
			w->state = HK_WIRE_UP;
			tell_poller(d, w, w->w.port_id + 1u);
			hk_daemon_log(d, "wire to node %016" PRIx64 " is up: port %u, %u queues",
				      w->w.node_id, w->w.port_id, w->w.queues);
		}
	}
}

/* The first wire of the request that is not up; NULL: all are. */
static const struct hk_wire *missing(struct hk_daemon *d, const struct hk_conn *c)
{
	for (unsigned i = 0; i < c->wires; i++) {
		const struct hk_wire *w = find(d, c->wire[i]);
		if (w && (w->state != HK_WIRE_UP || !poller_agrees(d, w)))
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
		const struct hk_wire *w = find(d, c->wire[i]);
		if (!w)
			return; /* its failure has been told */
		m.wires_ready.wire[i] = (struct hk_ctl_wire){w->w.node_id, w->w.queues,
							     w->w.port_id, w->w.pipe};
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
			snprintf(
				text, sizeof(text),
				"the wire from %s to node %016" PRIx64
				" is not up in time (this end %s); fix: look whether hikyakud runs "
				"on that node, and whether both use the same directory: port "
				"%.100s",
				d->host, w->w.node_id,
				w->state == HK_WIRE_UP     ? "waits for the poller"
				: w->state == HK_WIRE_OPEN ? "is open"
							   : "waits for the other to listen",
				d->o.port);
			c->wires_seq = 0;
			hk_conn_error(d, i, seq, -ETIMEDOUT, text);
		}
	}
}

bool hk_wires_wait(const struct hk_daemon *d)
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

/* Ranks see the links as they were seen here. */
void hk_wires_look(struct hk_daemon *d, int64_t now)
{
	if (now < d->wires_look)
		return;
	d->wires_look = now + HK_WIRE_LOOK_MS;
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state == HK_WIRE_UP)
			(void)hk_res_wire_up(d->res, &d->wire[i].w);
	forget_dead(d);
}

bool hk_wires_any(const struct hk_daemon *d)
{
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state >= HK_WIRE_UP)
			return true;
	return false;
}

/* After the poller's end. */
void hk_wires_close(struct hk_daemon *d)
{
	/* a rank that polls must not lose its queues under its hands: they go with this process */
	if (hk_slots_used(d) > 0)
		return;
	for (unsigned i = 0; i < HK_MAX_WIRES; i++)
		if (d->wire[i].state != HK_WIRE_NONE)
			forget(d, &d->wire[i]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/wires.c: the own ports that reach each peer, as many as both ends have.
 *
 * One port reaches all peers; the n-th of several reaches the n-th of its kind (modex.h). A set of
 * point-to-point wires has one wire for each peer, which this file opens. With hikyakud it is the
 * queue of a wire that the nodes share (mode.c).
 */
#include "openmpi/btl/btl_hikyaku.h"

#define PARAMS (&mca_btl_hikyaku_component.param)

/* Wire sets that both ends have. */
static unsigned paths_to(const struct hk_candidate *c)
{
	return HK_MIN(hk_btl.path_count, (unsigned)c->m.path_count);
}

static int open_wire(struct hk_candidate *c, unsigned path, struct hk_error *err)
{
	char spec[HK_PORT_SPEC_MAX];
	bool server;
	int rc = hk_port_wire_spec(hk_btl.path[path], hk_btl.key, hk_btl.endpoint, c->m.endpoint,
				   spec, sizeof(spec), &server, err);

	/* all wires receive into the buffers of the first */
	if (rc == 0)
		rc = hk_port_open(spec, PARAMS->rx_buffers, hk_btl.rx_pool,
				  (int)PARAMS->connect_timeout_ms, &c->wire[path], err);
	if (rc == 0 && !hk_btl.rx_pool) {
		hk_btl.rx_owner = c->wire[path];
		hk_btl.rx_pool = c->wire[path]->pool;
	}
	return rc;
}

/* @c is reached by our port @txq, which leads to its port @path. */
static void add_txq(struct hk_candidate *c, unsigned path, int txq)
{
	if (c->txq < 0) {
		c->txq = txq;
		c->first = path;
		return;
	}
	c->path[c->further] = (struct hk_path_addr){.port = (uint16_t)txq,
						    .frame_max = c->m.path[path].frame_max};
	memcpy(c->path[c->further].mac, c->m.path[path].mac, 6);
	memcpy(c->path[c->further++].ip6, c->m.path[path].address, HK_IP6_LEN);
}

/* Closes a wire that failed; the one that owns the buffers of the others stays to the end. */
static void drop_wire(struct hk_port *wire)
{
	if (wire == hk_btl.rx_owner)
		hk_btl.pool_owner = wire;
	else
		hk_port_close(wire);
}

/* Waits until both ends of the wire are there, and gives it to the worker. */
static void use_wire(struct hk_candidate *c, unsigned path)
{
	struct hk_port *wire = c->wire[path];
	struct hk_error err;
	int txq = -1;

	if (!wire)
		return;
	if (hk_port_wait_link(wire, (int)PARAMS->connect_timeout_ms, &err) != 0)
		hk_btl_error("no wire to rank %u on %s: %s", c->proc->proc_name.vpid, c->m.host,
			     err.text);
	else if ((txq = hk_worker_add_port(hk_btl.worker, wire, &err)) < 0)
		hk_btl_error("%s", err.text);
	if (txq < 0)
		drop_wire(wire);
	else
		add_txq(c, path, txq);
}

/* Opens the wires of all candidates: servers first, then clients, then waits until both ends are
 * there. A candidate keeps the wires that work; failures are reported to the user. */
static void open_wires(struct hk_candidate *list, size_t n)
{
	struct hk_error err;

	for (int clients = 0; clients < 2; clients++)
		for (size_t i = 0; i < n; i++)
			for (unsigned path = 0; path < paths_to(&list[i]); path++)
				if ((list[i].m.endpoint < hk_btl.endpoint) == clients &&
				    open_wire(&list[i], path, &err) != 0)
					hk_btl_error("%s", err.text);
	for (size_t i = 0; i < n; i++)
		for (unsigned path = 0; path < paths_to(&list[i]); path++)
			use_wire(&list[i], path);
}

/* Our port @path leads to port @to of @c, if they have addresses of one kind. */
static void use_port(struct hk_candidate *c, unsigned path, unsigned to)
{
	const struct hk_modex_path *peer = &c->m.path[to];
	struct hk_error err;

	if (hk_port_meets(hk_btl.port[path], peer->has_address, &err) != 0)
		hk_btl_error("rank %u on %s: %s", c->proc->proc_name.vpid, c->m.host, err.text);
	else
		add_txq(c, to, (int)path);
}

static void use_ports(struct hk_candidate *c)
{
	int to[HK_MODEX_PATHS];

	if (hk_modex_pair(&hk_btl.self, &c->m, to) == 0)
		hk_btl_error("rank %u on %s has no port that ours reaches: a UDP socket reaches "
			     "only UDP sockets; fix: give all ranks the same btl_hikyaku_port",
			     c->proc->proc_name.vpid, c->m.host);
	for (unsigned path = 0; path < hk_btl.path_count; path++)
		if (to[path] >= 0)
			use_port(c, path, (unsigned)to[path]);
}

/* If only some of the ports to @c are good at bulk, the first of these carries it alone. */
static void choose_bulk(struct hk_candidate *c)
{
	unsigned good = 0;

	if (c->txq < 0)
		return;
	for (unsigned i = 0; i <= c->further; i++) {
		int txq = i == 0 ? c->txq : c->path[i - 1].port;

		if (hk_btl.port[txq]->info.bulk && good++ == 0)
			c->bulk = txq;
	}
	if (good == c->further + 1)
		c->bulk = -1;
}

void hk_btl_open_txqs(struct hk_candidate *list, size_t n)
{
	if (hk_btl.daemon)
		hk_btl_mode_txqs(list, n);
	else if (hk_btl.wire_set)
		open_wires(list, n);
	else
		for (size_t i = 0; i < n; i++) {
			use_ports(&list[i]);
			choose_bulk(&list[i]);
		}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/wires.c: through which port of ours each peer is reached. One port reaches all; a set of
 * point-to-point wires has one for each peer, opened here; with a polling process the queue of a wire
 * that the nodes share (host.c).
 */
#include "mpi/btl_hikyaku.h"

#define PARAMS (&mca_btl_hikyaku_component.param)

static int open_wire(struct hk_candidate *c, struct hk_error *err)
{
	char spec[256];
	bool server;
	int rc = hk_port_wire_spec(PARAMS->port, hk_btl.key, hk_btl.endpoint, c->m.endpoint, spec,
				   sizeof(spec), &server, err);

	/* all wires receive into the buffers of the first */
	if (rc == 0)
		rc = hk_port_open(spec, PARAMS->rx_buffers, hk_btl.rx_pool,
				  (int)PARAMS->connect_timeout_ms, &c->wire, err);
	if (rc == 0 && !hk_btl.rx_pool) {
		hk_btl.rx_owner = c->wire;
		hk_btl.rx_pool = c->wire->pool;
	}
	return rc;
}

/* Closes a wire that failed; the one that owns the buffers of the others stays to the end. */
static void drop_wire(struct hk_port *wire)
{
	if (wire == hk_btl.rx_owner)
		hk_btl.pool_owner = wire;
	else
		hk_port_close(wire);
}

/* Opens the wires of all candidates: servers first, then clients, then waits until both ends are
 * there. A candidate whose wire fails keeps none, and the user is told. */
static void open_wires(struct hk_candidate *list, size_t n)
{
	struct hk_error err;

	for (int clients = 0; clients < 2; clients++)
		for (size_t i = 0; i < n; i++)
			if ((list[i].m.endpoint < hk_btl.endpoint) == clients &&
			    open_wire(&list[i], &err) != 0)
				hk_btl_say("%s", err.text);
	for (size_t i = 0; i < n; i++) {
		if (!list[i].wire)
			continue;
		if (hk_port_wait_link(list[i].wire, (int)PARAMS->connect_timeout_ms, &err) != 0)
			hk_btl_say("no wire to rank %u on %s: %s", list[i].proc->proc_name.vpid,
				   list[i].m.host, err.text);
		else if ((list[i].lane = hk_fabric_add_port(hk_btl.fabric, list[i].wire, &err)) < 0)
			hk_btl_say("%s", err.text);
		if (list[i].lane < 0)
			drop_wire(list[i].wire);
	}
}

void hk_btl_open_lanes(struct hk_candidate *list, size_t n)
{
	if (hk_btl.host)
		hk_btl_host_lanes(list, n);
	else if (hk_btl.wire_set)
		open_wires(list, n);
	else
		for (size_t i = 0; i < n; i++)
			list[i].lane = 0;
}

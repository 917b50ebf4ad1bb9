/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/wires.c: through which ports of ours each peer is reached, of several as many as both ends have. One port
 * reaches all, or the n-th of several the n-th of each; a set of
 * point-to-point wires has one for each peer, opened here; with a polling process the queue of a wire
 * that the nodes share (host.c).
 */
#include "mpi/btl_hikyaku.h"

#define PARAMS (&mca_btl_hikyaku_component.param)

/* Ports that both ends have. */
static unsigned rails_to(const struct hk_candidate *c)
{
	return HK_MIN(hk_btl.rails, (unsigned)c->m.rails);
}

static int open_wire(struct hk_candidate *c, unsigned rail, struct hk_error *err)
{
	char spec[HK_PORT_SPEC_MAX];
	bool server;
	int rc = hk_port_wire_spec(hk_btl.rail[rail], hk_btl.key, hk_btl.endpoint, c->m.endpoint,
				   spec, sizeof(spec), &server, err);

	/* all wires receive into the buffers of the first */
	if (rc == 0)
		rc = hk_port_open(spec, PARAMS->rx_buffers, hk_btl.rx_pool,
				  (int)PARAMS->connect_timeout_ms, &c->wire[rail], err);
	if (rc == 0 && !hk_btl.rx_pool) {
		hk_btl.rx_owner = c->wire[rail];
		hk_btl.rx_pool = c->wire[rail]->pool;
	}
	return rc;
}

/* @c is reached by our port @lane, which leads to its port @rail. */
static void add_lane(struct hk_candidate *c, unsigned rail, int lane)
{
	if (c->lane < 0) {
		c->lane = lane;
		c->first = rail;
		return;
	}
	c->rail[c->more] = (struct hk_rail_addr){.port = (uint16_t)lane,
						 .frame_max = c->m.rail[rail].frame_max};
	memcpy(c->rail[c->more++].mac, c->m.rail[rail].mac, 6);
}

/* Closes a wire that failed; the one that owns the buffers of the others stays to the end. */
static void drop_wire(struct hk_port *wire)
{
	if (wire == hk_btl.rx_owner)
		hk_btl.pool_owner = wire;
	else
		hk_port_close(wire);
}

/* Waits until both ends of the wire are there, and gives it to the fabric. */
static void use_wire(struct hk_candidate *c, unsigned rail)
{
	struct hk_port *wire = c->wire[rail];
	struct hk_error err;
	int lane = -1;

	if (!wire)
		return;
	if (hk_port_wait_link(wire, (int)PARAMS->connect_timeout_ms, &err) != 0)
		hk_btl_say("no wire to rank %u on %s: %s", c->proc->proc_name.vpid, c->m.host,
			   err.text);
	else if ((lane = hk_fabric_add_port(hk_btl.fabric, wire, &err)) < 0)
		hk_btl_say("%s", err.text);
	if (lane < 0)
		drop_wire(wire);
	else
		add_lane(c, rail, lane);
}

/* Opens the wires of all candidates: servers first, then clients, then waits until both ends are
 * there. A candidate keeps those that do not fail, and the user is told of the others. */
static void open_wires(struct hk_candidate *list, size_t n)
{
	struct hk_error err;

	for (int clients = 0; clients < 2; clients++)
		for (size_t i = 0; i < n; i++)
			for (unsigned rail = 0; rail < rails_to(&list[i]); rail++)
				if ((list[i].m.endpoint < hk_btl.endpoint) == clients &&
				    open_wire(&list[i], rail, &err) != 0)
					hk_btl_say("%s", err.text);
	for (size_t i = 0; i < n; i++)
		for (unsigned rail = 0; rail < rails_to(&list[i]); rail++)
			use_wire(&list[i], rail);
}

void hk_btl_open_lanes(struct hk_candidate *list, size_t n)
{
	if (hk_btl.host)
		hk_btl_host_lanes(list, n);
	else if (hk_btl.wire_set)
		open_wires(list, n);
	else
		for (size_t i = 0; i < n; i++)
			for (unsigned rail = 0; rail < rails_to(&list[i]); rail++)
				add_lane(&list[i], rail, (int)rail);
}

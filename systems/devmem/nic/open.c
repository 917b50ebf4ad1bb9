/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/open.c: opens an emulated NIC or the host's process, and joins it to the others.
 */
#include "base/clock.h"
#include "devmem/nic/nic.h"

#include <errno.h>
#include <stdlib.h>

#define FRAME_LEAST 64 /* bytes that a port can send, at least */
#define MEMORY_MB   512
#define TABLE_MB    2048 /* of the host, for a full table and DPDK */

static struct hk_nic_header header_of(const struct hk_nic_options *o)
{
	return (struct hk_nic_header){.variant = (uint8_t)o->variant, .nics = (uint8_t)o->nics};
}

/* The name of a region of NIC @id: "bar0". */
static const char *name_of(const char *kind, unsigned id, char out[16])
{
	snprintf(out, 16, "%s%u", kind, id);
	return out;
}

/* Pktpit's NIC has the links' MTUs, and neither routes nor addresses. */
static int make_fib(const struct hk_nic_options *o, const struct hk_routes *routes,
		    struct hk_fib **out, struct hk_error *err)
{
	if (o->variant != HK_NIC_PKTPIT)
		return hk_fib_make(routes, out, err);
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return hk_error_set(err, -ENOMEM, "no memory for the NIC");
	memcpy((*out)->mtu, routes->mtu, sizeof((*out)->mtu));
	return 0;
}

static int start_eal(const struct hk_nic_options *o, unsigned memory_mb, struct hk_error *err)
{
	struct hk_eal_config eal = {.memory_mb = memory_mb,
				    .extra_args = "--force-max-simd-bitwidth=512"};
	int rc = o->wire.port ? hk_port_spec_eal(o->wire.port, &eal, err) : 0;

	return rc ? rc : hk_eal_init(&eal, err);
}

/* Opens the wire side, and finds its MAC address: that of the file, or of the port. */
static int open_wire(struct hk_nic *nic, const struct hk_routes *routes, struct hk_error *err)
{
	struct hk_nic_wire_options o = nic->o.wire;
	const unsigned id = nic->o.id;

	o.id = id;
	memcpy(o.mac, (uint8_t[]){2, 0, 0, 0, (uint8_t)id, 1}, 6);
	if (routes->has_mac[id])
		memcpy(o.mac, routes->mac[id], 6);
	int rc = hk_nic_wire_open(&o, &nic->wire, err);
	struct hk_port *port = nic->wire.port;
	if (rc || !port)
		return rc;
	if (!routes->has_mac[id])
		memcpy(nic->wire.o.mac, port->info.mac, 6);
	else if (!port->info.point_to_point)
		return hk_error_set(err, -ENOTSUP,
				    "%s: port %u (%s) keeps its own MAC address; fix: remove `mac`",
				    nic->o.routes, id, o.port);
	return hk_port_wait_link(port, (int)o.wait_ms, err);
}

static int make_regions(struct hk_nic *nic, struct hk_error *err)
{
	struct hk_nic_header header = header_of(&nic->o);
	char name[16];
	int rc = 0;

	memcpy(header.mac, nic->wire.o.mac, 6);
	header.frame_max = HK_NIC_FRAME_MAX;
	if (nic->wire.port)
		header.frame_max = HK_MIN(nic->wire.port->info.frame_max, HK_NIC_FRAME_MAX);
	if (nic->o.variant == HK_NIC_BN)
		rc = hk_nic_region_make(nic->o.dir, name_of("main", nic->o.id, name),
					sizeof(struct hk_nic_main), &header, &nic->main, err);
	return rc ? rc
		  : hk_nic_region_make(nic->o.dir, name_of("bar", nic->o.id, name),
				       sizeof(struct hk_nic_bar), &header, &nic->bar, err);
}

/* Where the frames from one NIC to another lie, and the number of that region. */
static uint8_t *window_of(enum hk_nic_variant v, unsigned from, unsigned to,
			  const struct hk_nic_region *from_bar, const struct hk_nic_region *to_bar,
			  const struct hk_nic_region *from_main, unsigned *region)
{
	if (v == HK_NIC_RD) {
		*region = from;
		return ((struct hk_nic_bar *)from_bar->header)->window[to];
	}
	if (v == HK_NIC_BN) {
		*region = HK_NIC_MAIN_OF(from);
		return ((struct hk_nic_main *)from_main->header)->window[to];
	}
	*region = to;
	return ((struct hk_nic_bar *)to_bar->header)->window[from];
}

static int join_peer(struct hk_nic *nic, unsigned peer, int64_t deadline, struct hk_error *err)
{
	const struct hk_nic_header header = header_of(&nic->o);
	const enum hk_nic_variant v = nic->o.variant;
	const unsigned id = nic->o.id;
	struct hk_nic_link *l = &nic->link[peer];
	char name[16];

	int rc = hk_nic_region_map(nic->o.dir, name_of("bar", peer, name),
				   sizeof(struct hk_nic_bar), &header, deadline, &l->bar, err);
	if (rc == 0 && v == HK_NIC_BN)
		rc = hk_nic_region_map(nic->o.dir, name_of("main", peer, name),
				       sizeof(struct hk_nic_main), &header, deadline, &l->main,
				       err);
	if (rc)
		return rc;
	struct hk_nic_inbound *ours = &((struct hk_nic_bar *)nic->bar.header)->in[peer];
	struct hk_nic_inbound *theirs = &((struct hk_nic_bar *)l->bar.header)->in[id];
	l->to.descriptor = theirs->descriptor;
	l->to.doorbell = &theirs->doorbell;
	l->to.credit = &ours->credit;
	l->to.window = window_of(v, id, peer, &nic->bar, &l->bar, &nic->main, &l->to_region);
	l->from.descriptor = ours->descriptor;
	l->from.doorbell = &ours->doorbell;
	l->from.credit = &theirs->credit;
	l->from.window = window_of(v, peer, id, &l->bar, &nic->bar, &l->main, &l->from_region);
	return 0;
}

/* Takes over what a port's NIC says of it: its MAC address and longest frame. */
static void set_port(struct hk_nic *nic, unsigned port)
{
	const struct hk_nic_header *h = port == nic->o.id ? nic->bar.header
							  : nic->link[port].bar.header;
	unsigned frame_max = h->frame_max;

	memcpy(nic->forward.port[port].mac, h->mac, 6);
	frame_max = HK_MIN(frame_max, HK_NIC_FRAME_MAX);
	nic->forward.port[port].frame_max = (uint16_t)HK_MAX(frame_max, (unsigned)FRAME_LEAST);
}

int hk_nic_join(struct hk_nic *nic, struct hk_error *err)
{
	const struct hk_nic_header header = header_of(&nic->o);
	int64_t deadline = hk_clock_ms() + nic->o.wait_ms;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < nic->o.nics; i++)
		if (i != nic->o.id)
			rc = join_peer(nic, i, deadline, err);
	if (rc == 0 && nic->o.variant == HK_NIC_PKTPIT)
		rc = hk_nic_region_map(nic->o.dir, "host", sizeof(struct hk_nic_host), &header,
				       deadline, &nic->host, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < nic->o.nics; i++)
		set_port(nic, i);
	if (nic->o.variant == HK_NIC_PKTPIT)
		nic->asker = (struct hk_nic_asker){
			.addresses = &((struct hk_nic_host *)nic->host.header)->from[nic->o.id],
			.hops = &((struct hk_nic_bar *)nic->bar.header)->hops,
			.nics = nic->o.nics,
			.id = nic->o.id};
	return 0;
}

int hk_nic_open(const struct hk_nic_options *o, struct hk_nic **out, struct hk_error *err)
{
	struct hk_routes *routes = NULL;

	*out = NULL;
	struct hk_nic *nic = aligned_alloc(64, (sizeof(*nic) + 63) / 64 * 64);
	if (!nic)
		return hk_error_set(err, -ENOMEM, "no memory for the NIC");
	memset(nic, 0, sizeof(*nic));
	nic->o = *o;
	/* report mistakes in the file before touching a port */
	int rc = hk_routes_load(o->routes, o->nics, &routes, err);
	if (rc == 0)
		rc = start_eal(o, MEMORY_MB, err);
	if (rc == 0)
		rc = make_fib(o, routes, &nic->fib, err);
	if (rc == 0)
		rc = open_wire(nic, routes, err);
	if (rc == 0)
		rc = make_regions(nic, err);
	if (rc == 0 && !hk_load_cost_begin(&nic->cost))
		rc = hk_error_set(err, -ENOMEM, "no memory for the NIC");
	hk_routes_free(routes);
	if (rc) {
		hk_nic_close(nic);
		return rc;
	}
	nic->forward.mode = HK_ROUTER_BOUNCE; /* reads headers in place, in the NIC's own memory */
	nic->forward.ports = o->nics;
	nic->forward.fib = nic->fib;
	*out = nic;
	return 0;
}

void hk_nic_close(struct hk_nic *nic)
{
	if (!nic)
		return;
	for (unsigned i = 0; i < nic->waiting; i++) {
		struct hk_nic_pending *p = &nic->pending[(nic->first + i) % HK_NIC_PENDING];
		rte_pktmbuf_free_bulk(p->m, p->n);
	}
	hk_nic_region_close(&nic->bar);
	hk_nic_region_close(&nic->main);
	hk_nic_region_close(&nic->host);
	for (unsigned i = 0; i < nic->o.nics; i++) {
		hk_nic_region_close(&nic->link[i].bar);
		hk_nic_region_close(&nic->link[i].main);
	}
	hk_nic_wire_close(&nic->wire);
	free(nic->cost.chunks.ticks);
	hk_fib_free(nic->fib);
	free(nic);
}

/* ---- the host -------------------------------------------------------------------------------- */

int hk_nic_server_open(const struct hk_nic_options *o, struct hk_nic_server_region *s,
		       struct hk_error *err)
{
	const struct hk_nic_header header = header_of(o);
	struct hk_routes *routes = NULL;

	*s = (struct hk_nic_server_region){.server.nics = o->nics};
	int rc = hk_routes_load(o->routes, o->nics, &routes, err);
	if (rc == 0)
		rc = start_eal(o, TABLE_MB, err);
	if (rc == 0)
		rc = hk_fib_make(routes, &s->fib, err);
	hk_routes_free(routes);
	if (rc == 0)
		rc = hk_nic_region_make(o->dir, "host", sizeof(struct hk_nic_host), &header,
					&s->host, err);
	if (rc == 0 && !hk_load_cost_begin(&s->server.cost))
		rc = hk_error_set(err, -ENOMEM, "no memory for the host's process");
	s->server.fib = s->fib;
	s->server.host = (struct hk_nic_host *)s->host.header;
	if (rc)
		hk_nic_server_close(s);
	return rc;
}

int hk_nic_server_join(const struct hk_nic_options *o, struct hk_nic_server_region *s,
		       struct hk_error *err)
{
	const struct hk_nic_header header = header_of(o);
	int64_t deadline = hk_clock_ms() + o->wait_ms;
	char name[16];
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < o->nics; i++) {
		rc = hk_nic_region_map(o->dir, name_of("bar", i, name), sizeof(struct hk_nic_bar),
				       &header, deadline, &s->bar[i], err);
		if (rc == 0)
			s->server.hops[i] = &((struct hk_nic_bar *)s->bar[i].header)->hops;
	}
	return rc;
}

void hk_nic_server_close(struct hk_nic_server_region *s)
{
	hk_nic_region_close(&s->host);
	for (unsigned i = 0; i < s->server.nics; i++)
		hk_nic_region_close(&s->bar[i]);
	free(s->server.cost.chunks.ticks);
	hk_fib_free(s->fib);
	*s = (struct hk_nic_server_region){.fib = NULL};
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/ethernet_open.c: opens the backends dpdk and af_xdp, and reaches their peers (ethernet.h).
 */
#include "rtc/ethernet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>

#include "base/clock.h"

/* Frames received from a memif at once. With twice as many, the two ends of a window of 32 messages
 * work in turn. */
#define WIRE_BURST 16
#define MEMORY_MB  64 /* MiB for DPDK itself */

/* ---- opening --------------------------------------------------------------------------------- */

/* Callback of rte_mempool_obj_iter(). */
static void init_buffer(struct rte_mempool *mp, void *arg, void *object, unsigned i)
{
	struct hk_rtc_ethernet *e = arg;
	struct rte_mbuf *m = object;
	struct hk_rtc_buf *b = hk_rtc_ethernet_buf(m);

	(void)mp;
	*b = (struct hk_rtc_buf){.hdr = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM + ETH_HLEN,
				 .index = i,
				 .priv = m};
	e->base.buf[i] = b;
}

/* Uses the first port's pool for all ports. */
static int adopt_pool(struct hk_rtc_ethernet *e, struct hk_port *port, struct hk_error *err)
{
	unsigned most = port->info.frame_max - (unsigned)OVERHEAD - e->base.trailer;

	e->owner = port;
	e->pool = port->pool;
	e->base.buffers = e->pool->size;
	if (e->payload_wanted > most)
		return hk_error_set(err, -EMSGSIZE,
				    "payloads of %u bytes do not fit %s, which carries %u; fix: "
				    "reduce payload_max, or configure larger frames for the port",
				    e->payload_wanted, e->spec, most);
	e->base.payload_max = e->payload_wanted ? e->payload_wanted : most;
	e->base.buf = calloc(e->base.buffers, sizeof(struct hk_rtc_buf *));
	if (!e->base.buf)
		return hk_error_set(err, -ENOMEM, "no memory for %u buffers", e->base.buffers);
	if (rte_mempool_obj_iter(e->pool, init_buffer, e) != e->base.buffers ||
	    rte_pktmbuf_priv_size(e->pool) != 0)
		return hk_error_set(err, -EPROTO,
				    "port %s: its buffers do not have the layout that rtc needs; "
				    "fix: use another driver",
				    e->spec);
	return 0;
}

static int open_port(struct hk_rtc_ethernet *e, const char *spec, int timeout_ms,
		     struct hk_port **port, struct hk_error *err)
{
	int rc = hk_port_open(spec, e->buffers_wanted, e->pool, timeout_ms, port, err);
	if (rc)
		return rc;
	e->port[e->ports++] = *port;
	return e->owner ? 0 : adopt_pool(e, *port, err);
}

/* Starts DPDK with memory for all wires. */
static int start_dpdk(struct hk_rtc_ethernet *e, struct hk_error *err)
{
	struct hk_eal_config eal = {.memory_mb = 0};
	unsigned frame = hk_port_wire_frame_max(e->spec);
	unsigned wires = e->kind == HK_SPEC_MEMIF_SET ? e->nodes : 1u;
	uint64_t buffers = e->buffers_wanted + 2 * 8192 + 1024ull * wires;

	frame = frame ? frame : HK_WIRE_SET_FRAME_MAX;
	eal.memory_mb = (unsigned)((buffers * (frame + 256)) >> 20) + MEMORY_MB;
	int rc = hk_port_spec_eal(e->spec, &eal, err);
	return rc ? rc : hk_eal_init(&eal, err);
}

void hk_rtc_ethernet_close(struct hk_rtc_backend *b)
{
	struct hk_rtc_ethernet *e = (struct hk_rtc_ethernet *)b;

	for (unsigned i = 0; i < e->ports; i++)
		if (e->port[i] != e->owner)
			hk_port_close(e->port[i]);
	hk_port_close(e->owner);
	free(e->base.buf);
	free(e->port);
	free(e->peer);
	free(e->known);
	free(e);
}

/* A wire has no address; its socket path or directory takes the place of one. */
static int set_wire_address(struct hk_rtc_ethernet *e, const struct hk_spec *s,
			    struct hk_error *err)
{
	bool one = s->kind == HK_SPEC_MEMIF;

	if (e->nodes < 2)
		return hk_error_set(
			err, -EINVAL,
			"%s is a wire, and one node has nobody at its other end; fix: "
			"start two nodes: mpirun -np 2; a program that can run alone does "
			"so with backend udp",
			e->spec);
	if (one && e->nodes > 2)
		return hk_error_set(err, -EINVAL,
				    "%s is one wire, which cannot connect %u nodes; fix: use "
				    "memif:dir=DIRECTORY, which has a wire for each pair",
				    e->spec, e->nodes);
	int n = snprintf(e->base.address, sizeof(e->base.address), "memif:%s=%s",
			 one ? "socket" : "dir", one ? s->socket : s->dir);
	if ((size_t)n >= sizeof(e->base.address))
		return hk_error_set(
			err, -ENAMETOOLONG,
			"port %s: its path is too long for an address; fix: use a shorter path",
			e->spec);
	return 0;
}

static int set_mac_address(struct hk_rtc_ethernet *e, const struct hk_port *port)
{
	const uint8_t *m = port->info.mac;
	snprintf(e->base.address, sizeof(e->base.address), "%02x:%02x:%02x:%02x:%02x:%02x", m[0],
		 m[1], m[2], m[3], m[4], m[5]);
	return 0;
}

static bool is_wire(const struct hk_rtc_ethernet *e)
{
	return e->kind == HK_SPEC_MEMIF || e->kind == HK_SPEC_MEMIF_SET;
}

static int open_spec(const struct hk_rtc_config *cfg, const struct hk_rtc_backend_ops *ops,
		     const char *spec, struct hk_rtc_backend **out, struct hk_error *err)
{
	struct hk_rtc_ethernet *e = calloc(1, sizeof(*e));
	struct hk_spec s;

	if (e) {
		e->port = calloc(cfg->nodes, sizeof(*e->port));
		e->peer = calloc(cfg->nodes, sizeof(*e->peer));
		e->known = calloc(cfg->nodes, sizeof(*e->known));
	}
	if (!e || !e->port || !e->peer || !e->known) {
		if (e)
			hk_rtc_ethernet_close(&e->base);
		return hk_error_set(err, -ENOMEM, "no memory for %u peers", cfg->nodes);
	}
	e->base.ops = ops;
	e->base.trailer = hk_rtc_trailer_len(cfg);
	e->node = cfg->node;
	e->nodes = cfg->nodes;
	e->key = cfg->key;
	e->buffers_wanted = cfg->buffers;
	e->payload_wanted = cfg->payload_max;
	snprintf(e->spec, sizeof(e->spec), "%s", spec);
	int rc = hk_spec_parse(spec, &s, err);
	e->kind = s.kind;
	if (is_wire(e))
		e->base.burst = WIRE_BURST;
	if (rc == 0 && e->kind == HK_SPEC_UDP)
		rc = hk_error_set(
			err, -EINVAL,
			"port %s: such a port carries frames of the worker alone; fix: use "
			"backend udp with address %s",
			spec, s.addr);
	if (rc == 0)
		rc = start_dpdk(e, err);
	if (rc == 0 && is_wire(e)) {
		rc = set_wire_address(e, &s, err);
	} else if (rc == 0) {
		struct hk_port *port;
		rc = open_port(e, spec, (int)cfg->timeout_ms, &port, err);
		if (rc == 0)
			rc = set_mac_address(e, port);
	}
	if (rc) {
		hk_rtc_ethernet_close(&e->base);
		return rc;
	}
	*out = &e->base;
	return 0;
}

static int no_option(const char *name, const char *option, struct hk_error *err)
{
	if (!*option)
		return 0;
	return hk_error_set(err, -EINVAL, "backend %s has no option '%.40s'; fix: leave it out",
			    name, option);
}

int hk_rtc_ethernet_open_dpdk(const struct hk_rtc_config *cfg, const char *option,
			      struct hk_rtc_backend **b, struct hk_error *err)
{
	int rc = no_option("dpdk", option, err);
	return rc ? rc : open_spec(cfg, &hk_rtc_backend_dpdk, cfg->address, b, err);
}

int hk_rtc_ethernet_open_af_xdp(const struct hk_rtc_config *cfg, const char *option,
				struct hk_rtc_backend **b, struct hk_error *err)
{
	char spec[256];
	int rc = no_option("af_xdp", option, err);

	if (rc)
		return rc;
	if ((size_t)snprintf(spec, sizeof(spec), "af_xdp:iface=%s", cfg->address) >= sizeof(spec))
		return hk_error_set(
			err, -ENAMETOOLONG,
			"'%.40s…' is not an interface; fix: use one that 'ip link' shows",
			cfg->address);
	return open_spec(cfg, &hk_rtc_backend_af_xdp, spec, b, err);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static int parse_mac(const char *text, uint8_t mac[6])
{
	unsigned v[6];
	int used = 0;

	if (strlen(text) != 17 ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
		   &used) != 6 ||
	    used != 17)
		return -EINVAL;
	for (unsigned i = 0; i < 6; i++)
		mac[i] = (uint8_t)v[i];
	return mac[0] & 1 ? -EINVAL : 0; /* reject a group address */
}

int hk_rtc_ethernet_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
			 struct hk_error *err)
{
	struct hk_rtc_ethernet *e = (struct hk_rtc_ethernet *)b;
	struct hk_rtc_ethernet_peer *p = &e->peer[node];

	e->known[node] = true;
	p->head[12] = HK_MSG_ETHERTYPE >> 8;
	p->head[13] = HK_MSG_ETHERTYPE & 0xff;
	if (is_wire(e)) {
		if (strcmp(address, b->address) == 0)
			return 0;
		return hk_error_set(err, -EINVAL,
				    "node %u is at %s, and this one at %s, but both ends of a wire "
				    "have the same path; fix: use one address for all nodes",
				    node, address, b->address);
	}
	if (parse_mac(address, p->head) != 0)
		return hk_error_set(err, -EINVAL,
				    "'%.40s' is not an address of node %u on %s; fix: write its "
				    "MAC address, such as 02:00:00:00:00:01 (ip link shows it)",
				    address, node, e->spec);
	if (strcasecmp(address, b->address) == 0)
		return hk_error_set(err, -EADDRINUSE,
				    "node %u has this node's address, %s; fix: use a separate port "
				    "for each node",
				    node, address);
	memcpy(p->head + 6, e->port[0]->info.mac, 6);
	p->port = e->port[0];
	return 0;
}

/* Adds the node's number to the error text. */
static int add_node_to_error(unsigned node, int rc, struct hk_error *err)
{
	struct hk_error why = *err;
	return hk_error_set(err, rc, "no wire to node %u: %.460s", node, why.text);
}

static int connect_one(struct hk_rtc_ethernet *e, uint16_t node, int64_t deadline_ms,
		       struct hk_error *err)
{
	char spec[256];
	bool server;
	int rc = 0;

	if (e->kind == HK_SPEC_MEMIF)
		snprintf(spec, sizeof(spec), "%s", e->spec);
	else
		rc = hk_port_wire_spec(e->spec, e->key, e->node, node, spec, sizeof(spec), &server,
				       err);
	if (rc == 0)
		rc = open_port(e, spec, (int)HK_MAX(0, deadline_ms - hk_clock_ms()),
			       &e->peer[node].port, err);
	return rc ? add_node_to_error(node, rc, err) : 0;
}

/* Opens server ends before client ends, so that each client finds its server. */
int hk_rtc_ethernet_connect(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err)
{
	struct hk_rtc_ethernet *e = (struct hk_rtc_ethernet *)b;
	int rc = 0;

	if (!is_wire(e))
		return 0;
	for (int clients = 0; clients < 2; clients++)
		for (unsigned i = 0; rc == 0 && i < e->nodes; i++)
			if ((i < e->node) == clients && e->known[i])
				rc = connect_one(e, (uint16_t)i, deadline_ms, err);
	for (unsigned i = 0; rc == 0 && i < e->nodes; i++)
		if (e->peer[i].port) {
			rc = hk_port_wait_link(e->peer[i].port,
					       (int)HK_MAX(0, deadline_ms - hk_clock_ms()), err);
			if (rc)
				add_node_to_error(i, rc, err);
		}
	return rc;
}

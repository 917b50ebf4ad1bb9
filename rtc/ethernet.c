/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/ethernet.c: messages as Ethernet frames over port/port.h: the backends dpdk and af_xdp.
 *
 * A buffer is an mbuf. Its struct hk_rtc_buf lies at the start of the mbuf's headroom, 128 bytes before the
 * frame, where no driver writes; so it costs no table, and pools that ports make for themselves (AF_XDP's
 * must be of a certain shape) do as well. The frame begins at a multiple of 64, so the payload, after 14 bytes of
 * Ethernet and 18 of ours, begins at a multiple of 32. What was received is sent from where it lies: a reply
 * costs a new header.
 *
 * One port reaches all nodes by their MAC addresses, or a set of memif wires has one port for each node. All
 * share the pool of the first. A wire is made once, at the start: a node that comes later or comes back is for
 * ports with addresses.
 */
#include "port/port.h"
#include "port/spec.h"
#include "rtc/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_mempool.h>

#define ETH_HLEN 14
#define OVERHEAD (ETH_HLEN + HK_MSG_HLEN)
/* Taken from a memif at once: with twice as many, the ends of a window of 32 messages work in turn. */
#define WIRE_BURST 16
#define MEMORY_MB  64 /* of DPDK's own */

_Static_assert(sizeof(struct hk_rtc_buf) <= RTE_PKTMBUF_HEADROOM - ETH_HLEN, "fits the headroom");
_Static_assert((RTE_PKTMBUF_HEADROOM + OVERHEAD) % 32 == 0, "vector code loads payloads aligned");

struct peer {
	uint8_t head
		[16]; /* the Ethernet header of frames to it, and two bytes to copy it at once */
	struct hk_port *port;
};

struct ethernet {
	struct hk_rtc_backend b;
	struct rte_mempool *pool;
	struct hk_port *owner; /* whose pool it is */
	unsigned ports, next;  /* next: where the next rx begins */
	struct hk_port **port; /* [ports] */
	struct peer *peer;     /* [nodes] */
	uint16_t node, nodes;
	uint32_t key;
	unsigned buffers_wanted, payload_wanted;
	enum hk_spec_kind kind;
	char spec[256];
	bool *known; /* [nodes]: peer() was called */
};

static inline struct hk_rtc_buf *buf_of(struct rte_mbuf *m)
{
	return (struct hk_rtc_buf *)(m + 1);
}

/* ---- the hot path ---------------------------------------------------------------------------- */

/* Frames that are not ours (the kernel's neighbour discovery) are dropped. Returns how many are left. */
static inline unsigned receive(struct ethernet *e, struct hk_port *port, struct hk_rtc_buf **out,
			       unsigned n)
{
	struct rte_mbuf *m[HK_RTC_BURST];
	unsigned got = hk_port_rx(port, 0, m, (uint16_t)n), left = 0;

	for (unsigned i = 0; i < got; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (unsigned i = 0; i < got; i++) {
		uint8_t *frame = rte_pktmbuf_mtod(m[i], uint8_t *);
		struct hk_rtc_buf *b = buf_of(m[i]);
		if (HK_UNLIKELY((m[i]->data_len < OVERHEAD) | (frame[12] != HK_MSG_ETHERTYPE >> 8) |
				(frame[13] != (HK_MSG_ETHERTYPE & 0xff)))) {
			e->b.stray++;
			rte_pktmbuf_free(m[i]);
			continue;
		}
		b->hdr = frame + ETH_HLEN;
		b->len = m[i]->data_len - (uint32_t)ETH_HLEN;
		out[left++] = b;
	}
	return left;
}

static unsigned ethernet_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	struct ethernet *e = (struct ethernet *)b;

	if (HK_LIKELY(e->ports == 1))
		return receive(e, e->port[0], out, n);
	/* each port in turn; the one at which the burst was full is the first of the next round */
	unsigned got = 0;
	for (unsigned i = 0; i < e->ports && got < n; i++) {
		got += receive(e, e->port[e->next], out + got, n - got);
		if (got < n)
			e->next = e->next + 1 < e->ports ? e->next + 1 : 0;
	}
	return got;
}

static inline struct rte_mbuf *frame_of(struct ethernet *e, struct hk_rtc_buf *b)
{
	struct rte_mbuf *m = b->priv;
	/* 14 bytes: the header of the message stands right behind */
	memcpy(b->hdr - ETH_HLEN, e->peer[b->dst].head, ETH_HLEN);
	m->data_len = (uint16_t)(b->len + ETH_HLEN);
	m->pkt_len = b->len + ETH_HLEN;
	m->ol_flags = 0;
	return m;
}

static inline void transmit(struct ethernet *e, struct hk_port *port, struct rte_mbuf **m,
			    unsigned n)
{
	unsigned sent = hk_port_tx(port, 0, m, (uint16_t)n);
	if (HK_UNLIKELY(sent < n)) {
		e->b.tx_full += n - sent;
		rte_pktmbuf_free_bulk(m + sent, n - sent);
	}
}

/* At most HK_RTC_BURST. */
static void send_burst(struct ethernet *e, struct hk_rtc_buf **out, unsigned n, bool keep)
{
	struct rte_mbuf *m[HK_RTC_BURST], *of[HK_RTC_BURST];
	struct hk_port *port[HK_RTC_BURST];

	for (unsigned i = 0; i < n; i++) {
		m[i] = frame_of(e, out[i]);
		if (keep)
			rte_mbuf_refcnt_update(m[i], 1);
	}
	if (HK_LIKELY(e->ports == 1)) {
		transmit(e, e->port[0], m, n);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		port[i] = e->peer[out[i]->dst].port;
	while (n) {
		struct hk_port *to = port[0];
		unsigned rest = 0, k = 0;
		for (unsigned i = 0; i < n; i++) {
			if (port[i] == to) {
				of[k++] = m[i];
			} else {
				port[rest] = port[i];
				m[rest++] = m[i];
			}
		}
		transmit(e, to, of, k);
		n = rest;
	}
}

static inline void send_all(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n,
			    bool keep)
{
	while (n) {
		unsigned some = HK_MIN(n, (unsigned)HK_RTC_BURST);
		send_burst((struct ethernet *)b, out, some, keep);
		out += some;
		n -= some;
	}
}

static void ethernet_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	send_all(b, out, n, false);
}

static void ethernet_tx_copy(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	send_all(b, out, n, true);
}

static unsigned ethernet_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	struct ethernet *e = (struct ethernet *)b;
	struct rte_mbuf *m[HK_RTC_BURST];

	n = HK_MIN(n, (unsigned)HK_RTC_BURST);
	if (HK_UNLIKELY(!e->pool))
		return 0;
	while (n && rte_pktmbuf_alloc_bulk(e->pool, m, n) != 0) {
		b->no_buffer += n - n / 2;
		n /= 2;
	}
	for (unsigned i = 0; i < n; i++) {
		out[i] = buf_of(m[i]);
		out[i]->hdr = rte_pktmbuf_mtod(m[i], uint8_t *) + ETH_HLEN;
	}
	return n;
}

static void ethernet_free(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	struct rte_mbuf *m[HK_RTC_BURST];

	(void)b;
	while (n) {
		unsigned some = HK_MIN(n, (unsigned)HK_RTC_BURST);
		for (unsigned i = 0; i < some; i++)
			m[i] = out[i]->priv;
		rte_pktmbuf_free_bulk(m, some);
		out += some;
		n -= some;
	}
}

/* ---- opening --------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* rte_mempool_obj_iter()'s callback. */
static void note_buffer(struct rte_mempool *mp, void *arg, void *object, unsigned i)
{
	struct ethernet *e = arg;
	struct rte_mbuf *m = object;
	struct hk_rtc_buf *b = buf_of(m);

	(void)mp;
	*b = (struct hk_rtc_buf){.hdr = (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM + ETH_HLEN,
				 .index = i,
				 .priv = m};
	e->b.buf[i] = b;
}

/* The first port's buffers are those of all. */
static int take_pool(struct ethernet *e, struct hk_port *port, struct hk_error *err)
{
	unsigned most = port->info.frame_max - (unsigned)OVERHEAD;

	e->owner = port;
	e->pool = port->pool;
	e->b.buffers = e->pool->size;
	if (e->payload_wanted > most)
		return hk_error_set(err, -EMSGSIZE,
				    "payloads of %u bytes are asked for, and %s carries %u; fix: "
				    "ask for less, or for larger frames of the port",
				    e->payload_wanted, e->spec, most);
	e->b.payload_max = e->payload_wanted ? e->payload_wanted : most;
	e->b.buf = calloc(e->b.buffers, sizeof(struct hk_rtc_buf *));
	if (!e->b.buf)
		return hk_error_set(err, -ENOMEM, "no memory for %u buffers", e->b.buffers);
	if (rte_mempool_obj_iter(e->pool, note_buffer, e) != e->b.buffers ||
	    rte_pktmbuf_priv_size(e->pool) != 0)
		return hk_error_set(err, -EPROTO,
				    "port %s: its buffers are not of the shape that rtc needs; "
				    "fix: use another driver",
				    e->spec);
	return 0;
}

static int open_port(struct ethernet *e, const char *spec, int timeout_ms, struct hk_port **port,
		     struct hk_error *err)
{
	int rc = hk_port_open(spec, e->buffers_wanted, e->pool, timeout_ms, port, err);
	if (rc)
		return rc;
	e->port[e->ports++] = *port;
	return e->owner ? 0 : take_pool(e, *port, err);
}

/* The memory that DPDK will want: of all wires, if there are several. */
static int start_dpdk(struct ethernet *e, struct hk_error *err)
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

static void ethernet_close(struct hk_rtc_backend *b)
{
	struct ethernet *e = (struct ethernet *)b;

	for (unsigned i = 0; i < e->ports; i++)
		if (e->port[i] != e->owner)
			hk_port_close(e->port[i]);
	hk_port_close(e->owner);
	free(e->b.buf);
	free(e->port);
	free(e->peer);
	free(e->known);
	free(e);
}

/* A wire has no addresses: nodes are where its place is. */
static int name_place(struct ethernet *e, const struct hk_spec *s, struct hk_error *err)
{
	bool one = s->kind == HK_SPEC_MEMIF;

	if (e->nodes < 2)
		return hk_error_set(err, -EINVAL,
				    "%s is a wire, and one node has nobody at its other end; fix: "
				    "start two nodes, or take backend udp",
				    e->spec);
	if (one && e->nodes > 2)
		return hk_error_set(err, -EINVAL,
				    "%s is one wire, and %u nodes are to be on it; fix: give "
				    "memif:dir=DIRECTORY, which has a wire for each two",
				    e->spec, e->nodes);
	int n = snprintf(e->b.address, sizeof(e->b.address), "memif:%s=%s", one ? "socket" : "dir",
			 one ? s->socket : s->dir);
	if ((size_t)n >= sizeof(e->b.address))
		return hk_error_set(err, -ENAMETOOLONG,
				    "port %s: its path is too long for an address; fix: use a "
				    "directory with a shorter name",
				    e->spec);
	return 0;
}

static int name_mac(struct ethernet *e, const struct hk_port *port)
{
	const uint8_t *m = port->info.mac;
	snprintf(e->b.address, sizeof(e->b.address), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1],
		 m[2], m[3], m[4], m[5]);
	return 0;
}

static bool is_wire(const struct ethernet *e)
{
	return e->kind == HK_SPEC_MEMIF || e->kind == HK_SPEC_MEMIF_SET;
}

static int open_spec(const struct hk_rtc_config *cfg, const struct hk_rtc_backend_ops *ops,
		     const char *spec, struct hk_rtc_backend **out, struct hk_error *err)
{
	struct ethernet *e = calloc(1, sizeof(*e));
	struct hk_spec s;

	if (e) {
		e->port = calloc(cfg->nodes, sizeof(*e->port));
		e->peer = calloc(cfg->nodes, sizeof(*e->peer));
		e->known = calloc(cfg->nodes, sizeof(*e->known));
	}
	if (!e || !e->port || !e->peer || !e->known) {
		if (e)
			ethernet_close(&e->b);
		return hk_error_set(err, -ENOMEM, "no memory for %u peers", cfg->nodes);
	}
	e->b.ops = ops;
	e->node = cfg->node;
	e->nodes = cfg->nodes;
	e->key = cfg->key;
	e->buffers_wanted = cfg->buffers;
	e->payload_wanted = cfg->payload_max;
	snprintf(e->spec, sizeof(e->spec), "%s", spec);
	int rc = hk_spec_parse(spec, &s, err);
	e->kind = s.kind;
	if (is_wire(e))
		e->b.burst = WIRE_BURST;
	if (rc == 0)
		rc = start_dpdk(e, err);
	if (rc == 0 && is_wire(e)) {
		rc = name_place(e, &s, err);
	} else if (rc == 0) {
		struct hk_port *port;
		rc = open_port(e, spec, (int)cfg->timeout_ms, &port, err);
		if (rc == 0)
			rc = name_mac(e, port);
	}
	if (rc) {
		ethernet_close(&e->b);
		return rc;
	}
	*out = &e->b;
	return 0;
}

static int no_option(const char *name, const char *option, struct hk_error *err)
{
	if (!*option)
		return 0;
	return hk_error_set(err, -EINVAL, "backend %s has no option '%.40s'; fix: leave it out",
			    name, option);
}

static int dpdk_open(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		     struct hk_error *err)
{
	int rc = no_option("dpdk", option, err);
	return rc ? rc : open_spec(cfg, &hk_rtc_dpdk, cfg->address, b, err);
}

static int af_xdp_open(const struct hk_rtc_config *cfg, const char *option,
		       struct hk_rtc_backend **b, struct hk_error *err)
{
	char spec[256];
	int rc = no_option("af_xdp", option, err);

	if (rc)
		return rc;
	if ((size_t)snprintf(spec, sizeof(spec), "af_xdp:iface=%s", cfg->address) >= sizeof(spec))
		return hk_error_set(err, -ENAMETOOLONG,
				    "'%.40s…' is no interface; fix: ip link shows them",
				    cfg->address);
	return open_spec(cfg, &hk_rtc_af_xdp, spec, b, err);
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
	return mac[0] & 1 ? -EINVAL : 0; /* a group */
}

static int ethernet_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
			 struct hk_error *err)
{
	struct ethernet *e = (struct ethernet *)b;
	struct peer *p = &e->peer[node];

	e->known[node] = true;
	p->head[12] = HK_MSG_ETHERTYPE >> 8;
	p->head[13] = HK_MSG_ETHERTYPE & 0xff;
	if (is_wire(e)) {
		if (strcmp(address, b->address) == 0)
			return 0;
		return hk_error_set(
			err, -EINVAL,
			"node %u is at %s, and this one at %s: a wire has both its ends "
			"in one place; fix: give all nodes the same",
			node, address, b->address);
	}
	if (parse_mac(address, p->head) != 0)
		return hk_error_set(err, -EINVAL,
				    "'%.40s' is no address of node %u on %s; fix: write its MAC "
				    "address, such as 02:00:00:00:00:01 (ip link shows it)",
				    address, node, e->spec);
	if (strcasecmp(address, b->address) == 0)
		return hk_error_set(err, -EADDRINUSE,
				    "node %u has the address of this node, %s; fix: give each "
				    "node a port of its own",
				    node, address);
	memcpy(p->head + 6, e->port[0]->info.mac, 6);
	p->port = e->port[0];
	return 0;
}

/* Says which node it is about. */
static int about_node(unsigned node, int rc, struct hk_error *err)
{
	struct hk_error why = *err;
	return hk_error_set(err, rc, "no wire to node %u: %.460s", node, why.text);
}

static int connect_one(struct ethernet *e, uint16_t node, int64_t deadline_ms, struct hk_error *err)
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
		rc = open_port(e, spec, (int)HK_MAX(0, deadline_ms - now_ms()), &e->peer[node].port,
			       err);
	return rc ? about_node(node, rc, err) : 0;
}

/* Server ends before clients: whoever comes finds what it looks for. */
static int ethernet_connect(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err)
{
	struct ethernet *e = (struct ethernet *)b;
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
					       (int)HK_MAX(0, deadline_ms - now_ms()), err);
			if (rc)
				about_node(i, rc, err);
		}
	return rc;
}

#define ETHERNET                                                                                   \
	.peer = ethernet_peer, .connect = ethernet_connect, .close = ethernet_close,               \
	.rx = ethernet_rx, .tx = ethernet_tx, .tx_copy = ethernet_tx_copy,                         \
	.alloc = ethernet_alloc, .free = ethernet_free

const struct hk_rtc_backend_ops hk_rtc_dpdk = {.name = "dpdk", .open = dpdk_open, ETHERNET};
const struct hk_rtc_backend_ops hk_rtc_af_xdp = {.name = "af_xdp", .open = af_xdp_open, ETHERNET};

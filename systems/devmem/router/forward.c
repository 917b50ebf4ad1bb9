/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/forward.c: the data plane.
 *
 * A burst goes through three steps. They read each header and collect destinations, look up all
 * destinations, and rewrite and queue the packets in the order of arrival.
 */
#include "devmem/router/forward.h"
#include "devmem/router/fragment.h"

#include <rte_cycles.h>
#include <rte_prefetch.h>

#define ETHERTYPE_IP4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_IP6 0x86dd

static const char *const modes[] = {
	[HK_ROUTER_BOUNCE] = "bounce", [HK_ROUTER_P2P] = "p2p", [HK_ROUTER_PKTPIT] = "pktpit"};

const char *hk_router_mode_name(enum hk_router_mode m)
{
	return modes[m];
}

int hk_router_mode_parse(const char *name)
{
	for (unsigned i = 0; i < HK_ARRAY_LEN(modes); i++)
		if (strcmp(modes[i], name) == 0)
			return (int)i;
	return -1;
}

/* Whether the frame's destination is this port's own address. Frames to groups, which carry ARP and
 * neighbour discovery, have an odd first byte. */
static inline bool for_us(const struct hk_forward_port *p, const uint8_t *f)
{
	uint64_t mac, ours;

	memcpy(&mac, f, 8); /* 8 bytes are readable: the frame has at least 14 */
	memcpy(&ours, p->mac, 8);
	return (mac & UINT64_C(0xffffffffffff)) == ours;
}

static inline __attribute__((always_inline)) enum hk_router_result
read_header(const struct hk_forward_port *p, const uint8_t *f, unsigned avail, unsigned frame,
	    struct hk_ip *ip)
{
	enum hk_router_result v;

	if (HK_UNLIKELY(avail < HK_ETHER_LEN))
		return HK_RESULT_SHORT;
	uint16_t type = hk_be16(f + 12);
	if (HK_UNLIKELY(!for_us(p, f))) {
		if (!(f[0] & 1))
			return HK_RESULT_NOT_OURS;
		return type == ETHERTYPE_ARP || type == ETHERTYPE_IP4 || type == ETHERTYPE_IP6
			       ? HK_RESULT_KERNEL
			       : HK_RESULT_ETHERTYPE;
	}
	if (HK_LIKELY(type == ETHERTYPE_IP4))
		v = hk_ip4_read(f, avail, frame, ip);
	else if (type == ETHERTYPE_IP6)
		v = hk_ip6_read(f, avail, frame, ip);
	else
		return type == ETHERTYPE_ARP ? HK_RESULT_KERNEL : HK_RESULT_ETHERTYPE;
	return v == HK_RESULT_SHORT && avail < HK_HEADER_MAX && avail < frame
		       ? HK_RESULT_HEADER_SPLIT
		       : v;
}

/* Reads the headers of a burst. This is the only step that depends on the mode. */
static inline __attribute__((always_inline)) void read_burst(struct hk_forward *f, unsigned port,
							     struct rte_mbuf **m, unsigned n,
							     struct hk_burst *b,
							     enum hk_router_mode mode)
{
	struct hk_forward_port *p = &f->port[port];
	uint64_t bytes = 0, header_bytes = 0;

	for (unsigned i = 0; mode == HK_ROUTER_BOUNCE && i < HK_MIN(n, 4u); i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (unsigned i = 0; i < n; i++) {
		if (mode == HK_ROUTER_BOUNCE && i + 4 < n)
			rte_prefetch0(rte_pktmbuf_mtod(m[i + 4], void *));
		const uint8_t *frame = rte_pktmbuf_mtod(m[i], const uint8_t *);
		unsigned avail = HK_MIN(m[i]->data_len, (unsigned)HK_HEADER_MAX);
		struct hk_ip *ip = &b->ip[i];

		if (mode == HK_ROUTER_PKTPIT) {
			if (HK_LIKELY(avail == HK_HEADER_MAX))
				memcpy(b->header[i], frame, HK_HEADER_MAX);
			else
				memcpy(b->header[i], frame, avail);
			frame = b->header[i];
		}
		bytes += m[i]->pkt_len;
		header_bytes += avail;
		ip->family = 0;
		b->result[i] = (uint8_t)read_header(p, frame, avail, m[i]->pkt_len, ip);
		if (HK_UNLIKELY(b->result[i] != HK_RESULT_FORWARD))
			continue;
		if (HK_LIKELY(ip->family == 4))
			b->dst4[b->n4++] = hk_be32(ip->dst);
		else
			memcpy(b->dst6[b->n6++], ip->dst, 16);
	}
	p->count.in_packets += n;
	p->count.in_bytes += bytes;
	p->count.header_bytes += header_bytes;
}

static const uint8_t result_of[HK_HOP_KINDS] = {
	[HK_HOP_NO_ROUTE] = HK_RESULT_NO_ROUTE,
	[HK_HOP_FORWARD] = HK_RESULT_FORWARD,
	[HK_HOP_UNRESOLVED] = HK_RESULT_UNRESOLVED,
	[HK_HOP_GLEAN] = HK_RESULT_UNRESOLVED,
	[HK_HOP_LOCAL] = HK_RESULT_KERNEL,
	[HK_HOP_BLACKHOLE] = HK_RESULT_BLACKHOLE,
	[HK_HOP_UNREACHABLE] = HK_RESULT_UNREACHABLE,
	[HK_HOP_BROADCAST] = HK_RESULT_BROADCAST,
	[HK_HOP_MULTICAST] = HK_RESULT_MULTICAST,
	[HK_HOP_LINK_LOCAL] = HK_RESULT_KERNEL,
	[HK_HOP_MARTIAN] = HK_RESULT_DESTINATION,
};

static inline unsigned mtu_of(const struct hk_forward *f, unsigned port)
{
	unsigned mtu = f->fib->mtu[port], most = f->port[port].frame_max - HK_ETHER_LEN;

	return mtu && mtu < most ? mtu : most;
}

/* Decides the result for a packet with a valid header and a known next hop. */
static inline enum hk_router_result decide(const struct hk_forward *f, const struct hk_ip *ip,
					   hk_cell cell)
{
	enum hk_router_result v = result_of[hk_cell_kind(cell)];

	if (HK_UNLIKELY(v == HK_RESULT_KERNEL || v == HK_RESULT_DESTINATION))
		return v;
	if (HK_UNLIKELY(!hk_source_ok(ip->family, ip->src)))
		return HK_RESULT_SOURCE;
	if (HK_UNLIKELY(v != HK_RESULT_FORWARD))
		return v;
	if (HK_UNLIKELY(ip->ttl <= 1))
		return HK_RESULT_TTL;
	return HK_LIKELY(ip->length <= mtu_of(f, hk_cell_port(cell))) ? HK_RESULT_FORWARD
								      : HK_RESULT_TOO_BIG;
}

/* Cuts off the bytes that follow the packet in its frame. */
static HK_NOINLINE void shorten(struct rte_mbuf *m, uint32_t len)
{
	struct rte_mbuf *s = m;

	m->pkt_len = len;
	for (; s->next && len > s->data_len; s = s->next)
		len -= s->data_len;
	s->data_len = (uint16_t)len;
	if (s->next) {
		rte_pktmbuf_free(s->next);
		s->next = NULL;
		m->nb_segs = 1;
		for (s = m; s->next; s = s->next)
			m->nb_segs++;
	}
}

static inline void transmit(struct hk_forward *f, struct rte_mbuf *m, const struct hk_ip *ip,
			    hk_cell cell)
{
	unsigned port = hk_cell_port(cell);
	uint8_t l2[16];

	memcpy(l2, &cell, 8);
	memcpy(l2 + 6, f->port[port].mac, 8);
	hk_ip_rewrite(rte_pktmbuf_mtod(m, uint8_t *), l2, ip);
	unsigned want = hk_ip_frame(ip, m->pkt_len);
	if (HK_UNLIKELY(want < m->pkt_len))
		shorten(m, want);
	hk_forward_enqueue(f, port, m);
}

static HK_NOINLINE enum hk_router_result to_kernel(struct hk_forward *f, unsigned port,
						   struct rte_mbuf *m)
{
	if (!f->kernel) {
		rte_pktmbuf_free(m);
		return HK_RESULT_NO_KERNEL;
	}
	m->port = (uint16_t)port;
	if (f->kernel(f->kernel_arg, m))
		return HK_RESULT_KERNEL;
	rte_pktmbuf_free(m);
	return HK_RESULT_KERNEL_FULL;
}

/* Returns the router's own address of this family on a port. */
static const uint8_t *own_address(const struct hk_fib *fib, unsigned family, unsigned port)
{
	for (unsigned i = 0; i < fib->addresses; i++)
		if (fib->address[i].family == family && fib->address[i].port == port)
			return fib->address[i].address;
	return NULL;
}

/* Looks up the next hop to @address. True if a packet can be sent there. */
static bool route_to(const struct hk_fib *fib, unsigned family, const uint8_t *address,
		     hk_cell *cell)
{
	uint64_t hop;

	if (family == 4) {
		uint32_t word = hk_be32(address);
		hk_fib_lookup4(fib, &word, &hop, 1);
	} else {
		uint8_t copy[1][16];
		memcpy(copy[0], address, 16);
		hk_fib_lookup6(fib, copy, &hop, 1);
	}
	*cell = hk_fib_cell(fib, hop);
	return hk_cell_kind(*cell) == HK_HOP_FORWARD;
}

/* Sends an ICMP message about a packet to its sender. @frame is its header, as it was read. */
static void send_icmp(struct hk_forward *f, unsigned port, const uint8_t *frame, unsigned avail,
		      const struct hk_ip *ip, enum hk_router_result v, hk_cell cell)
{
	struct hk_forward_counters *c = &f->port[port].count;
	const uint8_t *source = own_address(f->fib, ip->family, port);
	hk_cell back;

	if (!hk_icmp_applies(v, frame, avail, ip))
		return;
	if (!f->own || !source || !route_to(f->fib, ip->family, ip->src, &back)) {
		c->icmp_silent++;
		return;
	}
	struct rte_mbuf *m = hk_icmp_limit_take(&f->icmp, rte_rdtsc()) ? rte_pktmbuf_alloc(f->own)
								       : NULL;
	if (!m) {
		c->icmp_limited++;
		return;
	}
	uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, HK_ETHER_LEN + HK_ICMP_MAX);
	unsigned out = hk_cell_port(back);
	memcpy(p, &back, 6);
	memcpy(p + 6, f->port[out].mac, 6);
	p[12] = ip->family == 4 ? ETHERTYPE_IP4 >> 8 : ETHERTYPE_IP6 >> 8;
	p[13] = ip->family == 4 ? ETHERTYPE_IP4 & 0xff : ETHERTYPE_IP6 & 0xff;
	unsigned len = HK_ETHER_LEN +
		       hk_icmp_write(p + HK_ETHER_LEN, v, frame, avail, ip, source,
				     v == HK_RESULT_TOO_BIG ? mtu_of(f, hk_cell_port(cell)) : 0);
	for (; len < HK_FRAME_MIN; len++)
		p[len] = 0;
	rte_pktmbuf_trim(m, (uint16_t)(m->pkt_len - len));
	hk_forward_enqueue(f, out, m);
	c->icmp_sent++;
}

/* Requests the neighbour that a packet needs: its next hop, or on a port's subnet its
 * destination. */
static void request_neighbour(struct hk_forward *f, const struct hk_ip *ip, uint64_t hop,
			      hk_cell cell)
{
	struct hk_forward_requests *a = f->requests;
	uint32_t at = a ? atomic_load_explicit(&a->written, memory_order_relaxed) : 0;
	bool glean = hk_cell_kind(cell) == HK_HOP_GLEAN;

	if (!a || at - atomic_load_explicit(&a->read, memory_order_acquire) == HK_FORWARD_REQUESTS)
		return;
	if (!glean && hop < 2)
		hop = f->fib->default_of[hop];
	a->request[at % HK_FORWARD_REQUESTS].family = ip->family;
	a->request[at % HK_FORWARD_REQUESTS].port = (uint8_t)hk_cell_port(cell);
	memcpy(a->request[at % HK_FORWARD_REQUESTS].address,
	       glean ? ip->dst : f->fib->hop[hop].address, ip->family == 4 ? 4 : 16);
	atomic_store_explicit(&a->written, at + 1, memory_order_release);
}

/* Handles a packet whose result is not HK_RESULT_FORWARD. */
static HK_NOINLINE void handle_other(struct hk_forward *f, unsigned port, struct rte_mbuf *m,
				     enum hk_router_result v, const struct hk_burst *b, unsigned i,
				     uint64_t hop, hk_cell cell)
{
	const uint8_t *frame = f->mode == HK_ROUTER_PKTPIT ? b->header[i]
							   : rte_pktmbuf_mtod(m, const uint8_t *);
	const struct hk_ip *ip = &b->ip[i];

	if (v == HK_RESULT_UNRESOLVED)
		request_neighbour(f, ip, hop, cell);
	if (v == HK_RESULT_TOO_BIG && ip->family == 4 && !(ip->fragment & HK_IP4_DONT))
		v = hk_forward_fragment(f, port, m, frame, ip, cell, mtu_of(f, hk_cell_port(cell)));
	if (v == HK_RESULT_TTL || v == HK_RESULT_NO_ROUTE || v == HK_RESULT_UNREACHABLE ||
	    v == HK_RESULT_TOO_BIG)
		send_icmp(f, port, frame, HK_MIN(m->data_len, (unsigned)HK_HEADER_MAX), ip, v,
			  cell);
	if (v == HK_RESULT_KERNEL)
		v = to_kernel(f, port, m);
	else if (v != HK_RESULT_FORWARD)
		rte_pktmbuf_free(m);
	f->port[port].count.result[v]++;
}

/* The steps are in line in hk_forward_burst(), and functions for others. */
static inline __attribute__((always_inline)) void
read_any(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n, struct hk_burst *b)
{
	b->n4 = b->n6 = 0;
	if (f->mode == HK_ROUTER_BOUNCE)
		read_burst(f, port, m, n, b, HK_ROUTER_BOUNCE);
	else if (f->mode == HK_ROUTER_P2P)
		read_burst(f, port, m, n, b, HK_ROUTER_P2P);
	else
		read_burst(f, port, m, n, b, HK_ROUTER_PKTPIT);
}

static inline __attribute__((always_inline)) void look_up(const struct hk_fib *fib,
							  struct hk_burst *b)
{
	if (HK_LIKELY(b->n4))
		hk_fib_lookup4(fib, b->dst4, b->hop4, b->n4);
	if (b->n6)
		hk_fib_lookup6(fib, b->dst6, b->hop6, b->n6);
}

/* @cells: the burst has cells from elsewhere, and no hops. */
static inline __attribute__((always_inline)) void finish(struct hk_forward *f, unsigned port,
							 struct rte_mbuf **m, unsigned n,
							 const struct hk_burst *b, bool cells)
{
	unsigned at4 = 0, at6 = 0, sent = 0;

	for (unsigned i = 0; i < n; i++) {
		enum hk_router_result v = b->result[i];
		uint64_t hop = 0;
		hk_cell cell = 0;
		if (HK_LIKELY(v == HK_RESULT_FORWARD)) {
			bool four = b->ip[i].family == 4;
			unsigned at = four ? at4++ : at6++;
			if (cells) {
				cell = four ? b->cell4[at] : b->cell6[at];
			} else {
				hop = four ? b->hop4[at] : b->hop6[at];
				cell = hk_fib_cell(f->fib, hop);
			}
			v = decide(f, &b->ip[i], cell);
		}
		if (HK_LIKELY(v == HK_RESULT_FORWARD)) {
			transmit(f, m[i], &b->ip[i], cell);
			sent++;
		} else {
			handle_other(f, port, m[i], v, b, i, hop, cell);
		}
	}
	f->port[port].count.result[HK_RESULT_FORWARD] += sent;
}

void hk_forward_read(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n,
		     struct hk_burst *b)
{
	read_any(f, port, m, n, b);
}

void hk_forward_finish_cells(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n,
			     const struct hk_burst *b)
{
	finish(f, port, m, n, b, true);
}

void hk_forward_burst(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n)
{
	struct hk_burst b;

	read_any(f, port, m, n, &b);
	look_up(f->fib, &b);
	finish(f, port, m, n, &b, false);
}

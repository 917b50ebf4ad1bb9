/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp_xdp.c: see port/udp_xdp.h.
 */
#include "port/udp_xdp.h"
#include "port/next_hop.h"
#include "port/xsk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define ETHERTYPE RTE_BE16(0x88b5) /* HK_WIRE_ETHERTYPE; the wire is a layer of its own */

#define FRESH_US    2000000u /* that an answer of the kernel is used */
#define FIRST_US    200u     /* after a request in vain; then twice as long each time */
#define REST_US     1u       /* the same between polls of the UDP socket, */
#define REST_MAX_US 256u     /* up to this */
#define POLLS       8u       /* of the AF_XDP socket, between two looks at the clock */
#define TTL         64
#define SLOTS_FIRST 256u  /* for a burst of new peers */
#define FEW_PASSED  1000u /* frames that may come by the kernel without advice */

#define ETH_LEN  RTE_ETHER_HDR_LEN
#define IPV4_LEN (ETH_LEN + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr))
#define IPV6_LEN (ETH_LEN + sizeof(struct rte_ipv6_hdr) + sizeof(struct rte_udp_hdr))

_Static_assert(IPV6_LEN == HK_UDP_HEADERS, "the largest header");

/* ---- the way to a peer ----------------------------------------------------------------------- */

static struct hk_udp_flow *place(struct hk_udp_flow *flow, unsigned slots, uint64_t name)
{
	unsigned i = (unsigned)hk_udp_mix(name) & (slots - 1);

	while (flow[i].name && flow[i].name != name)
		i = (i + 1) & (slots - 1);
	return &flow[i];
}

/* Makes the table larger. Anybody can make us answer, so it has a limit. */
static bool grow(struct hk_udp_xdp *x)
{
	unsigned slots = x->slots ? 2 * x->slots : SLOTS_FIRST;

	if (slots > HK_UDP_FLOWS) {
		memset(x->flow, 0, x->slots * sizeof(*x->flow));
		x->count = 0;
		return true;
	}
	struct hk_udp_flow *larger = calloc(slots, sizeof(*larger));

	if (!larger)
		return false;
	for (unsigned i = 0; i < x->slots; i++)
		if (x->flow[i].name)
			*place(larger, slots, x->flow[i].name) = x->flow[i];
	free(x->flow);
	x->flow = larger;
	x->slots = slots;
	return true;
}

static void write_ipv4(struct hk_udp_flow *f, const struct hk_udp *u, const union hk_inet_addr *to)
{
	struct rte_ipv4_hdr ip = {.version_ihl = RTE_IPV4_VHL_DEF,
				  .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
				  .time_to_live = TTL,
				  .next_proto_id = IPPROTO_UDP,
				  .src_addr = u->own.v4.sin_addr.s_addr,
				  .dst_addr = to->v4.sin_addr.s_addr};
	const struct rte_udp_hdr udp = {.src_port = u->own.v4.sin_port,
					.dst_port = to->v4.sin_port};

	f->sum = rte_raw_cksum(&ip, sizeof(ip));
	memcpy(f->header + ETH_LEN, &ip, sizeof(ip));
	memcpy(f->header + ETH_LEN + sizeof(ip), &udp, sizeof(udp));
}

static void write_ipv6(struct hk_udp_flow *f, const struct hk_udp *u, const union hk_inet_addr *to)
{
	struct rte_ipv6_hdr ip = {
		.vtc_flow = RTE_BE32(6u << 28), .proto = IPPROTO_UDP, .hop_limits = TTL};
	const struct rte_udp_hdr udp = {.src_port = u->own.v6.sin6_port,
					.dst_port = to->v6.sin6_port};

	memcpy(&ip.src_addr, &u->own.v6.sin6_addr, 16);
	memcpy(&ip.dst_addr, &to->v6.sin6_addr, 16);
	memcpy(f->header + ETH_LEN, &ip, sizeof(ip));
	memcpy(f->header + ETH_LEN + sizeof(ip), &udp, sizeof(udp));
}

/* Asks the kernel for the way to a peer. It confirms a neighbour only if it sends to it, so it
 * sends an empty datagram. */
static void ask(struct hk_udp_xdp *x, struct hk_udp_flow *f, const uint8_t name[6], uint64_t now)
{
	const struct hk_udp *u = x->udp;
	struct hk_next_hop hop;
	union hk_inet_addr to;

	hk_udp_address_of(u, name, &to);
	bool known = u->family == AF_INET ? to.v4.sin_port : to.v6.sin6_port;
	/* without the helper, nobody breaks the locks of a process that dies */
	bool may = known && hk_xsk_alive(x->port);

	f->direct = may && hk_next_hop(&u->own, &to, x->ifindex, x->mtu, &hop) == 0 &&
		    hop.mtu >= u->piece + x->headers - ETH_LEN;
	f->pause_us = f->direct || !f->pause_us ? FIRST_US : HK_MIN(2 * f->pause_us, FRESH_US);
	f->again_at = now + x->ticks_us * (f->direct ? FRESH_US : f->pause_us);
	if (!f->direct)
		return;
	(void)!sendto(u->fd, "", 0, MSG_DONTWAIT, &to.any, hk_inet_len(&to));
	struct rte_ether_hdr eth = {.ether_type = u->family == AF_INET
							  ? RTE_BE16(RTE_ETHER_TYPE_IPV4)
							  : RTE_BE16(RTE_ETHER_TYPE_IPV6)};

	memcpy(&eth.dst_addr, hop.mac, sizeof(hop.mac));
	memcpy(&eth.src_addr, x->mac, sizeof(x->mac));
	memcpy(f->header, &eth, sizeof(eth));
	if (u->family == AF_INET)
		write_ipv4(f, u, &to);
	else
		write_ipv6(f, u, &to);
}

/* How the frame @m leaves: NULL by the UDP socket. The table has space for its receiver. */
static struct hk_udp_flow *flow_of(struct hk_udp_xdp *x, const struct rte_mbuf *m, uint64_t now)
{
	const uint8_t *to = rte_pktmbuf_mtod(m, const uint8_t *);
	uint64_t name = 0;

	memcpy(&name, to, 6);
	if (HK_UNLIKELY(!name))
		return NULL; /* 0.0.0.0, port 0 */
	struct hk_udp_flow *f = place(x->flow, x->slots, name);

	if (HK_UNLIKELY(!f->name)) {
		*f = (struct hk_udp_flow){.name = name};
		x->count++;
	}
	if (HK_UNLIKELY(now >= f->again_at))
		ask(x, f, to, now);
	return HK_LIKELY(f->direct) ? f : NULL;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void finish_ipv4(const struct hk_udp_flow *f, char *to, unsigned payload)
{
	struct rte_ipv4_hdr *ip = (void *)(to + ETH_LEN);
	struct rte_udp_hdr *udp = (void *)(ip + 1);
	uint16_t length = rte_cpu_to_be_16((uint16_t)(sizeof(*ip) + sizeof(*udp) + payload));
	uint32_t sum = f->sum + length;

	sum = (sum & 0xffff) + (sum >> 16);
	ip->total_length = length;
	ip->hdr_checksum = (uint16_t) ~(sum + (sum >> 16));
	udp->dgram_len = rte_cpu_to_be_16((uint16_t)(sizeof(*udp) + payload));
}

static void finish_ipv6(char *to, unsigned payload)
{
	struct rte_ipv6_hdr *ip = (void *)(to + ETH_LEN);
	struct rte_udp_hdr *udp = (void *)(ip + 1);
	uint16_t length = rte_cpu_to_be_16((uint16_t)(sizeof(*udp) + payload));

	ip->payload_len = length;
	udp->dgram_len = length;
	udp->dgram_cksum = rte_ipv6_udptcp_cksum(ip, udp);
}

/* Writes a frame with the headers in place of its Ethernet header. */
static uint32_t write_frame(void *arg, unsigned i, const struct rte_mbuf *m, char *to)
{
	const struct hk_udp_xdp *x = arg;
	const struct hk_udp_flow *f = x->at[i];
	unsigned payload = rte_pktmbuf_pkt_len(m) - ETH_LEN;
	char *at = to + x->headers;

	if (HK_UNLIKELY(payload > x->udp->piece))
		return 0; /* larger than frame_max */
	memcpy(to, f->header, x->headers);
	memcpy(at, rte_pktmbuf_mtod_offset(m, const char *, ETH_LEN), m->data_len - ETH_LEN);
	at += m->data_len - ETH_LEN;
	for (m = m->next; m; m = m->next) {
		memcpy(at, rte_pktmbuf_mtod(m, const char *), m->data_len);
		at += m->data_len;
	}
	if (HK_LIKELY(x->headers == IPV4_LEN))
		finish_ipv4(f, to, payload);
	else
		finish_ipv6(to, payload);
	return x->headers + payload;
}

uint16_t hk_udp_xdp_tx(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct hk_udp_xdp *x = queue;
	uint64_t now = rte_rdtsc();
	uint16_t sent = 0;

	n = HK_MIN(n, HK_UDP_BURST);
	while (HK_UNLIKELY(2 * (x->count + n) > x->slots)) /* pointers into the table follow */
		if (!grow(x))
			return hk_udp_tx(x->udp, m, n);
	for (uint16_t i = 0; i < n; i++)
		x->burst[i] = flow_of(x, m[i], now);
	while (sent < n) {
		uint16_t end = sent + 1, done;

		/* in one call those that leave in the same way */
		while (end < n && !x->burst[end] == !x->burst[sent])
			end++;
		x->at = x->burst + sent;
		done = x->burst[sent] ? hk_xsk_send(x->xsk, m + sent, end - sent, write_frame, x)
				      : hk_udp_tx(x->udp, m + sent, end - sent);
		sent += done;
		if (sent < end)
			break;
	}
	return sent;
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Finds the payload of a datagram, and its sender. The XDP program has checked what kind of packet
 * it is, but no length. False: a length is wrong. */
static bool parse(const struct hk_udp *u, const char *frame, uint32_t len, uint32_t headers,
		  union hk_inet_addr *from, uint32_t *payload)
{
	const struct rte_udp_hdr *udp = (const void *)(frame + headers -
						       sizeof(struct rte_udp_hdr));

	if (HK_UNLIKELY(len <= headers))
		return false;
	uint32_t datagram = rte_be_to_cpu_16(udp->dgram_len);

	if (HK_UNLIKELY(datagram <= sizeof(*udp) || udp->src_port == 0 ||
			datagram > len - headers + sizeof(struct rte_udp_hdr)))
		return false;
	*payload = datagram - (uint32_t)sizeof(*udp);
	if (HK_LIKELY(u->family == AF_INET)) {
		const struct rte_ipv4_hdr *ip = (const void *)(frame + ETH_LEN);

		*from = (union hk_inet_addr){
			.v4 = {.sin_family = AF_INET, .sin_port = udp->src_port}};
		from->v4.sin_addr.s_addr = ip->src_addr;
	} else {
		const struct rte_ipv6_hdr *ip = (const void *)(frame + ETH_LEN);

		*from = (union hk_inet_addr){
			.v6 = {.sin6_family = AF_INET6, .sin6_port = udp->src_port}};
		memcpy(&from->v6.sin6_addr, &ip->src_addr, 16);
	}
	return true;
}

static bool read_frame(void *arg, const char *frame, uint32_t len, struct rte_mbuf *m)
{
	struct hk_udp_xdp *x = arg;
	struct hk_udp *u = x->udp;
	struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	union hk_inet_addr from;
	uint32_t payload;

	if (HK_UNLIKELY(!parse(u, frame, len, x->headers, &from, &payload) || payload > u->piece)) {
		u->dropped_rx++;
		return false;
	}
	memcpy(&eth->dst_addr, u->mac, sizeof(u->mac));
	hk_udp_name(&from, eth->src_addr.addr_bytes);
	eth->ether_type = ETHERTYPE;
	if (HK_UNLIKELY(u->family == AF_INET6))
		hk_udp_peers_heard(&u->peers, eth->src_addr.addr_bytes, &from);
	memcpy(eth + 1, frame + x->headers, payload);
	m->data_len = (uint16_t)(ETH_LEN + payload);
	m->pkt_len = m->data_len;
	return true;
}

/* Polls the UDP socket, unless it rests. */
static uint16_t receive_passed(struct hk_udp_xdp *x, struct rte_mbuf **m, uint16_t n)
{
	uint64_t now = rte_rdtsc();

	if (HK_LIKELY(now < x->poll_at))
		return 0;
	uint16_t got = hk_udp_rx(x->udp, m, n);

	x->passed += got;
	x->rest = got ? 0 : HK_MIN(2 * x->rest + REST_US * x->ticks_us, REST_MAX_US * x->ticks_us);
	x->poll_at = now + x->rest;
	return got;
}

/* The UDP socket comes first, now and then: AF_XDP may have frames at each poll. */
uint16_t hk_udp_xdp_rx(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct hk_udp_xdp *x = queue;
	uint16_t passed = HK_UNLIKELY(++x->polls % POLLS == 0) ? receive_passed(x, m, n) : 0;
	uint16_t taken = hk_xsk_receive(x->xsk, m + passed, n - passed, read_frame, x);

	x->taken += taken;
	return passed + taken;
}

bool hk_udp_xdp_advice(const struct hk_port_impl *p, char *text, size_t len)
{
	const struct hk_udp_xdp *x = p->udp->xdp;

	if (x->passed < FEW_PASSED || x->passed < x->taken)
		return false;
	snprintf(text, len,
		 "port %s: of %llu frames the kernel received %llu, which is slow: they arrived on "
		 "other queues of %s, or in parts; fix: ethtool -L %s combined 1",
		 p->spec.text, (unsigned long long)(x->taken + x->passed),
		 (unsigned long long)x->passed, p->spec.iface, p->spec.iface);
	return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int wait_for(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int hk_udp_xdp_fd(struct hk_udp_xdp *x)
{
	if (x->wait >= 0)
		return x->wait;
	x->wait = epoll_create1(EPOLL_CLOEXEC);
	if (x->wait >= 0 &&
	    (wait_for(x->wait, x->udp->fd) != 0 || wait_for(x->wait, x->xsk->fd) != 0)) {
		close(x->wait);
		x->wait = -1;
	}
	return x->wait;
}

int hk_udp_xdp_open(struct hk_port_impl *p, const char *iface, unsigned mtu, unsigned sharers,
		    int64_t deadline, struct hk_error *err)
{
	struct hk_udp *u = p->udp;
	struct hk_udp_xdp *x = calloc(1, sizeof(*x));

	if (!x)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
	u->xdp = x;
	x->udp = u;
	x->port = p;
	x->wait = -1;
	snprintf(p->spec.iface, sizeof(p->spec.iface), "%s", iface);
	int rc = hk_xsk_attach(p, HK_HELPER_TAKE_CLAIMED, sharers, deadline, err);

	if (rc == 0)
		rc = hk_xsk_claim_datagrams(p, u->fd, err);
	if (rc)
		return rc;
	x->xsk = p->xsk;
	x->ifindex = if_nametoindex(iface);
	x->mtu = mtu;
	x->headers = u->family == AF_INET ? IPV4_LEN : IPV6_LEN;
	x->ticks_us = HK_MAX(hk_eal_tsc_hz() / 1000000, 1);
	memcpy(x->mac, p->port.info.mac, sizeof(x->mac));
	u->piece = HK_MIN(u->piece, HK_CHUNK_DATA - x->headers);
	return grow(x) ? 0 : hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
}

void hk_udp_xdp_close(struct hk_port_impl *p)
{
	struct hk_udp_xdp *x = p->udp->xdp;

	if (!x)
		return;
	if (x->wait >= 0)
		close(x->wait);
	free(x->flow);
	free(x);
	p->udp->xdp = NULL;
}

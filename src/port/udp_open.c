/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp_open.c: opening and closing a port on a UDP socket. See port/udp.h.
 */
#include "port/udp.h"
#include "base/inet.h"
#include "port/number.h"
#include "port/udp_xdp.h"
#include "port/xsk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUEUE_BYTES   (4 << 20) /* of the kernel's queue of received datagrams, if it permits */
#define SOON_MS       1000
#define SMALLEST_MTU  576u /* that every host of IPv4 takes, RFC 791 */
#define TRUESIZE_MORE 768u /* bytes that the kernel counts beside those of a datagram */

/* ---- the socket ------------------------------------------------------------------------------ */

/* Bytes of the headers of IP and UDP. */
static unsigned overhead(int family)
{
	return (family == AF_INET ? 20 : 40) + 8;
}

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

/* The kernel shall learn what the path carries, and cut what is longer. With @xdp it shall not put
 * datagrams together: below a VLAN or a bridge it would do so before our program sees them. */
static int set_up(int fd, int family, bool xdp)
{
	if (!xdp && set(fd, SOL_UDP, UDP_GRO, 1) != 0)
		return -1;
	if (family == AF_INET)
		return set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT);
	return set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT);
}

static uint16_t *port_of(union hk_inet_addr *at)
{
	return at->any.sa_family == AF_INET ? &at->v4.sin_port : &at->v6.sin6_port;
}

/* Binds to @at, whose port becomes that of the socket. A user can give back a port that the kernel
 * has chosen, while the socket stays open. So hikyaku-helper leads no datagrams to such a socket.
 * With @fixed it is bound again, to the number. */
static int bind_to(int fd, union hk_inet_addr *at, bool fixed)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	socklen_t len = hk_inet_len(at);
	bool chosen = *port_of(at) == 0;

	if (bind(fd, &at->any, len) != 0 || getsockname(fd, &at->any, &len) != 0)
		return -errno;
	if (!fixed || !chosen)
		return 0;
	if (connect(fd, &none, sizeof(none)) == 0 && bind(fd, &at->any, len) == 0)
		return 0;
	*port_of(at) = 0; /* somebody else was quicker */
	return errno == EADDRINUSE ? -EAGAIN : -errno;
}

/* @at: our address, whose port becomes that of the socket. */
static int make_socket(struct hk_port_impl *p, struct hk_udp *u, union hk_inet_addr *at,
		       int64_t deadline, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	int64_t since = hk_clock_ms();
	int rc;

	u->family = at->any.sa_family;
	*port_of(at) = htons((uint16_t)s->udp_port);
	u->fd = socket(u->family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
	if (u->fd < 0)
		return hk_error_set(err, -errno, "port %s: no socket: %s", s->text,
				    strerror(errno));
	for (;;) {
		rc = bind_to(u->fd, at, s->xdp);
		/* the helper keeps the socket of a former owner for a moment */
		bool again = rc == -EAGAIN || (rc == -EADDRINUSE && s->xdp);

		if (!again || hk_clock_ms() >= HK_MIN(deadline, since + SOON_MS))
			break;
		hk_pause_1ms();
	}
	if (rc)
		return hk_error_set(err, rc, "port %s: cannot bind UDP port %u: %s; fix: %s",
				    s->text, s->udp_port, strerror(-rc),
				    "leave out port=, so that the kernel chooses one");
	if (set_up(u->fd, u->family, s->xdp) != 0)
		return hk_error_set(err, -errno,
				    "port %s: the kernel does not set up the socket: %s; fix: use "
				    "Linux 5.0 or newer",
				    s->text, strerror(errno));
	hk_inet_buffers(u->fd, QUEUE_BYTES);
	hk_udp_name(at, u->mac);
	u->own = *at;
	return 0;
}

/* The frames that the kernel's queue holds. */
static unsigned queue_frames(const struct hk_udp *u, unsigned frame)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) != 0 || bytes <= 0)
		return 64;
	return HK_MIN(HK_MAX((unsigned)bytes / (frame + TRUESIZE_MORE), 8u), 4096u);
}

/* ---- the port ------------------------------------------------------------------------------- */

/* Sets what the port says of itself, its number and its buffers. */
static int make_port(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *pool,
		     struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	struct hk_udp *u = p->udp;
	struct hk_udp_xdp *x = u->xdp;
	char below[sizeof(info->driver)];

	memcpy(below, info->driver, sizeof(below));
	snprintf(info->driver, sizeof(info->driver), x ? "udp by %s" : "udp", below);
	memcpy(info->mac, u->mac, sizeof(info->mac));
	info->frame_max = (uint16_t)(u->piece + RTE_ETHER_HDR_LEN);
	info->queues = 1;
	info->numa = -1;
	info->ip6 = u->family == AF_INET6;
	unsigned queue = queue_frames(u, info->frame_max);

	info->rx_ring = (uint16_t)(x ? HK_MIN(queue, (unsigned)info->rx_ring) : queue);
	info->copies_at_tx = true;
	info->bulk = !x;
	info->tx_multi_seg = true;
	info->system_calls = !x;
	info->datagrams = true;
	int rc = x ? hk_number_take(p, x, hk_udp_xdp_rx, hk_udp_xdp_tx, err)
		   : hk_number_take(p, u, hk_udp_rx, hk_udp_tx, err);

	if (rc == 0)
		rc = hk_pool_make(p, buffers + 2 * HK_UDP_TRAINS * HK_UDP_PIECES, pool, err);
	u->pool = p->port.pool;
	if (rc == 0 && x) {
		x->xsk->pool = p->port.pool;
		hk_xsk_fill(x->xsk);
	}
	p->started = rc == 0;
	return rc;
}

int hk_udp_open(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *pool,
		unsigned sharers, int64_t deadline, struct hk_error *err)
{
	static const int families[] = {[0] = AF_UNSPEC, [4] = AF_INET, [6] = AF_INET6};
	struct hk_inet_local local;
	struct hk_error why;

	if (p->spec.ip == 5)
		return hk_error_set(err, -EINVAL, "port %s: there is no IPv5; fix: ip=4 or ip=6",
				    p->spec.text);
	int rc = hk_inet_local(p->spec.addr, families[p->spec.ip], &local, &why);

	if (rc)
		return hk_error_set(err, rc, "port %s: %s", p->spec.text, why.text);
	unsigned mtu = p->spec.mtu ? p->spec.mtu : local.mtu;

	if (mtu < SMALLEST_MTU)
		return hk_error_set(err, -EMSGSIZE,
				    "port %s: the MTU of %s is %u; fix: ip link set %s mtu 1500",
				    p->spec.text, local.interface, mtu, local.interface);
	struct hk_udp *u = calloc(1, sizeof(*u));

	if (!u)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
	p->udp = u;
	u->fd = -1;
	u->asked = 1;
	u->rest = malloc(HK_UDP_BYTES);
	if (!u->rest)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
	u->narrow[HK_UDP_NARROW] = (struct iovec){u->rest, HK_UDP_BYTES};
	u->piece = HK_MIN(mtu - overhead(local.at.any.sa_family),
			  HK_PORT_FRAME_LIMIT - RTE_ETHER_HDR_LEN);
	rc = make_socket(p, u, &local.at, deadline, err);
	if (rc == 0 && p->spec.xdp)
		rc = hk_udp_xdp_open(p, local.interface, local.mtu, sharers, deadline, err);
	if (rc)
		return rc;
	u->pieces = HK_MIN((HK_UDP_BYTES + u->piece - 1) / u->piece, HK_UDP_PIECES);
	for (unsigned i = 0; i < HK_UDP_TRAINS; i++)
		u->train[i].missing = true;
	p->port.info.link_mbps = hk_netdev_link_mbps(local.interface);
	return make_port(p, buffers, pool, err);
}

void hk_udp_close(struct hk_port_impl *p)
{
	struct hk_udp *u = p->udp;

	if (!u)
		return;
	hk_number_give(p, u->xdp ? (const void *)u->xdp : u);
	hk_udp_xdp_close(p);
	hk_udp_drain(u);
	if (u->fd >= 0)
		close(u->fd);
	free(u->rest);
	hk_udp_peers_free(&u->peers);
	free(u);
	p->udp = NULL;
}

/* The largest IP packet for the path to @at, as far as the kernel knows; 0: it does not. */
static unsigned path_mtu(const union hk_inet_addr *at)
{
	bool v4 = at->any.sa_family == AF_INET;
	int fd = socket(at->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), mtu = 0;
	socklen_t len = sizeof(mtu);

	if (fd < 0)
		return 0;
	if (connect(fd, &at->any, hk_inet_len(at)) != 0 ||
	    getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len) !=
		    0 ||
	    mtu < 0)
		mtu = 0;
	close(fd);
	return (unsigned)mtu;
}

bool hk_udp_advice(const struct hk_port_impl *p, char *text, size_t len)
{
	const struct hk_udp *u = p->udp;
	unsigned mtu = u->narrow_to.any.sa_family ? path_mtu(&u->narrow_to) : 0;
	unsigned ours = u->piece + overhead(u->family);
	char peer[INET6_ADDRSTRLEN], more[32] = "";

	if (mtu == 0 || mtu >= ours)
		return u->xdp && hk_udp_xdp_advice(p, text, len);
	hk_inet_text(&u->narrow_to, peer, sizeof(peer));
	if (p->spec.ip)
		snprintf(more, sizeof(more), ",ip=%u", p->spec.ip);
	if (u->xdp)
		strcat(more, ",xdp=1");
	snprintf(text, len,
		 "port %s: the path to %s carries packets of %u bytes, so the kernel cut up those "
		 "of %u, which is slow; fix: on all nodes udp:addr=%s%s,mtu=%u",
		 p->spec.text, peer, mtu, ours, p->spec.addr, more, mtu);
	return true;
}

/* An IPv6 address and its port, as they travel. */
bool hk_udp_address(const struct hk_port_impl *p, uint8_t address[HK_PORT_ADDRESS])
{
	const struct hk_udp *u = p->udp;

	if (u->family != AF_INET6)
		return false;
	memcpy(address, &u->own.v6.sin6_addr, 16);
	memcpy(address + 16, &u->own.v6.sin6_port, 2);
	return true;
}

int hk_udp_know(struct hk_port_impl *p, const uint8_t address[HK_PORT_ADDRESS],
		struct hk_error *err)
{
	union hk_inet_addr at = {.v6 = {.sin6_family = AF_INET6}};

	memcpy(&at.v6.sin6_addr, address, 16);
	memcpy(&at.v6.sin6_port, address + 16, 2);
	if (hk_udp_peers_add(&p->udp->peers, &at) != 0)
		return hk_error_set(err, -ENOMEM, "port %s: no memory for a peer", p->spec.text);
	return 0;
}

int hk_udp_fd(const struct hk_port_impl *p)
{
	return p->udp->xdp ? hk_udp_xdp_fd(p->udp->xdp) : p->udp->fd;
}

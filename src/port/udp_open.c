/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp_open.c: opening and closing a port on a UDP socket. See port/udp.h.
 */
#include "port/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUEUE_BYTES   (4 << 20) /* of the kernel's queue of received datagrams, if it permits */
#define FRAME_LIMIT   9216u
#define SMALLEST_MTU  576u /* that every host of IPv4 takes, RFC 791 */
#define TRUESIZE_MORE 768u /* bytes that the kernel counts beside those of a datagram */

/* ---- addresses ------------------------------------------------------------------------------- */

static void list_address(char *out, size_t len, const struct ifaddrs *i)
{
	char text[INET_ADDRSTRLEN];
	const struct sockaddr_in *at = (const void *)i->ifa_addr;
	size_t n = strlen(out);

	inet_ntop(AF_INET, &at->sin_addr, text, sizeof(text));
	snprintf(out + n, len - n, "%s%s (%s)", n ? ", " : "", i->ifa_name, text);
}

/* Finds the IPv4 address of the interface, or the interface of the address, that the spec names. */
static int find_address(struct hk_port_impl *p, char name[IF_NAMESIZE], struct in_addr *addr,
			struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	char there[200] = "";
	struct ifaddrs *all = NULL;
	bool by_ip = inet_pton(AF_INET, s->addr, addr) == 1, found = false;

	if (getifaddrs(&all) != 0)
		return hk_error_set(err, -errno, "port %s: cannot list addresses: %s", s->text,
				    strerror(errno));
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		const struct sockaddr_in *at = (const void *)i->ifa_addr;

		found = by_ip ? at->sin_addr.s_addr == addr->s_addr
			      : strcmp(i->ifa_name, s->addr) == 0;
		if (!found) {
			list_address(there, sizeof(there), i);
			continue;
		}
		*addr = at->sin_addr;
		snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	if (found)
		return 0;
	return hk_error_set(err, -EADDRNOTAVAIL, "port %s: %s %s here; fix: use one of %s", s->text,
			    by_ip ? "no interface has the address"
				  : "there is no interface with an IPv4 address called",
			    s->addr, *there ? there : "(none has an IPv4 address)");
}

/* ---- the socket ------------------------------------------------------------------------------ */

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

static int make_socket(struct hk_port_impl *p, struct hk_udp *u, struct in_addr addr,
		       struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr = addr, .sin_port = htons((uint16_t)s->udp_port)};
	socklen_t len = sizeof(at);

	u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
	if (u->fd < 0)
		return hk_error_set(err, -errno, "port %s: no socket: %s", s->text,
				    strerror(errno));
	if (bind(u->fd, (const struct sockaddr *)&at, sizeof(at)) != 0)
		return hk_error_set(err, -errno, "port %s: cannot bind UDP port %u: %s; fix: %s",
				    s->text, s->udp_port, strerror(errno),
				    "leave out port=, so that the kernel chooses one");
	if (getsockname(u->fd, (struct sockaddr *)&at, &len) != 0 ||
	    set(u->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT) != 0 ||
	    set(u->fd, SOL_UDP, UDP_GRO, 1) != 0)
		return hk_error_set(err, -errno,
				    "port %s: the kernel does not set up the socket: %s; fix: use "
				    "Linux 5.0 or newer",
				    s->text, strerror(errno));
	/* more than net.core.rmem_max needs CAP_NET_ADMIN */
	if (set(u->fd, SOL_SOCKET, SO_RCVBUFFORCE, QUEUE_BYTES) != 0)
		(void)set(u->fd, SOL_SOCKET, SO_RCVBUF, QUEUE_BYTES);
	if (set(u->fd, SOL_SOCKET, SO_SNDBUFFORCE, QUEUE_BYTES) != 0)
		(void)set(u->fd, SOL_SOCKET, SO_SNDBUF, QUEUE_BYTES);
	memcpy(u->mac, &at.sin_addr.s_addr, 4);
	memcpy(u->mac + 4, &at.sin_port, 2);
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

/* ---- the device ------------------------------------------------------------------------------ */

static void *queue_data[RTE_MAX_ETHPORTS][1];
static void *no_callbacks[1];

/* Takes a number that DPDK has not given to a device. DPDK counts from 0, so this counts down. */
static int take_number(struct hk_port_impl *p, struct hk_udp *u, struct hk_error *err)
{
	for (unsigned id = RTE_MAX_ETHPORTS; id-- > 0;) {
		struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[id];

		if (queue_data[id][0] || rte_eth_dev_is_valid_port((uint16_t)id))
			continue;
		queue_data[id][0] = u;
		ops->rx_pkt_burst = hk_udp_rx;
		ops->tx_pkt_burst = hk_udp_tx;
		ops->rxq.data = ops->txq.data = queue_data[id];
		ops->rxq.clbk = ops->txq.clbk = no_callbacks;
		p->port.id = (uint16_t)id;
		return 0;
	}
	return hk_error_set(err, -ENFILE,
			    "port %s: this process has %d ports, the most of DPDK; fix: open fewer",
			    p->spec.text, RTE_MAX_ETHPORTS);
}

int hk_udp_open(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *pool,
		struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	char name[IF_NAMESIZE];
	struct in_addr addr;
	struct hk_netdev dev;
	int rc = find_address(p, name, &addr, err);

	if (rc == 0)
		rc = hk_netdev_get(p->spec.text, name, &dev, err);
	if (rc)
		return rc;
	unsigned mtu = p->spec.mtu ? p->spec.mtu : dev.mtu;

	if (mtu < SMALLEST_MTU)
		return hk_error_set(err, -EMSGSIZE,
				    "port %s: the MTU of %s is %u; fix: ip link set %s mtu 1500",
				    p->spec.text, name, mtu, name);
	struct hk_udp *u = calloc(1, sizeof(*u));

	if (!u)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
	p->udp = u;
	u->fd = -1;
	u->asked = 1;
	u->rest = malloc(HK_UDP_BYTES);
	if (!u->rest)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
	u->piece = HK_MIN(mtu - HK_UDP_OVERHEAD, FRAME_LIMIT - RTE_ETHER_HDR_LEN);
	u->pieces = HK_MIN((HK_UDP_BYTES + u->piece - 1) / u->piece, HK_UDP_PIECES);
	for (unsigned i = 0; i < HK_UDP_TRAINS; i++)
		u->train[i].missing = true;
	rc = make_socket(p, u, addr, err);
	if (rc)
		return rc;
	snprintf(info->driver, sizeof(info->driver), "udp");
	memcpy(info->mac, u->mac, sizeof(info->mac));
	info->frame_max = (uint16_t)(u->piece + RTE_ETHER_HDR_LEN);
	info->queues = 1;
	info->numa = -1;
	info->rx_ring = (uint16_t)queue_frames(u, info->frame_max);
	info->link_mbps = hk_netdev_link_mbps(name);
	info->copies_at_tx = true;
	info->tx_multi_seg = true;
	info->system_calls = true;
	rc = take_number(p, u, err);
	if (rc == 0)
		rc = hk_pool_make(p, buffers + 2 * HK_UDP_TRAINS * HK_UDP_PIECES, pool, err);
	u->pool = p->port.pool;
	p->started = rc == 0;
	return rc;
}

void hk_udp_close(struct hk_port_impl *p)
{
	struct hk_udp *u = p->udp;

	if (!u)
		return;
	if (queue_data[p->port.id][0] == u) {
		memset(&rte_eth_fp_ops[p->port.id], 0, sizeof(rte_eth_fp_ops[0]));
		queue_data[p->port.id][0] = NULL;
	}
	hk_udp_drain(u);
	if (u->fd >= 0)
		close(u->fd);
	free(u->rest);
	free(u);
	p->udp = NULL;
}

/* The largest IP packet for the path to @at, as far as the kernel knows; 0: it does not. */
static unsigned path_mtu(const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), mtu = 0;
	socklen_t len = sizeof(mtu);

	if (fd < 0)
		return 0;
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 ||
	    getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len) != 0 || mtu < 0)
		mtu = 0;
	close(fd);
	return (unsigned)mtu;
}

bool hk_udp_advice(const struct hk_port_impl *p, char *text, size_t len)
{
	const struct hk_udp *u = p->udp;
	unsigned mtu = u->narrow_to.sin_family ? path_mtu(&u->narrow_to) : 0;
	char peer[INET_ADDRSTRLEN];

	if (mtu == 0 || mtu >= u->piece + HK_UDP_OVERHEAD)
		return false;
	inet_ntop(AF_INET, &u->narrow_to.sin_addr, peer, sizeof(peer));
	snprintf(text, len,
		 "port %s: the path to %s carries packets of %u bytes, so the kernel cut up those "
		 "of %u, which is slow; fix: on all nodes udp:addr=%s,mtu=%u",
		 p->spec.text, peer, mtu, u->piece + HK_UDP_OVERHEAD, p->spec.addr, mtu);
	return true;
}

int hk_udp_fd(const struct hk_port_impl *p)
{
	return p->udp->fd;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/kernel.c: TAP interfaces.
 */
#include "devmem/router/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FRAME 1514 /* longest frame that the kernel sends; its MTU is at most 1500 */
#define ROUND 64   /* frames of one TAP interface in a round */

static int tap_error(const char *name, const char *what, struct hk_error *err)
{
	int code = errno;

	return hk_error_set(err, -code,
			    "--tap: %s: cannot %s: %s; fix: run as root (CAP_NET_ADMIN), check "
			    "that /dev/net/tun exists, and choose a prefix that no interface has",
			    name, what, strerror(code));
}

static int open_tap(struct hk_router_kernel *k, unsigned i, const struct hk_forward *f,
		    const struct hk_fib *fib, struct hk_error *err)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	const struct hk_forward_port *p = &f->port[i];
	unsigned mtu = HK_MIN(fib->mtu[i] ? fib->mtu[i] : 9202u, HK_MIN(1500u, p->frame_max - 14u));
	int rc = 0;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s%u", k->prefix, i);
	k->tap[i] = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (k->tap[i] < 0 || ioctl(k->tap[i], TUNSETIFF, &ifr) != 0)
		return tap_error(ifr.ifr_name, "make the interface", err);
	k->ifindex[i] = if_nametoindex(ifr.ifr_name);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return tap_error(ifr.ifr_name, "set it up", err);
	ifr.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(ifr.ifr_hwaddr.sa_data, p->mac, 6);
	if (ioctl(fd, SIOCSIFHWADDR, &ifr) != 0)
		rc = tap_error(ifr.ifr_name, "give it the port's MAC address", err);
	ifr.ifr_mtu = (int)mtu;
	if (rc == 0 && ioctl(fd, SIOCSIFMTU, &ifr) != 0)
		rc = tap_error(ifr.ifr_name, "set its MTU", err);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (rc == 0 && ioctl(fd, SIOCSIFFLAGS, &ifr) != 0)
		rc = tap_error(ifr.ifr_name, "bring it up", err);
	close(fd);
	for (unsigned a = 0; rc == 0 && a < fib->addresses; a++)
		if (fib->address[a].port == i)
			rc = hk_router_netlink_add_address(k, i, &fib->address[a], err);
	return rc;
}

int hk_router_kernel_open(const char *prefix, const struct hk_forward *f, const struct hk_fib *fib,
			  struct rte_mempool *pool, struct hk_router_kernel **out,
			  struct hk_error *err)
{
	struct hk_router_kernel *k = calloc(1, sizeof(*k));

	*out = k;
	if (!k)
		return hk_error_set(err, -ENOMEM, "no memory for TAP interfaces");
	for (unsigned i = 0; i < HK_ROUTER_PORTS; i++)
		k->tap[i] = -1;
	k->netlink = -1;
	k->ports = f->ports;
	k->pool = pool;
	snprintf(k->prefix, sizeof(k->prefix), "%s", prefix);
	k->neighbour = calloc(HK_KERNEL_NEIGHBOURS, sizeof(*k->neighbour));
	k->to = rte_ring_create("hk_router_to", HK_KERNEL_RING, SOCKET_ID_ANY,
				RING_F_SP_ENQ | RING_F_SC_DEQ);
	k->from = rte_ring_create("hk_router_from", HK_KERNEL_RING, SOCKET_ID_ANY,
				  RING_F_SP_ENQ | RING_F_SC_DEQ);
	if (!k->neighbour || !k->to || !k->from)
		return hk_error_set(err, -ENOMEM,
				    "no memory for TAP interfaces; fix: give the router more "
				    "memory (--memory)");
	int rc = hk_router_netlink_open(k, err);
	for (unsigned i = 0; rc == 0 && i < k->ports; i++)
		rc = open_tap(k, i, f, fib, err);
	return rc;
}

static void empty(struct rte_ring *ring)
{
	void *m;

	while (ring && rte_ring_sc_dequeue(ring, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(ring);
}

void hk_router_kernel_close(struct hk_router_kernel *k)
{
	if (!k)
		return;
	for (unsigned i = 0; i < HK_ROUTER_PORTS; i++)
		if (k->tap[i] >= 0)
			close(k->tap[i]);
	if (k->netlink >= 0)
		close(k->netlink);
	empty(k->to);
	empty(k->from);
	free(k->neighbour);
	free(k);
}

/* Writes a packet for this host. The CPU reads all of it, in whatever memory it is. */
static void write_tap(struct hk_router_kernel *k, struct rte_mbuf *m)
{
	uint8_t frame[9216];
	const void *bytes = m->pkt_len <= sizeof(frame) ? rte_pktmbuf_read(m, 0, m->pkt_len, frame)
							: NULL;

	if (bytes && write(k->tap[m->port], bytes, m->pkt_len) == (ssize_t)m->pkt_len)
		k->written++;
	else
		k->lost++;
	rte_pktmbuf_free(m);
}

static void read_tap(struct hk_router_kernel *k, unsigned i)
{
	for (unsigned n = 0; n < ROUND; n++) {
		uint8_t frame[FRAME];
		ssize_t len = read(k->tap[i], frame, sizeof(frame));
		if (len <= 0)
			return;
		struct rte_mbuf *m = rte_pktmbuf_alloc(k->pool);
		if (m) {
			memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, (size_t)len);
			m->port = (uint16_t)i;
		}
		if (m && rte_ring_sp_enqueue(k->from, m) == 0) {
			k->read++;
		} else {
			rte_pktmbuf_free(m);
			k->lost++;
		}
	}
}

void hk_router_kernel_poll(struct hk_router_kernel *k,
			   void (*learn)(void *arg, const struct hk_neighbour *n), void *arg)
{
	void *m;

	for (unsigned n = 0; n < HK_KERNEL_RING && rte_ring_sc_dequeue(k->to, &m) == 0; n++)
		write_tap(k, m);
	for (unsigned i = 0; i < k->ports; i++)
		read_tap(k, i);
	hk_router_netlink_poll(k, learn, arg);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/kernel.h: the kernel behind the router: ARP, neighbour discovery, and whatever is sent to the router's
 * own addresses.
 *
 * Each port has a *tap*, a network interface of the kernel's with the port's MAC address and the route file's
 * addresses. Packets for this host go to it as they are; what the kernel sends by it goes out of
 * the port as it is. The taps are read and written by the control thread (the data thread makes no system
 * call), so they are /dev/net/tun itself; between the threads stand rings.
 *
 * The kernel's neighbour table is followed by rtnetlink: a neighbour that it resolved becomes a next hop, one
 * that it lost is none. The data thread asks for those it misses; the kernel is told to look (NTF_USE).
 * Neighbours of the route file come before the kernel's.
 *
 * All by the control thread, but hk_kernel_ask() and what rings do.
 */
#ifndef HK_ROUTER_KERNEL_H
#define HK_ROUTER_KERNEL_H

#include "p2p/router/forward.h"

#include <rte_ring.h>

#define HK_KERNEL_RING       512
#define HK_KERNEL_NEIGHBOURS 4096

struct hk_neighbour {
	uint8_t address[16], mac[6];
	uint8_t family, port;
	bool good;
};

struct hk_kernel {
	char prefix[12];
	unsigned ports;
	int tap[HK_ROUTER_PORTS], netlink;
	unsigned ifindex[HK_ROUTER_PORTS];
	struct rte_ring *to, *from; /* the tap, seen by the data thread; m->port says which */
	struct rte_mempool *pool;
	struct hk_neighbour *neighbour;
	unsigned neighbours;
	uint64_t read, written, lost; /* frames of the taps; lost: no buffer, or the tap refused */
};

/* Makes taps PREFIX0 … and gives them MAC and IP addresses. Needs CAP_NET_ADMIN. */
int hk_kernel_open(const char *prefix, const struct hk_forward *f, const struct hk_fib *fib,
		   struct rte_mempool *pool, struct hk_kernel **out, struct hk_error *err);
void hk_kernel_close(struct hk_kernel *k); /* NULL is allowed */

/* Moves frames both ways, and takes in what the kernel says of neighbours. @learn is called for each that changed. */
void hk_kernel_round(struct hk_kernel *k, void (*learn)(void *arg, const struct hk_neighbour *n),
		     void *arg);

/* Has the kernel look for a neighbour. */
void hk_kernel_resolve(struct hk_kernel *k, unsigned family, const uint8_t *address, unsigned port);

/* neighbour.c: the netlink side of the above. */
int hk_netlink_open(struct hk_kernel *k, struct hk_error *err);
int hk_netlink_address(struct hk_kernel *k, unsigned port, const struct hk_route_address *a,
		       struct hk_error *err);
void hk_netlink_round(struct hk_kernel *k, void (*learn)(void *arg, const struct hk_neighbour *n),
		      void *arg);

#endif

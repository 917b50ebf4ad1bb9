/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/kernel.h: the kernel's part in the router: ARP, neighbour discovery, and packets
 * for the router's own addresses.
 *
 * Each port has a TAP interface with the port's MAC address and the route file's addresses. The
 * router hands packets for this host to it unchanged, and sends the kernel's packets out of the
 * port unchanged. The control thread reads and writes the TAP interfaces (/dev/net/tun), because
 * the data thread makes no system calls. Two rings carry packets between the threads.
 *
 * The router follows the kernel's neighbour table through rtnetlink. A neighbour that the kernel
 * has resolved becomes a next hop; one that it has lost is removed. The data thread reports the
 * neighbours that it misses, and the control thread asks the kernel to resolve them (NTF_USE).
 * Neighbours in the route file take precedence over the kernel's.
 *
 * The control thread makes all calls. The data thread uses only the two rings and struct
 * hk_forward_requests.
 */
#ifndef HK_ROUTER_KERNEL_H
#define HK_ROUTER_KERNEL_H

#include "devmem/router/forward.h"

#include <rte_ring.h>

#define HK_KERNEL_RING       512
#define HK_KERNEL_NEIGHBOURS 4096

struct hk_neighbour {
	uint8_t address[16], mac[6];
	uint8_t family, port;
	bool reachable;
};

struct hk_router_kernel {
	char prefix[12]; /* of the TAP interfaces' names */
	unsigned ports;
	int tap[HK_ROUTER_PORTS], netlink; /* descriptors */
	unsigned ifindex[HK_ROUTER_PORTS]; /* of the TAP interfaces */
	struct rte_ring *to, *from;        /* packets to and from the kernel; m->port is the port */
	struct rte_mempool *pool;
	struct hk_neighbour *neighbour;
	unsigned neighbours;
	uint64_t read, written, lost; /* frames from and to the TAP interfaces; lost: no buffer, or
					 write() failed */
};

/* Makes the TAP interfaces PREFIX0 and so on, and gives them MAC and IP addresses. Needs
 * CAP_NET_ADMIN. */
int hk_router_kernel_open(const char *prefix, const struct hk_forward *f, const struct hk_fib *fib,
			  struct rte_mempool *pool, struct hk_router_kernel **out,
			  struct hk_error *err);
void hk_router_kernel_close(struct hk_router_kernel *k); /* NULL is allowed */

/* Moves frames both ways and reads the kernel's reports on neighbours. Calls @learn for each
 * neighbour that has changed. */
void hk_router_kernel_poll(struct hk_router_kernel *k,
			   void (*learn)(void *arg, const struct hk_neighbour *n), void *arg);

/* Asks the kernel to resolve a neighbour. */
void hk_router_kernel_resolve(struct hk_router_kernel *k, unsigned family, const uint8_t *address,
			      unsigned port);

/* neighbour.c: the netlink side of these functions. */
int hk_router_netlink_open(struct hk_router_kernel *k, struct hk_error *err);
int hk_router_netlink_add_address(struct hk_router_kernel *k, unsigned port,
				  const struct hk_route_address *a, struct hk_error *err);
void hk_router_netlink_poll(struct hk_router_kernel *k,
			    void (*learn)(void *arg, const struct hk_neighbour *n), void *arg);

#endif

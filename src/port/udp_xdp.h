/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp_xdp.h: datagrams of a udp: port by an AF_XDP socket (xdp=1).
 *
 * DESIGN NOTES
 *
 * Problem. Networks that route, and clouds, carry IP alone. The kernel's UDP sends there, but each
 * packet costs a system call and the way through the kernel.
 *
 * Approach. The port has its UDP socket, and an AF_XDP socket that takes the datagrams for it. A
 * frame leaves by AF_XDP behind a header of Ethernet, IP and UDP, which lies ready for each peer.
 * The UDP socket reserves the port number. It also receives what the XDP program leaves to the
 * kernel: fragments, packets with options, and those that arrive on another queue of the NIC. To
 * peers the datagrams are those of a udp: port without xdp=1, and both kinds may be mixed.
 *
 * Next hops. The kernel has routes and neighbours. It is asked for each peer, and again after two
 * seconds (port/next_hop.h). While it does not know the neighbour's MAC address, frames leave by
 * the UDP socket, and so the kernel resolves the address. Once in two seconds an empty datagram
 * leaves there, so that it confirms or replaces an old one. No address is learnt from frames.
 *
 * Path MTU. Packets must not be fragmented (DF), and what routers say about them reaches the
 * kernel, since it has a socket with that port. If the path carries less than a frame, everything
 * goes by the UDP socket, which cuts frames (port/udp.h).
 *
 * Checksums. IPv4 needs none of UDP, IPv6 does (RFC 8200, 8.1). Received ones are not checked:
 * those of virtual interfaces are not complete. Ethernet's checksum covers each link, as for all
 * ports.
 */
#ifndef HK_PORT_UDP_XDP_H
#define HK_PORT_UDP_XDP_H

#include "port/helper.h"
#include "port/udp.h"

#define HK_UDP_XDP_MTU (HK_CHUNK_DATA - 14) /* frames that fit into a chunk need no more */
#define HK_UDP_HEADERS 62u                  /* bytes: Ethernet, IPv6, UDP */
#define HK_UDP_FLOWS   (1u << 16)           /* peers at most; then all are looked up again */

/* How frames reach a peer. */
struct hk_udp_flow {
	uint64_t name;     /* of the peer's address (port/udp_peers.h); 0: none */
	uint64_t again_at; /* the kernel is asked again, ticks of rte_rdtsc() */
	uint32_t pause_us; /* that the next request waits, if this one is in vain */
	uint32_t sum;      /* of the IPv4 header without its length */
	bool direct;       /* by AF_XDP */
	uint8_t header[HK_UDP_HEADERS];
};

struct hk_udp_xdp {
	struct hk_udp *udp;
	struct hk_xsk *xsk;
	const struct hk_port_impl *port;
	unsigned ifindex, mtu;
	unsigned headers; /* bytes */
	uint8_t mac[6];   /* of the interface */
	uint64_t ticks_us;
	struct hk_udp_flow *flow; /* open addressing, at most half full */
	unsigned slots, count;
	struct hk_udp_flow *burst[HK_UDP_BURST]; /* of the frames that are being sent, */
	struct hk_udp_flow **at;                 /* and of the first in the present call */
	/* the UDP socket is polled again after a rest, which grows while it has nothing */
	uint64_t poll_at, rest;
	unsigned polls;
	int wait;               /* readable when either socket is; -1: nobody has asked */
	uint64_t taken, passed; /* frames that arrived by AF_XDP, and by the kernel */
};

/* Gives @p, a UDP port, an AF_XDP socket on @iface, whose MTU is @mtu. */
int hk_udp_xdp_open(struct hk_port_impl *p, const char *iface, unsigned mtu, unsigned sharers,
		    int64_t deadline, struct hk_error *err);
void hk_udp_xdp_close(struct hk_port_impl *p);

/* Makes a descriptor that is readable when frames have arrived; -1: it cannot. Each frame takes
 * 0.2 us longer afterwards, so only a thread that sleeps calls it. */
int hk_udp_xdp_fd(struct hk_udp_xdp *x);

/* Bursts, in the form that rte_eth_fp_ops has. @queue: a struct hk_udp_xdp. */
uint16_t hk_udp_xdp_rx(void *queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_udp_xdp_tx(void *queue, struct rte_mbuf **m, uint16_t n);

/* Writes how the received frames came, if many came by the kernel. */
bool hk_udp_xdp_advice(const struct hk_port_impl *p, char *text, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp.h: ports on a UDP socket of the kernel (udp:…), for networks that route, and for users
 * without privileges.
 *
 * DESIGN NOTES
 *
 * Problem. AF_XDP and PCI ports need rights, and frames with our EtherType pass no router. The
 * kernel's UDP passes everywhere. But one system call for each frame makes it slower than TCP.
 *
 * Approach. A frame without its Ethernet header is the payload of one datagram. Frames of one
 * length to one peer leave in one system call (UDP_SEGMENT, udp(7)). The kernel cuts them apart at
 * the NIC, and a virtual link not at all. The receiver gets them back in one call (UDP_GRO).
 *
 * The layers above know Ethernet addresses. An IPv4 address and a UDP port are six bytes too. So
 * this file reads them from a frame's destination, and writes them as the source of a received one.
 * IPv6 has names of six bytes (udp_peers.h).
 *
 * To DPDK the port is a device that it has not made (port/number.h).
 *
 * Path. The kernel learns from routers what the path to a peer carries, and forgets it after ten
 * minutes. Where that is less than a frame, it refuses trains, so frames leave one by one, and the
 * kernel cuts each into fragments. That is slow, but nothing is lost when a route changes.
 *
 * Copies. The kernel writes into buffers of the pool. A train whose pieces have the length of the
 * largest frame, as bulk has, fills one buffer with each piece. Others are copied apart.
 *
 * Polling. Most calls find nothing, and a third of their time goes into the list of buffers. So the
 * list is narrow until long trains come: a few buffers, and one piece of memory for the rest of a
 * train. Frames there are copied to buffers.
 */
#ifndef HK_PORT_UDP_H
#define HK_PORT_UDP_H

#include "port/internal.h"
#include "port/udp_peers.h"

#include <sys/socket.h>
#include <sys/uio.h>

#define HK_UDP_BYTES  65507u /* payload of the largest datagram, IPv4 */
#define HK_UDP_PIECES 64u    /* pieces of a train: UDP_MAX_SEGMENTS of Linux before 6.9 */
#define HK_UDP_TRAINS 4u     /* trains that one call receives */
#define HK_UDP_BURST  64u    /* frames that one call sends */
#define HK_UDP_PARTS  3      /* buffers of a frame: headers, payload and tag */
#define HK_UDP_NARROW 7u     /* buffers of a narrow receive; Linux takes 8 parts without kmalloc */
#define HK_UDP_APART  4096u  /* trains that are sent frame by frame before one is tried again */
#define HK_UDP_CALM   16u    /* short trains in a row, after which receives are narrow again */

/* The buffers that the next train fills. */
struct hk_udp_train {
	struct rte_mbuf *m[HK_UDP_PIECES];
	struct iovec piece[HK_UDP_PIECES];
	bool missing; /* some of the buffers */
	union hk_inet_addr from;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

struct hk_udp {
	int fd;
	struct rte_mempool *pool;
	int family;      /* AF_INET or AF_INET6 */
	uint8_t mac[6];  /* our address and port, or their name */
	unsigned piece;  /* bytes of the largest frame without its Ethernet header */
	unsigned pieces; /* that the largest train has */
	/* received frames that the caller has no space for yet */
	struct rte_mbuf *ready[HK_UDP_TRAINS * HK_UDP_PIECES];
	unsigned ready_at, ready_count;
	struct hk_udp_train train[HK_UDP_TRAINS];
	unsigned asked; /* trains that the next call asks for: more cost time, if one comes */
	bool again;     /* the last call returned some */
	unsigned calm;  /* trains in a row that need no wide receive */
	struct iovec narrow[HK_UDP_NARROW + 1];
	char *rest; /* of a narrow receive; HK_UDP_BYTES long */
	struct mmsghdr in[HK_UDP_TRAINS];
	/* tx: of one call */
	struct mmsghdr out[HK_UDP_BURST];
	union hk_inet_addr to[HK_UDP_BURST];
	struct iovec part[HK_UDP_BURST * HK_UDP_PARTS];
	_Alignas(struct cmsghdr) char gso[HK_UDP_BURST][CMSG_SPACE(sizeof(uint16_t))];
	unsigned frames[HK_UDP_BURST]; /* of each message */
	unsigned apart;                /* trains that must still be sent frame by frame */
	union hk_inet_addr narrow_to;  /* the last peer whose path carries less than a frame */
	union hk_inet_addr own;
	struct hk_udp_peers peers; /* of IPv6 */
	struct hk_udp_xdp *xdp;    /* NULL without xdp=1 (port/udp_xdp.h) */
	/* frames that neither side's counters show */
	uint64_t
		dropped_rx; /* larger than our frames, or without a free buffer to cut them apart */
	uint64_t failed_tx; /* that the kernel refused: no route, or larger than the path allows */
};

/* Makes the socket of @p's spec, its buffers (@buffers beside those that it needs itself, or from
 * @pool), and a number for the port. @sharers and @deadline are for hikyaku-helper, with xdp=1. */
int hk_udp_open(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *pool,
		unsigned sharers, int64_t deadline, struct hk_error *err);

/* Frees all that hk_udp_open() made, except the pool. */
void hk_udp_close(struct hk_port_impl *p);

/* A descriptor that is readable when datagrams have arrived. */
int hk_udp_fd(const struct hk_port_impl *p);

/* hk_port_address() and hk_port_know(). */
bool hk_udp_address(const struct hk_port_impl *p, uint8_t address[HK_PORT_ADDRESS]);
int hk_udp_know(struct hk_port_impl *p, const uint8_t address[HK_PORT_ADDRESS],
		struct hk_error *err);

/* Was there a path that carries less than a frame? Then writes what it carries, and the fix. */
bool hk_udp_advice(const struct hk_port_impl *p, char *text, size_t len);

/* Finds the address of the peer that is called @name. Nothing can be sent to an unknown one. */
void hk_udp_address_of(const struct hk_udp *u, const uint8_t name[6], union hk_inet_addr *at);

/* Bursts, in the form that rte_eth_fp_ops has. @queue: a struct hk_udp. */
uint16_t hk_udp_rx(void *queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_udp_tx(void *queue, struct rte_mbuf **m, uint16_t n);

/* Frees the buffers that wait for frames. */
void hk_udp_drain(struct hk_udp *u);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp_peers.h: the six bytes that stand for a peer's address on a UDP port.
 *
 * DESIGN NOTES
 *
 * Problem. The layers above know Ethernet addresses of six bytes. Those of IPv4 with a port have as
 * many, and those of IPv6 have 18.
 *
 * Approach. The name of an IPv6 address is a hash of it, in the form of a MAC that no vendor has.
 * The receiver of a frame computes the name of its sender. To send, a table leads back to the
 * address. The user fills it with the addresses of its peers (hk_port_know()). A frame of somebody
 * else may ask for a reply, so the latest such senders are remembered too.
 *
 * Trust. A stranger may find an address that has the name of a peer. Then it can send as that peer,
 * which frames on Ethernet permit to everybody. The table keeps the peer's address.
 */
#ifndef HK_PORT_UDP_PEERS_H
#define HK_PORT_UDP_PEERS_H

#include "base/inet.h"

#include <stdint.h>

#define HK_UDP_HEARD 64u /* senders that are remembered, a power of two */

struct hk_udp_peer {
	uint64_t name; /* 0: none */
	union hk_inet_addr at;
};

struct hk_udp_peers {
	struct hk_udp_peer *known; /* open addressing; at most half full */
	unsigned slots, count;     /* slots: a power of two, or 0 */
	struct hk_udp_peer heard[HK_UDP_HEARD];
};

/* Spreads every bit of @x over all (the finalizer of MurmurHash3). */
static inline uint64_t hk_udp_mix(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

/* The name of @at. IPv4: the address and the port themselves. */
void hk_udp_name(const union hk_inet_addr *at, uint8_t name[6]);

/* Fills the table. 0, or -ENOMEM. */
int hk_udp_peers_add(struct hk_udp_peers *p, const union hk_inet_addr *at);

/* Remembers a sender, called @name. */
void hk_udp_peers_heard(struct hk_udp_peers *p, const uint8_t name[6],
			const union hk_inet_addr *at);

/* The address called @name; NULL: unknown. */
const union hk_inet_addr *hk_udp_peers_find(const struct hk_udp_peers *p, const uint8_t name[6]);

void hk_udp_peers_free(struct hk_udp_peers *p);

#endif

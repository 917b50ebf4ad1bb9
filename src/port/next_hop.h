/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/next_hop.h: where the kernel would send packets for an IP address (rtnetlink(7)).
 */
#ifndef HK_PORT_NEXT_HOP_H
#define HK_PORT_NEXT_HOP_H

#include "base/inet.h"

#include <stdint.h>

struct hk_next_hop {
	uint8_t mac[6]; /* of the peer, or of the router on the way to it */
	unsigned mtu;   /* bytes of the largest IP packet that the path carries, as far as known */
};

/* Looks up the way from address @from to @to, which must lead over the interface @ifindex, whose
 * MTU is @mtu. Rules by user, mark or port (ip-rule(8)) do not count. Makes system calls. Returns 0
 * or
 *  -EAGAIN       the kernel does not know the MAC address now; it asks for it when it sends itself
 *  -ENETUNREACH  the way is another one, or there is none
 *  another negative errno of netlink */
int hk_next_hop(const union hk_inet_addr *from, const union hk_inet_addr *to, unsigned ifindex,
		unsigned mtu, struct hk_next_hop *hop);

#endif

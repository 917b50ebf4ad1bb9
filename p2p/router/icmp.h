/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/icmp.h: the messages that a router sends about packets it cannot forward: ICMP (RFC 792,
 * RFC 1812 4.3.2) and ICMPv6 (RFC 4443). Pure: a header in, a packet out.
 *
 * A message quotes the packet as far as it was read: 50 bytes of IP, in every mode. That is 20 and
 * 30 of what follows in IPv4, 40 and 10 in IPv6: ports and a TCP sequence number, which is what hosts look at.
 */
#ifndef HK_ROUTER_ICMP_H
#define HK_ROUTER_ICMP_H

#include "p2p/router/header.h"

#define HK_ICMP_QUOTE (HK_HEADER_MAX - HK_ETHER_LEN)
#define HK_ICMP_MAX   (HK_IP6_LEN + 8 + HK_ICMP_QUOTE + 1) /* bytes of IP, and one to sum by pairs */

/* Is there a message for this verdict, and may one be sent about this packet? None about ICMP errors,
 * fragments but the first, packets to groups, and sources that are no single host; none if the header chain
 * of an IPv6 packet hides what it carries. @f: the frame, @avail bytes of it. */
bool hk_icmp_may(enum hk_verdict v, const uint8_t *f, unsigned avail, const struct hk_ip *ip);

/* Writes the IP packet from @source (the router's address) to the sender: its length. @mtu: of the next link, for
 * HK_V_TOO_BIG. */
unsigned hk_icmp_write(uint8_t out[HK_ICMP_MAX], enum hk_verdict v, const uint8_t *f,
		       unsigned avail, const struct hk_ip *ip, const uint8_t *source, unsigned mtu);

/* How many may be sent: a bucket of tokens (RFC 1812 4.3.2.8, RFC 4443 2.4 f). Time is the caller's, in any unit. */
struct hk_icmp_limit {
	uint64_t per_token, last; /* time for one message; when tokens were last counted */
	uint32_t tokens, burst;
};

bool hk_icmp_allowed(struct hk_icmp_limit *l, uint64_t now);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/icmp.h: ICMP messages about packets that the router cannot forward: ICMP (RFC 792,
 * RFC 1812 4.3.2) and ICMPv6 (RFC 4443). Pure: a header in, a packet out.
 *
 * A message quotes the packet as far as it was read: 50 bytes of IP in every mode. In IPv4 that is
 * 20 bytes of header and 30 more, in IPv6 40 and 10. It includes ports and a TCP sequence number;
 * hosts look at nothing else.
 */
#ifndef HK_ROUTER_ICMP_H
#define HK_ROUTER_ICMP_H

#include "devmem/router/header.h"

#define HK_ICMP_QUOTE (HK_HEADER_MAX - HK_ETHER_LEN)
#define HK_ICMP_MAX                                                                                \
	(HK_IP6_LEN + 8 + HK_ICMP_QUOTE + 1) /* bytes of IP, and one for the sum by pairs */

/* Whether result @v has a message, and whether it may be sent about this packet: @avail bytes of
 * frame @f. No message is sent about ICMP errors, fragments except the first, or packets to groups.
 * The source must be the address of a single host. Nor is a message sent if an IPv6 header chain
 * hides the payload's protocol. */
bool hk_icmp_applies(enum hk_router_result v, const uint8_t *f, unsigned avail,
		     const struct hk_ip *ip);

/* Writes the IP packet from @source, the router's address, to the sender. Returns its length. @mtu
 * is the next link's, for HK_RESULT_TOO_BIG. */
unsigned hk_icmp_write(uint8_t out[HK_ICMP_MAX], enum hk_router_result v, const uint8_t *f,
		       unsigned avail, const struct hk_ip *ip, const uint8_t *source, unsigned mtu);

/* Rate limit of messages: a token bucket (RFC 1812 4.3.2.8, RFC 4443 2.4 f). The caller chooses the
 * unit of time. */
struct hk_icmp_limit {
	uint64_t per_token, last; /* time for one message; time of the last count of tokens */
	uint32_t tokens, burst;
};

/* Takes a token; false if there is none. */
bool hk_icmp_limit_take(struct hk_icmp_limit *l, uint64_t now);

#endif

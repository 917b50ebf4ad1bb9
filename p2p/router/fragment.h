/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/fragment.h: IPv4 packets that are too big for a link, cut into fragments (RFC 791 3.2, RFC 1812
 * 4.2.2.7). Pure: it makes the fragments' headers, and says which bytes of the packet each takes; the
 * payload itself is not looked at, and may lie where the CPU should not read.
 *
 * The first fragment has all options, later ones those whose copied flag is set (RFC 791 3.1). A fragment may be
 * cut again; the last of its pieces has its More Fragments flag.
 */
#ifndef HK_ROUTER_FRAGMENT_H
#define HK_ROUTER_FRAGMENT_H

#include "p2p/router/header.h"

#define HK_IP4_DONT       0x4000 /* of hk_ip.fragment: Don't Fragment */
#define HK_IP4_MORE       0x2000 /* More Fragments */
#define HK_IP4_OFFSET     0x1fff /* in units of 8 bytes */
#define HK_IP4_HEADER_MAX 60

struct hk_fragments {
	uint8_t first[HK_IP4_HEADER_MAX],
		later[HK_IP4_HEADER_MAX]; /* headers, all but what differs */
	uint8_t first_len, later_len;
	uint16_t mtu, fragment;         /* the packet's flags and offset */
	unsigned header, payload, done; /* bytes of the packet */
};

/* Begins to cut the packet whose header is at @h (ip->header bytes of it, without error by
 * hk_ip4_read()) for a link of @mtu. HK_V_FORWARD; HK_V_TOO_BIG if no fragment has room for 8 bytes; HK_V_LENGTH if it
 * would reach past what an offset can say. */
enum hk_verdict hk_fragments_begin(struct hk_fragments *s, const uint8_t *h, const struct hk_ip *ip,
				   unsigned mtu);

/* How many there will be. */
unsigned hk_fragments_count(const struct hk_fragments *s);

/* The next fragment's header, with TTL and checksum as sent: its length; 0: there are no more. It is followed by the
 * @len bytes at @at of the packet. */
unsigned hk_fragments_next(struct hk_fragments *s, uint8_t header[HK_IP4_HEADER_MAX], unsigned *at,
			   unsigned *len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/fragment.h: cuts IPv4 packets that are too big for a link into fragments (RFC 791
 * 3.2, RFC 1812 4.2.2.7). Pure: it makes the fragments' headers, and the range of the packet that
 * each fragment takes. It does not read the payload, which may be in memory that the CPU should not
 * read.
 *
 * The first fragment has all options. The others have those whose copied flag is set (RFC 791 3.1).
 * If a fragment is cut again, the last of its pieces has its More Fragments flag.
 */
#ifndef HK_ROUTER_FRAGMENT_H
#define HK_ROUTER_FRAGMENT_H

#include "devmem/router/header.h"

#define HK_IP4_DONT       0x4000 /* bit of hk_ip.fragment: Don't Fragment */
#define HK_IP4_MORE       0x2000 /* bit of hk_ip.fragment: More Fragments */
#define HK_IP4_OFFSET     0x1fff /* mask of the offset, in units of 8 bytes */
#define HK_IP4_HEADER_MAX 60

struct hk_fragments {
	uint8_t first[HK_IP4_HEADER_MAX],
		other[HK_IP4_HEADER_MAX]; /* headers of the first and the other fragments, without
					     the fields that differ */
	uint8_t first_len, other_len;
	uint16_t mtu, fragment; /* `fragment`: the packet's flags and offset */
	unsigned header, payload,
		done; /* bytes of the packet: header, payload, and payload that has been assigned */
};

/* Begins to cut the packet with header @h for a link of @mtu. hk_ip4_read() has accepted the
 * header, and @h has ip->header bytes. Returns HK_RESULT_FORWARD; HK_RESULT_TOO_BIG if a fragment
 * cannot hold 8 bytes; HK_RESULT_LENGTH if the packet would exceed the largest offset. */
enum hk_router_result hk_fragments_begin(struct hk_fragments *s, const uint8_t *h,
					 const struct hk_ip *ip, unsigned mtu);

/* Returns the number of fragments. */
unsigned hk_fragments_count(const struct hk_fragments *s);

/* Writes the next fragment's header, with TTL and checksum as sent. Returns its length, or 0 after
 * the last fragment. The @len bytes at @at of the packet follow the header. */
unsigned hk_fragments_next(struct hk_fragments *s, uint8_t header[HK_IP4_HEADER_MAX], unsigned *at,
			   unsigned *len);

#endif

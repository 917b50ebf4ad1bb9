/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/header.h: what a router reads of a packet, and what it writes.
 *
 * Reading ends after HK_HEADER_MAX bytes of the frame, whatever the packet is: 14 bytes of Ethernet
 * and 40 of IPv6, or 14 and an IPv4 header with up to 28 bytes of options. Every field is read
 * once, so the bytes may lie in memory that somebody else writes. Writing is at most 13 bytes:
 * both MAC addresses, and TTL and checksum, or hop limit. No DPDK, no state.
 *
 * RFC 1812 (IPv4 routers), RFC 8200 (IPv6), RFC 1624 (the checksum's update).
 */
#ifndef HK_ROUTER_HEADER_H
#define HK_ROUTER_HEADER_H

#include "p2p/router/special.h"

#include <string.h>

#define HK_HEADER_MAX 64 /* bytes of a frame that the CPU reads */
#define HK_ETHER_LEN  14
#define HK_IP4_LEN    20
#define HK_IP6_LEN    40
#define HK_FRAME_MIN                                                                               \
	60 /* Ethernet's shortest, without FCS: what follows the packet in it is padding */

/* What becomes of a packet. Each but the first two is a reason of drop, and counted. */
enum hk_verdict {
	HK_V_FORWARD,
	HK_V_KERNEL,        /* for this host: to the kernel, through the tap */
	HK_V_SHORT,         /* too short for its headers */
	HK_V_NOT_OURS,      /* to another station's MAC address */
	HK_V_ETHERTYPE,     /* neither IP nor ARP (a VLAN tag, for one) */
	HK_V_IP_VERSION,    /* the header is of another version than the EtherType */
	HK_V_HEADER_LENGTH, /* IHL below 5 */
	HK_V_LENGTH,   /* the packet says it is longer than its frame, or shorter than its header */
	HK_V_CHECKSUM, /* of the IPv4 header */
	HK_V_OPTIONS_LONG, /* IPv4 options beyond the bytes that are read */
	HK_V_OPTIONS_BAD,  /* options that do not parse */
	HK_V_SOURCE_ROUTE, /* LSRR or SSRR: RFC 7126, 4.3 and 4.4 */
	HK_V_SOURCE,       /* a martian's source */
	HK_V_DESTINATION,  /* a martian's destination */
	HK_V_MULTICAST,    /* not forwarded here */
	HK_V_BROADCAST,    /* directed at a subnet: RFC 2644 */
	HK_V_TTL,          /* expired */
	HK_V_NO_ROUTE,
	HK_V_BLACKHOLE,    /* a route that says drop */
	HK_V_UNREACHABLE,  /* a route that says so */
	HK_V_UNRESOLVED,   /* the next hop's MAC address is not known */
	HK_V_TOO_BIG,      /* for the next link */
	HK_V_NO_KERNEL,    /* for this host, and there is no tap */
	HK_V_KERNEL_FULL,  /* the tap does not keep up */
	HK_V_TX_FULL,      /* the port takes no more */
	HK_V_NO_BUFFER,    /* for its fragments */
	HK_V_HEADER_SPLIT, /* the first segment ends within the header */
	HK_VERDICTS
};

/* Names for people and JSON, and a sentence each. */
const char *hk_verdict_name(enum hk_verdict v);
const char *hk_verdict_text(enum hk_verdict v);

struct hk_ip {
	uint8_t family; /* 4 or 6 */
	uint8_t header; /* bytes of the (first) IP header */
	uint8_t ttl;
	uint8_t protocol;  /* IPv6: next header */
	uint16_t length;   /* of the packet, header included, as it says */
	uint16_t checksum; /* IPv4: as it stands in memory */
	uint16_t fragment; /* IPv4: flags and offset, host order */
	uint8_t src[16], dst[16];
};

static inline uint16_t hk_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t hk_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One's complement sum over @len bytes, an even number, folded; of a header with a right checksum: 0xffff. */
static inline uint16_t hk_sum(const uint8_t *p, unsigned len, uint32_t sum)
{
	for (unsigned i = 0; i + 1 < len; i += 2) {
		uint16_t word;
		memcpy(&word, p + i, 2);
		sum += word;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* The same of an IPv4 header without options, in few instructions. */
static inline uint16_t hk_sum20(const uint8_t *p)
{
	uint64_t a, b;
	uint32_t c;

	memcpy(&a, p, 8);
	memcpy(&b, p + 8, 8);
	memcpy(&c, p + 16, 4);
	uint64_t sum = (a & UINT32_MAX) + (a >> 32) + (b & UINT32_MAX) + (b >> 32) + c;
	sum = (sum & UINT32_MAX) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* IPv4 options: may the packet be forwarded? @h: the IP header, @len bytes of it, all readable. */
enum hk_verdict hk_ip4_options(const uint8_t *h, unsigned len);

/* Reads and checks a packet's header. @f: the frame, of which @avail bytes may be read (at most
 * HK_HEADER_MAX are); @frame: its whole length. Fills @ip unless it returns HK_V_SHORT, _IP_VERSION
 * or _HEADER_LENGTH; the result is HK_V_FORWARD, or a reason of drop. */
static inline __attribute__((always_inline)) enum hk_verdict
hk_ip4_read(const uint8_t *f, unsigned avail, unsigned frame, struct hk_ip *ip)
{
	const uint8_t *h = f + HK_ETHER_LEN;

	if (HK_UNLIKELY(avail < HK_ETHER_LEN + HK_IP4_LEN))
		return HK_V_SHORT;
	uint8_t copy[HK_IP4_LEN]; /* read once; in registers */
	memcpy(copy, h, sizeof(copy));
	if (HK_UNLIKELY(copy[0] >> 4 != 4))
		return HK_V_IP_VERSION;
	unsigned header = (copy[0] & 15u) * 4;
	if (HK_UNLIKELY(header < HK_IP4_LEN))
		return HK_V_HEADER_LENGTH;
	ip->family = 4;
	ip->header = (uint8_t)header;
	ip->length = hk_be16(copy + 2);
	ip->fragment = hk_be16(copy + 6);
	ip->ttl = copy[8];
	ip->protocol = copy[9];
	memcpy(&ip->checksum, copy + 10, 2);
	memcpy(ip->src, copy + 12, 4);
	memcpy(ip->dst, copy + 16, 4);
	if (HK_UNLIKELY(ip->length < header || ip->length + (unsigned)HK_ETHER_LEN > frame))
		return HK_V_LENGTH;
	if (HK_LIKELY(header == HK_IP4_LEN))
		return HK_LIKELY(hk_sum20(copy) == 0xffff) ? HK_V_FORWARD : HK_V_CHECKSUM;
	if (header + HK_ETHER_LEN > HK_MIN(avail, (unsigned)HK_HEADER_MAX))
		return HK_V_OPTIONS_LONG;
	return hk_ip4_options(h, header);
}

static inline __attribute__((always_inline)) enum hk_verdict
hk_ip6_read(const uint8_t *f, unsigned avail, unsigned frame, struct hk_ip *ip)
{
	if (HK_UNLIKELY(avail < HK_ETHER_LEN + HK_IP6_LEN))
		return HK_V_SHORT;
	uint8_t copy[HK_IP6_LEN];
	memcpy(copy, f + HK_ETHER_LEN, sizeof(copy));
	if (HK_UNLIKELY(copy[0] >> 4 != 6))
		return HK_V_IP_VERSION;
	unsigned length = HK_IP6_LEN + (unsigned)hk_be16(copy + 4);
	ip->family = 6;
	ip->header = HK_IP6_LEN;
	ip->length = (uint16_t)HK_MIN(length, (unsigned)UINT16_MAX);
	ip->protocol = copy[6];
	ip->ttl = copy[7];
	ip->fragment = 0;
	memcpy(ip->src, copy + 8, 16);
	memcpy(ip->dst, copy + 24, 16);
	return HK_LIKELY(length + HK_ETHER_LEN <= frame) ? HK_V_FORWARD : HK_V_LENGTH;
}

/* The checksum after the TTL was lowered by one (RFC 1624; both as they stand in memory). */
static inline uint16_t hk_checksum_ttl(uint16_t checksum)
{
	uint32_t c = (uint32_t)checksum + __builtin_bswap16(0x0100);

	return (uint16_t)(c + (c >= 0xffff));
}

/* Writes what a forwarded packet has new: @l2 is destination and source MAC, 12 bytes. */
static inline __attribute__((always_inline)) void hk_ip_rewrite(uint8_t *f, const uint8_t *l2,
								const struct hk_ip *ip)
{
	memcpy(f, l2, 12);
	if (ip->family == 4) {
		uint16_t sum = hk_checksum_ttl(ip->checksum);
		uint8_t word[4] = {(uint8_t)(ip->ttl - 1), ip->protocol};
		memcpy(word + 2, &sum, 2);
		memcpy(f + HK_ETHER_LEN + 8, word, 4); /* one store */
	} else {
		f[HK_ETHER_LEN + 7] = (uint8_t)(ip->ttl - 1);
	}
}

/* Bytes that the frame should have: what the packet says, and Ethernet's padding if it came with it. */
static inline unsigned hk_ip_frame(const struct hk_ip *ip, unsigned frame)
{
	unsigned want = HK_ETHER_LEN + (unsigned)ip->length;

	return want < HK_FRAME_MIN ? HK_MIN(frame, (unsigned)HK_FRAME_MIN) : want;
}

#endif

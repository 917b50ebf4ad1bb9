/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/header.h: reads and rewrites the headers of a packet.
 *
 * The router reads at most the first HK_HEADER_MAX bytes of a frame. These are 14 bytes of Ethernet
 * and 40 of IPv6, or 14 and an IPv4 header with up to 28 bytes of options. It reads every field
 * once, because the bytes may be in memory that others write. It writes at most 16 bytes: both MAC
 * addresses, and TTL and checksum, or the hop limit. No DPDK, no state.
 *
 * RFC 1812 (IPv4 routers), RFC 8200 (IPv6), RFC 1624 (update of the checksum).
 */
#ifndef HK_ROUTER_HEADER_H
#define HK_ROUTER_HEADER_H

#include "devmem/router/special.h"

#include <string.h>

#define HK_HEADER_MAX 64 /* most bytes of a frame that the CPU reads */
#define HK_ETHER_LEN  14
#define HK_IP4_LEN    20
#define HK_IP6_LEN    40
#define HK_FRAME_MIN                                                                               \
	60 /* Ethernet's shortest frame without FCS; bytes after the packet are padding */

/* The result for a packet. Each except the first two is a reason to drop it, and is counted. */
enum hk_router_result {
	HK_RESULT_FORWARD,
	HK_RESULT_KERNEL,        /* for this host: handed to the kernel through the TAP interface */
	HK_RESULT_SHORT,         /* too short for its headers */
	HK_RESULT_NOT_OURS,      /* to another station's MAC address */
	HK_RESULT_ETHERTYPE,     /* neither IP nor ARP, for example a VLAN tag */
	HK_RESULT_IP_VERSION,    /* the header has another IP version than the EtherType */
	HK_RESULT_HEADER_LENGTH, /* IHL below 5 */
	HK_RESULT_LENGTH,       /* the length field exceeds the frame, or is less than the header */
	HK_RESULT_CHECKSUM,     /* wrong IPv4 header checksum */
	HK_RESULT_OPTIONS_LONG, /* IPv4 options beyond the bytes that are read */
	HK_RESULT_OPTIONS_BAD,  /* options that do not parse */
	HK_RESULT_SOURCE_ROUTE, /* LSRR or SSRR: RFC 7126, 4.3 and 4.4 */
	HK_RESULT_SOURCE,       /* the source is a martian address */
	HK_RESULT_DESTINATION,  /* the destination is a martian address */
	HK_RESULT_MULTICAST,    /* multicast is not forwarded */
	HK_RESULT_BROADCAST,    /* broadcast to a subnet: RFC 2644 */
	HK_RESULT_TTL,          /* TTL or hop limit expired */
	HK_RESULT_NO_ROUTE,
	HK_RESULT_BLACKHOLE,    /* the route is `blackhole` */
	HK_RESULT_UNREACHABLE,  /* the route is `unreachable` */
	HK_RESULT_UNRESOLVED,   /* the next hop's MAC address is not known */
	HK_RESULT_TOO_BIG,      /* too big for the next link */
	HK_RESULT_NO_KERNEL,    /* for this host, and there is no TAP interface */
	HK_RESULT_KERNEL_FULL,  /* for this host, and the ring to the control thread is full */
	HK_RESULT_TX_FULL,      /* the port's queue is full */
	HK_RESULT_NO_BUFFER,    /* no buffers for its fragments */
	HK_RESULT_HEADER_SPLIT, /* the first buffer ends within the header */
	HK_RESULTS
};

/* The name of a result in JSON. */
const char *hk_router_result_name(enum hk_router_result v);

struct hk_ip {
	uint8_t family; /* 4 or 6 */
	uint8_t header; /* bytes of the first IP header */
	uint8_t ttl;
	uint8_t protocol;  /* IPv6: next header */
	uint16_t length;   /* bytes of the packet with its header, from the length field */
	uint16_t checksum; /* IPv4: as in memory */
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

/* The folded one's complement sum of @len bytes, an even number. It is 0xffff for a header with a
 * correct checksum. */
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

/* The same for an IPv4 header without options, in few instructions. */
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

/* Checks an IPv4 header with options: @len readable bytes at @h. Returns HK_RESULT_FORWARD or the
 * reason to drop the packet. */
enum hk_router_result hk_ip4_options(const uint8_t *h, unsigned len);

/* Reads and checks the header of the frame @f. @avail bytes of it may be read, of which it reads at
 * most HK_HEADER_MAX; @frame is its full length. Fills @ip, except with the results _SHORT,
 * _IP_VERSION and _HEADER_LENGTH. Returns HK_RESULT_FORWARD or the reason to drop the packet. */
static inline __attribute__((always_inline)) enum hk_router_result
hk_ip4_read(const uint8_t *f, unsigned avail, unsigned frame, struct hk_ip *ip)
{
	const uint8_t *h = f + HK_ETHER_LEN;

	if (HK_UNLIKELY(avail < HK_ETHER_LEN + HK_IP4_LEN))
		return HK_RESULT_SHORT;
	uint8_t copy[HK_IP4_LEN]; /* read once, into registers */
	memcpy(copy, h, sizeof(copy));
	if (HK_UNLIKELY(copy[0] >> 4 != 4))
		return HK_RESULT_IP_VERSION;
	unsigned header = (copy[0] & 15u) * 4;
	if (HK_UNLIKELY(header < HK_IP4_LEN))
		return HK_RESULT_HEADER_LENGTH;
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
		return HK_RESULT_LENGTH;
	if (HK_LIKELY(header == HK_IP4_LEN))
		return HK_LIKELY(hk_sum20(copy) == 0xffff) ? HK_RESULT_FORWARD : HK_RESULT_CHECKSUM;
	if (header + HK_ETHER_LEN > HK_MIN(avail, (unsigned)HK_HEADER_MAX))
		return HK_RESULT_OPTIONS_LONG;
	return hk_ip4_options(h, header);
}

static inline __attribute__((always_inline)) enum hk_router_result
hk_ip6_read(const uint8_t *f, unsigned avail, unsigned frame, struct hk_ip *ip)
{
	if (HK_UNLIKELY(avail < HK_ETHER_LEN + HK_IP6_LEN))
		return HK_RESULT_SHORT;
	uint8_t copy[HK_IP6_LEN];
	memcpy(copy, f + HK_ETHER_LEN, sizeof(copy));
	if (HK_UNLIKELY(copy[0] >> 4 != 6))
		return HK_RESULT_IP_VERSION;
	unsigned length = HK_IP6_LEN + (unsigned)hk_be16(copy + 4);
	ip->family = 6;
	ip->header = HK_IP6_LEN;
	ip->length = (uint16_t)HK_MIN(length, (unsigned)UINT16_MAX);
	ip->protocol = copy[6];
	ip->ttl = copy[7];
	ip->fragment = 0;
	memcpy(ip->src, copy + 8, 16);
	memcpy(ip->dst, copy + 24, 16);
	return HK_LIKELY(length + HK_ETHER_LEN <= frame) ? HK_RESULT_FORWARD : HK_RESULT_LENGTH;
}

/* The checksum after the TTL is decremented (RFC 1624). Both values are as in memory. */
static inline uint16_t hk_checksum_ttl(uint16_t checksum)
{
	uint32_t c = (uint32_t)checksum + __builtin_bswap16(0x0100);

	return (uint16_t)(c + (c >= 0xffff));
}

/* Writes the fields that change in a forwarded packet. @l2 has destination and source MAC address,
 * 12 bytes. */
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

/* The bytes that the frame should have: those of the packet, and Ethernet's padding if it arrived
 * with padding. */
static inline unsigned hk_ip_frame(const struct hk_ip *ip, unsigned frame)
{
	unsigned want = HK_ETHER_LEN + (unsigned)ip->length;

	return want < HK_FRAME_MIN ? HK_MIN(frame, (unsigned)HK_FRAME_MIN) : want;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/icmp.c: ICMP messages.
 */
#include "devmem/router/icmp.h"

#define ICMP4 1
#define ICMP6 58
#define TTL   64

#define MORE_OFFSET 0x1fff /* mask of an IPv4 fragment's offset */
#define DONT        0x4000 /* bit of an IPv4 packet: Don't Fragment */

/* Type and code of a result's message, for IPv4 and IPv6; no message if the IPv4 type is 0. */
static const uint8_t message[HK_RESULTS][4] = {
	[HK_RESULT_TTL] = {11, 0, 3, 0},         /* time exceeded in transit */
	[HK_RESULT_NO_ROUTE] = {3, 0, 1, 0},     /* net unreachable; no route */
	[HK_RESULT_UNREACHABLE] = {3, 13, 1, 1}, /* administratively prohibited */
	[HK_RESULT_TOO_BIG] = {3, 4, 2, 0},      /* fragmentation needed; packet too big */
};

/* RFC 1812 4.3.2.7 */
static bool may4(const uint8_t *f, unsigned avail, const struct hk_ip *ip)
{
	unsigned at = HK_ETHER_LEN + ip->header;

	if (ip->fragment & MORE_OFFSET)
		return false;
	if (ip->protocol != ICMP4)
		return true;
	if (at >= avail)
		return false;
	uint8_t type = f[at];
	return !(type == 3 || type == 4 || type == 5 || type == 11 || type == 12);
}

/* RFC 4443 2.4 (e): walks the extension headers (RFC 8200 4), as far as they were read. */
static bool may6(const uint8_t *f, unsigned avail, const struct hk_ip *ip)
{
	unsigned at = HK_ETHER_LEN + HK_IP6_LEN;
	uint8_t next = ip->protocol;

	for (;;) {
		if (next == ICMP6)
			return at < avail && f[at] >= 128; /* below 128: errors */
		bool options = next == 0 || next == 43 || next == 60;
		if (!options && next != 44)
			return true;
		if (at + 8 > avail)
			return false;
		if (next == 44 && (hk_be16(f + at + 2) & 0xfff8))
			return false; /* not the first fragment */
		next = f[at];
		at += options ? 8 * (f[at + 1] + 1u) : 8;
	}
}

bool hk_icmp_applies(enum hk_router_result v, const uint8_t *f, unsigned avail,
		     const struct hk_ip *ip)
{
	if (!message[v][ip->family == 4 ? 0 : 2])
		return false;
	if (f[0] & 1)
		return false; /* sent to a group of stations */
	/* without DF the packet would have to be cut, and the sender does not discover a path's
	 * MTU */
	if (v == HK_RESULT_TOO_BIG && ip->family == 4 && !(ip->fragment & DONT))
		return false;
	if (!hk_source_ok(ip->family, ip->src))
		return false;
	return ip->family == 4 ? may4(f, avail, ip) : may6(f, avail, ip);
}

static uint8_t *put(uint8_t *p, uint32_t value, unsigned bytes)
{
	while (bytes--)
		*p++ = (uint8_t)(value >> 8 * bytes);
	return p;
}

unsigned hk_icmp_write(uint8_t out[HK_ICMP_MAX], enum hk_router_result v, const uint8_t *f,
		       unsigned avail, const struct hk_ip *ip, const uint8_t *source, unsigned mtu)
{
	bool ip4 = ip->family == 4;
	unsigned header = ip4 ? HK_IP4_LEN : HK_IP6_LEN, address = ip4 ? 4 : 16;
	unsigned quote = HK_MIN(HK_MIN(avail, (unsigned)HK_HEADER_MAX) - HK_ETHER_LEN,
				(unsigned)ip->length);
	unsigned body = 8 + quote;
	uint8_t *icmp = out + header, *p = out;
	uint16_t sum;

	if (ip4) {
		p = put(put(put(p, 0x45c0, 2), header + body, 2), 0,
			4); /* precedence 6: RFC 1812 4.3.2.5 */
		p = put(put(put(p, TTL, 1), ICMP4, 1), 0, 2);
	} else {
		p = put(put(put(put(p, 0x60000000, 4), body, 2), ICMP6, 1), TTL, 1);
	}
	memcpy(p, source, address);
	memcpy(p + address, ip->src, address);
	p = put(icmp, message[v][ip4 ? 0 : 2], 1);
	p = put(p, message[v][ip4 ? 1 : 3], 1);
	put(p, 0, 2);
	put(icmp + 4, v == HK_RESULT_TOO_BIG ? mtu : 0, 4); /* IPv4: RFC 1191, the lower half */
	memcpy(icmp + 8, f + HK_ETHER_LEN, quote);
	icmp[8 + quote] = 0; /* an odd length is summed with a zero byte behind it */
	uint32_t pseudo = 0;
	if (ip4) {
		sum = (uint16_t)~hk_sum(out, header, 0);
		memcpy(out + 10, &sum, 2);
	} else { /* RFC 8200 8.1 */
		uint8_t tail[8];
		put(put(tail, body, 4), ICMP6, 4);
		pseudo = hk_sum(tail, 8, hk_sum(out + 8, 32, 0));
	}
	sum = (uint16_t)~hk_sum(icmp, body + body % 2, pseudo);
	memcpy(icmp + 2, &sum, 2);
	return header + body;
}

bool hk_icmp_limit_take(struct hk_icmp_limit *l, uint64_t now)
{
	uint64_t more = (now - l->last) / l->per_token;

	if (more) {
		l->last += more * l->per_token;
		l->tokens = (uint32_t)HK_MIN((uint64_t)l->burst, l->tokens + more);
	}
	if (!l->tokens)
		return false;
	l->tokens--;
	return true;
}

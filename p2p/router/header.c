/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/header.c: IPv4 options, and the names of verdicts.
 */
#include "p2p/router/header.h"

/* RFC 791, 3.1 */
#define OPTION_END  0
#define OPTION_NOP  1
#define OPTION_LSRR 131
#define OPTION_SSRR 137

enum hk_verdict hk_ip4_options(const uint8_t *h, unsigned len)
{
	uint8_t copy[60];

	memcpy(copy, h, len);
	if (hk_sum(copy, len, 0) != 0xffff)
		return HK_V_CHECKSUM;
	for (unsigned at = HK_IP4_LEN; at < len;) {
		uint8_t type = copy[at];
		if (type == OPTION_END)
			break;
		if (type == OPTION_NOP) {
			at++;
			continue;
		}
		if (at + 1 >= len || copy[at + 1] < 2 || copy[at + 1] > len - at)
			return HK_V_OPTIONS_BAD;
		if (type == OPTION_LSRR || type == OPTION_SSRR)
			return HK_V_SOURCE_ROUTE;
		at += copy[at + 1];
	}
	return HK_V_FORWARD;
}

static const struct {
	const char *name, *text;
} verdicts[HK_VERDICTS] = {
	[HK_V_FORWARD] = {"forwarded", "forwarded"},
	[HK_V_KERNEL] = {"to_kernel", "handed to the kernel"},
	[HK_V_SHORT] = {"short", "too short for its headers"},
	[HK_V_NOT_OURS] = {"not_ours", "to another station's MAC address"},
	[HK_V_ETHERTYPE] = {"ethertype", "neither IP nor ARP"},
	[HK_V_IP_VERSION] = {"ip_version", "another IP version than the EtherType says"},
	[HK_V_HEADER_LENGTH] = {"header_length", "an IPv4 header length below 20"},
	[HK_V_LENGTH] = {"length", "a length that does not fit the frame"},
	[HK_V_CHECKSUM] = {"checksum", "a wrong IPv4 header checksum"},
	[HK_V_OPTIONS_LONG] = {"options_long", "IPv4 options beyond the bytes that are read"},
	[HK_V_OPTIONS_BAD] = {"options_bad", "IPv4 options that do not parse"},
	[HK_V_SOURCE_ROUTE] = {"source_route", "a source route (RFC 7126)"},
	[HK_V_SOURCE] = {"martian_source", "a source that is not forwarded (RFC 6890)"},
	[HK_V_DESTINATION] = {"martian_destination",
			      "a destination that is not forwarded (RFC 6890)"},
	[HK_V_MULTICAST] = {"multicast", "multicast is not forwarded"},
	[HK_V_BROADCAST] = {"broadcast", "broadcast to a subnet (RFC 2644)"},
	[HK_V_TTL] = {"ttl", "TTL or hop limit expired"},
	[HK_V_NO_ROUTE] = {"no_route", "no route"},
	[HK_V_BLACKHOLE] = {"blackhole", "a route that says drop"},
	[HK_V_UNREACHABLE] = {"unreachable", "a route that says unreachable"},
	[HK_V_UNRESOLVED] = {"unresolved", "the next hop's MAC address is not known"},
	[HK_V_TOO_BIG] = {"too_big", "too big for the next link"},
	[HK_V_NO_KERNEL] = {"no_kernel", "for this host, and there is no tap"},
	[HK_V_KERNEL_FULL] = {"kernel_full", "for this host, and the tap does not keep up"},
	[HK_V_TX_FULL] = {"tx_full", "the port takes no more"},
	[HK_V_NO_BUFFER] = {"no_buffer", "no buffers for its fragments"},
	[HK_V_HEADER_SPLIT] = {"header_split", "the header is spread over buffers"},
};

const char *hk_verdict_name(enum hk_verdict v)
{
	return v < HK_VERDICTS ? verdicts[v].name : "?";
}

const char *hk_verdict_text(enum hk_verdict v)
{
	return v < HK_VERDICTS ? verdicts[v].text : "?";
}

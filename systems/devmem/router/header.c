/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/header.c: IPv4 options, and the names of results.
 */
#include "devmem/router/header.h"

/* RFC 791, 3.1 */
#define OPTION_END  0
#define OPTION_NOP  1
#define OPTION_LSRR 131
#define OPTION_SSRR 137

enum hk_router_result hk_ip4_options(const uint8_t *h, unsigned len)
{
	uint8_t copy[60];

	memcpy(copy, h, len);
	if (hk_sum(copy, len, 0) != 0xffff)
		return HK_RESULT_CHECKSUM;
	for (unsigned at = HK_IP4_LEN; at < len;) {
		uint8_t type = copy[at];
		if (type == OPTION_END)
			break;
		if (type == OPTION_NOP) {
			at++;
			continue;
		}
		if (at + 1 >= len || copy[at + 1] < 2 || copy[at + 1] > len - at)
			return HK_RESULT_OPTIONS_BAD;
		if (type == OPTION_LSRR || type == OPTION_SSRR)
			return HK_RESULT_SOURCE_ROUTE;
		at += copy[at + 1];
	}
	return HK_RESULT_FORWARD;
}

static const char *const results[HK_RESULTS] = {
	[HK_RESULT_FORWARD] = "forwarded",
	[HK_RESULT_KERNEL] = "to_kernel",
	[HK_RESULT_SHORT] = "short",
	[HK_RESULT_NOT_OURS] = "not_ours",
	[HK_RESULT_ETHERTYPE] = "ethertype",
	[HK_RESULT_IP_VERSION] = "ip_version",
	[HK_RESULT_HEADER_LENGTH] = "header_length",
	[HK_RESULT_LENGTH] = "length",
	[HK_RESULT_CHECKSUM] = "checksum",
	[HK_RESULT_OPTIONS_LONG] = "options_long",
	[HK_RESULT_OPTIONS_BAD] = "options_bad",
	[HK_RESULT_SOURCE_ROUTE] = "source_route",
	[HK_RESULT_SOURCE] = "martian_source",
	[HK_RESULT_DESTINATION] = "martian_destination",
	[HK_RESULT_MULTICAST] = "multicast",
	[HK_RESULT_BROADCAST] = "broadcast",
	[HK_RESULT_TTL] = "ttl",
	[HK_RESULT_NO_ROUTE] = "no_route",
	[HK_RESULT_BLACKHOLE] = "blackhole",
	[HK_RESULT_UNREACHABLE] = "unreachable",
	[HK_RESULT_UNRESOLVED] = "unresolved",
	[HK_RESULT_TOO_BIG] = "too_big",
	[HK_RESULT_NO_KERNEL] = "no_kernel",
	[HK_RESULT_KERNEL_FULL] = "kernel_full",
	[HK_RESULT_TX_FULL] = "tx_full",
	[HK_RESULT_NO_BUFFER] = "no_buffer",
	[HK_RESULT_HEADER_SPLIT] = "header_split",
};

const char *hk_router_result_name(enum hk_router_result v)
{
	return v < HK_RESULTS ? results[v] : "?";
}

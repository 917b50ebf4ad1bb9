/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/fix.c: see helper/fix.h.
 */
#include "helper/fix.h"
#include "base/inet.h"

#include <net/if.h>
#include <stdio.h>

static bool has_ip(const char *iface)
{
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		union hk_inet_addr at;

		found = strcmp(i->ifa_name, iface) == 0 &&
			(hk_inet_entry(i, AF_INET, &at) || hk_inet_entry(i, AF_INET6, &at));
	}
	freeifaddrs(all);
	return found;
}

const char *hk_fix_or_udp(const char *iface)
{
	static char text[IF_NAMESIZE + 32]; /* the helper has one thread */

	if (!has_ip(iface))
		return "";
	snprintf(text, sizeof(text), ", or use udp:addr=%s", iface);
	return text;
}

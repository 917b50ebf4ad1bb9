/* SPDX-License-Identifier: BSD-3-Clause */
#include "helper/fix.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The port udp does not use link-local addresses of IPv6 (base/inet.h). */
static bool has_ip(const char *iface)
{
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

		if (!i->ifa_addr || strcmp(i->ifa_name, iface) != 0)
			continue;
		found = i->ifa_addr->sa_family == AF_INET ||
			(i->ifa_addr->sa_family == AF_INET6 &&
			 !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
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

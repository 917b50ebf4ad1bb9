/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/inet.c: see base/inet.h.
 */
#include "base/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEAST_MTU 68u /* of IPv4, RFC 791 */

void hk_inet_text(const union hk_inet_addr *at, char *out, size_t size)
{
	unsigned len;
	const void *ip = hk_inet_bytes(&at->any, &len);

	if (!inet_ntop(at->any.sa_family, ip, out, (socklen_t)size))
		snprintf(out, size, "?");
}

static unsigned mtu_of(const char *interface)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned mtu = 0;

	memcpy(request.ifr_name, interface, strnlen(interface, IFNAMSIZ - 1));
	if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		mtu = (unsigned)request.ifr_mtu;
	if (fd >= 0)
		close(fd);
	return mtu;
}

/* Reads @text as an address. */
static bool parse(const char *text, union hk_inet_addr *at)
{
	*at = (union hk_inet_addr){.v6 = {.sin6_family = AF_INET6}};
	if (inet_pton(AF_INET6, text, &at->v6.sin6_addr) == 1)
		return true;
	*at = (union hk_inet_addr){.v4 = {.sin_family = AF_INET}};
	return inet_pton(AF_INET, text, &at->v4.sin_addr) == 1;
}

/* Adds the interfaces to @have that are loopbacks, or that are not, such as "eth0 (10.0.0.1)". */
static void list(const struct ifaddrs *all, int family, bool loopback, char *have, size_t size)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		union hk_inet_addr at;
		char text[INET6_ADDRSTRLEN];
		size_t used = strlen(have);

		if (!hk_inet_entry(i, family, &at) || loopback != !!(i->ifa_flags & IFF_LOOPBACK))
			continue;
		hk_inet_text(&at, text, sizeof(text));
		snprintf(have + used, size - used, "%s%s (%s)", used ? ", " : "", i->ifa_name,
			 text);
	}
}

/* Lists the interfaces that @text may be. A loopback reaches this machine alone, so it is listed if
 * there is nothing else. */
static void list_all(const struct ifaddrs *all, int family, char *have, size_t size)
{
	for (int loopback = 0; loopback < 2 && !have[0]; loopback++) {
		if (family != AF_INET6)
			list(all, AF_INET, loopback, have, size);
		if (family != AF_INET)
			list(all, AF_INET6, loopback, have, size);
	}
	if (!have[0])
		snprintf(have, size, "(none has one)");
}

/* Looks for @text, or for the address @ip. */
static bool find(const struct ifaddrs *all, const char *text, const union hk_inet_addr *ip,
		 int family, struct hk_inet_local *out)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		union hk_inet_addr at;

		if (!hk_inet_entry(i, family, &at))
			continue;
		if (ip ? hk_inet_same(&ip->any, &at.any) : strcmp(text, i->ifa_name) == 0) {
			out->at = at;
			memcpy(out->interface, i->ifa_name,
			       strnlen(i->ifa_name, sizeof(out->interface) - 1));
			out->interface[strcspn(out->interface, ":")] = '\0';
			return true;
		}
	}
	return false;
}

int hk_inet_local(const char *text, int family, struct hk_inet_local *out, struct hk_error *err)
{
	const char *kind = family == AF_INET6 ? "IPv6" : family == AF_INET ? "IPv4" : "IP";
	char have[200] = "";
	struct ifaddrs *all;
	union hk_inet_addr ip;
	bool by_ip = parse(text, &ip), found = false;

	*out = (struct hk_inet_local){0};
	if (getifaddrs(&all) != 0)
		return hk_error_set(err, -errno,
				    "the addresses of this machine cannot be listed: %s",
				    strerror(errno));
	if (family != AF_INET6)
		found = find(all, text, by_ip ? &ip : NULL, AF_INET, out);
	if (!found && family != AF_INET)
		found = find(all, text, by_ip ? &ip : NULL, AF_INET6, out);
	if (!found)
		list_all(all, family, have, sizeof(have));
	freeifaddrs(all);
	if (!found && by_ip)
		return hk_error_set(err, -EADDRNOTAVAIL,
				    "no interface of this machine has the address %s; fix: use one "
				    "of: %s",
				    text, have);
	if (!found)
		return hk_error_set(err, -EADDRNOTAVAIL,
				    "there is no interface '%s' with an %s address; fix: use one "
				    "of: %s",
				    text, kind, have);
	out->mtu = mtu_of(out->interface);
	if (out->mtu < LEAST_MTU)
		return hk_error_set(err, -ENODEV, "the MTU of %s cannot be read", out->interface);
	return 0;
}

void hk_inet_buffers(int fd, int bytes)
{
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

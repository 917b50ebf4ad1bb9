/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/inet.h: the IP address of this machine that a user's text names, and sockets' buffers.
 */
#ifndef HK_BASE_INET_H
#define HK_BASE_INET_H

#include "hikyaku/error.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

/* An address with a port. */
union hk_inet_addr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline socklen_t hk_inet_len(const union hk_inet_addr *at)
{
	return at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
}

/* The bytes of an IPv4 or IPv6 address, and their number. */
static inline const void *hk_inet_bytes(const struct sockaddr *a, unsigned *len)
{
	const void *any = a;

	*len = a->sa_family == AF_INET6 ? 16 : 4;
	return a->sa_family == AF_INET6
		       ? (const void *)&((const struct sockaddr_in6 *)any)->sin6_addr
		       : (const void *)&((const struct sockaddr_in *)any)->sin_addr;
}

/* Whether two addresses of IPv4 or IPv6 are the same, ports aside. */
static inline bool hk_inet_same(const struct sockaddr *a, const struct sockaddr *b)
{
	unsigned a_len, b_len;
	const void *a_bytes = hk_inet_bytes(a, &a_len), *b_bytes = hk_inet_bytes(b, &b_len);

	return a->sa_family == b->sa_family && memcmp(a_bytes, b_bytes, a_len) == 0;
}

struct hk_inet_local {
	union hk_inet_addr at; /* port 0 */
	char interface[16];    /* that has the address, without a label ("eth0:1") */
	unsigned mtu;          /* of the interface, bytes; at least 68 (RFC 791) */
};

/* Resolves @text, an address of this machine or an interface that has one. @family: AF_INET,
 * AF_INET6, or AF_UNSPEC for either, IPv4 first. Link-local addresses of IPv6 do not count.
 * -EADDRNOTAVAIL: there is no such; the error names those that there are. */
int hk_inet_local(const char *text, int family, struct hk_inet_local *out, struct hk_error *err);

/* Takes the address of @i, an entry of getifaddrs(3), if it is of @family. Link-local addresses of
 * IPv6 do not count. Inline for hikyaku-helper, which links nothing of ours. */
static inline bool hk_inet_entry(const struct ifaddrs *i, int family, union hk_inet_addr *at)
{
	*at = (union hk_inet_addr){0};
	if (!i->ifa_addr || i->ifa_addr->sa_family != family)
		return false;
	memcpy(at, i->ifa_addr, family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4));
	return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&at->v6.sin6_addr);
}

/* Asks for socket buffers of @bytes. More than net.core.rmem_max needs cap_net_admin; without it
 * the limit holds. */
void hk_inet_buffers(int fd, int bytes);

/* Writes the address without its port; INET6_ADDRSTRLEN bytes suffice. */
void hk_inet_text(const union hk_inet_addr *at, char *out, size_t size);

#endif

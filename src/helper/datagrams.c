/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/datagrams.c: see helper/datagrams.h.
 */
#include "helper/datagrams.h"
#include "base/inet.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool option_is(int fd, int option, int value)
{
	int is;
	socklen_t len = sizeof(is);

	return getsockopt(fd, SOL_SOCKET, option, &is, &len) == 0 && is == value;
}

static bool cookie(int fd, uint64_t *of)
{
	socklen_t len = sizeof(*of);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, of, &len) == 0;
}

static bool is_of_this_namespace(int fd)
{
	uint64_t here, there;
	int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool same = own >= 0 && cookie(own, &here) && cookie(fd, &there) && here == there;

	if (own >= 0)
		close(own);
	return same;
}

/* Whether @at is an address of @interface, whose name may have a label there ("eth0:1"). */
static bool has_address(const char *interface, const union hk_inet_addr *at)
{
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		size_t name = strcspn(i->ifa_name, ":");

		found = i->ifa_addr && name == strlen(interface) &&
			memcmp(i->ifa_name, interface, name) == 0 &&
			hk_inet_same(i->ifa_addr, &at->any);
	}
	freeifaddrs(all);
	return found;
}

/* Reads the address of a socket that is bound to a port. One that the kernel has chosen goes. */
static bool read_address(int fd, union hk_inet_addr *at)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	socklen_t len = sizeof(*at);

	return connect(fd, &none, sizeof(none)) == 0 && getsockname(fd, &at->any, &len) == 0 &&
	       (at->any.sa_family == AF_INET || at->any.sa_family == AF_INET6);
}

int hk_datagrams_of(int fd, const char *interface, struct hk_xdp_datagrams *what)
{
	union hk_inet_addr at = {0};

	if (fd < 0 || !option_is(fd, SO_TYPE, SOCK_DGRAM) ||
	    !option_is(fd, SO_PROTOCOL, IPPROTO_UDP) || !is_of_this_namespace(fd))
		return -EINVAL;
	if (!option_is(fd, SO_BINDTOIFINDEX, 0) &&
	    !option_is(fd, SO_BINDTOIFINDEX, (int)if_nametoindex(interface)))
		return -EINVAL;
	if (!read_address(fd, &at) || !has_address(interface, &at))
		return -EINVAL;
	if (at.any.sa_family == AF_INET) {
		what->port = at.v4.sin_port;
		what->address[10] = what->address[11] = 0xff; /* RFC 4291, 2.5.5.2 */
		memcpy(what->address + 12, &at.v4.sin_addr, 4);
	} else {
		what->port = at.v6.sin6_port;
		memcpy(what->address, &at.v6.sin6_addr, 16);
	}
	return what->port ? 0 : -EINVAL;
}

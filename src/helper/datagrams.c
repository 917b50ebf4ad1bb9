/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/datagrams.c: see helper/datagrams.h.
 */
#include "helper/datagrams.h"
#include "base/inet.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int hk_datagrams_of(int fd, struct hk_xdp_datagrams *what)
{
	int type = 0, protocol = 0;
	uint64_t here = 0, there = 1;
	union hk_inet_addr at = {0};
	socklen_t type_len = sizeof(type), protocol_len = sizeof(protocol), at_len = sizeof(at);
	socklen_t here_len = sizeof(here), there_len = sizeof(there);
	int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool right = own >= 0 && fd >= 0 &&
		     getsockopt(own, SOL_SOCKET, SO_NETNS_COOKIE, &here, &here_len) == 0 &&
		     getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &there, &there_len) == 0 &&
		     here == there && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) == 0 &&
		     getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_len) == 0 &&
		     type == SOCK_DGRAM && protocol == IPPROTO_UDP &&
		     getsockname(fd, &at.any, &at_len) == 0;

	if (own >= 0)
		close(own);
	if (right && at.any.sa_family == AF_INET) {
		what->port = at.v4.sin_port;
		what->address[10] = what->address[11] = 0xff; /* RFC 4291, 2.5.5.2 */
		memcpy(what->address + 12, &at.v4.sin_addr, 4);
		return at.v4.sin_port && at.v4.sin_addr.s_addr ? 0 : -EINVAL;
	}
	if (right && at.any.sa_family == AF_INET6) {
		what->port = at.v6.sin6_port;
		memcpy(what->address, &at.v6.sin6_addr, 16);
		return at.v6.sin6_port && !IN6_IS_ADDR_UNSPECIFIED(&at.v6.sin6_addr) ? 0 : -EINVAL;
	}
	return -EINVAL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/unix_socket.h: whether a process has a Unix socket (unix(7)).
 */
#ifndef HK_BASE_UNIX_SOCKET_H
#define HK_BASE_UNIX_SOCKET_H

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Returns whether no process has the socket @at, of any type, although its file may be left. False
 * also if that cannot be found out. */
static inline bool hk_unix_socket_is_dead(const struct sockaddr_un *at, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* a live socket of another type answers EPROTOTYPE */
	bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)at, len) != 0 &&
		    errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return dead;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/descriptors.h: descriptors that come with a message of a unix socket (unix(7), SCM_RIGHTS).
 */
#ifndef HK_BASE_DESCRIPTORS_H
#define HK_BASE_DESCRIPTORS_H

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HK_DESCRIPTORS 3u /* in one message */

/* The control part of a message with descriptors. */
union hk_descriptors {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(HK_DESCRIPTORS * sizeof(int))];
};

/* Adds the @n descriptors at @fd to the message @m, by @control. */
static inline void hk_descriptors_add(struct msghdr *m, union hk_descriptors *control,
				      const int *fd, unsigned n)
{
	*control = (union hk_descriptors){0};
	m->msg_control = control;
	m->msg_controllen = CMSG_SPACE(n * sizeof(*fd));
	*CMSG_FIRSTHDR(m) = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					     .cmsg_type = SCM_RIGHTS,
					     .cmsg_len = CMSG_LEN(n * sizeof(*fd))};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(m)), fd, n * sizeof(*fd));
}

/* Takes the first @max descriptors of the received message @m to @fd, and closes the others.
 * Returns how many it took. */
static inline unsigned hk_descriptors_take(struct msghdr *m, int *fd, unsigned max)
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count; i++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(got), sizeof(got));
			if (n < max)
				fd[n++] = got;
			else
				close(got);
		}
	}
	return n;
}

#endif

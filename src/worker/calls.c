/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/calls.c: see calls.h.
 */
#include "worker/calls.h"

#include "port/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct hk_calls {
	char set[HK_PORT_SPEC_MAX];
	uint32_t key;
	size_t len;
	int fd;
	struct sockaddr_un own;
};

static int address_of(const char *set, uint32_t key, uint32_t endpoint, struct sockaddr_un *at,
		      struct hk_error *err)
{
	at->sun_family = AF_UNIX;
	return hk_port_wire_call_path(set, key, endpoint, at->sun_path, sizeof(at->sun_path), err);
}

int hk_calls_open(const char *set_spec, uint32_t key, uint32_t endpoint, size_t len,
		  struct hk_calls **out, struct hk_error *err)
{
	struct hk_calls *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return hk_error_set(err, -ENOMEM, "no memory");
	snprintf(c->set, sizeof(c->set), "%s", set_spec);
	c->key = key;
	c->len = len;
	c->fd = -1;
	int rc = address_of(c->set, key, endpoint, &c->own, err);
	if (rc == 0) {
		c->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		/* the mode of the socket is that of its file */
		if (c->fd < 0 || fchmod(c->fd, 0600) != 0 ||
		    bind(c->fd, (struct sockaddr *)&c->own, sizeof(c->own)) != 0) {
			rc = hk_error_set(err, -errno, "the socket %s cannot be opened: %s",
					  c->own.sun_path, strerror(errno));
			c->own.sun_path[0] = '\0'; /* it is not ours */
		}
	}
	if (rc)
		hk_calls_close(c);
	else
		*out = c;
	return rc;
}

int hk_calls_send(const struct hk_calls *c, uint32_t endpoint, const void *call)
{
	struct sockaddr_un to;
	int rc = address_of(c->set, c->key, endpoint, &to, NULL);

	if (rc)
		return rc;
	if (sendto(c->fd, call, c->len, 0, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)c->len)
		return 0;
	/* it has not opened its socket, has ended, or has too many calls */
	return errno == ENOENT || errno == ECONNREFUSED || errno == ENOBUFS ? -EAGAIN : -errno;
}

bool hk_calls_reaches(const struct hk_calls *c, uint32_t endpoint)
{
	struct sockaddr_un to;

	return address_of(c->set, c->key, endpoint, &to, NULL) == 0 &&
	       access(to.sun_path, F_OK) == 0;
}

bool hk_calls_next(const struct hk_calls *c, void *call)
{
	ssize_t n;

	/* with MSG_TRUNC it is the length of the whole call */
	do
		n = recv(c->fd, call, c->len, MSG_TRUNC);
	while (n >= 0 && (size_t)n != c->len);
	return n >= 0;
}

void hk_calls_close(struct hk_calls *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	if (c->own.sun_path[0])
		unlink(c->own.sun_path);
	free(c);
}

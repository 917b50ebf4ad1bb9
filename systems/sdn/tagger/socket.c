/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/socket.c: requests and replies on hk-tagger's socket.
 */
#include "sdn/tagger/socket.h"
#include "base/descriptors.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int hk_tagger_connect(const char *path, struct hk_error *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(addr.sun_path))
		return hk_error_set(
			err, -ENAMETOOLONG,
			"the path %s is too long for a socket; fix: set HIKYAKU_RUNDIR to "
			"a shorter directory",
			path);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return hk_error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
		int rc = hk_error_set(
			err, -errno,
			"no hk-tagger answers at %s: %s; fix: start the job by `hikyaku tag run`",
			path, strerror(errno));
		close(sock);
		return rc;
	}
	return sock;
}

int hk_tagger_reply_send(int sock, const struct hk_tagger_reply *reply, int fd)
{
	union hk_descriptors control;
	struct iovec iov = {.iov_base = (void *)reply, .iov_len = sizeof(*reply)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0)
		hk_descriptors_add(&msg, &control, &fd, 1);
	/* the socket's buffer always holds one reply; a client that does not read it loses it */
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int receive(int sock, struct hk_tagger_reply *reply, int *fd)
{
	union hk_descriptors control;
	struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);

	*fd = -1;
	if (n < 0)
		return -errno;
	(void)hk_descriptors_take(&msg, fd, 1);
	if (n == 0)
		return -ECONNRESET;
	return n == sizeof(*reply) && reply->magic == HK_TAGGER_MAGIC ? 0 : -EPROTO;
}

int hk_tagger_call(int sock, const struct hk_tagger_request *request, int timeout_ms,
		   struct hk_tagger_reply *reply, int *fd, struct hk_error *err)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int rc = 0, n;

	*fd = -1;
	if (send(sock, request, sizeof(*request), MSG_NOSIGNAL) < 0)
		return hk_error_set(
			err, -errno,
			"hk-tagger closed the connection: %s; fix: check whether it was killed",
			strerror(errno));
	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return hk_error_set(err, -ETIMEDOUT,
				    "hk-tagger did not answer within %d ms; fix: check that the "
				    "node is not overloaded",
				    timeout_ms);
	rc = n < 0 ? -errno : receive(sock, reply, fd);
	if (rc == 0 && reply->status == 0)
		return 0;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	if (rc)
		return hk_error_set(err, rc,
				    "cannot read hk-tagger's reply: %s; fix: install the same "
				    "build of hk-tagger and libhk_tag.so",
				    strerror(-rc));
	reply->text[sizeof(reply->text) - 1] = '\0';
	return hk_error_set(err, reply->status < 0 ? reply->status : -EPROTO, "%s", reply->text);
}

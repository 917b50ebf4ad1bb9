/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/lines.c: see lines.h. */
#include "tests/support/hk_test.h"
#include "tests/support/lines.h"

#include <poll.h>
#include <sys/socket.h>

#define LINE 1024

void line_send_to(const char *who, int fd, const char *fmt, ...)
{
	char line[LINE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	CHECK_MSG(send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line),
		  "%s does not receive '%s'", who, line);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

bool line_arrived(int fd)
{
	return readable(fd, 0);
}

bool line_receive(int fd, int ms, char *line, size_t len)
{
	if (!readable(fd, ms))
		return false;
	ssize_t n = recv(fd, line, len - 1, 0);

	CHECK_MSG(n > 0, "the other process has ended");
	line[n] = '\0';
	return true;
}

const char *line_expect_from(const char *who, int fd, int ms, const char *want)
{
	static char line[LINE];

	CHECK_MSG(readable(fd, ms), "%s did not send '%s' within %d ms", who, want, ms);
	ssize_t n = recv(fd, line, sizeof(line) - 1, 0);

	CHECK_MSG(n > 0, "%s ended, and did not send '%s'", who, want);
	line[n] = '\0';
	CHECK_MSG(strncmp(line, want, strlen(want)) == 0, "%s sent '%s', not '%s'", who, line,
		  want);
	return line + strlen(want);
}

long send_with(int fd, const void *bytes, size_t len, int passed, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec v = {(void *)(uintptr_t)bytes, len};
	struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};

	if (passed >= 0) {
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
		*CMSG_FIRSTHDR(&h) = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET,
						      SCM_RIGHTS};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &passed, sizeof(int));
	}
	return sendmsg(fd, &h, flags);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/source.c: finds processes, gives them a ring, and detects their end.
 */
#include "capture/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#define ANSWER_MS 2000
#define STOP_MS   1000
#define LISTENS   0x10000 /* flag in /proc/net/unix */

/* Parses a line of /proc/net/unix: Num RefCount Protocol Flags Type St Inode Path. */
static bool parse(char *line, struct hk_source_name *at)
{
	const size_t prefix = strlen(HK_TAP_NAME);
	unsigned flags;
	int path = 0, used = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%*s %*x %*x %x %*x %*x %*u %n", &flags, &path) != 1 || !path ||
	    !(flags & LISTENS) || strlen(line + path) > sizeof(at->name) ||
	    strncmp(line + path, "@" HK_TAP_NAME, 1 + prefix) != 0)
		return false;
	*at = (struct hk_source_name){.pid = 0};
	strcpy(at->name, line + path + 1);
	const char *rest = at->name + prefix;

	if (sscanf(rest, "%9d%n", &at->pid, &used) != 1 || at->pid <= 0)
		return false;
	rest += used;
	if (*rest == '/' && strlen(rest) <= sizeof(at->shared))
		strcpy(at->shared, rest + 1);
	return *rest == '\0' || at->shared[0];
}

unsigned hk_source_list(struct hk_source_name *at, unsigned max)
{
	FILE *f = fopen("/proc/self/net/unix", "re");
	char line[512];
	unsigned n = 0;

	while (f && n < max && fgets(line, sizeof(line), f))
		n += parse(line, &at[n]);
	if (f)
		fclose(f);
	return n;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int connect_to(struct hk_source *s, struct hk_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(s->at.name);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	struct ucred peer;
	socklen_t peer_len = sizeof(peer);

	memcpy(a.sun_path + 1, s->at.name, n);
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return hk_error_set(err, -errno, "no socket: %s", strerror(errno));
	if (connect(s->fd, (struct sockaddr *)&a, len) != 0)
		return hk_error_set(err, errno == ECONNREFUSED ? -ENOENT : -errno,
				    "process %d does not answer: %s", s->at.pid, strerror(errno));
	if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) != 0)
		return hk_error_set(err, -errno, "process %d: %s", s->at.pid, strerror(errno));
	s->uid = peer.uid;
	if (peer.pid != s->at.pid) /* any process may use any name */
		return hk_error_set(err, -EPERM, "process %d listens in the name of process %d",
				    peer.pid, s->at.pid);
	if (peer.uid != geteuid() && geteuid() != 0)
		return hk_error_set(
			err, -EPERM,
			"process %d belongs to user %u; fix: capture as that user, or as root",
			s->at.pid, peer.uid);
	return 0;
}

static int make_ring(struct hk_source *s, const struct hk_source_config *cfg, int *ring_fd,
		     struct hk_error *err)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	size_t bytes = sizeof(struct hk_tap_ring) + cfg->size;
	void *map = MAP_FAILED;

	*ring_fd = memfd_create("hikyaku-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*ring_fd >= 0 && ftruncate(*ring_fd, (off_t)bytes) == 0 &&
	    fcntl(*ring_fd, F_ADD_SEALS, seals) == 0)
		map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ring_fd, 0);
	if (map == MAP_FAILED)
		return hk_error_set(err, -errno,
				    "no ring of %" PRIu64
				    " MB for process %d: %s; fix: use a smaller --buffer",
				    cfg->size >> 20, s->at.pid, strerror(errno));
	s->mapped = bytes;
	hk_reader_init(&s->reader, map, cfg->size, cfg->snaplen);
	return 0;
}

static int send_start(struct hk_source *s, const struct hk_source_config *cfg, int ring_fd)
{
	struct hk_tap_msg m = {.magic = HK_TAP_MAGIC,
			       .version = HK_TAP_VERSION,
			       .type = HK_TAP_START,
			       .snaplen = cfg->snaplen,
			       .flags = cfg->pipes ? HK_TAP_F_PIPES : 0,
			       .size = cfg->size};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ring_fd, sizeof(int));
	return sendmsg(s->fd, &msg, MSG_NOSIGNAL) == sizeof(m) ? 0 : -errno;
}

/* Receives a message. Returns 1; 0 at the end of the connection; or -ETIMEDOUT. */
static int receive(const struct hk_source *s, struct hk_tap_msg *m, int timeout_ms)
{
	int64_t end = hk_clock_ms() + timeout_ms;

	for (;;) {
		ssize_t n = recv(s->fd, m, sizeof(*m), 0);

		if (n == (ssize_t)sizeof(*m) && m->magic == HK_TAP_MAGIC)
			return 1;
		/* it closed before it read all our messages: reported once, its own messages follow
		 */
		if (n < 0 && errno == ECONNRESET)
			continue;
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return 0;
		struct pollfd p = {.fd = s->fd, .events = POLLIN};
		int64_t left = end - hk_clock_ms();

		if (left <= 0 || (poll(&p, 1, (int)left) == 0))
			return -ETIMEDOUT;
	}
}

static int answer(struct hk_source *s, struct hk_error *err)
{
	struct hk_tap_msg m;
	int rc = receive(s, &m, ANSWER_MS);

	if (rc == -ETIMEDOUT)
		return hk_error_set(err, rc,
				    "process %d has not answered for %d ms; fix: check whether it "
				    "is stopped",
				    s->at.pid, ANSWER_MS);
	if (rc == 0)
		return hk_error_set(err, -ENOENT, "process %d has ended", s->at.pid);
	hk_text_copy(s->who, m.text, sizeof(s->who));
	if (m.type != HK_TAP_STARTED || m.version != HK_TAP_VERSION)
		return hk_error_set(err, -EBUSY, "process %d cannot be captured: %s", s->at.pid,
				    s->who);
	return 0;
}

int hk_source_open(const struct hk_source_name *at, const struct hk_source_config *cfg,
		   struct hk_source **source, struct hk_error *err)
{
	struct hk_source *s = calloc(1, sizeof(*s));
	int ring_fd = -1;

	*source = NULL;
	if (!s)
		return hk_error_set(err, -ENOMEM, "no memory");
	s->at = *at;
	s->fd = -1;
	int rc = connect_to(s, err);

	if (rc == 0)
		rc = make_ring(s, cfg, &ring_fd, err);
	if (rc == 0) {
		int sent = send_start(s, cfg, ring_fd);

		rc = answer(s, err); /* it may have refused before the start message */
		if (rc == -ENOENT && sent)
			(void)hk_error_set(err, rc, "process %d: %s", at->pid, strerror(-sent));
	}
	if (ring_fd >= 0)
		close(ring_fd);
	if (rc)
		hk_source_close(s);
	else
		*source = s;
	return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

bool hk_source_ended(struct hk_source *s)
{
	struct hk_tap_msg m;
	int rc;

	while (s->fd >= 0 && (rc = receive(s, &m, 0)) != -ETIMEDOUT) {
		s->said_end |= rc == 1 && m.type == HK_TAP_END;
		if (rc == 0) {
			close(s->fd);
			s->fd = -1;
		}
	}
	return s->fd < 0;
}

void hk_source_stop(struct hk_source *s)
{
	struct hk_tap_msg m;

	if (s->fd < 0)
		return;
	shutdown(s->fd, SHUT_WR);
	while (receive(s, &m, STOP_MS) == 1)
		;
}

void hk_source_close(struct hk_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->mapped)
		munmap(s->reader.ring, s->mapped);
	free(s);
}

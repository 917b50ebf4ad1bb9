/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap_server.c: the tap's thread. It starts and ends captures, and sends counters. tap_ring.h
 * has the protocol.
 *
 * The thread sleeps in poll(2) until a process connects. There is one capture at a time; the
 * refusal of a second one names the process that captures.
 */
#include "port/tap.h"
#include "base/thread.h"
#include "base/descriptors.h"
#include "port/tap_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define START_MS 1000 /* limit for the first message of a connection */
#define PAUSE_MS 100  /* pause after a connection could not be accepted */

static struct {
	bool open;
	pthread_t thread;
	int listen_fd, wake_fd;
	int peer_fd; /* connection of the capture; -1: none */
	pid_t peer;
	void *map;
	size_t mapped;
	char who[sizeof(((struct hk_tap_msg *)0)->text)];
} server = {.listen_fd = -1, .wake_fd = -1, .peer_fd = -1};

/* ---- start and end of a capture ------------------------------------------------------------- */

static void send_reply(int fd, enum hk_tap_type type, const char *text)
{
	struct hk_tap_msg m = {.magic = HK_TAP_MAGIC, .version = HK_TAP_VERSION, .type = type};

	snprintf(m.text, sizeof(m.text), "%s", text);
	(void)send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void stop(void)
{
	if (server.peer_fd < 0)
		return;
	hk_tap_detach();
	munmap(server.map, server.mapped);
	close(server.peer_fd); /* last, because it tells the reader that the ring is final */
	server.peer_fd = -1;
}

/* Maps the ring that came with START. NULL with the reason in @why. */
static void *map_ring(const struct hk_tap_msg *m, int fd, size_t *bytes, const char **why)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	void *map;

	*bytes = sizeof(struct hk_tap_ring) + m->size;
	*why = "the ring is not a memfd that is sealed against shrinking and has the given size";
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0 ||
	    (uint64_t)st.st_size != *bytes)
		return NULL;
	/* populate the pages now, because threads that move frames must not have page faults */
	map = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	*why = "the ring cannot be mapped";
	return map == MAP_FAILED ? NULL : map;
}

static const char *start(int fd, const struct hk_tap_msg *m, int ring_fd)
{
	const char *why = "";

	if (m->magic != HK_TAP_MAGIC || m->version != HK_TAP_VERSION)
		return "it has another protocol version; fix: use the hikyaku command of the same "
		       "release";
	if (m->type != HK_TAP_START || ring_fd < 0 || m->snaplen < 1 ||
	    m->snaplen > HK_TAP_SNAPLEN_MAX || m->flags & ~HK_TAP_F_PIPES ||
	    m->size < HK_TAP_SIZE_MIN || m->size > HK_TAP_SIZE_MAX || m->size & (m->size - 1))
		return "the request is invalid";
	server.map = map_ring(m, ring_fd, &server.mapped, &why);
	if (!server.map)
		return why;
	hk_tap_attach(server.map, m->size, m->snaplen, m->flags);
	server.peer_fd = fd;
	return NULL;
}

/* ---- counters ------------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	size_t (*write)(char *text, size_t size);
} stats = {.lock = PTHREAD_MUTEX_INITIALIZER};

void hk_tap_stats(size_t (*write)(char *text, size_t size))
{
	pthread_mutex_lock(&stats.lock);
	stats.write = write;
	pthread_mutex_unlock(&stats.lock);
}

static void send_stats(int fd)
{
	struct hk_tap_msg m = {
		.magic = HK_TAP_MAGIC, .version = HK_TAP_VERSION, .type = HK_TAP_STATS};
	char text[HK_TAP_STATS_MAX];

	pthread_mutex_lock(&stats.lock);
	m.size = stats.write ? stats.write(text, sizeof(text)) : 0;
	pthread_mutex_unlock(&stats.lock);
	if (m.size == 0 || m.size > sizeof(text)) {
		send_reply(fd, HK_TAP_REFUSED,
			   "it has no counters of its own; fix: ask its hikyakud");
		return;
	}
	if (send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(m))
		(void)send(fd, text, m.size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- connections ---------------------------------------------------------------------------- */

/* Receives a message and the descriptor that comes with it (-1: none). False if it is not a whole
 * message. */
static bool receive(int fd, struct hk_tap_msg *m, int *passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	*passed = -1;
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n >= 0)
		(void)hk_descriptors_take(&msg, passed, 1);
	return n == (ssize_t)sizeof(*m);
}

/* Waits for the first message of a connection. False if START_MS have passed or the tap closes. */
static bool wait_for_request(int fd)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
			      {.fd = server.wake_fd, .events = POLLIN}};

	return poll(p, 2, START_MS) > 0 && p[0].revents && !p[1].revents;
}

static bool asks_for_stats(const struct hk_tap_msg *m)
{
	return m->magic == HK_TAP_MAGIC && m->version == HK_TAP_VERSION && m->type == HK_TAP_STATS;
}

static void connection(int fd)
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	struct hk_tap_msg m;
	char text[96];
	int ring_fd = -1;
	const char *why;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 ||
	    (peer.uid != geteuid() && peer.uid != 0)) {
		snprintf(text, sizeof(text),
			 "it belongs to user %u; fix: capture as that user, or as root", geteuid());
		send_reply(fd, HK_TAP_REFUSED, text);
		close(fd);
		return;
	}
	if (!wait_for_request(fd) || !receive(fd, &m, &ring_fd)) {
		why = "no request came in time";
	} else if (asks_for_stats(&m)) {
		if (ring_fd >= 0)
			close(ring_fd);
		send_stats(fd);
		close(fd);
		return;
	} else if (server.peer_fd >= 0) {
		snprintf(text, sizeof(text), "process %d captures it already; fix: end that one",
			 server.peer);
		why = text;
	} else {
		why = start(fd, &m, ring_fd);
	}
	if (ring_fd >= 0)
		close(ring_fd);
	send_reply(fd, why ? HK_TAP_REFUSED : HK_TAP_STARTED, why ? why : server.who);
	if (why)
		close(fd);
	else
		server.peer = peer.pid;
}

static void *serve(void *arg)
{
	struct pollfd p[3] = {{.events = POLLIN}, {.events = POLLIN}, {.events = POLLIN}};
	int pause = -1;

	(void)arg;
	for (;;) {
		p[0].fd = server.wake_fd;
		p[1].fd = server.peer_fd; /* poll() ignores -1 */
		p[2].fd = pause < 0 ? server.listen_fd : -1;
		if (poll(p, 3, pause) < 0 && errno != EINTR)
			break;
		pause = -1;
		if (p[0].revents)
			break;
		if (p[1].fd >= 0 && p[1].revents)
			stop(); /* the capture has closed its connection, or wants to end */
		if (p[2].fd < 0 || !p[2].revents)
			continue;
		int fd = accept4(server.listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			connection(fd);
		else
			pause = PAUSE_MS; /* poll() would return at once, for example while no
					     descriptor is free */
	}
	if (server.peer_fd >= 0)
		send_reply(server.peer_fd, HK_TAP_END, "");
	stop();
	return NULL;
}

/* ---- open and close ------------------------------------------------------------------------- */

static int open_socket(const char *shared)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, HK_TAP_NAME "%d%s%.64s", getpid(),
			 shared ? "/" : "", shared ? shared : "");
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);

	server.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	server.wake_fd = eventfd(0, EFD_CLOEXEC);
	if (server.listen_fd < 0 || server.wake_fd < 0 ||
	    bind(server.listen_fd, (struct sockaddr *)&a, len) != 0 ||
	    listen(server.listen_fd, 16) != 0)
		return -errno;
	return 0;
}

static void close_fds(void)
{
	if (server.listen_fd >= 0)
		close(server.listen_fd);
	if (server.wake_fd >= 0)
		close(server.wake_fd);
	server.listen_fd = server.wake_fd = -1;
}

int hk_tap_open(const char *who, const char *shared, struct hk_error *err)
{
	if (server.open)
		return 0;
	snprintf(server.who, sizeof(server.who), "%s", who);
	int rc = open_socket(shared);

	if (rc == 0)
		rc = hk_thread_start(&server.thread, "hk-tap", serve, NULL);
	if (rc) {
		close_fds();
		return hk_error_set(
			err, rc, "nobody can capture the frames of process %d: %s; fix: %s",
			getpid(), strerror(-rc),
			rc == -EADDRINUSE
				? "find with `ss -xlp` the process that has its socket's name"
				: "raise `ulimit -n` and `ulimit -u`");
	}
	server.open = true;
	return 0;
}

void hk_tap_close(void)
{
	const uint64_t one = 1;

	if (!server.open)
		return;
	while (write(server.wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(server.thread, NULL);
	close_fds();
	server.open = false;
}

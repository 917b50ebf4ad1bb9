/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/memif_guard.c: keeps the death of a memif's peer from crashing this process.
 *
 * DESIGN NOTES
 *
 * Problem: DPDK's memif driver watches the control socket in EAL's interrupt thread. When the peer
 * leaves or is killed, that thread unmaps the rings at once, even if another thread is inside rx or
 * tx. A rank polls all the time. So sooner or later it would access an unmapped ring in the middle
 * of a burst, above all when both threads share a core. It would end with SIGSEGV because another
 * process ended.
 *
 * Approach: once the wire is up, the messages on the control socket no longer matter; only its end
 * does. So the guard moves the real socket to another descriptor number. At the old number it puts
 * one end of a quiet socket pair and holds the other end. The driver and its interrupt thread get
 * no events from then on, and the rings stay mapped until hk_port_close(). A dead peer shows in two
 * ways: its ring stays full, so that tx refuses frames, and hk_memif_guard_alive(), which tests the
 * real socket, returns false.
 *
 * The real socket then serves as the wire's wakeup (port/wakeup.h). Secondaries have it too, so it
 * does not close when the process at the other end dies while its secondaries are alive. The guard
 * of a primary therefore also watches that process, by a pidfd.
 *
 * A callback makes the exchange inside the interrupt thread, so that it cannot happen in the middle
 * of the driver's handshake. epoll identifies open files, not descriptor numbers, so EAL must build
 * its set again. It does so whenever a callback is registered or unregistered. A second callback
 * proves that it has happened.
 *
 * Signals may arrive all the while, since the other end may have its guard already. The driver
 * reads them until the exchange, and ignores them (struct hk_wire_signal). After it, EAL still
 * hands events of the real socket to the driver. The driver then reads the quiet one, and would end
 * the wire if that were empty. So the callback unregisters itself, and EAL builds its set again as
 * its next step. Until then it hands on two events of the real socket at most. One may come
 * together with the callback's event, and one with the request to build the set. The quiet socket
 * has a message for each.
 *
 * Rejected: a lock against the unmapping. The driver has no lock or callback for its users, and its
 * structures are private.
 */
/* rte_intr_instance_alloc() and its family are experimental in 22.11, and stable since. */
#define ALLOW_EXPERIMENTAL_API
#include "port/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <rte_interrupts.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define CALLBACK_WAIT_MS 5000 /* the interrupt thread needs microseconds unless it hangs */
#define LATE_EVENTS      2    /* of the real socket, after the exchange */

struct hk_memif_guard {
	int real;  /* the control socket */
	int quiet; /* our end of the socket pair that replaces it */
	int pidfd; /* of the process at the other end; -1: unknown */
	char path[108];
	bool server;
	int error; /* errno of the exchange */
	int done;  /* bool, atomic: the interrupt thread has run the callback */
};

/* ---- running a function in the interrupt thread ---------------------------------------------- */

struct call {
	struct hk_memif_guard *guard;
	void (*fn)(struct hk_memif_guard *);
	struct rte_intr_handle *ih;
	int fd;
};

static void on_event(void *arg)
{
	struct call *c = arg;
	uint64_t n;
	if (read(c->fd, &n, sizeof(n)) != sizeof(n))
		return; /* the callback has run before */
	if (c->fn)
		c->fn(c->guard);
	(void)rte_intr_callback_unregister_pending(c->ih, on_event, c, NULL);
	__atomic_store_n(&c->guard->done, 1, __ATOMIC_RELEASE);
}

/* Sleeps: among many processes that only yield, the interrupt thread would wait for seconds until
 * the scheduler comes round to it. */
static void leave_core(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* Makes the interrupt thread rebuild its set of descriptors and then run @fn, which may be NULL. */
static int in_interrupt_thread(struct hk_memif_guard *g, void (*fn)(struct hk_memif_guard *))
{
	struct rte_intr_handle *ih = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	struct call c = {g, fn, ih, eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)};
	int64_t deadline = hk_clock_ms() + CALLBACK_WAIT_MS;
	int rc = -ENOMEM;

	if (c.fd < 0 || !ih)
		goto out;
	__atomic_store_n(&g->done, 0, __ATOMIC_RELEASE);
	rte_intr_fd_set(ih, c.fd);
	rte_intr_type_set(ih, RTE_INTR_HANDLE_EXT);
	rc = rte_intr_callback_register(ih, on_event, &c);
	if (rc < 0)
		goto out;
	rc = 0;
	while (!__atomic_load_n(&g->done, __ATOMIC_ACQUIRE)) {
		if (hk_clock_ms() >= deadline) {
			rc = -ETIMEDOUT;
			break;
		}
		leave_core();
	}
	/* -EAGAIN: the callback has not returned yet */
	while (rte_intr_callback_unregister(ih, on_event, &c) == -EAGAIN)
		leave_core();
out:
	if (c.fd >= 0)
		close(c.fd);
	rte_intr_instance_free(ih);
	return rc;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

enum end { CONNECTED_CLIENT, CONNECTED_SERVER, LISTENER };

/* Returns whether @fd is that end of the wire at @path. A server end has the path as its own name,
 * a client end as its peer's name. */
static bool is_end(int fd, const char *path, enum end end)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);
	int listening = 0;
	socklen_t optlen = sizeof(listening);

	memset(&un, 0, sizeof(un));
	int rc = end == CONNECTED_CLIENT ? getpeername(fd, (struct sockaddr *)&un, &len)
					 : getsockname(fd, (struct sockaddr *)&un, &len);
	size_t n = strlen(path);
	if (rc != 0 || un.sun_family != AF_UNIX || strncmp(un.sun_path, path, n) != 0)
		return false;
	/* our own servers bind to another name and rename the socket */
	if (un.sun_path[n] && strcmp(un.sun_path + n, HK_MEMIF_NEW) != 0)
		return false;
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &optlen) == 0 &&
	       (end == LISTENER) == (listening != 0);
}

static int find_end(const char *path, enum end end)
{
	DIR *d = opendir("/proc/self/fd");
	int found = -1;
	for (struct dirent *e; d && found < 0 && (e = readdir(d));) {
		char *last;
		long fd = strtol(e->d_name, &last, 10);
		if (!*last && is_end((int)fd, path, end))
			found = (int)fd;
	}
	if (d)
		closedir(d);
	return found;
}

/* Replaces the listening socket, which the driver does not close: it would stay among EAL's
 * interrupts, with a pointer to freed memory. An eventfd without events takes over its number. */
void hk_memif_unlisten(const char *path)
{
	int fd = find_end(path, LISTENER);
	int never = fd >= 0 ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	if (never >= 0) {
		(void)dup3(never, fd, O_CLOEXEC);
		close(never);
	}
}

static void exchange(struct hk_memif_guard *g)
{
	const struct hk_wire_signal ignored = {.type = HK_WIRE_SIGNAL_TYPE};
	int pair[2];
	int fd = find_end(g->path, g->server ? CONNECTED_SERVER : CONNECTED_CLIENT);
	g->error = ENOTCONN;
	if (fd < 0)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
		g->error = errno;
		return;
	}
	for (unsigned i = 0; i < LATE_EVENTS; i++)
		(void)send(pair[0], &ignored, sizeof(ignored), 0); /* an empty socket has room */
	g->real = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	g->error = g->real < 0 || dup3(pair[1], fd, O_CLOEXEC) < 0 ? errno : 0;
	close(pair[1]);
	g->quiet = pair[0];
}

/* Returns a pidfd of the process at the other end, or -1 if it is in another PID namespace. Then
 * only the socket shows its end, after its secondaries have ended too. */
static int peer_pidfd(int fd)
{
	struct ucred c = {0};
	int pidfd;
	socklen_t len = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
		return pidfd;
	len = sizeof(c); /* before Linux 6.5 */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) != 0 || c.pid <= 0)
		return -1;
	return (int)syscall(SYS_pidfd_open, c.pid, 0);
}

/* Root may be there, as a daemon for this user. */
static int check_user(int fd, const char *path, struct hk_error *err)
{
	struct ucred c = {0};
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) != 0)
		return hk_error_set(err, -errno, "memif %s: cannot see who is at its other end: %s",
				    path, strerror(errno));
	if (c.uid == 0 || c.uid == geteuid())
		return 0;
	return hk_error_set(err, -EPERM,
			    "memif %s: a process of user %u is at its other end; fix: put the "
			    "socket into a directory of your own",
			    path, c.uid);
}

int hk_memif_guard_arm(const char *path, bool server, struct hk_memif_guard **guard,
		       struct hk_error *err)
{
	struct hk_memif_guard *g = calloc(1, sizeof(*g));
	if (!g)
		return hk_error_set(err, -ENOMEM, "no memory for the guard of %s", path);
	g->real = g->quiet = g->pidfd = -1;
	g->server = server;
	snprintf(g->path, sizeof(g->path), "%s", path);

	int rc = in_interrupt_thread(g, exchange);
	if (rc == 0)
		rc = -g->error;
	if (rc == 0)
		rc = in_interrupt_thread(g, NULL); /* proves that EAL has rebuilt its set */
	int denied = rc == 0 ? check_user(g->real, path, err) : 0;
	if (rc == 0 && denied == 0) {
		if (hk_eal_role() == HK_EAL_PRIMARY)
			g->pidfd = peer_pidfd(g->real);
		*guard = g;
		return 0;
	}
	hk_memif_guard_free(g);
	if (denied)
		return denied;
	return hk_error_set(err, rc,
			    "memif %s: cannot take over its control socket: %s; fix: see whether "
			    "the other end has just ended (ENOTCONN), or raise `ulimit -n`",
			    path, strerror(-rc));
}

bool hk_memif_guard_alive(const struct hk_memif_guard *g)
{
	struct pollfd p[] = {{.fd = g->real, .events = POLLRDHUP},
			     {.fd = g->pidfd, .events = POLLIN}}; /* poll() ignores -1 */

	return poll(p, HK_ARRAY_LEN(p), 0) == 0;
}

int hk_memif_guard_socket(const struct hk_memif_guard *g)
{
	return g->real;
}

void hk_memif_guard_free(struct hk_memif_guard *g)
{
	if (!g)
		return;
	if (g->real >= 0) {
		(void)shutdown(g->real, SHUT_RDWR); /* secondaries may still have it open */
		close(g->real);
	}
	if (g->quiet >= 0)
		close(g->quiet);
	if (g->pidfd >= 0)
		close(g->pidfd);
	free(g);
}

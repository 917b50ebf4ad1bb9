/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/wakeup.c: wakeups of a shared memory and of its wires. port/wakeup.h explains them.
 *
 * Secondaries get the descriptors from the primary by DPDK's multi-process messages, as the memif
 * driver gets its memory. A thread of DPDK's answers them in the primary, hence the lock.
 */
#include "port/wakeup.h"
#include "port/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memzone.h>

#define ACTION       "hk_wakeups"
#define ZONE         "hk_wakeups"
#define REQUEST_MS   1000 /* limit for one reply; the primary's thread has little else to do */
#define MAX_EVENTS   16   /* descriptors handled at a time */
#define MAX_MESSAGES 32   /* read from a wire at a time */
#define MEMORY_ID    UINT16_MAX /* requests the memory's wakeups instead of a wire's */

struct hk_wakeup_word *hk_wakeup_words;
static int wakeup_fd[HK_WAKEUPS] = {-1, -1};

/* For each DPDK port the wakeup's descriptor plus one; 0: none. The thread that opens and closes
 * ports writes it. Signalling threads and, in the primary, DPDK's thread read it. */
static _Atomic int wire_fd[RTE_MAX_ETHPORTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int epoll_fd = -1;
static enum hk_wakeup own_wakeup = HK_WAKEUPS; /* this process's sleeper; HK_WAKEUPS: none */

/* ---- in the primary ------------------------------------------------------------------------- */

static int reply_fds(const struct rte_mp_msg *msg, const void *peer)
{
	struct rte_mp_msg reply;
	uint16_t id = MEMORY_ID;

	memset(&reply, 0, sizeof(reply));
	memcpy(reply.name, msg->name, sizeof(reply.name));
	if (msg->len_param != sizeof(id))
		return rte_mp_reply(&reply, peer);
	memcpy(&id, msg->param, sizeof(id));
	pthread_mutex_lock(&lock); /* keeps the descriptor open until it has been sent */
	if (id == MEMORY_ID) {
		memcpy(reply.fds, wakeup_fd, sizeof(wakeup_fd));
		reply.num_fds = HK_WAKEUPS;
	} else if (id < RTE_MAX_ETHPORTS && wire_fd[id]) {
		reply.fds[0] = wire_fd[id] - 1;
		reply.num_fds = 1;
	}
	int rc = rte_mp_reply(&reply, peer);

	pthread_mutex_unlock(&lock);
	return rc;
}

static int create_fds(struct hk_error *err)
{
	for (int i = 0; i < HK_WAKEUPS; i++)
		if ((wakeup_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
			return hk_error_set(err, -errno,
					    "cannot create a wakeup: %s; fix: raise "
					    "`ulimit -n`",
					    strerror(errno));
	return 0;
}

/* Creates wakeups for a process without shared memory, where a switch may sleep as well. */
static int create_private(struct hk_error *err)
{
	static struct hk_wakeup_word own[HK_WAKEUPS];
	int rc = create_fds(err);

	if (rc == 0)
		hk_wakeup_words = own;
	return rc;
}

int hk_wakeups_create(struct hk_error *err)
{
	const struct rte_memzone *mz = rte_memzone_reserve(
		ZONE, HK_WAKEUPS * sizeof(*hk_wakeup_words), SOCKET_ID_ANY, 0);

	if (!mz)
		return hk_error_set(err, -ENOMEM,
				    "no shared memory for the wakeups; "
				    "fix: give DPDK more memory");
	memset(mz->addr, 0, mz->len);
	int rc = create_fds(err);

	if (rc)
		return rc;
	hk_wakeup_words = mz->addr;
	if (rte_mp_action_register(ACTION, reply_fds) != 0)
		return hk_error_set(err, -ENOMEM,
				    "DPDK cannot answer to secondary processes; "
				    "fix: free some memory");
	return 0;
}

/* ---- in a secondary ------------------------------------------------------------------------- */

/* Requests the @n descriptors of port @id, or of the memory, from the primary. */
static int fetch(uint16_t id, int *fds, int n, int64_t deadline)
{
	struct rte_mp_msg msg;
	struct rte_mp_reply replies = {0};
	int64_t left = HK_MAX(1, HK_MIN(deadline - hk_clock_ms(), REQUEST_MS));
	struct timespec limit = {left / 1000, left % 1000 * 1000000};

	memset(&msg, 0, sizeof(msg));
	snprintf(msg.name, sizeof(msg.name), "%s", ACTION);
	memcpy(msg.param, &id, sizeof(id));
	msg.len_param = sizeof(id);
	if (rte_mp_request_sync(&msg, &replies, &limit) < 0)
		return rte_errno == ETIMEDOUT ? -ETIMEDOUT : -EPIPE;
	int rc = replies.nb_received == 1 ? -ENOENT : -EPIPE;

	if (replies.nb_received == 1 && replies.msgs[0].num_fds == n) {
		memcpy(fds, replies.msgs[0].fds, (size_t)n * sizeof(*fds));
		rc = 0;
	}
	free(replies.msgs);
	return rc;
}

int hk_wakeups_attach(struct hk_error *err)
{
	const struct rte_memzone *mz = rte_memzone_lookup(ZONE);
	int64_t deadline = hk_clock_ms() + 5 * REQUEST_MS;
	int rc;

	/* a primary that is just starting may not answer yet */
	do
		rc = fetch(MEMORY_ID, wakeup_fd, HK_WAKEUPS, deadline);
	while (rc == -ETIMEDOUT && hk_clock_ms() < deadline);
	if (rc || !mz || mz->len < HK_WAKEUPS * sizeof(*hk_wakeup_words))
		return hk_error_set(err, rc ? rc : -EPROTO,
				    "the primary process sends no wakeups: %s; fix: see what it is "
				    "doing, and use the same release of Hikyaku in all processes",
				    rc == -EPIPE ? "it has ended" : strerror(rc ? -rc : EPROTO));
	hk_wakeup_words = mz->addr;
	return 0;
}

int hk_wakeup_fetch_wire(uint16_t id, int64_t deadline, struct hk_error *err)
{
	int fd, rc = fetch(id, &fd, 1, deadline);

	if (rc)
		return hk_error_set(
			err, rc,
			"port %u: no wakeup for its wire: %s; fix: see what the primary "
			"process is doing",
			id,
			rc == -EPIPE    ? "the primary process has ended"
			: rc == -ENOENT ? "the wire has just been closed"
					: strerror(-rc));
	hk_wakeup_set_wire(id, fd);
	return 0;
}

/* ---- wires ---------------------------------------------------------------------------------- */

void hk_wakeup_set_wire(uint16_t id, int fd)
{
	pthread_mutex_lock(&lock);
	atomic_store(&wire_fd[id], fd + 1);
	pthread_mutex_unlock(&lock);
}

int hk_wakeup_take_wire(uint16_t id)
{
	pthread_mutex_lock(&lock);
	int fd = atomic_exchange(&wire_fd[id], 0) - 1;

	pthread_mutex_unlock(&lock);
	return fd;
}

bool hk_wakeup_signal_wire(uint16_t id, enum hk_wakeup b)
{
	const struct hk_wire_signal m = {.type = HK_WIRE_SIGNAL_TYPE, .sleeper = (uint8_t)(b + 1)};
	int fd = id < RTE_MAX_ETHPORTS
			 ? atomic_load_explicit(&wire_fd[id], memory_order_relaxed) - 1
			 : -1;

	return fd >= 0 && send(fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(m);
}

/* ---- signalling and sleeping ---------------------------------------------------------------- */

bool hk_wakeup_send(enum hk_wakeup b)
{
	return atomic_exchange(&hk_wakeup_words[b].sleeping, 0) &&
	       eventfd_write(wakeup_fd[b], 1) == 0;
}

enum source { FROM_MEMORY, FROM_WIRE, FROM_PORT };

static bool listen_fd(int fd, enum source what)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | (uint32_t)fd};

	return fd >= 0 && epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

int hk_wakeup_listen(enum hk_wakeup b, int *fd, struct hk_error *err)
{
	int rc = hk_wakeup_words ? 0 : create_private(err);

	if (rc)
		return rc;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || !listen_fd(wakeup_fd[b], FROM_MEMORY))
		return hk_error_set(err, -errno,
				    "cannot listen to the wakeup: %s; fix: raise "
				    "`ulimit -n`",
				    strerror(errno));
	own_wakeup = b;
	atomic_store(&hk_wakeup_words[b].has_sleeper, 1);
	*fd = epoll_fd;
	return 0;
}

bool hk_wakeup_listen_wire(const struct hk_port *port)
{
	int fd = atomic_load(&wire_fd[port->id]) - 1;

	if (own_wakeup == HK_WAKEUP_POLLER &&
	    atomic_load(&hk_wakeup_words[HK_WAKEUP_SWITCH].has_sleeper))
		return fd >= 0;
	return listen_fd(fd, FROM_WIRE);
}

bool hk_wakeup_listen_fd(int fd)
{
	return listen_fd(fd, FROM_PORT);
}

/* Closing the descriptor is not enough, because other processes have the same open file. */
void hk_wakeup_unlisten_fd(int fd)
{
	if (fd >= 0 && epoll_fd >= 0)
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void hk_wakeup_unlisten_wire(const struct hk_port *port)
{
	hk_wakeup_unlisten_fd(atomic_load(&wire_fd[port->id]) - 1);
}

void hk_wakeup_prepare_wait(enum hk_wakeup b)
{
	atomic_store(&hk_wakeup_words[b].sleeping, 1);
}

bool hk_wakeup_waiting(enum hk_wakeup b)
{
	return atomic_load(&hk_wakeup_words[b].sleeping);
}

bool hk_wakeup_requested(enum hk_wakeup b)
{
	return atomic_load(&hk_wakeup_words[b].requested);
}

/* Reads signals from a wire and returns the set of sleepers that they are for, one bit each. It
 * removes a wire whose other end is closed, because that would stay readable for ever. */
static unsigned drain_wire(int fd)
{
	unsigned targets = 0;
	ssize_t n = 1;

	for (int i = 0; i < MAX_MESSAGES && n > 0; i++) {
		struct hk_wire_signal m = {.type = 0};

		n = recv(fd, &m, sizeof(m), MSG_DONTWAIT);
		if (m.type == HK_WIRE_SIGNAL_TYPE && m.sleeper && m.sleeper <= HK_WAKEUPS)
			targets |= 1u << (m.sleeper - 1);
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		hk_wakeup_unlisten_fd(fd);
	return targets;
}

bool hk_wakeup_finish_wait(enum hk_wakeup b)
{
	struct epoll_event e[MAX_EVENTS];
	unsigned targets = 0;
	eventfd_t method;

	atomic_store(&hk_wakeup_words[b].sleeping, 0);
	int n = epoll_wait(epoll_fd, e, MAX_EVENTS, 0);

	for (int i = 0; i < n; i++) {
		int fd = (int)(uint32_t)e[i].data.u64;

		if (e[i].data.u64 >> 32 == FROM_MEMORY)
			(void)eventfd_read(fd, &method);
		/* the thread that polls a port reads its socket */
		targets |= e[i].data.u64 >> 32 == FROM_WIRE ? drain_wire(fd) : 1u << b;
	}
	if (atomic_exchange(&hk_wakeup_words[b].requested, 0))
		targets |= 1u << b;
	/* pass signals for the other sleeper on, whether or not it is awake */
	for (unsigned other = 0; other < HK_WAKEUPS; other++)
		if (other != (unsigned)b && targets >> other & 1)
			(void)hk_wakeup_request((enum hk_wakeup)other);
	return targets >> b & 1;
}

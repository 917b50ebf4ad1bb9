/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/bell.c: bells of a memory and of its wires. What they are, and why no ring is lost, stands in bell.h.
 *
 * Descriptors come from the primary, which answers to secondaries in DPDK's own way, as the driver of
 * memif does with its memory: from a thread of DPDK's, hence the lock.
 */
#include "port/bell.h"
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

#define ACTION    "hk_bells"
#define ZONE      "hk_bells"
#define ASK_MS    1000       /* for one answer; the primary's thread has little else to do */
#define AT_ONCE   16         /* wires heard at a time, … */
#define TAKE      32         /* … and messages thrown away of each */
#define OF_MEMORY UINT16_MAX /* in a question: not a wire's bell, but those of the memory */

struct hk_bell_word *hk_bell_words;
static int bell_fd[HK_BELLS] = {-1, -1};

/* By DPDK's port: descriptor plus one, 0: none. Changed by the thread that opens and closes ports, read by
 * those who ring and, in the primary, by DPDK's thread. */
static _Atomic int wire_fd[RTE_MAX_ETHPORTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int epoll_fd = -1;
static enum hk_bell mine = HK_BELLS; /* whose sleeper this process is */

/* ---- from the primary ------------------------------------------------------------------------- */

static int answer(const struct rte_mp_msg *msg, const void *peer)
{
	struct rte_mp_msg reply;
	uint16_t id = OF_MEMORY;

	memset(&reply, 0, sizeof(reply));
	memcpy(reply.name, msg->name, sizeof(reply.name));
	if (msg->len_param != sizeof(id))
		return rte_mp_reply(&reply, peer);
	memcpy(&id, msg->param, sizeof(id));
	pthread_mutex_lock(&lock); /* so that none is closed before it is on its way */
	if (id == OF_MEMORY) {
		memcpy(reply.fds, bell_fd, sizeof(bell_fd));
		reply.num_fds = HK_BELLS;
	} else if (id < RTE_MAX_ETHPORTS && wire_fd[id]) {
		reply.fds[0] = wire_fd[id] - 1;
		reply.num_fds = 1;
	}
	int rc = rte_mp_reply(&reply, peer);

	pthread_mutex_unlock(&lock);
	return rc;
}

static int make_fds(struct hk_error *err)
{
	for (int i = 0; i < HK_BELLS; i++)
		if ((bell_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0)
			return hk_error_set(err, -errno,
					    "cannot make a bell: %s; fix: raise "
					    "`ulimit -n`",
					    strerror(errno));
	return 0;
}

/* A process that shares no memory has bells for itself: a switch sleeps there as well. */
static int make_own(struct hk_error *err)
{
	static struct hk_bell_word own[HK_BELLS];
	int rc = make_fds(err);

	if (rc == 0)
		hk_bell_words = own;
	return rc;
}

int hk_bells_make(struct hk_error *err)
{
	const struct rte_memzone *mz = rte_memzone_reserve(ZONE, HK_BELLS * sizeof(*hk_bell_words),
							   SOCKET_ID_ANY, 0);

	if (!mz)
		return hk_error_set(err, -ENOMEM,
				    "no shared memory for the bells; "
				    "fix: give DPDK more memory");
	memset(mz->addr, 0, mz->len);
	int rc = make_fds(err);

	if (rc)
		return rc;
	hk_bell_words = mz->addr;
	if (rte_mp_action_register(ACTION, answer) != 0)
		return hk_error_set(err, -ENOMEM,
				    "DPDK cannot answer to secondary processes; "
				    "fix: free some memory");
	return 0;
}

/* ---- in a secondary --------------------------------------------------------------------------- */

/* Asks for @n descriptors. */
static int fetch(uint16_t id, int *fds, int n, int64_t deadline)
{
	struct rte_mp_msg msg;
	struct rte_mp_reply replies = {0};
	int64_t left = HK_MAX(1, HK_MIN(deadline - hk_now_ms(), ASK_MS));
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

int hk_bells_find(struct hk_error *err)
{
	const struct rte_memzone *mz = rte_memzone_lookup(ZONE);
	int64_t deadline = hk_now_ms() + 5 * ASK_MS;
	int rc;

	/* one that is just starting may not answer yet */
	do
		rc = fetch(OF_MEMORY, bell_fd, HK_BELLS, deadline);
	while (rc == -ETIMEDOUT && hk_now_ms() < deadline);
	if (rc || !mz || mz->len < HK_BELLS * sizeof(*hk_bell_words))
		return hk_error_set(err, rc ? rc : -EPROTO,
				    "the primary process gives no bells: %s; fix: see what it is "
				    "doing, and use the same release of Hikyaku in all processes",
				    rc == -EPIPE ? "it has ended" : strerror(rc ? -rc : EPROTO));
	hk_bell_words = mz->addr;
	return 0;
}

int hk_bell_fetch_wire(uint16_t id, int64_t deadline, struct hk_error *err)
{
	int fd, rc = fetch(id, &fd, 1, deadline);

	if (rc)
		return hk_error_set(err, rc,
				    "port %u: no bell for its wire: %s; fix: see what the primary "
				    "process is doing",
				    id,
				    rc == -EPIPE    ? "the primary process has ended"
				    : rc == -ENOENT ? "the wire has just been closed"
						    : strerror(-rc));
	hk_bell_set_wire(id, fd);
	return 0;
}

/* ---- wires ------------------------------------------------------------------------------------ */

void hk_bell_set_wire(uint16_t id, int fd)
{
	pthread_mutex_lock(&lock);
	atomic_store(&wire_fd[id], fd + 1);
	pthread_mutex_unlock(&lock);
}

int hk_bell_take_wire(uint16_t id)
{
	pthread_mutex_lock(&lock);
	int fd = atomic_exchange(&wire_fd[id], 0) - 1;

	pthread_mutex_unlock(&lock);
	return fd;
}

bool hk_bell_ring_wire(uint16_t id, enum hk_bell b)
{
	const char c = (char)b;
	int fd = id < RTE_MAX_ETHPORTS
			 ? atomic_load_explicit(&wire_fd[id], memory_order_relaxed) - 1
			 : -1;

	return fd >= 0 && send(fd, &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* ---- ringing and sleeping ---------------------------------------------------------------------- */

bool hk_bell_wake(enum hk_bell b)
{
	return atomic_exchange(&hk_bell_words[b].sleeps, 0) && eventfd_write(bell_fd[b], 1) == 0;
}

enum heard { OURS, A_WIRE, A_PORT };

static bool listen_fd(int fd, enum heard what)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | (uint32_t)fd};

	return fd >= 0 && epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

int hk_bell_listen(enum hk_bell b, int *fd, struct hk_error *err)
{
	int rc = hk_bell_words ? 0 : make_own(err);

	if (rc)
		return rc;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || !listen_fd(bell_fd[b], OURS))
		return hk_error_set(err, -errno,
				    "cannot listen to the bell: %s; fix: raise "
				    "`ulimit -n`",
				    strerror(errno));
	mine = b;
	atomic_store(&hk_bell_words[b].there, 1);
	*fd = epoll_fd;
	return 0;
}

bool hk_bell_listen_wire(const struct hk_port *port)
{
	int fd = atomic_load(&wire_fd[port->id]) - 1;

	if (mine == HK_BELL_POLLER && atomic_load(&hk_bell_words[HK_BELL_SWITCH].there))
		return fd >= 0;
	return listen_fd(fd, A_WIRE);
}

bool hk_bell_listen_fd(int fd)
{
	return listen_fd(fd, A_PORT);
}

/* Closing would not do: other processes have the same open file. */
void hk_bell_unlisten_fd(int fd)
{
	if (fd >= 0 && epoll_fd >= 0)
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void hk_bell_unlisten_wire(const struct hk_port *port)
{
	hk_bell_unlisten_fd(atomic_load(&wire_fd[port->id]) - 1);
}

void hk_bell_lie_down(enum hk_bell b)
{
	atomic_store(&hk_bell_words[b].sleeps, 1);
}

bool hk_bell_lies(enum hk_bell b)
{
	return atomic_load(&hk_bell_words[b].sleeps);
}

bool hk_bell_asked(enum hk_bell b)
{
	return atomic_load(&hk_bell_words[b].asked);
}

/* For whom it was rung, a bit each. A wire whose other end has gone would be readable for ever. */
static unsigned take_in(int fd)
{
	unsigned whom = 0;
	ssize_t n = 1;

	for (int i = 0; i < TAKE && n > 0; i++) {
		uint8_t c;

		n = recv(fd, &c, 1, MSG_DONTWAIT);
		if (n > 0 && c < HK_BELLS)
			whom |= 1u << c;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		hk_bell_unlisten_fd(fd);
	return whom;
}

bool hk_bell_get_up(enum hk_bell b)
{
	struct epoll_event e[AT_ONCE];
	unsigned whom = 0;
	eventfd_t rung;

	atomic_store(&hk_bell_words[b].sleeps, 0);
	int n = epoll_wait(epoll_fd, e, AT_ONCE, 0);

	for (int i = 0; i < n; i++) {
		int fd = (int)(uint32_t)e[i].data.u64;

		if (e[i].data.u64 >> 32 == OURS)
			(void)eventfd_read(fd, &rung);
		/* a port's is read by who polls it */
		whom |= e[i].data.u64 >> 32 == A_WIRE ? take_in(fd) : 1u << b;
	}
	if (atomic_exchange(&hk_bell_words[b].asked, 0))
		whom |= 1u << b;
	/* who rang on the wire waits for it, whether or not it is awake just now */
	for (unsigned other = 0; other < HK_BELLS; other++)
		if (other != (unsigned)b && whom >> other & 1)
			(void)hk_bell_ask((enum hk_bell)other);
	return whom >> b & 1;
}

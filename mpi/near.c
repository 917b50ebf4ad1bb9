/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/near.c: one-sided operations between ranks of one node.
 *
 * Their messages are carried by Open MPI's shared memory; but osc/rdma wants one BTL that reaches all ranks of a
 * window, and those of the own node are among them. What it asks of us for them is little: locks, and windows
 * that it allocates itself, lie in memory that the ranks share, which takes no BTL. The rest, memory that a
 * rank brings itself (MPI_Win_create, MPI_Win_attach), goes by this.
 *
 * A rank opens a datagram socket of the kernel's own kind (unix(7)) under a name made of its endpoint, and a
 * thread sleeps there: it does what the messages of wire/atomic.h ask, and answers, whatever the rank does
 * meanwhile. Long puts and gets are cut into pieces, of which each rank has few under way. What clients have not read
 * yet counts against the server's socket, so an answer may find no room; it waits then, and the server goes on with
 * others. Nothing is lost or repeated there, and nobody else may ask: the kernel says whose process sent a message.
 *
 * Registered memory stands in a table of its own here, under a lock that the server holds while it works there.
 */
#include "mpi/near.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PIECE   32768u
#define PIECES  8u     /* under way of one rank: a socket holds ten by default */
#define LOOK_AT HK_SEC /* an answer that takes so long: does the other rank live? */
#define MESSAGE (HK_WIRE_ATOMIC_LEN + PIECE)

struct table_entry {
	char *base; /* NULL: none */
	uint64_t len;
	uint32_t region;
};

struct piece {
	struct hk_near_op *op; /* NULL: free */
	char *to;              /* of a READ */
	struct hk_wire_atomic ask;
};

static struct {
	bool open;
	_Atomic bool stop;
	int socket, client;
	pthread_t server;
	pthread_mutex_t lock; /* of the table */
	struct table_entry *table;
	struct piece piece[PIECES];
	unsigned under_way;
	uint16_t life; /* of the tokens: each is used once */
	struct hk_near_op *head, *tail;
	uint64_t heard_at;
	char buffer[MESSAGE];
} near = {.socket = -1, .client = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

#define TABLE 65536 /* slots that a region's id can name */

static socklen_t address_of(struct sockaddr_un *a, const struct hk_near_name *name)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* the first byte 0: a name of the kernel's, that goes with its socket */
	int n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "hikyaku-%08x-%08x-%08x",
			 name->key, name->endpoint, name->epoch);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* ---- the server ------------------------------------------------------------------------------ */

void hk_near_add(uint32_t region, void *base, uint64_t len)
{
	if (!near.open)
		return;
	pthread_mutex_lock(&near.lock);
	near.table[region & (TABLE - 1)] = (struct table_entry){base, len, region};
	pthread_mutex_unlock(&near.lock);
}

void hk_near_del(uint32_t region)
{
	if (!near.open)
		return;
	pthread_mutex_lock(&near.lock);
	struct table_entry *e = &near.table[region & (TABLE - 1)];

	if (e->region == region)
		e->base = NULL;
	pthread_mutex_unlock(&near.lock);
}

/* Does what @w asks; data after the header is the message's, and the answer's. The lock is held. */
static bool apply(struct hk_wire_atomic *w, char *data)
{
	const struct table_entry *e = &near.table[w->region & (TABLE - 1)];
	uint64_t len = w->size ? w->size : w->len;

	if (!e->base || e->region != w->region || w->offset > e->len || len > e->len - w->offset ||
	    w->len > PIECE || (w->size && (uintptr_t)(e->base + w->offset) % w->size))
		return false;
	char *at = e->base + w->offset;

	if (w->op == HK_ATOMIC_WRITE)
		memcpy(at, data, w->len);
	else if (w->op == HK_ATOMIC_READ)
		memcpy(data, at, w->len);
	else if (w->op != HK_ATOMIC_FENCE)
		w->operand = hk_atomic_apply(w, at);
	return true;
}

/* One message of @got bytes in @buffer. Returns the length of its answer; 0: it gets none. */
static size_t serve(char *buffer, size_t got)
{
	struct hk_wire_atomic w;

	if (!hk_wire_parse_atomic(buffer, got, &w) || w.status != HK_WIRE_ATOMIC_REQUEST)
		return 0;
	pthread_mutex_lock(&near.lock);
	bool done = apply(&w, buffer + HK_WIRE_ATOMIC_LEN);

	pthread_mutex_unlock(&near.lock);
	w.status = done ? HK_WIRE_ATOMIC_DONE : HK_WIRE_ATOMIC_DENIED;
	hk_wire_put_atomic(buffer, &w);
	return HK_WIRE_ATOMIC_LEN + (hk_wire_atomic_carries(&w) ? w.len : 0);
}

/* Did a process of our user send this? */
static bool ours(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct ucred who;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		return who.uid == geteuid();
	}
	return false;
}

static ssize_t receive(int from, char *buffer, struct sockaddr_un *sender, socklen_t *sender_len,
		       int flags)
{
	char control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = {buffer, MESSAGE};
	struct msghdr m = {
		.msg_name = sender,
		.msg_namelen = sizeof(*sender),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t got = recvmsg(from, &m, flags);

	*sender_len = m.msg_namelen;
	return got > 0 && (!ours(&m) || (m.msg_flags & MSG_TRUNC)) ? 0 : got;
}

/* An answer for which there is no room yet. Of one client there are at most PIECES. */
struct unsent {
	struct unsent *next;
	struct sockaddr_un to;
	socklen_t to_len;
	size_t len;
	char bytes[];
};

#define UNSENT_MAX (64 * PIECES)

static struct { /* the server thread's */
	struct unsent *first;
	unsigned count;
} unsent;

/* False: there is no room now. Whoever is not there any more needs no answer. */
static bool send_answer(const char *bytes, size_t len, const struct sockaddr_un *to,
			socklen_t to_len)
{
	return sendto(near.socket, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL, (const void *)to,
		      to_len) >= 0 ||
	       (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM);
}

/* False: as many wait already as may, or there is no memory. */
static bool answer_later(const char *bytes, size_t len, const struct sockaddr_un *to,
			 socklen_t to_len)
{
	struct unsent *u = unsent.count < UNSENT_MAX ? malloc(sizeof(*u) + len) : NULL;

	if (!u)
		return false;
	u->next = unsent.first;
	u->to = *to;
	u->to_len = to_len;
	u->len = len;
	memcpy(u->bytes, bytes, len);
	unsent.first = u;
	unsent.count++;
	return true;
}

static void unsent_drop(struct unsent **link)
{
	struct unsent *u = *link;

	*link = u->next;
	unsent.count--;
	free(u);
}

static void send_unsent(void)
{
	for (struct unsent **link = &unsent.first; *link;) {
		struct unsent *u = *link;

		if (send_answer(u->bytes, u->len, &u->to, u->to_len))
			unsent_drop(link);
		else
			link = &u->next;
	}
}

static void *server_main(void *arg)
{
	static char buffer[MESSAGE];
	struct sockaddr_un from;
	socklen_t from_len;

	(void)arg;
	while (!near.stop) {
		struct pollfd request = {.fd = near.socket, .events = POLLIN};

		send_unsent();
		/* nobody tells when a client has read: look again each millisecond */
		if (unsent.first && poll(&request, 1, 1) == 0)
			continue;
		ssize_t got = receive(near.socket, buffer, &from, &from_len, 0);

		size_t len = got > 0 ? serve(buffer, (size_t)got) : 0;

		if (!len || from_len <= sizeof(sa_family_t))
			continue;
		/* Whoever asked waits for it. Until it has a place, further requests stay in the socket. */
		while (!send_answer(buffer, len, &from, from_len) &&
		       !answer_later(buffer, len, &from, from_len) && !near.stop) {
			(void)poll(NULL, 0, 1);
			send_unsent();
		}
	}
	while (unsent.first)
		unsent_drop(&unsent.first);
	return NULL;
}

/* ---- the client ------------------------------------------------------------------------------ */

static void op_ended(struct hk_near_op *op)
{
	/* what is in the list go() ends, which takes it off first */
	if (op->pieces || op->queued || (op->sent < op->len && !op->status))
		return;
	op->done(op->arg, op->status);
}

/* Sends the next piece of @op. False: there is no room. */
static bool send_piece(struct hk_near_op *op)
{
	struct sockaddr_un to;
	uint32_t len = (uint32_t)HK_MIN(op->len - op->sent, (uint64_t)PIECE);
	unsigned i = 0;

	if (near.under_way == PIECES)
		return false;
	while (near.piece[i].op)
		i++;
	struct hk_wire_atomic w = op->ask;
	char head[HK_WIRE_ATOMIC_LEN];

	near.life += near.life == UINT16_MAX ? 2 : 1;
	w.token = (uint32_t)near.life << 16 | i;
	w.offset += op->sent;
	if (!w.size)
		w.len = len;
	hk_wire_put_atomic(head, &w);
	struct iovec iov[2] = {{head, sizeof(head)}, {op->base + op->sent, len}};
	struct msghdr m = {
		.msg_name = &to,
		.msg_namelen = address_of(&to, &op->to),
		.msg_iov = iov,
		.msg_iovlen = w.op == HK_ATOMIC_WRITE ? 2 : 1,
	};

	if (sendmsg(near.client, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
		    errno == ENOMEM)
			return false;
		op->status = -ENOTCONN;
		return true;
	}
	near.piece[i] = (struct piece){op, op->base + op->sent, w};
	near.under_way++;
	op->pieces++;
	op->sent += len;
	return true;
}

static void go(void)
{
	while (near.head) {
		struct hk_near_op *op = near.head;

		while (op->sent < op->len && !op->status)
			if (!send_piece(op))
				return;
		near.head = op->next;
		op->queued = false;
		op_ended(op);
	}
}

static void answer(const char *buffer, size_t got)
{
	struct hk_wire_atomic w;
	unsigned i;

	if (!hk_wire_parse_atomic(buffer, got, &w) || w.status == HK_WIRE_ATOMIC_REQUEST)
		return;
	i = w.token & 0xffff;
	if (i >= PIECES || !near.piece[i].op || near.piece[i].ask.token != w.token ||
	    near.piece[i].ask.op != w.op || near.piece[i].ask.len != w.len)
		return;
	struct piece p = near.piece[i];
	struct hk_near_op *op = p.op;

	near.piece[i].op = NULL;
	near.under_way--;
	op->pieces--;
	op->old = w.operand;
	if (w.status == HK_WIRE_ATOMIC_DENIED && !op->status)
		op->status = -EACCES;
	else if (hk_wire_atomic_carries(&w))
		memcpy(p.to, buffer + HK_WIRE_ATOMIC_LEN, w.len);
	op_ended(op);
}

/* Nobody has answered for long: an empty message tells whether the ranks that should are there. */
static void look_for_the_dead(void)
{
	for (unsigned i = 0; i < PIECES; i++) {
		struct hk_near_op *op = near.piece[i].op;
		struct sockaddr_un to;

		if (!op)
			continue;
		socklen_t len = address_of(&to, &op->to);

		if (sendto(near.client, "", 0, MSG_DONTWAIT, (void *)&to, len) < 0 &&
		    errno == ECONNREFUSED) {
			near.piece[i].op = NULL;
			near.under_way--;
			op->pieces--;
			op->status = -ENOTCONN;
			op_ended(op);
		}
	}
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

/* Takes answers in, and sends what waited. For who has operations under way. */
int hk_near_progress(void)
{
	struct sockaddr_un from;
	socklen_t from_len;
	int taken = 0;

	while (near.under_way) {
		ssize_t got = receive(near.client, near.buffer, &from, &from_len, MSG_DONTWAIT);

		if (got < 0)
			break;
		answer(near.buffer, (size_t)got);
		taken++;
	}
	go();
	uint64_t t = now();

	if (taken) {
		near.heard_at = t;
	} else if (near.under_way && t - near.heard_at > LOOK_AT) {
		near.heard_at = t;
		look_for_the_dead();
	}
	return taken;
}

bool hk_near_busy(void)
{
	return near.under_way || near.head;
}

void hk_near_start(struct hk_near_op *op)
{
	if (!hk_near_busy())
		near.heard_at = now();
	op->next = NULL;
	op->sent = 0;
	op->pieces = 0;
	op->status = 0;
	op->queued = true;
	if (near.head)
		near.tail->next = op;
	else
		near.head = op;
	near.tail = op;
	if (near.head == op)
		go();
}

/* ---- start and end --------------------------------------------------------------------------- */

/* @name NULL: one of the kernel's choice. */
static int named_socket(const struct hk_near_name *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = name ? address_of(&a, name) : sizeof(sa_family_t);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, room = 16 * MESSAGE;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) == 0 &&
	    bind(fd, (void *)&a, len) == 0)
		return fd;
	int why = errno;

	close(fd);
	errno = why;
	return -1;
}

static int start_server(void)
{
	sigset_t all, old;

	near.stop = false;
	sigfillset(&all); /* the application's signals are the application's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&near.server, NULL, server_main, NULL);

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_setname_np(near.server, "hk-near");
	return rc;
}

int hk_near_open(const struct hk_near_name *self, struct hk_error *err)
{
	int why = 0;

	near.socket = near.client = -1;
	near.table = calloc(TABLE, sizeof(*near.table));
	if (!near.table || (near.socket = named_socket(self)) < 0 ||
	    (near.client = named_socket(NULL)) < 0)
		why = errno;
	else
		why = start_server();
	near.open = why == 0;
	if (near.open)
		return 0;
	hk_near_close();
	return hk_error_set(err, -why,
			    "ranks of this node cannot reach each other's windows: %s; fix: raise "
			    "`ulimit -u` and `ulimit -n`",
			    strerror(why));
}

void hk_near_close(void)
{
	if (near.open) {
		near.open = false;
		near.stop = true;
		shutdown(near.socket, SHUT_RDWR);
		pthread_join(near.server, NULL);
	}
	if (near.socket >= 0)
		close(near.socket);
	if (near.client >= 0)
		close(near.client);
	near.socket = near.client = -1;
	free(near.table);
	near.table = NULL;
	memset(near.piece, 0, sizeof(near.piece));
	near.under_way = 0;
	near.head = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/same_node.c: one-sided operations between ranks of one node.
 *
 * DESIGN NOTES
 *
 * Problem: Open MPI's shared memory carries the messages of these ranks. However, osc/rdma needs
 * one BTL that reaches all ranks of an MPI window, and ranks of the own node are among them. It
 * uses this BTL little for them: its locks, and MPI windows that it allocates itself, are in shared
 * memory. Only memory that a rank provides (MPI_Win_create, MPI_Win_attach) needs this file.
 *
 * Approach: a rank opens a datagram socket of the kernel (unix(7)) under a name made of its
 * endpoint. A thread sleeps on it, carries out the requests of wire/atomic.h, and answers, whatever
 * the rank does meanwhile. Long puts and gets are cut into pieces; each rank has few in flight.
 * Answers that clients have not read yet count against the server's socket. If an answer finds no
 * space, it waits, and the server continues with other clients. The kernel neither loses nor
 * repeats messages. It reports which process sent a message, so that no other process may send
 * requests.
 *
 * Registered memory has a table of its own here. The server holds its lock while it accesses that
 * memory.
 */
#include "openmpi/btl/same_node.h"

#include "base/clock.h"

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
#include <unistd.h>

#define PIECE          HK_SAME_NODE_RPC_MAX
#define PIECES         8u     /* in flight from one rank: a socket holds ten by default */
#define ANSWER_TIMEOUT HK_SEC /* after it, the client checks that the other rank is alive */
#define MESSAGE        (HK_WIRE_ATOMIC_LEN + PIECE)

struct table_entry {
	char *base;          /* NULL: none */
	hk_same_node_fn *fn; /* a procedure, with the argument `base`; NULL: memory */
	uint64_t len;
	uint32_t region;
};

struct piece {
	struct hk_same_node_op *op; /* NULL: free */
	char *to;                   /* of a READ */
	struct hk_wire_atomic request;
};

static struct {
	bool open;
	_Atomic bool stop;
	int socket, client;
	pthread_t server;
	pthread_mutex_t lock; /* of the table */
	struct table_entry *table;
	struct piece piece[PIECES];
	unsigned in_flight;
	uint16_t last_token; /* upper half of the last token: each is used once */
	struct hk_same_node_op *head, *tail;
	uint64_t last_answer_at;
	char buffer[MESSAGE];
} same_node = {.socket = -1, .client = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

#define TABLE 65536 /* slots that a region's id can name */

static socklen_t address_of(struct sockaddr_un *a, const struct hk_same_node_name *name)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* first byte 0: an abstract name, which the kernel removes with the socket */
	int n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "hikyaku-%08x-%08x-%08x",
			 name->key, name->endpoint, name->epoch);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* ---- the server ------------------------------------------------------------------------------ */

void hk_same_node_add(uint32_t region, void *base, uint64_t len)
{
	if (!same_node.open)
		return;
	pthread_mutex_lock(&same_node.lock);
	same_node.table[region & (TABLE - 1)] = (struct table_entry){
		.base = base, .len = len, .region = region};
	pthread_mutex_unlock(&same_node.lock);
}

void hk_same_node_procedure_add(uint32_t region, hk_same_node_fn *fn, void *arg)
{
	if (!same_node.open)
		return;
	pthread_mutex_lock(&same_node.lock);
	same_node.table[region & (TABLE - 1)] = (struct table_entry){
		.base = arg, .fn = fn, .region = region};
	pthread_mutex_unlock(&same_node.lock);
}

void hk_same_node_del(uint32_t region)
{
	if (!same_node.open)
		return;
	pthread_mutex_lock(&same_node.lock);
	struct table_entry *e = &same_node.table[region & (TABLE - 1)];

	if (e->region == region)
		*e = (struct table_entry){0};
	pthread_mutex_unlock(&same_node.lock);
}

/* Carries out request @w. @data: what follows the header of the request, and then of the answer.
 * The caller holds the lock. */
static bool apply(struct hk_wire_atomic *w, char *data)
{
	const struct table_entry *e = &same_node.table[w->region & (TABLE - 1)];
	uint64_t len = w->size ? w->size : w->len;

	if (!e->base || e->fn || e->region != w->region || w->offset > e->len ||
	    len > e->len - w->offset || w->len > PIECE ||
	    (w->size && (uintptr_t)(e->base + w->offset) % w->size))
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

/* Runs the procedure that caller->call names. @data: its arguments, and then its result. The caller
 * holds the lock. */
static enum hk_rpc_end run(struct hk_same_node_caller *caller, char *data)
{
	static char args[PIECE]; /* of the server's thread */
	const struct hk_wire_atomic *w = &caller->call;
	const struct table_entry *e = &same_node.table[w->region & (TABLE - 1)];

	if (!e->fn || e->region != w->region || w->len > PIECE)
		return HK_RPC_DENIED;
	memcpy(args, data, w->len);
	return e->fn(e->base, caller, args, data);
}

/* One message of @got bytes in @buffer. Returns the length of its answer; 0: it gets none now. */
static size_t serve(char *buffer, size_t got, const struct sockaddr_un *from, socklen_t from_len)
{
	struct hk_same_node_caller caller = {.to = *from, .to_len = from_len};
	struct hk_wire_atomic w;
	enum hk_rpc_end end;

	if (!hk_wire_atomic_parse(buffer, got, &w) || w.status != HK_WIRE_ATOMIC_REQUEST)
		return 0;
	pthread_mutex_lock(&same_node.lock);
	if (w.op == HK_ATOMIC_RPC) {
		caller.call = w;
		end = run(&caller, buffer + HK_WIRE_ATOMIC_LEN);
		w = caller.call;
		w.compare = 0;
	} else {
		end = apply(&w, buffer + HK_WIRE_ATOMIC_LEN) ? HK_RPC_DONE : HK_RPC_DENIED;
	}
	pthread_mutex_unlock(&same_node.lock);
	if (end == HK_RPC_LATER)
		return 0;
	w.status = end == HK_RPC_DONE ? HK_WIRE_ATOMIC_DONE : HK_WIRE_ATOMIC_DENIED;
	hk_wire_atomic_encode(buffer, &w);
	return HK_WIRE_ATOMIC_LEN + (hk_wire_atomic_has_data(&w) ? w.len : 0);
}

/* True if a process of our user sent the message. */
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

/* An answer for which the socket has no space yet. Of one client there are at most PIECES. */
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

/* Replies of procedures that other threads give, and that found no space. */
static struct unsent *_Atomic posted;

/* Sends the server an empty message. If there is no space for it, the server is awake anyway. */
static void wake_server(void)
{
	struct sockaddr_un self;
	socklen_t len = sizeof(self);

	if (getsockname(same_node.socket, (void *)&self, &len) == 0)
		(void)sendto(same_node.socket, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL,
			     (const void *)&self, len);
}

/* False: there is no space now. A client that has died needs no answer. */
static bool send_answer(const char *bytes, size_t len, const struct sockaddr_un *to,
			socklen_t to_len)
{
	return sendto(same_node.socket, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL, (const void *)to,
		      to_len) >= 0 ||
	       (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM);
}

static struct unsent *unsent_new(const char *bytes, size_t len, const struct sockaddr_un *to,
				 socklen_t to_len)
{
	struct unsent *u = malloc(sizeof(*u) + len);

	if (!u)
		return NULL;
	u->to = *to;
	u->to_len = to_len;
	u->len = len;
	memcpy(u->bytes, bytes, len);
	return u;
}

static void unsent_add(struct unsent *u)
{
	u->next = unsent.first;
	unsent.first = u;
	unsent.count++;
}

/* False: UNSENT_MAX answers wait already, or there is no memory. */
static bool answer_later(const char *bytes, size_t len, const struct sockaddr_un *to,
			 socklen_t to_len)
{
	struct unsent *u = unsent.count < UNSENT_MAX ? unsent_new(bytes, len, to, to_len) : NULL;

	if (u)
		unsent_add(u);
	return u != NULL;
}

int hk_same_node_reply(const struct hk_same_node_caller *caller, const void *result)
{
	struct hk_wire_atomic w = caller->call;
	char bytes[HK_WIRE_ATOMIC_LEN + PIECE];
	size_t len = HK_WIRE_ATOMIC_LEN + w.len;

	w.status = HK_WIRE_ATOMIC_DONE;
	w.compare = 0;
	hk_wire_atomic_encode(bytes, &w);
	if (w.len)
		memcpy(bytes + HK_WIRE_ATOMIC_LEN, result, w.len);
	if (send_answer(bytes, len, &caller->to, caller->to_len))
		return 0;
	struct unsent *u = unsent_new(bytes, len, &caller->to, caller->to_len);

	if (!u)
		return -ENOMEM;
	u->next = atomic_load(&posted);
	while (!atomic_compare_exchange_weak(&posted, &u->next, u))
		;
	wake_server();
	return 0;
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
	for (struct unsent *u = atomic_exchange(&posted, NULL), *next; u; u = next) {
		next = u->next;
		unsent_add(u);
	}
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
	while (!same_node.stop) {
		struct pollfd request = {.fd = same_node.socket, .events = POLLIN};

		send_unsent();
		/* no event reports that a client has read: try again each millisecond */
		if (unsent.first && poll(&request, 1, 1) == 0)
			continue;
		ssize_t got = receive(same_node.socket, buffer, &from, &from_len, 0);

		size_t len = got > 0 ? serve(buffer, (size_t)got, &from, from_len) : 0;

		if (!len || from_len <= sizeof(sa_family_t))
			continue;
		/* The client waits for the answer. Until it has space, further requests stay in
		 * the socket. */
		while (!send_answer(buffer, len, &from, from_len) &&
		       !answer_later(buffer, len, &from, from_len) && !same_node.stop) {
			(void)poll(NULL, 0, 1);
			send_unsent();
		}
	}
	send_unsent();
	while (unsent.first)
		unsent_drop(&unsent.first);
	return NULL;
}

/* ---- the client ------------------------------------------------------------------------------ */

/* Has @op pieces to send? The call of a procedure is one piece, even without bytes. */
static bool unsent_bytes(const struct hk_same_node_op *op)
{
	return op->request.op == HK_ATOMIC_RPC ? !op->sent : op->sent < op->len;
}

static void op_ended(struct hk_same_node_op *op)
{
	/* send_queued() ends a queued operation, after it has removed it */
	if (op->pieces || op->queued || (unsent_bytes(op) && !op->status))
		return;
	op->done(op->arg, op->status);
}

/* Sends the next piece of @op. False: there is no space. */
static bool send_piece(struct hk_same_node_op *op)
{
	struct sockaddr_un to;
	uint32_t len = (uint32_t)HK_MIN(op->len - op->sent, (uint64_t)PIECE);
	unsigned i = 0;

	if (same_node.in_flight == PIECES)
		return false;
	while (same_node.piece[i].op)
		i++;
	struct hk_wire_atomic w = op->request;
	char head[HK_WIRE_ATOMIC_LEN];

	same_node.last_token += same_node.last_token == UINT16_MAX ? 2 : 1;
	w.token = (uint32_t)same_node.last_token << 16 | i;
	bool rpc = w.op == HK_ATOMIC_RPC;

	if (!rpc)
		w.offset += op->sent;
	if (!w.size)
		w.len = len;
	hk_wire_atomic_encode(head, &w);
	struct iovec iov[2] = {{head, sizeof(head)}, {op->base + op->sent, len}};
	struct msghdr m = {
		.msg_name = &to,
		.msg_namelen = address_of(&to, &op->to),
		.msg_iov = iov,
		.msg_iovlen = w.op == HK_ATOMIC_WRITE || rpc ? 2 : 1,
	};

	if (sendmsg(same_node.client, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
		    errno == ENOMEM)
			return false;
		op->status = -ENOTCONN;
		return true;
	}
	same_node.piece[i] = (struct piece){op, op->base + op->sent, w};
	same_node.in_flight++;
	op->pieces++;
	op->sent += rpc ? 1 : len;
	return true;
}

static void send_queued(void)
{
	while (same_node.head) {
		struct hk_same_node_op *op = same_node.head;

		while (unsent_bytes(op) && !op->status)
			if (!send_piece(op))
				return;
		same_node.head = op->next;
		op->queued = false;
		op_ended(op);
	}
}

static void answer(const char *buffer, size_t got)
{
	struct hk_wire_atomic w;
	unsigned i;

	if (!hk_wire_atomic_parse(buffer, got, &w) || w.status == HK_WIRE_ATOMIC_REQUEST)
		return;
	i = w.token & 0xffff;
	if (i >= PIECES || !same_node.piece[i].op || same_node.piece[i].request.token != w.token ||
	    same_node.piece[i].request.op != w.op)
		return;
	if (w.op == HK_ATOMIC_RPC ? w.len > same_node.piece[i].op->room
				  : w.len != same_node.piece[i].request.len)
		return;
	struct piece p = same_node.piece[i];
	struct hk_same_node_op *op = p.op;

	same_node.piece[i].op = NULL;
	same_node.in_flight--;
	op->pieces--;
	op->old = w.operand;
	op->result = hk_wire_atomic_has_data(&w) ? w.len : 0;
	if (w.status == HK_WIRE_ATOMIC_DENIED && !op->status)
		op->status = -EACCES;
	else if (op->result)
		memcpy(p.to, buffer + HK_WIRE_ATOMIC_LEN, w.len);
	op_ended(op);
}

/* No answer for ANSWER_TIMEOUT: an empty message fails if the rank of a piece has died. */
static void check_targets_alive(void)
{
	for (unsigned i = 0; i < PIECES; i++) {
		struct hk_same_node_op *op = same_node.piece[i].op;
		struct sockaddr_un to;

		if (!op)
			continue;
		socklen_t len = address_of(&to, &op->to);

		if (sendto(same_node.client, "", 0, MSG_DONTWAIT, (void *)&to, len) < 0 &&
		    errno == ECONNREFUSED) {
			same_node.piece[i].op = NULL;
			same_node.in_flight--;
			op->pieces--;
			op->status = -ENOTCONN;
			op_ended(op);
		}
	}
}

/* Handles answers, and sends pieces that waited. Call it while operations are in flight. */
int hk_same_node_progress(void)
{
	struct sockaddr_un from;
	socklen_t from_len;
	int taken = 0;

	while (same_node.in_flight) {
		ssize_t got = receive(same_node.client, same_node.buffer, &from, &from_len,
				      MSG_DONTWAIT);

		if (got < 0)
			break;
		answer(same_node.buffer, (size_t)got);
		taken++;
	}
	send_queued();
	uint64_t t = hk_clock_ns();

	if (taken) {
		same_node.last_answer_at = t;
	} else if (same_node.in_flight && t - same_node.last_answer_at > ANSWER_TIMEOUT) {
		same_node.last_answer_at = t;
		check_targets_alive();
	}
	return taken;
}

bool hk_same_node_busy(void)
{
	return same_node.in_flight || same_node.head;
}

void hk_same_node_start(struct hk_same_node_op *op)
{
	if (!hk_same_node_busy())
		same_node.last_answer_at = hk_clock_ns();
	op->next = NULL;
	op->sent = 0;
	op->pieces = 0;
	op->status = 0;
	op->queued = true;
	if (same_node.head)
		same_node.tail->next = op;
	else
		same_node.head = op;
	same_node.tail = op;
	if (same_node.head == op)
		send_queued();
}

/* ---- start and end --------------------------------------------------------------------------- */

/* @name NULL: the kernel chooses the name. */
static int named_socket(const struct hk_same_node_name *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = name ? address_of(&a, name) : sizeof(sa_family_t);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, buffer_size = 16 * MESSAGE;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_size, sizeof(buffer_size));
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

	same_node.stop = false;
	sigfillset(&all); /* the application's signals are the application's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&same_node.server, NULL, server_main, NULL);

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_setname_np(same_node.server, "hk-same-node");
	return rc;
}

int hk_same_node_open(const struct hk_same_node_name *self, struct hk_error *err)
{
	int why = 0;

	same_node.socket = same_node.client = -1;
	same_node.table = calloc(TABLE, sizeof(*same_node.table));
	if (!same_node.table || (same_node.socket = named_socket(self)) < 0 ||
	    (same_node.client = named_socket(NULL)) < 0)
		why = errno;
	else
		why = start_server();
	same_node.open = why == 0;
	if (same_node.open)
		return 0;
	hk_same_node_close();
	return hk_error_set(err, -why,
			    "ranks of this node cannot reach each other's windows: %s; fix: raise "
			    "`ulimit -u` and `ulimit -n`",
			    strerror(why));
}

void hk_same_node_close(void)
{
	if (same_node.open) {
		same_node.open = false;
		same_node.stop = true;
		shutdown(same_node.socket, SHUT_RDWR);
		pthread_join(same_node.server, NULL);
	}
	if (same_node.socket >= 0)
		close(same_node.socket);
	if (same_node.client >= 0)
		close(same_node.client);
	same_node.socket = same_node.client = -1;
	free(same_node.table);
	same_node.table = NULL;
	memset(same_node.piece, 0, sizeof(same_node.piece));
	same_node.in_flight = 0;
	same_node.head = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/serve.c: the loop of hikyaku-helper. See helper/serve.h and port/helper.h.
 *
 * A request is checked completely before anything is done for it. Clients are told apart by the
 * kernel's word (SO_PEERCRED), not by theirs.
 */
#include "helper/serve.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "helper/datagrams.h"
#include "helper/fix.h"
#include "helper/policy.h"
#include "helper/queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS    256
#define QUEUES     64
#define INTERFACES 16
#define SILENT_MS  5000 /* a client that has not asked by then may have to go */

struct client {
	int fd; /* -1: none */
	struct ucred who;
	int64_t silent_until;
	struct hk_queue *queue; /* NULL: it has no socket yet */
	uint32_t slot, take;
	int udp; /* the socket whose datagrams it takes; -1: none */
	struct hk_xdp_datagrams datagrams;
};

static struct client client[CLIENTS];
static struct hk_queue queue[QUEUES];
static struct hk_interface interface[INTERFACES];
static const struct hk_serve_config *config;
static volatile sig_atomic_t stopped;

void hk_serve_stop(void)
{
	stopped = 1;
}

/* ---- interfaces and queues ------------------------------------------------------------------- */

static int find_interface(const char *name, struct hk_interface **out, struct hk_error *err)
{
	unsigned index = if_nametoindex(name);
	struct hk_interface *empty = NULL;

	for (unsigned i = 0; i < INTERFACES; i++) {
		if (!interface[i].program)
			empty = empty ? empty : &interface[i];
		else if (interface[i].index == index) {
			*out = &interface[i];
			return 0;
		}
	}
	*out = empty;
	return empty ? hk_interface_open(empty, name, err)
		     : hk_error_set(err, -ENFILE, "%d interfaces are in use; fix: use one of them",
				    INTERFACES);
}

static void leave_interface(struct hk_interface *i)
{
	if (i->program && i->users == 0)
		hk_interface_close(i);
}

static void leave_queue(struct hk_queue *q)
{
	struct hk_interface *i = q->interface;

	if (q->clients)
		return;
	hk_queue_close(q);
	i->users--;
	leave_interface(i);
}

/* Whether a client may join those of a queue. */
static int may_join(const struct hk_queue *q, const struct client *c, uint32_t take,
		    struct hk_error *err)
{
	const struct passwd *pw = getpwuid(q->user);

	if (q->user == c->who.uid && q->used < q->sharers && take != HK_HELPER_TAKE_ALL &&
	    !q->frames.all && !(take == HK_HELPER_TAKE_OURS && q->frames.ours))
		return 0;
	return hk_error_set(err, -EBUSY,
			    "another process (%d of user %s) uses queue %u of %s; fix: end it, "
			    "or give each process an interface of its own%s",
			    (int)q->first, pw ? pw->pw_name : "?", q->number, q->interface->name,
			    /* a UDP socket receives only what is sent to it */
			    take == HK_HELPER_TAKE_ALL ? "" : hk_fix_or_udp(q->interface->name));
}

static int find_queue(const struct client *c, const struct hk_helper_request *r,
		      struct hk_queue **out, struct hk_error *err)
{
	struct hk_interface *i;
	struct hk_queue *empty = NULL;
	int rc = find_interface(r->iface, &i, err);

	if (rc)
		return rc;
	for (unsigned n = 0; n < QUEUES; n++) {
		struct hk_queue *q = &queue[n];

		*out = q;
		if (!q->interface)
			empty = empty ? empty : q;
		else if (q->interface == i && q->number == r->queue)
			return may_join(q, c, r->take, err);
	}
	rc = empty ? hk_queue_open(empty, i, r, err)
		   : hk_error_set(err, -ENFILE, "%d queues are in use", QUEUES);
	if (rc) {
		leave_interface(i);
		return rc;
	}
	empty->user = c->who.uid;
	empty->first = c->who.pid;
	i->users++;
	*out = empty;
	return 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static int check(const struct client *c, const struct hk_helper_request *r, struct hk_error *err)
{
	bool fits = r->iface[0] && r->iface[sizeof(r->iface) - 1] == '\0' &&
		    r->queue < HK_XDP_QUEUES && r->sharers >= 1 &&
		    r->sharers <= HK_XSK_SHARERS_MAX && r->take <= HK_HELPER_TAKE_ALL;

	if (!fits || c->queue)
		return hk_error_set(err, -EINVAL,
				    "the request is wrong; fix: install the library "
				    "and hikyaku-helper of one version");
	/* its own user may do what it could do itself */
	if (c->who.uid == 0 || (c->who.uid == geteuid() && !config->borrowed))
		return 0;
	if (r->take == HK_HELPER_TAKE_ALL) /* it would read what others send */
		return hk_error_set(err, -EPERM,
				    "only root may take all frames of %s; fix: leave out take=all",
				    r->iface);
	return hk_policy_check(config->policy, c->who.uid, r->iface, err);
}

/* Gives the client's socket its frames. */
static int take_frames(struct client *c, int fd)
{
	struct hk_queue *q = c->queue;
	int rc = hk_interface_set_socket(q->interface, c->slot, fd);

	if (c->take == HK_HELPER_TAKE_OURS)
		q->frames.ours = c->slot;
	else if (c->take == HK_HELPER_TAKE_ALL)
		q->frames.all = c->slot;
	return rc ? rc : hk_interface_set_queue(q->interface, q->number, &q->frames);
}

static void leave_frames(struct client *c)
{
	struct hk_queue *q = c->queue;

	q->frames.claims -= hk_interface_unclaim(q->interface, c->slot);
	if (c->udp >= 0) {
		hk_interface_leave_datagrams(q->interface, &c->datagrams);
		close(c->udp);
		c->udp = -1;
		q->frames.datagrams--;
	}
	if (q->frames.ours == c->slot)
		q->frames.ours = 0;
	if (q->frames.all == c->slot)
		q->frames.all = 0;
	(void)hk_interface_set_queue(q->interface, q->number, &q->frames);
	(void)hk_interface_set_socket(q->interface, c->slot, -1);
}

static int take_slot(struct client *c, const struct hk_helper_request *r, struct hk_queue *q,
		     int fd, struct hk_error *err)
{
	struct hk_interface *i = q->interface;

	if (i->slots == UINT64_MAX)
		return hk_error_set(err, -ENFILE, "64 processes use %s; fix: end one%s", i->name,
				    hk_fix_or_udp(i->name));
	c->slot = (uint32_t)__builtin_ctzll(~i->slots) + 1;
	c->queue = q;
	c->take = r->take;
	int rc = take_frames(c, fd);

	if (rc) {
		leave_frames(c);
		c->queue = NULL;
		return hk_error_set(err, rc,
				    "the kernel does not lead frames of %s to a socket: %s",
				    i->name, strerror(-rc));
	}
	i->slots |= UINT64_C(1) << (c->slot - 1);
	q->clients++;
	q->used++;
	return 0;
}

static int open_socket(struct client *c, const struct hk_helper_request *r,
		       struct hk_helper_reply *reply, int *fd, struct hk_error *err)
{
	struct hk_queue *q = NULL;
	int rc = check(c, r, err);

	if (rc == 0)
		rc = find_queue(c, r, &q, err);
	if (rc)
		return rc;
	fd[HK_HELPER_FD_SOCKET] = rc = hk_queue_socket(q, r, err);
	if (rc >= 0)
		rc = take_slot(c, r, q, fd[HK_HELPER_FD_SOCKET], err);
	if (rc) {
		if (fd[HK_HELPER_FD_SOCKET] >= 0)
			close(fd[HK_HELPER_FD_SOCKET]);
		leave_queue(q);
		return rc;
	}
	fd[HK_HELPER_FD_QUEUE] = q->socket;
	fd[HK_HELPER_FD_MEMORY] = q->memory;
	reply->slot = c->slot;
	reply->chunks = q->chunks;
	reply->rx_ring = q->rx_ring;
	reply->frame_max = HK_MIN(q->interface->mtu + 14, HK_CHUNK_DATA);
	reply->native = q->interface->native;
	reply->zero = q->zero;
	memcpy(reply->mac, q->interface->mac, sizeof(reply->mac));
	return 0;
}

static int claim(struct client *c, const struct hk_helper_request *r, struct hk_error *err)
{
	if (!c->queue || c->take != HK_HELPER_TAKE_CLAIMED)
		return hk_error_set(err, -EINVAL, "this socket claims no frames");
	struct hk_queue *q = c->queue;
	struct hk_xdp_claim what = {q->number, r->job, r->endpoint};
	int rc = hk_interface_claim(q->interface, &what, c->slot);

	if (rc)
		return hk_error_set(err, rc, "endpoint %u of job %08x on %s: %s", r->endpoint,
				    r->job, q->interface->name,
				    rc == -EBUSY ? "another process has it" : strerror(-rc));
	q->frames.claims++;
	return hk_interface_set_queue(q->interface, q->number, &q->frames);
}

/* @with: the socket; -1 afterwards if the client keeps it. */
static int claim_datagrams(struct client *c, int *with, struct hk_error *err)
{
	struct hk_xdp_datagrams what = {0};

	if (!c->queue || c->take != HK_HELPER_TAKE_CLAIMED || c->udp >= 0)
		return hk_error_set(err, -EINVAL, "this socket claims no datagrams");
	struct hk_queue *q = c->queue;

	if (hk_datagrams_of(*with, q->interface->name, &what) != 0)
		return hk_error_set(err, -EINVAL,
				    "datagrams are for a UDP socket that is bound to an address of "
				    "%s and a port; fix: use Linux 5.14 or newer",
				    q->interface->name);
	what.queue = q->number;
	int rc = hk_interface_claim_datagrams(q->interface, &what, c->slot);

	if (rc)
		return hk_error_set(err, rc, "UDP port %u on %s: %s", ntohs(what.port),
				    q->interface->name,
				    rc == -EBUSY ? "another process has it" : strerror(-rc));
	c->udp = *with;
	c->datagrams = what;
	*with = -1;
	q->frames.datagrams++;
	return hk_interface_set_queue(q->interface, q->number, &q->frames);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void drop(struct client *c)
{
	struct hk_queue *q = c->queue;

	close(c->fd);
	c->fd = -1;
	if (!q)
		return;
	leave_frames(c);
	hk_queue_release(q, c->slot);
	q->interface->slots &= ~(UINT64_C(1) << (c->slot - 1));
	c->queue = NULL;
	q->clients--;
	leave_queue(q);
}

/* @fd: NULL or HK_HELPER_FDS descriptors. */
static bool answer(const struct client *c, const struct hk_helper_reply *reply, const int *fd)
{
	union hk_descriptors control;
	struct iovec part = {(void *)reply, sizeof(*reply)};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd)
		hk_descriptors_add(&m, &control, fd, HK_HELPER_FDS);
	return sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*reply);
}

/* Receives a request. @with: the descriptor that came with it, or -1. Returns its length. */
static ssize_t receive(const struct client *c, struct hk_helper_request *r, int *with)
{
	union hk_descriptors control;
	struct iovec part = {r, sizeof(*r)};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};

	/* Nobody else can send any: to close some kinds of files takes as long as their user likes.
	 */
	if (c->queue && c->take == HK_HELPER_TAKE_CLAIMED && c->udp < 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	ssize_t len = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);

	*with = -1;
	if (len >= 0)
		(void)hk_descriptors_take(&m, with, 1);
	return len;
}

static void serve(struct client *c)
{
	struct hk_helper_request r;
	struct hk_helper_reply reply = {0};
	struct hk_error err = {""};
	int fd[HK_HELPER_FDS] = {-1, -1, -1}, with;
	ssize_t len = receive(c, &r, &with);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len <= 0) {
		if (with >= 0) /* it may come with an empty message */
			close(with);
		drop(c);
		return;
	}
	if (len != sizeof(r) || r.version != HK_HELPER_VERSION)
		reply.rc = hk_error_set(&err, -EPROTO,
					"hikyaku-helper speaks version %u; fix: restart it after "
					"an update",
					HK_HELPER_VERSION);
	else if (r.op == HK_HELPER_OPEN)
		reply.rc = open_socket(c, &r, &reply, fd, &err);
	else if (r.op == HK_HELPER_CLAIM)
		reply.rc = claim(c, &r, &err);
	else if (r.op == HK_HELPER_CLAIM_DATAGRAMS)
		reply.rc = claim_datagrams(c, &with, &err);
	else
		reply.rc = hk_error_set(&err, -EINVAL, "there is no request %u", r.op);
	if (with >= 0)
		close(with);
	memcpy(reply.text, err.text, sizeof(reply.text));
	bool gives = reply.rc == 0 && r.op == HK_HELPER_OPEN;
	bool sent = answer(c, &reply, gives ? fd : NULL);

	if (gives)
		close(fd[HK_HELPER_FD_SOCKET]); /* the client's now */
	if (!sent)
		drop(c);
}

/* A place for a client; of one that never asked, if all are taken. */
static struct client *place(void)
{
	struct client *oldest = NULL;

	for (unsigned i = 0; i < CLIENTS; i++) {
		struct client *c = &client[i];

		if (c->fd < 0)
			return c;
		if (!c->queue && hk_clock_ms() >= c->silent_until &&
		    (!oldest || c->silent_until < oldest->silent_until))
			oldest = c;
	}
	if (oldest)
		drop(oldest);
	return oldest;
}

static void welcome(void)
{
	int fd = accept4(config->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c = fd >= 0 ? place() : NULL;
	socklen_t len = sizeof(c->who);

	if (!c) {
		if (fd >= 0)
			close(fd);
		return;
	}
	*c = (struct client){.fd = fd, .udp = -1, .silent_until = hk_clock_ms() + SILENT_MS};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->who, &len) != 0)
		drop(c);
}

/* Waits for something to do. Returns the number of clients. Only here do signals arrive, so none is
 * missed between the check of `stopped` and the wait. */
static unsigned step(int timeout_ms)
{
	const struct timespec timeout = {0, timeout_ms * 1000000L};
	sigset_t none;
	struct pollfd p[CLIENTS + 1] = {{.fd = config->listening, .events = POLLIN}};
	unsigned n = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		p[i + 1] = (struct pollfd){.fd = client[i].fd, .events = POLLIN};
	sigemptyset(&none);
	if (ppoll(p, CLIENTS + 1, timeout_ms < 0 ? NULL : &timeout, &none) > 0) {
		for (unsigned i = 0; i < CLIENTS; i++)
			if (p[i + 1].revents)
				serve(&client[i]);
		if (p[0].revents)
			welcome();
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		n += client[i].fd >= 0;
	return n;
}

void hk_serve(const struct hk_serve_config *cfg)
{
	int64_t lonely_until = hk_clock_ms() + SILENT_MS;
	bool had = false;

	config = cfg;
	for (unsigned i = 0; i < CLIENTS; i++)
		client[i].fd = -1;
	while (!stopped) {
		unsigned n = step(cfg->on_demand && !had ? 100 : -1);

		had |= n > 0;
		if (cfg->on_demand && n == 0 && (had || hk_clock_ms() >= lonely_until))
			break;
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		if (client[i].fd >= 0)
			drop(&client[i]);
}

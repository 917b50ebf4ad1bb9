/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/holder.c: sets up the tagger of a job on this node, serves its ranks, and removes it.
 */
#include "sdn/tagger/holder.h"

#include "hostd/control.h"
#include "sdn/registrar/registrar.h"
#include "hostd/rundir.h"
#include "sdn/tagger/socket.h"
#include "sdn/tagger/kernel.h"
#include "sdn/tagger/node.h"
#include "sdn/tagger/registry.h"
#include "sdn/tagger/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_CLIENTS (HK_TAGGER_SLOTS + 16)
#define NO_SLOT     UINT32_MAX

struct client {
	int sock;
	uint32_t slot;    /* NO_SLOT: the client is not a rank */
	bool registering; /* the rank has joined, and gets its reply after the controller knows it
			   */
};

struct holder {
	const struct hk_tagger_holder_options *o;
	unsigned job;
	struct hk_rundir rd;
	int lock, claim, listener, signals;
	enum hk_tagger_attach way;
	char socket[128];
	struct hk_tagger_cgroup cgroup;
	struct hk_tagger_link link[HK_TAGGER_LINKS];
	int links;
	struct hk_tagger_kernel *kernel;
	struct hk_tagger_registry registry;
	struct client client[MAX_CLIENTS];
	unsigned clients;
	/* of the registrar, with the secret that the first rank brought; empty: from our
	 * environment */
	char registrar[HK_REGISTRAR_SECRET_MAX + 300];
};

/* ---- set-up ---------------------------------------------------------------------------------- */

static int claim_job(struct holder *h, unsigned job, struct hk_error *err)
{
	char name[HK_RUNDIR_NAME_MAX + 1], host[256];

	hk_rundir_host(host, sizeof(host));
	snprintf(name, sizeof(name), "tag-%u-%.24s", job, host);
	int rc = hk_rundir_find(name, &h->rd, err);
	if (rc)
		return rc;
	h->lock = hk_rundir_claim(&h->rd, hk_clock_ms(), err);
	if (h->lock == -EWOULDBLOCK)
		return hk_error_set(err, -EBUSY,
				    "job %u is tagged on this node already (%s); fix: use another "
				    "number, or omit --job",
				    job, h->rd.dir);
	if (h->lock < 0)
		return h->lock;
	h->claim = hk_tagger_attach_claim(job, err);
	if (h->claim < 0) {
		hk_rundir_remove(&h->rd);
		close(h->lock);
		h->lock = -1;
		return h->claim;
	}
	h->job = job;
	return 0;
}

/* Claims the job's number: the requested one, or the lowest free one. */
static int claim(struct holder *h, struct hk_error *err)
{
	hk_rundir_sweep(); /* removes the remains of killed holders, mainly their cgroups */
	if (h->o->job)
		return claim_job(h, h->o->job, err);
	for (unsigned job = 1; job < HK_TAG_JOBS; job++) {
		int rc = claim_job(h, job, err);
		if (rc != -EBUSY)
			return rc;
	}
	return hk_error_set(err, -EBUSY,
			    "all %d job numbers are in use on this node; fix: wait until a job "
			    "ends, or run without 'tag run' ('ss -xap' as root shows the owners of "
			    "the sockets @hikyaku-tag-...)",
			    HK_TAG_JOBS - 1);
}

static int listen_at(struct holder *h, struct hk_error *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	hk_rundir_path(&h->rd, HK_TAGGER_SOCKET, h->socket);
	if (strlen(h->socket) >= sizeof(addr.sun_path))
		return hk_error_set(
			err, -ENAMETOOLONG,
			"the path %s is too long for a socket; fix: set HIKYAKU_RUNDIR to "
			"a shorter directory",
			h->socket);
	memcpy(addr.sun_path, h->socket, strlen(h->socket) + 1);
	h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->listener < 0 || bind(h->listener, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    listen(h->listener, MAX_CLIENTS) != 0)
		return hk_error_set(
			err, -errno,
			"cannot listen at %s: %s; fix: check the directory's permissions",
			h->socket, strerror(errno));
	return 0;
}

static int catch_signals(struct holder *h, struct hk_error *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN); /* the process that reads our report may have ended */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	h->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return h->signals >= 0
		       ? 0
		       : hk_error_set(err, -errno, "cannot watch signals: %s", strerror(errno));
}

/* The controller knows a rank by one address. Its switches drop tagged frames from another
 * address. */
static int check_one_address(const struct holder *h, struct hk_error *err)
{
	for (int i = 1; i < h->links && h->o->registrar; i++)
		if (h->link[i].mac != h->link[0].mac)
			return hk_error_set(err, -EINVAL,
					    "%s and %s have different addresses, and the "
					    "controller knows a rank by one address; fix: name the "
					    "one that MPI uses, such as --iface %s",
					    h->link[0].name, h->link[i].name, h->link[i].name);
	return 0;
}

static int set_up(struct holder *h, struct hk_error *err)
{
	char name[40];
	int rc = catch_signals(h, err);

	if (rc)
		return rc;
	h->links = hk_tagger_links_find(h->o->link, h->o->links, h->link, err);
	if (h->links < 0)
		return h->links;
	rc = check_one_address(h, err);
	if (rc == 0)
		rc = claim(h, err);
	if (rc)
		return rc;
	hk_tagger_kernel_quiet();
	hk_tagger_attach_sweep(h->job); /* filters of killed holders */
	h->way = h->o->attach == HK_TAGGER_ATTACH_AUTO ? hk_tagger_attach_probe(h->link[0].ifindex)
						       : h->o->attach;
	rc = hk_tagger_kernel_open(&h->kernel, h->job, h->way, err);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "hikyaku-tag-%u-%d", h->job, (int)getpid());
	rc = hk_tagger_cgroup_make(name, &h->cgroup, err);
	if (rc)
		return rc;
	rc = hk_rundir_note(&h->rd, h->cgroup.path, err);
	if (rc == 0)
		rc = hk_tagger_kernel_attach_cgroup(h->kernel, h->cgroup.fd, err);
	for (int i = 0; i < h->links && rc == 0; i++)
		rc = hk_tagger_kernel_attach_link(h->kernel, h->link[i].ifindex, h->link[i].name,
						  h->link[i].mac, h->o->restore, err);
	if (rc == 0 && h->o->measure)
		rc = hk_tagger_kernel_measure(h->kernel, err);
	return rc ? rc : listen_at(h, err);
}

static void tear_down(struct holder *h)
{
	while (h->clients > 0)
		close(h->client[--h->clients].sock);
	hk_tagger_kernel_close(h->kernel);
	if (h->cgroup.fd >= 0) /* if it stays, the next holder's sweep removes it */
		(void)hk_tagger_cgroup_remove(&h->cgroup);
	if (h->listener >= 0)
		close(h->listener);
	if (h->lock >= 0) {
		hk_rundir_remove(&h->rd);
		close(h->lock);
	}
	if (h->claim >= 0)
		close(h->claim);
	if (h->signals >= 0)
		close(h->signals);
}

/* ---- service --------------------------------------------------------------------------------- */

/* Whether the client is a process of this user or of root. Fills in its credentials. */
static bool peer_allowed(int sock, struct ucred *who)
{
	socklen_t len = sizeof(*who);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, who, &len) == 0 &&
	       (who->uid == geteuid() || who->uid == 0);
}

/* Keeps the secret that a rank brings. This process has none if mpirun started it on another node.
 */
static void keep_secret(struct holder *h, const struct hk_tagger_request *request)
{
	size_t n = strnlen(request->secret, sizeof(request->secret));

	if (h->o->registrar && !h->registrar[0] && n > 0 && n < sizeof(request->secret) &&
	    !memchr(request->secret, '@', n))
		snprintf(h->registrar, sizeof(h->registrar), "%s@%s", request->secret,
			 h->o->registrar);
}

static int join(struct holder *h, struct client *c, const struct hk_tagger_request *request,
		struct hk_error *err)
{
	struct ucred who;

	if (c->slot != NO_SLOT)
		return hk_error_set(err, -EEXIST,
				    "this process has joined already; fix: run one MPI program in "
				    "each process");
	if (!peer_allowed(c->sock, &who) || !hk_tagger_cgroup_has(&h->cgroup, who.pid))
		return hk_error_set(err, -EPERM,
				    "process %d does not belong to job %u: it is not in the cgroup "
				    "%s; fix: start it by the job's mpirun",
				    (int)who.pid, h->job, h->cgroup.path);
	int slot = hk_tagger_registry_join(&h->registry, request->rank, request->ranks,
					   (uint32_t)who.pid, err);
	if (slot < 0)
		return slot;
	int rc = hk_tagger_kernel_add(h->kernel, (uint32_t)slot, request->rank, (uint32_t)who.pid);
	if (rc) {
		hk_tagger_registry_leave(&h->registry, (uint32_t)slot);
		return hk_error_set(err, rc, "cannot enter the rank into the kernel's map: %s",
				    strerror(-rc));
	}
	c->slot = (uint32_t)slot;
	keep_secret(h, request);
	return 0;
}

static void leave(struct holder *h, struct client *c)
{
	const struct hk_tagger_registry_rank *r = &h->registry.slot[c->slot];

	hk_tagger_kernel_remove(h->kernel, c->slot, r->rank, r->pid);
	hk_tagger_registry_leave(&h->registry, c->slot);
	c->slot = NO_SLOT;
}

static int report(struct holder *h, struct hk_error *err)
{
	struct hk_tagger_report r = {.job = h->job,
				     .way = h->way,
				     .restore = h->o->restore,
				     .cgroup = h->cgroup.path,
				     .links = (unsigned)h->links,
				     .link = h->link,
				     .registry = &h->registry,
				     .kernel = h->kernel};

	return hk_tagger_report_fd(&r, err);
}

static void send_reply(struct client *c, struct hk_tagger_reply a, const struct hk_error *err,
		       int fd)
{
	a.magic = HK_TAGGER_MAGIC;
	snprintf(a.text, sizeof(a.text), "%.*s", (int)sizeof(a.text) - 1, err->text);
	hk_tagger_reply_send(c->sock, &a, fd);
}

static void reply_join(struct holder *h, struct client *c, int rc, const struct hk_error *err)
{
	if (rc == 0)
		send_reply(c, (struct hk_tagger_reply){.slot = c->slot}, err,
			   hk_tagger_kernel_slots_fd(h->kernel));
	else
		send_reply(c, (struct hk_tagger_reply){.status = rc}, err, -1);
}

static void reply_status(struct holder *h, struct client *c)
{
	struct hk_tagger_reply a = {0};
	struct hk_error err = {""};
	struct ucred who;
	int fd = -1;

	if (!peer_allowed(c->sock, &who)) {
		a.status = hk_error_set(
			&err, -EPERM,
			"job %u belongs to another user; fix: ask as that user, or as root",
			h->job);
	} else {
		fd = report(h, &err);
		a.status = HK_MIN(fd, 0);
	}
	send_reply(c, a, &err, fd);
	if (fd >= 0)
		close(fd);
}

static void handle_request(struct holder *h, struct client *c,
			   const struct hk_tagger_request *request)
{
	struct hk_error err = {""};

	if (request->kind == HK_TAGGER_STATUS) {
		reply_status(h, c);
		return;
	}
	int rc = join(h, c, request, &err);
	if (rc == 0 && h->o->registrar)
		c->registering = true;
	else
		reply_join(h, c, rc, &err);
}

/* Registers all ranks that have joined since the last time, in one call to the controller, and then
 * replies to them. The network must know them before their first connection. */
static void register_ranks(struct holder *h)
{
	static uint32_t ranks[HK_TAGGER_SLOTS];
	struct hk_error err = {""};
	unsigned n = 0;

	for (unsigned i = 0; i < h->clients; i++)
		if (h->client[i].registering)
			ranks[n++] = h->registry.slot[h->client[i].slot].rank;
	if (n == 0)
		return;
	int rc = hk_registrar_register(h->registrar[0] ? h->registrar : h->o->registrar, ranks, n,
				       h->link[0].mac, &err);
	for (unsigned i = 0; i < h->clients; i++) {
		struct client *c = &h->client[i];
		if (!c->registering)
			continue;
		c->registering = false;
		if (rc)
			leave(h, c);
		reply_join(h, c, rc, &err);
	}
}

/* Receives a request. False if the client has closed the connection, or has sent something
 * malformed. */
static bool receive_request(struct holder *h, struct client *c)
{
	struct hk_tagger_request request;
	ssize_t n = recv(c->sock, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n != sizeof(request) || request.magic != HK_TAGGER_MAGIC ||
	    request.version != HK_TAGGER_VERSION ||
	    (request.kind != HK_TAGGER_JOIN && request.kind != HK_TAGGER_STATUS))
		return false;
	handle_request(h, c, &request);
	return true;
}

static void drop_client(struct holder *h, unsigned i)
{
	struct client *c = &h->client[i];

	if (c->slot != NO_SLOT)
		leave(h, c);
	close(c->sock);
	*c = h->client[--h->clients];
}

static void accept_client(struct holder *h)
{
	int sock = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock < 0)
		return;
	if (h->clients == MAX_CLIENTS) {
		close(sock);
		return;
	}
	h->client[h->clients++] = (struct client){.sock = sock, .slot = NO_SLOT};
}

enum { LISTENER, SIGNALS, EVENTS, FIRST_CLIENT };

/* Serves until a signal arrives or the last process of the job has ended. */
static void run(struct holder *h)
{
	static struct pollfd p[FIRST_CLIENT + MAX_CLIENTS];
	bool more = false; /* an event was handled; ranks are registered when no more events are
			      pending */

	while (hk_tagger_cgroup_populated(&h->cgroup)) {
		p[LISTENER] = (struct pollfd){.fd = h->listener, .events = POLLIN};
		p[SIGNALS] = (struct pollfd){.fd = h->signals, .events = POLLIN};
		p[EVENTS] = (struct pollfd){.fd = h->cgroup.events, .events = POLLPRI};
		for (unsigned i = 0; i < h->clients; i++)
			p[FIRST_CLIENT + i] = (struct pollfd){.fd = h->client[i].sock,
							      .events = POLLIN};
		unsigned n = h->clients;
		int events = poll(p, FIRST_CLIENT + n, more ? 0 : -1);
		if (events < 0 && errno != EINTR)
			return;
		more = events != 0;
		if (events == 0)
			register_ranks(h);
		if (p[SIGNALS].revents)
			return;
		/* from the last to the first, because drop_client() moves the last into the gap */
		for (unsigned i = n; i-- > 0;)
			if (p[FIRST_CLIENT + i].revents && !receive_request(h, &h->client[i]))
				drop_client(h, i);
		if (p[LISTENER].revents)
			accept_client(h);
	}
}

/* Redirects output to /dev/null. A reader of the command's output must not wait for the holder's
 * end. */
static void detach_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

int hk_tagger_holder_run(const struct hk_tagger_holder_options *o, int ready, int go)
{
	struct holder *h = calloc(1, sizeof(*h));
	struct hk_tagger_holder_ready result = {.rc = -ENOMEM, .err = {"out of memory"}};
	char joined = 0;

	if (h) {
		h->o = o;
		h->lock = h->claim = h->listener = h->signals = h->cgroup.fd = h->cgroup.events =
			-1;
		result.rc = set_up(h, &result.err);
		result.job = h->job;
		snprintf(result.cgroup, sizeof(result.cgroup), "%s", h->cgroup.path);
		snprintf(result.socket, sizeof(result.socket), "%s", h->socket);
		if (result.rc) { /* before the report is written, so that its reader finds nothing
				    left */
			tear_down(h);
			free(h);
			h = NULL;
		}
	}
	bool delivered = write(ready, &result, sizeof(result)) == sizeof(result);
	close(ready);
	detach_terminal();
	if (delivered && result.rc == 0 && read(go, &joined, 1) == 1)
		run(h);
	close(go);
	if (h)
		tear_down(h);
	free(h);
	return result.rc ? 1 : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/holder.c: sets the tagger of a job up on this node, serves its ranks, takes it away.
 */
#include "tagger/holder.h"

#include "host/control.h"
#include "host/registrar.h"
#include "host/rundir.h"
#include "tagger/ask.h"
#include "tagger/kernel.h"
#include "tagger/place.h"
#include "tagger/registry.h"
#include "tagger/report.h"

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
	uint32_t slot; /* NO_SLOT: no rank */
	bool untold;   /* the controller does not know this rank yet, and it waits for its answer */
};

struct holder {
	const struct hk_holder_options *o;
	unsigned job;
	struct hk_rundir rd;
	int lock, claim, listener, signals;
	enum hk_attach way;
	char socket[128];
	struct hk_place_cgroup cgroup;
	struct hk_place_link link[HK_PLACE_LINKS];
	int links;
	struct hk_kernel *kernel;
	struct hk_registry registry;
	struct client client[MAX_CLIENTS];
	unsigned clients;
};

/* ---- set-up -------------------------------------------------------------------------------- */

static int claim_job(struct holder *h, unsigned job, struct hk_error *err)
{
	char name[HK_RUNDIR_NAME_MAX + 1], host[256];

	hk_rundir_host(host, sizeof(host));
	snprintf(name, sizeof(name), "tag-%u-%.24s", job, host);
	int rc = hk_rundir_find(name, &h->rd, err);
	if (rc)
		return rc;
	h->lock = hk_rundir_claim(&h->rd, hk_ctl_now_ms(), err);
	if (h->lock == -EWOULDBLOCK)
		return hk_error_set(err, -EBUSY,
				    "job %u is tagged on this node already (%s); fix: take another "
				    "number, or leave --job away",
				    job, h->rd.dir);
	if (h->lock < 0)
		return h->lock;
	h->claim = hk_attach_claim(job, err);
	if (h->claim < 0) {
		hk_rundir_remove(&h->rd);
		close(h->lock);
		h->lock = -1;
		return h->claim;
	}
	h->job = job;
	return 0;
}

/* Claims the job's number: the one that was asked for, or the lowest that is free. */
static int claim(struct holder *h, struct hk_error *err)
{
	hk_rundir_sweep(); /* what killed ones left, their cgroups above all */
	if (h->o->job)
		return claim_job(h, h->o->job, err);
	for (unsigned job = 1; job < HK_TAG_JOBS; job++) {
		int rc = claim_job(h, job, err);
		if (rc != -EBUSY)
			return rc;
	}
	return hk_error_set(
		err, -EBUSY,
		"all %d numbers of jobs are taken on this node; fix: wait until one ends, or run "
		"without 'tag run' ('ss -xap' as root says who has the sockets @hikyaku-tag-...)",
		HK_TAG_JOBS - 1);
}

static int listen_at(struct holder *h, struct hk_error *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	hk_rundir_path(&h->rd, HK_ASK_SOCKET, h->socket);
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
		return hk_error_set(err, -errno, "cannot listen at %s: %s", h->socket,
				    strerror(errno));
	return 0;
}

static int catch_signals(struct holder *h, struct hk_error *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN); /* whoever started us may be gone when we say that we are ready */
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

/* The controller knows a rank by one address, and its switches drop tags that come from another. */
static int check_one_address(const struct holder *h, struct hk_error *err)
{
	for (int i = 1; i < h->links && h->o->registrar; i++)
		if (h->link[i].mac != h->link[0].mac)
			return hk_error_set(
				err, -EINVAL,
				"%s and %s are to be tagged, which have different addresses, and "
				"the controller knows a rank by one; fix: --iface NAME, the one "
				"interface that MPI sends by",
				h->link[0].name, h->link[i].name);
	return 0;
}

static int set_up(struct holder *h, struct hk_error *err)
{
	char name[40];
	int rc = catch_signals(h, err);

	if (rc)
		return rc;
	h->links = hk_place_links(h->o->link, h->o->links, h->link, err);
	if (h->links < 0)
		return h->links;
	rc = check_one_address(h, err);
	if (rc == 0)
		rc = claim(h, err);
	if (rc)
		return rc;
	hk_kernel_quiet();
	hk_attach_sweep(h->job); /* filters of killed ones */
	h->way = h->o->attach == HK_ATTACH_AUTO ? hk_attach_probe(h->link[0].ifindex)
						: h->o->attach;
	rc = hk_kernel_open(&h->kernel, h->job, h->way, err);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "hikyaku-tag-%u-%d", h->job, (int)getpid());
	rc = hk_place_make_cgroup(name, &h->cgroup, err);
	if (rc)
		return rc;
	rc = hk_rundir_note(&h->rd, h->cgroup.path, err);
	if (rc == 0)
		rc = hk_kernel_attach_cgroup(h->kernel, h->cgroup.fd, err);
	for (int i = 0; i < h->links && rc == 0; i++)
		rc = hk_kernel_attach_link(h->kernel, h->link[i].ifindex, h->link[i].name,
					   h->link[i].mac, h->o->restore, err);
	if (rc == 0 && h->o->measure)
		rc = hk_kernel_measure(h->kernel, err);
	return rc ? rc : listen_at(h, err);
}

static void tear_down(struct holder *h)
{
	while (h->clients > 0)
		close(h->client[--h->clients].sock);
	hk_kernel_close(h->kernel);
	if (h->cgroup.fd >= 0)
		hk_place_remove_cgroup(&h->cgroup);
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

/* ---- service ------------------------------------------------------------------------------- */

/* Who stands at the other end? Only this user, and root. */
static bool may_ask(int sock, struct ucred *who)
{
	socklen_t len = sizeof(*who);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, who, &len) == 0 &&
	       (who->uid == geteuid() || who->uid == 0);
}

static int join(struct holder *h, struct client *c, const struct hk_ask *ask, struct hk_error *err)
{
	struct ucred who;

	if (c->slot != NO_SLOT)
		return hk_error_set(err, -EEXIST, "this process has joined already");
	if (!may_ask(c->sock, &who) || !hk_place_has(&h->cgroup, who.pid))
		return hk_error_set(err, -EPERM,
				    "process %d is not of job %u: it is not in its cgroup %s",
				    (int)who.pid, h->job, h->cgroup.path);
	int slot = hk_registry_join(&h->registry, ask->rank, ask->ranks, (uint32_t)who.pid, err);
	if (slot < 0)
		return slot;
	int rc = hk_kernel_add(h->kernel, (uint32_t)slot, ask->rank, (uint32_t)who.pid);
	if (rc) {
		hk_registry_leave(&h->registry, (uint32_t)slot);
		return hk_error_set(err, rc, "the kernel takes no further rank: %s", strerror(-rc));
	}
	c->slot = (uint32_t)slot;
	return 0;
}

static void leave(struct holder *h, struct client *c)
{
	const struct hk_registry_rank *r = &h->registry.slot[c->slot];

	hk_kernel_remove(h->kernel, c->slot, r->rank, r->pid);
	hk_registry_leave(&h->registry, c->slot);
	c->slot = NO_SLOT;
}

static int report(struct holder *h)
{
	struct hk_report r = {.job = h->job,
			      .way = h->way,
			      .restore = h->o->restore,
			      .cgroup = h->cgroup.path,
			      .links = (unsigned)h->links,
			      .link = h->link,
			      .registry = &h->registry,
			      .kernel = h->kernel};

	return hk_report_fd(&r);
}

static void send_answer(struct client *c, struct hk_answer a, const struct hk_error *err, int fd)
{
	a.magic = HK_ASK_MAGIC;
	snprintf(a.text, sizeof(a.text), "%.*s", (int)sizeof(a.text) - 1, err->text);
	hk_answer_send(c->sock, &a, fd);
}

static void answer_join(struct holder *h, struct client *c, int rc, const struct hk_error *err)
{
	if (rc == 0)
		send_answer(c, (struct hk_answer){.slot = c->slot}, err,
			    hk_kernel_slots_fd(h->kernel));
	else
		send_answer(c, (struct hk_answer){.status = rc}, err, -1);
}

static void answer_status(struct holder *h, struct client *c)
{
	struct hk_answer a = {0};
	struct hk_error err = {""};
	struct ucred who;
	int fd = -1;

	if (!may_ask(c->sock, &who)) {
		a.status = hk_error_set(&err, -EPERM, "job %u is of another user", h->job);
	} else {
		fd = report(h);
		if (fd < 0)
			a.status = hk_error_set(&err, fd, "cannot write the status: %s",
						strerror(-fd));
	}
	send_answer(c, a, &err, fd);
	if (fd >= 0)
		close(fd);
}

static void answer(struct holder *h, struct client *c, const struct hk_ask *ask)
{
	struct hk_error err = {""};

	if (ask->kind == HK_ASK_STATUS) {
		answer_status(h, c);
		return;
	}
	int rc = join(h, c, ask, &err);
	if (rc == 0 && h->o->registrar)
		c->untold = true;
	else
		answer_join(h, c, rc, &err);
}

/* Tells the controller of all ranks that have joined since the last time, at once, and then answers them: the
 * network must know them before they make their first connection. */
static void tell(struct holder *h)
{
	static uint32_t ranks[HK_TAGGER_SLOTS];
	struct hk_error err = {""};
	unsigned n = 0;

	for (unsigned i = 0; i < h->clients; i++)
		if (h->client[i].untold)
			ranks[n++] = h->registry.slot[h->client[i].slot].rank;
	if (n == 0)
		return;
	int rc = hk_registrar_tell(h->o->registrar, ranks, n, h->link[0].mac, &err);
	for (unsigned i = 0; i < h->clients; i++) {
		struct client *c = &h->client[i];
		if (!c->untold)
			continue;
		c->untold = false;
		if (rc)
			leave(h, c);
		answer_join(h, c, rc, &err);
	}
}

/* False if the client is gone, or says what nobody says. */
static bool hear(struct holder *h, struct client *c)
{
	struct hk_ask ask;
	ssize_t n = recv(c->sock, &ask, sizeof(ask), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n != sizeof(ask) || ask.magic != HK_ASK_MAGIC || ask.version != HK_ASK_VERSION ||
	    (ask.kind != HK_ASK_JOIN && ask.kind != HK_ASK_STATUS))
		return false;
	answer(h, c, &ask);
	return true;
}

static void drop(struct holder *h, unsigned i)
{
	struct client *c = &h->client[i];

	if (c->slot != NO_SLOT)
		leave(h, c);
	close(c->sock);
	*c = h->client[--h->clients];
}

static void greet(struct holder *h)
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

/* Until a signal comes or the last process of the job has ended. */
static void serve(struct holder *h)
{
	static struct pollfd p[FIRST_CLIENT + MAX_CLIENTS];
	bool heard = false; /* something; all of it is heard before the controller is told */

	while (hk_place_populated(&h->cgroup)) {
		p[LISTENER] = (struct pollfd){.fd = h->listener, .events = POLLIN};
		p[SIGNALS] = (struct pollfd){.fd = h->signals, .events = POLLIN};
		p[EVENTS] = (struct pollfd){.fd = h->cgroup.events, .events = POLLPRI};
		for (unsigned i = 0; i < h->clients; i++)
			p[FIRST_CLIENT + i] = (struct pollfd){.fd = h->client[i].sock,
							      .events = POLLIN};
		unsigned n = h->clients;
		int events = poll(p, FIRST_CLIENT + n, heard ? 0 : -1);
		if (events < 0 && errno != EINTR)
			return;
		heard = events != 0;
		if (events == 0)
			tell(h);
		if (p[SIGNALS].revents)
			return;
		/* from the last: drop() puts the last in place of the dropped */
		for (unsigned i = n; i-- > 0;)
			if (p[FIRST_CLIENT + i].revents && !hear(h, &h->client[i]))
				drop(h, i);
		if (p[LISTENER].revents)
			greet(h);
	}
}

/* Output of a process that stays must keep nobody waiting for its end. */
static void let_go_of_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

int hk_holder_run(const struct hk_holder_options *o, int ready, int go)
{
	struct holder *h = calloc(1, sizeof(*h));
	struct hk_holder_ready said = {.rc = -ENOMEM, .err = {"out of memory"}};
	char joined = 0;

	if (h) {
		h->o = o;
		h->lock = h->claim = h->listener = h->signals = h->cgroup.fd = h->cgroup.events =
			-1;
		said.rc = set_up(h, &said.err);
		said.job = h->job;
		snprintf(said.cgroup, sizeof(said.cgroup), "%s", h->cgroup.path);
		snprintf(said.socket, sizeof(said.socket), "%s", h->socket);
		if (said.rc) { /* before it is told: who hears of it finds nothing left */
			tear_down(h);
			free(h);
			h = NULL;
		}
	}
	bool told = write(ready, &said, sizeof(said)) == sizeof(said);
	close(ready);
	let_go_of_terminal();
	if (told && said.rc == 0 && read(go, &joined, 1) == 1)
		serve(h);
	close(go);
	if (h)
		tear_down(h);
	free(h);
	return said.rc ? 1 : 0;
}

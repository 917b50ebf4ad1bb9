/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/client.c: the requests of a rank, and the thread that watches the connection.
 */
#include "hostd/client.h"
#include "base/thread.h"
#include "hostd/rundir.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 10000

struct hk_hostd_client {
	int fd;
	uint32_t seq;
	struct hk_ctl_welcome lease;
	char name[HK_RUNDIR_NAME_MAX + 1];
	/* the watcher */
	pthread_t watcher;
	bool watching;
	int stop_fd; /* eventfd that ends the watcher; -1: none */
	_Atomic bool lost;
	void (*lost_fn)(void *arg);
	void *lost_arg;
	pthread_mutex_t text_lock;
	char lost_text[512]; /* the first reason; "": none yet */
};

const struct hk_ctl_welcome *hk_hostd_client_lease(const struct hk_hostd_client *h)
{
	return &h->lease;
}

void hk_hostd_client_clean(const struct hk_hostd_client *h)
{
	struct hk_rundir rd;

	if (hk_rundir_find(h->name, &rd, NULL) == 0)
		hk_rundir_clean(&rd);
}

int hk_hostd_client_fd(const struct hk_hostd_client *h)
{
	return h->fd;
}

/* ---- request and answer -------------------------------------------------------------------- */

static void set_lost_text(struct hk_hostd_client *h, const char *text)
{
	pthread_mutex_lock(&h->text_lock);
	if (!h->lost_text[0])
		snprintf(h->lost_text, sizeof(h->lost_text), "%s", text);
	pthread_mutex_unlock(&h->text_lock);
}

/* Sends @m and waits for its answer of type @want, which replaces @m. Returns @want, or a negative
 * errno: -ECONNRESET if the daemon closed the connection. */
static int request(struct hk_hostd_client *h, union hk_ctl_msg *m, enum hk_ctl_type want,
		   int64_t deadline, struct hk_error *err)
{
	const char *name = hk_ctl_type_name(m->hdr.type);
	uint32_t seq = m->hdr.seq;
	int rc = hk_ctl_send(h->fd, m, deadline);

	if (rc && rc != -EPIPE) /* after -EPIPE, its last error may still be readable */
		return hk_error_set(err, rc, "cannot send %s to hikyakud '%s': %s", name, h->name,
				    strerror(-rc));
	for (;;) {
		rc = hk_ctl_recv(h->fd, m, deadline, err);
		if (rc == -ETIMEDOUT)
			return hk_error_set(
				err, rc,
				"hikyakud '%s' did not answer %s in time; fix: run hikyaku "
				"daemon status --name %s",
				h->name, name, h->name);
		if (rc < 0)
			return rc;
		if (rc == 0)
			return hk_error_set(
				err, -ECONNRESET,
				"hikyakud '%s' closed the connection instead of answering "
				"%s; fix: read its log",
				h->name, name);
		if (rc == HK_CTL_ERROR && (m->hdr.seq == seq || m->hdr.seq == 0)) {
			if (m->hdr.seq == 0)
				set_lost_text(h, m->error.text);
			return hk_error_set(err, m->error.code, "%s", m->error.text);
		}
		if (rc == (int)want && m->hdr.seq == seq)
			return rc;
		/* skip the answer to an earlier request that timed out */
		if (m->hdr.seq == 0 || m->hdr.seq >= seq)
			return hk_error_set(err, -EPROTO,
					    "hikyakud '%s' answered %s with %s; fix: use hikyakud "
					    "and ranks of the same release of Hikyaku",
					    h->name, name, hk_ctl_type_name((unsigned)rc));
	}
}

/* ---- connecting ---------------------------------------------------------------------------- */

/* Connects to the daemon of @rd and asks for a slot. -ENOENT, -ECONNREFUSED: it does not run. */
static int join(struct hk_hostd_client *h, const struct hk_rundir *rd,
		const struct hk_hostd_request *req, int64_t deadline, struct hk_error *err)
{
	char path[128];
	union hk_ctl_msg m;
	uid_t uid;
	pid_t pid;

	int rc = hk_rundir_check_base(rd, err);
	if (rc)
		return rc;
	hk_rundir_path(rd, "control", path);
	int fd = hk_ctl_connect(path, deadline, err);
	if (fd < 0)
		return fd;
	rc = hk_ctl_peer(fd, &uid, &pid);
	if (rc == 0 && uid != geteuid())
		rc = hk_error_set(
			err, -EPERM,
			"hikyakud '%s' belongs to user %u, but this rank to user %u; fix: "
			"set HIKYAKU_RUNDIR to a directory of your own",
			rd->name, uid, geteuid());
	if (rc) {
		close(fd);
		return rc;
	}
	h->fd = fd;
	snprintf(h->name, sizeof(h->name), "%s", rd->name);

	hk_ctl_init(&m, HK_CTL_HELLO, ++h->seq, 0);
	m.hello.job_key = req->job_key;
	m.hello.endpoint = req->endpoint;
	m.hello.local_rank = req->local_rank;
	m.hello.local_ranks = req->local_ranks;
	m.hello.pid = (uint32_t)getpid();
	hk_ctl_set_text(m.hello.release, sizeof(m.hello.release), HK_RELEASE);
	hk_rundir_host(m.hello.host, sizeof(m.hello.host));
	rc = request(h, &m, HK_CTL_WELCOME, deadline, err);
	if (rc < 0) {
		close(fd);
		h->fd = -1;
		return rc;
	}
	h->lease = m.welcome;
	return 0;
}

/* Joins the job's own daemon; starts it first if it does not run. A daemon that is about to end
 * closes or refuses the connection: then this starts the next one. */
static int join_or_start(struct hk_hostd_client *h, const struct hk_hostd_request *req,
			 int64_t deadline, struct hk_error *err)
{
	char name[HK_RUNDIR_NAME_MAX + 1];
	struct hk_rundir rd;

	hk_rundir_job_name(req->job_daemon ? req->job_daemon : req->job_key, name);
	int rc = hk_rundir_find(name, &rd, err);
	while (rc == 0) {
		rc = join(h, &rd, req, deadline, err);
		if (rc != -ENOENT && rc != -ECONNREFUSED && rc != -ECONNRESET)
			return rc;
		if (hk_clock_ms() >= deadline)
			return hk_error_set(
				err, -ETIMEDOUT,
				"hikyakud '%s' cannot be reached, since it ends as soon as it has "
				"started; fix: find out why: hikyakud --name %s",
				rd.name, rd.name);
		rc = hk_hostd_client_start_daemon(&rd, req, deadline, err);
	}
	return rc;
}

int hk_hostd_client_connect(const struct hk_hostd_request *req, struct hk_hostd_client **out,
			    struct hk_error *err)
{
	int64_t deadline = hk_clock_ms() + (req->timeout_ms ? req->timeout_ms : DEFAULT_TIMEOUT_MS);
	const char *name = req->name ? req->name : HK_RUNDIR_DEFAULT;
	struct hk_rundir rd;

	*out = NULL;
	struct hk_hostd_client *h = calloc(1, sizeof(*h));
	if (!h)
		return hk_error_set(err, -ENOMEM, "no memory for the connection to hikyakud");
	h->fd = h->stop_fd = -1;
	pthread_mutex_init(&h->text_lock, NULL);
	int rc = hk_rundir_find(name, &rd, err);
	if (rc == 0) {
		rc = join(h, &rd, req, deadline, err);
		bool none = rc == -ENOENT || rc == -ECONNREFUSED;
		if (req->name && none)
			hk_error_set(
				err, rc,
				"no hikyakud '%s' of user %u runs here; fix: start it: hikyaku "
				"daemon start --name %s%s%.200s%s",
				req->name, geteuid(), req->name, req->port ? " --port '" : "",
				req->port ? req->port : "", req->port ? "'" : "");
		/* -EXDEV: it is the daemon of another node that shares our file system */
		if (!req->name && (none || rc == -EXDEV))
			rc = join_or_start(h, req, deadline, err);
	}
	if (rc) {
		free(h);
		return rc;
	}
	*out = h;
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

int hk_hostd_client_wires(struct hk_hostd_client *h, const struct hk_ctl_node *node, unsigned count,
			  struct hk_ctl_wire *wire, unsigned timeout_ms, struct hk_error *err)
{
	union hk_ctl_msg m;

	if (count > HK_CTL_MAX_NODES)
		return hk_error_set(err, -E2BIG,
				    "%u other nodes are more than the %u to which one daemon can "
				    "have wires; fix: use a port with a network switch",
				    count, HK_CTL_MAX_NODES);
	hk_ctl_init(&m, HK_CTL_WIRES, ++h->seq, count);
	m.wires.timeout_ms = HK_MAX(timeout_ms, 1);
	for (unsigned i = 0; i < count; i++)
		m.wires.node[i] = node[i];
	/* the daemon enforces the limit; wait one second longer, for its error text */
	int rc = request(h, &m, HK_CTL_WIRES_READY, hk_clock_ms() + timeout_ms + 1000, err);
	if (rc < 0)
		return rc;
	bool same = m.wires_ready.count == count;
	for (unsigned i = 0; same && i < count; i++)
		same = m.wires_ready.wire[i].node_id == node[i].node_id;
	if (!same)
		return hk_error_set(err, -EPROTO,
				    "hikyakud '%s' answered with other wires; fix: use hikyakud "
				    "and ranks of the same release of Hikyaku",
				    h->name);
	memcpy(wire, m.wires_ready.wire, count * sizeof(*wire));
	return 0;
}

int hk_hostd_client_ready(struct hk_hostd_client *h, const void *worker, unsigned timeout_ms,
			  struct hk_error *err)
{
	union hk_ctl_msg m;

	hk_ctl_init(&m, HK_CTL_READY, ++h->seq, 0);
	m.ready.worker = (uintptr_t)worker;
	int rc = request(h, &m, HK_CTL_PROXIED, hk_clock_ms() + timeout_ms, err);
	return rc < 0 ? rc : 0;
}

int hk_hostd_client_leave(struct hk_hostd_client *h, unsigned timeout_ms, struct hk_error *err)
{
	union hk_ctl_msg m;

	hk_ctl_init(&m, HK_CTL_LEAVE, ++h->seq, 0);
	int rc = request(h, &m, HK_CTL_LEFT, hk_clock_ms() + timeout_ms, err);
	return rc < 0 ? rc : 0;
}

void hk_hostd_client_close(struct hk_hostd_client *h)
{
	if (!h)
		return;
	if (h->watching) {
		eventfd_write(h->stop_fd, 1);
		pthread_join(h->watcher, NULL);
		close(h->stop_fd);
	}
	close(h->fd);
	free(h);
}

/* ---- the watcher --------------------------------------------------------------------------- */

static void *watcher_main(void *arg)
{
	struct hk_hostd_client *h = arg;
	/* without POLLIN, since request() reads the answers */
	struct pollfd p[2] = {{.fd = h->fd, .events = POLLRDHUP},
			      {.fd = h->stop_fd, .events = POLLIN}};

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[0].revents) {
		atomic_store(&h->lost, true);
		if (h->lost_fn)
			h->lost_fn(h->lost_arg);
	}
	return NULL;
}

int hk_hostd_client_watch(struct hk_hostd_client *h, void (*lost)(void *arg), void *arg,
			  struct hk_error *err)
{
	h->lost_fn = lost;
	h->lost_arg = arg;
	h->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (h->stop_fd < 0)
		return hk_error_set(err, -errno,
				    "cannot watch hikyakud: %s; fix: raise the limit of open files "
				    "(ulimit -n)",
				    strerror(errno));
	int rc = hk_thread_start(&h->watcher, "hk-watch", watcher_main, h);
	if (rc) {
		close(h->stop_fd);
		h->stop_fd = -1;
		return hk_error_set(err, rc,
				    "cannot start the thread that watches hikyakud: %s; fix: raise "
				    "the limit of processes (ulimit -u)",
				    strerror(-rc));
	}
	h->watching = true;
	return 0;
}

bool hk_hostd_client_lost(const struct hk_hostd_client *h)
{
	return atomic_load_explicit(&h->lost, memory_order_relaxed);
}

const char *hk_hostd_client_lost_text(struct hk_hostd_client *h)
{
	char text[512];
	union hk_ctl_msg m;
	int rc;

	snprintf(text, sizeof(text),
		 "hikyakud '%s' of this node has died; fix: read its log, or ask the "
		 "administrator whether someone ended it",
		 h->name);
	/* its last error may be readable, unless a request of another thread has read it */
	while ((rc = hk_ctl_recv(h->fd, &m, 0, NULL)) > 0)
		if (rc == HK_CTL_ERROR && m.hdr.seq == 0)
			set_lost_text(h, m.error.text);
	set_lost_text(h, text);
	return h->lost_text;
}

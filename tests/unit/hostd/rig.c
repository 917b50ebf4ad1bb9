/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/rig.c: implements rig.h.
 */
#include "tests/unit/hostd/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

char rig_dir[TMP_PATH], rig_port[80];

/* ---- directories --------------------------------------------------------------------------- */

/* At most @ms. */
static void wait_for_end(pid_t pid, int ms)
{
	for (int64_t end = hk_clock_ms() + ms; kill(pid, 0) == 0 && hk_clock_ms() < end;)
		pause_1ms();
}

static void tidy(void)
{
	char path[128];
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/run", rig_dir);
	DIR *d = opendir(path);
	while (d && (e = readdir(d)) != NULL) {
		pid_t pid = e->d_name[0] == '.' ? 0 : rig_daemon_pid(e->d_name);
		if (pid > 0) {
			kill(pid, SIGTERM);
			wait_for_end(pid, 3000);
			kill(pid, SIGKILL);
		}
	}
	/* a daemon that ends at the same time may change the directory: try again */
	for (int64_t end = hk_clock_ms() + 3000;
	     access(rig_dir, F_OK) == 0 && hk_clock_ms() < end;) {
		tmp_remove(rig_dir);
		pause_1ms();
	}
}

static pid_t keeper;

BEFORE_ALL()
{
	char run[80];

	tmp_dir(rig_dir);
	snprintf(run, sizeof(run), "%s/run", rig_dir);
	snprintf(rig_port, sizeof(rig_port), "fake:%s", rig_dir);
	setenv("HIKYAKU_RUNDIR", run, 1);
	setenv("XDG_RUNTIME_DIR", rig_dir, 1);
	setenv("HIKYAKU_DAEMON", FAKE_DAEMON, 1);
	unsetenv("RUNTIME_DIRECTORY");
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	keeper = keeper_start(tidy);
}

/* Reaps ended children. True if only the keeper is left. */
static bool no_child(void)
{
	pid_t child = 0;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return process_children(getpid(), &child, 1) == 1 && child == keeper;
}

static unsigned files_in(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", rig_dir, name);
	return tmp_files(path, "");
}

void rig_all_gone(void)
{
	RIG_WAIT(no_child());
	CHECK_MSG(files_in("run") == 0, "the run directory holds %u files", files_in("run"));
	CHECK_MSG(files_in("dpdk") == 0, "DPDK's directory holds %u files", files_in("dpdk"));
	CHECK_MSG(files_in("") == 1, "%s holds %u files besides run", rig_dir, files_in("") - 1);
}

AFTER_EACH()
{
	rig_all_gone();
}

/* ---- daemons ------------------------------------------------------------------------------- */

const char *rig_job(uint32_t key)
{
	static char name[HK_RUNDIR_NAME_MAX + 1];

	hk_rundir_job_name(key, name);
	return name;
}

bool rig_daemon_with(const char *name, const char **said, const char *const *options)
{
	static char text[1024];
	const char *argv[32] = {FAKE_DAEMON, "--background", "--name", name};
	int n = 4, p[2];

	while (n < 31 && (argv[n] = *options++) != NULL)
		n++;
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	pid_t pid = fork(); /* it outlives this process until it is ready */
	if (pid == 0) {
		dup2(p[1], 1);
		dup2(p[1], 2);
		execv(FAKE_DAEMON, (char **)(uintptr_t)argv);
		_exit(127);
	}
	close(p[1]);
	size_t len = 0;
	ssize_t got;
	while ((got = read(p[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)got;
	text[len] = '\0';
	close(p[0]);
	int status = child_wait(pid);
	if (said)
		*said = text;
	bool ready = strcmp(text, "ready\n") == 0;
	CHECK_EQ(ready, status == 0);
	return ready;
}

int rig_connect(const char *name)
{
	struct hk_rundir rd;
	char path[128];

	if (hk_rundir_find(name, &rd, NULL) != 0)
		return -EINVAL;
	hk_rundir_path(&rd, "control", path);
	return hk_ctl_connect(path, hk_clock_ms() + RIG_WAIT_MS, NULL);
}

pid_t rig_daemon_pid(const char *name)
{
	uid_t uid;
	pid_t pid = 0;
	int fd = rig_connect(name);

	if (fd < 0)
		return fd;
	if (hk_ctl_peer(fd, &uid, &pid) != 0)
		pid = -1;
	close(fd);
	return pid;
}

int rig_ask(int fd, union hk_ctl_msg *m)
{
	int64_t deadline = hk_clock_ms() + RIG_WAIT_MS;

	if (hk_ctl_send(fd, m, deadline) != 0)
		return 0;
	int rc = hk_ctl_recv(fd, m, deadline, ERR);
	CHECK_MSG(rc >= 0, "%d: %s", rc, hk_test_err.text);
	return rc;
}

void rig_error(int fd, union hk_ctl_msg *m, int code, const char *says)
{
	CHECK_EQ(rig_ask(fd, m), HK_CTL_ERROR);
	CHECK_EQ(m->error.code, code);
	CHECK_HAS(m->error.text, says);
}

void rig_stop(const char *name)
{
	union hk_ctl_msg m;
	int fd = rig_connect(name);

	CHECK_MSG(fd >= 0, "no daemon '%s'", name);
	hk_ctl_init(&m, HK_CTL_STOP, 1, 0);
	CHECK_EQ(rig_ask(fd, &m), HK_CTL_STOPPED);
	CHECK_EQ(hk_ctl_recv(fd, &m, hk_clock_ms() + RIG_WAIT_MS, NULL), 0);
	close(fd);
}

const char *rig_status(const char *name)
{
	static char text[65536];
	size_t n = 0;
	union hk_ctl_msg m;
	int fd = rig_connect(name);

	if (fd < 0)
		return NULL;
	hk_ctl_init(&m, HK_CTL_STATUS, 1, 0);
	int rc = rig_ask(fd, &m);
	while (rc == HK_CTL_TEXT) {
		CHECK(n + m.text.bytes < sizeof(text));
		memcpy(text + n, m.text.data, m.text.bytes);
		n += m.text.bytes;
		if (!m.text.more)
			break;
		rc = hk_ctl_recv(fd, &m, hk_clock_ms() + RIG_WAIT_MS, NULL);
	}
	close(fd);
	text[n] = '\0';
	return rc == HK_CTL_TEXT ? text : NULL;
}

void rig_status_has(const char *name, const char *text)
{
	const char *s = NULL;
	int64_t end = hk_clock_ms() + RIG_WAIT_MS;

	while (!(s = rig_status(name)) || !strstr(s, text)) {
		CHECK_MSG(hk_clock_ms() < end, "the status never contains '%s': %s", text,
			  s ? s : "(none)");
		pause_1ms();
	}
}

/* ---- ranks --------------------------------------------------------------------------------- */

struct hk_hostd_request rig_request(uint32_t key, uint32_t rank, uint32_t ranks)
{
	return (struct hk_hostd_request){.job_key = key,
					 .endpoint = rank,
					 .local_rank = rank,
					 .local_ranks = ranks,
					 .port = rig_port,
					 .timeout_ms = RIG_WAIT_MS};
}

struct hk_hostd_client *rig_connect_as(const struct hk_hostd_request *req)
{
	struct hk_hostd_client *h;

	CHECK_OK(hk_hostd_client_connect(req, &h, ERR));
	return h;
}

struct hk_hostd_client *rig_attach(uint32_t key, uint32_t rank, uint32_t ranks)
{
	struct hk_hostd_request req = rig_request(key, rank, ranks);

	return rig_connect_as(&req);
}

void rig_leave(struct hk_hostd_client *h)
{
	CHECK_OK(hk_hostd_client_leave(h, RIG_WAIT_MS, ERR));
	hk_hostd_client_close(h);
}

struct fake_memory *rig_memory(const struct hk_ctl_welcome *lease)
{
	struct fake_memory *m = fake_map(lease->shared, false);

	CHECK(m != NULL);
	return m;
}

void rig_hello(union hk_ctl_msg *m, uint32_t key)
{
	hk_ctl_init(m, HK_CTL_HELLO, 1, 0);
	m->hello.job_key = key;
	m->hello.local_ranks = 1;
	m->hello.pid = (uint32_t)getpid();
	hk_ctl_set_text(m->hello.release, sizeof(m->hello.release), HK_RELEASE);
	hk_rundir_host(m->hello.host, sizeof(m->hello.host));
}

struct report {
	int rc;
	char text[512];
	struct hk_ctl_welcome lease;
};

static _Atomic int lost_calls;
static void count_lost(void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
}

__attribute__((noreturn)) static void rank_main(int fd, const struct hk_hostd_request *req)
{
	struct report r = {0};
	struct hk_hostd_client *h;
	char byte;

	CHECK(read(fd, &byte, 1) == 1); /* all begin together */
	r.rc = hk_hostd_client_connect(req, &h, ERR);
	snprintf(r.text, sizeof(r.text), "%s", hk_test_err.text);
	if (r.rc == 0) {
		r.lease = *hk_hostd_client_lease(h);
		struct fake_memory *mem = rig_memory(&r.lease);
		CHECK_OK(hk_hostd_client_ready(h, &mem->worker[r.lease.slot], RIG_WAIT_MS, ERR));
		CHECK_OK(hk_hostd_client_watch(h, count_lost, &lost_calls, ERR));
	}
	CHECK(write(fd, &r, sizeof(r)) == sizeof(r));
	if (r.rc || read(fd, &byte, 1) != 1)
		_exit(0);
	if (byte == 'l') {
		rig_leave(h);
		_exit(0);
	}
	RIG_WAIT(hk_hostd_client_lost(h) && atomic_load(&lost_calls) == 1);
	snprintf(r.text, sizeof(r.text), "%s", hk_hostd_client_lost_text(h));
	CHECK(write(fd, &r, sizeof(r)) == sizeof(r));
	pause();
	_exit(0);
}

static void read_report(struct rig_rank *r)
{
	struct report rep;
	struct pollfd p = {.fd = r->fd, .events = POLLIN};

	CHECK_MSG(poll(&p, 1, RIG_WAIT_MS + 5000) == 1, "rank %d does not answer", r->pid);
	CHECK_MSG(read(r->fd, &rep, sizeof(rep)) == sizeof(rep), "rank %d has died", r->pid);
	r->rc = rep.rc;
	r->lease = rep.lease;
	memcpy(r->text, rep.text, sizeof(r->text));
}

void rig_ranks(struct rig_rank *r, unsigned count, const struct hk_hostd_request *req)
{
	int sv[2];

	for (unsigned i = 0; i < count; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
		r[i] = (struct rig_rank){.pid = child_fork(), .fd = sv[0]};
		if (r[i].pid == 0) {
			close(sv[0]);
			rank_main(sv[1], &req[i]);
		}
		close(sv[1]);
	}
	for (unsigned i = 0; i < count; i++)
		CHECK(write(r[i].fd, "g", 1) == 1);
	for (unsigned i = 0; i < count; i++)
		read_report(&r[i]);
}

void rig_rank(struct rig_rank *r, const struct hk_hostd_request *req)
{
	rig_ranks(r, 1, req);
}

void rig_rank_kill(struct rig_rank *r)
{
	child_kill(r->pid);
	close(r->fd);
}

void rig_rank_leave(struct rig_rank *r)
{
	CHECK(write(r->fd, "l", 1) == 1);
	child_ends_well(r->pid);
	close(r->fd);
}

const char *rig_rank_lost(struct rig_rank *r)
{
	CHECK(write(r->fd, "w", 1) == 1);
	read_report(r);
	return r->text;
}

void rig_as_user(uid_t uid, void (*fn)(void))
{
	pid_t pid = child_fork();

	if (pid == 0) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		CHECK(setgroups(0, NULL) == 0 && setgid(uid) == 0 && setuid(uid) == 0);
		fn();
		_exit(0);
	}
	child_ends_well(pid);
}

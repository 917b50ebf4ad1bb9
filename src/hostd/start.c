/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/start.c: starts a job's daemon for a rank.
 *
 * The rank runs `hikyakud --background --job=KEY`, which stays in the rank's session. Its first
 * process ends when the daemon is ready or has failed, and writes to a pipe until then. If the last
 * line is "ready" the daemon is ready; otherwise the text is the error.
 */
#include "hostd/client.h"
#include "hostd/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define ARGS_MAX 32

struct args {
	char text[ARGS_MAX][300];
	char *v[ARGS_MAX + 1];
	int n;
};

static void arg(struct args *a, const char *name, const char *value)
{
	snprintf(a->text[a->n], sizeof(a->text[0]), "%s%s%s", name, value ? "=" : "",
		 value ? value : "");
	a->v[a->n] = a->text[a->n];
	a->n++;
}

static void arg_number(struct args *a, const char *name, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	if (value)
		arg(a, name, text);
}

static const char *program_of(const struct hk_hostd_request *req)
{
	const char *env = getenv("HIKYAKU_DAEMON");

	return req->program ? req->program : env && env[0] ? env : "hikyakud";
}

/* The command that starts the daemon in the foreground, for errors. */
static void by_hand(const struct hk_rundir *rd, const struct hk_hostd_request *req, char out[240])
{
	const char *port = req->port ? req->port : "";

	snprintf(out, 240, "%.80s --name %s%s%.80s%s", program_of(req), rd->name,
		 req->port ? " --port '" : "", port, req->port ? "'" : "");
}

static void arguments(struct args *a, const struct hk_rundir *rd,
		      const struct hk_hostd_request *req)
{
	char key[16];

	arg(a, program_of(req), NULL);
	arg(a, "--background", NULL);
	arg(a, "--name", rd->name);
	snprintf(key, sizeof(key), "0x%08x", req->job_key);
	arg(a, "--job", key);
	arg_number(a, "--starter", (unsigned)getpid());
	arg_number(a, "--slots", req->local_ranks);
	if (req->port)
		arg(a, "--port", req->port);
	if (req->huge_dir)
		arg(a, "--huge-dir", req->huge_dir);
	arg_number(a, "--rx-buffers", req->rx_buffers);
	arg_number(a, "--tx-buffers", req->tx_buffers);
	arg_number(a, "--memory", req->memory_mb);
	if (req->mode)
		arg(a, "--mode", hk_ctl_mode_name(req->mode));
	arg_number(a, "--eager-queues", req->eager_queues);
	if (req->no_poller)
		arg(a, "--poller", "off");
}

static int spawn(struct args *a, int out, const cpu_set_t *cpus, pid_t *pid)
{
	cpu_set_t mine;
	/* The child inherits the CPUs of this thread. If they cannot be changed, it keeps ours. */
	bool lent = cpus && sched_getaffinity(0, sizeof(mine), &mine) == 0 &&
		    sched_setaffinity(0, sizeof(*cpus), cpus) == 0;

	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawn_file_actions_adddup2(&fa, out, 2);
	posix_spawnattr_init(&at);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	/* its own process group, since mpirun kills those of the ranks */
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
					      POSIX_SPAWN_SETPGROUP);
	int rc = posix_spawnp(pid, a->v[0], &fa, &at, a->v, environ);
	if (lent)
		(void)sched_setaffinity(0, sizeof(mine), &mine);
	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&fa);
	return -rc;
}

/* Reads the daemon's text until it closes the pipe. False if @deadline has passed. */
static bool read_text(int fd, char *text, size_t size, int64_t deadline)
{
	size_t n = 0;

	text[0] = '\0';
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t ms = deadline - hk_clock_ms();
		if (ms <= 0)
			return false;
		int got = poll(&p, 1, (int)HK_MIN(ms, INT32_MAX));
		if (got <= 0)
			continue;
		char buf[512];
		ssize_t len = read(fd, buf, sizeof(buf));
		if (len == 0 || (len < 0 && errno != EINTR))
			return true;
		/* keep the end of a long text */
		for (ssize_t i = 0; i < len; i++) {
			if (n == size - 1)
				memmove(text, text + 1, --n);
			text[n++] = buf[i];
			text[n] = '\0';
		}
	}
}

static bool is_ready(char *text)
{
	size_t n = strlen(text);

	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	return n >= 5 && strcmp(text + n - 5, "ready") == 0 && (n == 5 || text[n - 6] == '\n');
}

static int start(const struct hk_rundir *rd, const struct hk_hostd_request *req, int64_t deadline,
		 struct hk_error *err)
{
	char text[448], command[240];
	int p[2];
	pid_t pid;

	struct args *a = calloc(1, sizeof(*a));
	if (!a || pipe2(p, O_CLOEXEC) != 0) {
		free(a);
		return hk_error_set(err, -ENFILE, "cannot start hikyakud: %s", strerror(errno));
	}
	arguments(a, rd, req);
	int rc = spawn(a, p[1], req->cpus, &pid);
	close(p[1]);
	if (rc) {
		close(p[0]);
		rc = hk_error_set(
			err, rc,
			"cannot run %s: %s; fix: install it, or set HIKYAKU_DAEMON to its "
			"path",
			a->v[0], strerror(-rc));
		free(a);
		return rc;
	}
	free(a);
	by_hand(rd, req, command);
	bool ended = read_text(p[0], text, sizeof(text), deadline);
	close(p[0]);
	if (!ended)
		kill(pid, SIGKILL); /* the daemon cannot report that it is ready, and ends */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (!ended)
		return hk_error_set(
			err, -ETIMEDOUT,
			"hikyakud '%s' was not ready in time%s%.160s; fix: start it by hand "
			"to see where it waits: %s",
			rd->name, text[0] ? "; its output: " : "", text, command);
	if (is_ready(text))
		return 0;
	if (!text[0])
		return hk_error_set(
			err, -ECHILD,
			"hikyakud '%s' ended at once without an error text; fix: start it by "
			"hand: %s",
			rd->name, command);
	return hk_error_set(err, -ECHILD, "hikyakud '%s' does not start: %s", rd->name, text);
}

int hk_hostd_client_start_daemon(const struct hk_rundir *rd, const struct hk_hostd_request *req,
				 int64_t deadline, struct hk_error *err)
{
	char path[128], control[128], file[sizeof(rd->name) + sizeof(".start")];
	int lock;

	snprintf(file, sizeof(file), "%s.start", rd->name);
	snprintf(path, sizeof(path), "%s.start", rd->dir);

	do { /* a daemon that ends may remove the base between these two calls */
		int rc = hk_rundir_make_base(rd, err);
		if (rc)
			return rc;
		lock = hk_rundir_lock(rd, file, deadline, err);
	} while (lock == -ENOENT && hk_clock_ms() < deadline);
	if (lock == -EWOULDBLOCK)
		return hk_error_set(
			err, -ETIMEDOUT,
			"another rank starts hikyakud '%s' and has not finished in time (it "
			"holds %s); fix: check whether it hangs",
			rd->name, path);
	if (lock < 0)
		return lock;

	/* another rank may have started it meanwhile */
	hk_rundir_path(rd, "control", control);
	int rc, fd = hk_ctl_connect(control, deadline, err);
	if (fd >= 0) {
		close(fd);
		rc = 0;
	} else if (fd == -ENOENT || fd == -ECONNREFUSED) {
		rc = start(rd, req, deadline, err);
	} else {
		rc = fd;
	}
	unlink(path);
	close(lock);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/hikyakud.c: the daemon's main.
 *
 *   hikyakud [OPTION ...]     docs/man/hikyakud.8.md
 *   hikyakud poller ...       only the daemon starts this (hostd/poller.c)
 *   hikyakud ask-port SPEC    for `hikyaku doctor`: the port's steering as JSON
 *
 * With --background the first process waits until its child, the daemon, is ready or has failed. It
 * prints "ready" or the error, and ends. Under systemd (NOTIFY_SOCKET) the daemon also reports
 * there when it is ready.
 */
#include "hostd/daemon.h"
#include "hostd/poller.h"
#include "hostd/wakeup_priority.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int change_user(const char *name, struct hk_error *err)
{
	errno = 0;
	const struct passwd *pw = getpwnam(name);

	if (!pw)
		return hk_error_set(err, -ENOENT,
				    "there is no user '%s'; fix: name an existing user", name);
	if (pw->pw_uid == geteuid())
		return 0;
	if (initgroups(name, pw->pw_gid) != 0 || setgid(pw->pw_gid) != 0 || setuid(pw->pw_uid) != 0)
		return hk_error_set(
			err, -errno,
			"cannot become user '%s': %s; fix: start hikyakud as root, or as "
			"that user",
			name, strerror(errno));
	return 0;
}

/* Restricts this process to the CPUs of @list, such as "0-3,8". */
static int set_cpus(const char *list, struct hk_error *err)
{
	const char *p = list;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (;;) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;
		bool ok = *p >= '0' && *p <= '9';
		if (ok && *end == '-') {
			p = end + 1;
			ok = *p >= '0' && *p <= '9';
			last = strtoul(p, &end, 10);
		}
		if (!ok || last < first || last >= CPU_SETSIZE || (*end && *end != ','))
			return hk_error_set(
				err, -EINVAL,
				"--cpus: '%s' is not a list of CPUs; fix: write it like "
				"0-3,8",
				list);
		for (unsigned long c = first; c <= last; c++)
			CPU_SET(c, &set);
		if (!*end)
			break;
		p = end + 1;
	}
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		return hk_error_set(
			err, -errno,
			"--cpus: hikyakud cannot run on %s: %s; fix: name CPUs that are "
			"online",
			list, strerror(errno));
	return 0;
}

static void notify_systemd(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (!path || !path[0] || strlen(path) >= sizeof(a.sun_path))
		return;
	memcpy(a.sun_path, path, strlen(path));
	if (path[0] == '@')
		a.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	close(fd);
}

/* ---- background ---------------------------------------------------------------------------- */

/* In the first process: prints the daemon's message. Returns the exit status. */
static int wait_until_ready(int fd)
{
	char text[600];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(text) - 1 && ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0 ||
					(got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	text[n] = '\0';
	if (strcmp(text, "ready\n") == 0) {
		fputs(text, stdout);
		return 0;
	}
	fprintf(stderr, "%s\n",
		n ? text
		  : "hikyakud died while it started; fix: raise memory limits, or run it in the "
		    "foreground to see its errors");
	return 1;
}

/* Becomes a daemon. Returns the pipe for report() in the child; does not return in the parent. A
 * daemon @of_job stays in the session of its ranks, in its own process group. The kernel first
 * divides a core among sessions (autogroup, sched(7)), and can keep one session off it for many
 * seconds. */
static int go_to_background(bool of_job, struct hk_error *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return hk_error_set(err, -errno, "cannot create a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		return hk_error_set(
			err, -errno,
			"cannot fork: %s; fix: raise the limit of processes (ulimit -u)",
			strerror(errno));
	if (pid > 0) {
		close(p[1]);
		exit(wait_until_ready(p[0]));
	}
	/* give up the starter's terminal, pipes and working directory */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out = fcntl(p[1], F_DUPFD_CLOEXEC, 3);
	if ((!of_job && setsid() < 0) || chdir("/") != 0 || null < 0 || out < 0 ||
	    dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return hk_error_set(err, -errno, "cannot go to the background: %s",
				    strerror(errno));
	if (out > 3)
		close_range(3, (unsigned)out - 1, 0);
	close_range((unsigned)out + 1, ~0U, 0);
	return out;
}

/* Sends @text to the process that waits. False if it has ended: then nobody wants this daemon. */
static bool report(int fd, const char *text)
{
	if (fd < 0)
		return true;
	bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

/* ---- ask-port ------------------------------------------------------------------------------ */

#define EXIT_NOT_A_PORT 2

static int ask_port(const char *spec)
{
	struct hk_res_steering s = {0};
	struct hk_error err = {""};
	char plain[256];
	int rc = hk_ctl_set_text(plain, sizeof(plain), spec)
			 ? hk_res_ask_port(spec, &s, &err)
			 : hk_error_set(&err, -EINVAL,
					"the port's name is too long or has unusual characters; "
					"fix: use plain ASCII without quotes");

	if (rc) {
		fprintf(stderr, "%s\n", err.text);
		return rc == -EINVAL ? EXIT_NOT_A_PORT : 1;
	}
	hk_daemon_steering(stdout, plain, &s);
	printf("\n");
	return 0;
}

/* ---- main ---------------------------------------------------------------------------------- */

static int run(const struct hk_options *o, int ready)
{
	struct hk_error err = {""};

	struct hk_daemon *d = calloc(1, sizeof(*d));
	if (!d) {
		report(ready, "hikyakud has no memory");
		return 1;
	}
	d->o = *o;
	int rc = hk_daemon_open(d, &err);
	if (rc == 0) {
		if (report(ready, "ready\n")) {
			notify_systemd("READY=1");
			hk_daemon_run(d);
		}
		notify_systemd("STOPPING=1");
	} else if (ready < 0) {
		fprintf(stderr, "hikyakud: %s\n", err.text);
	}
	hk_daemon_close(d);
	free(d);
	/* at the end, so that a reader of the error finds no file left */
	if (rc)
		report(ready, err.text);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct hk_error err = {""};
	struct hk_options o;
	int ready = -1;

	if (argc > 1 && strcmp(argv[1], "poller") == 0)
		return hk_poller_main(argc - 1, argv + 1);
	if (argc == 3 && strcmp(argv[1], "ask-port") == 0)
		return ask_port(argv[2]);
	int rc = hk_options_read(argc, argv, &o, &err);
	if (rc == 0 && o.help) {
		printf("Usage: hikyakud [OPTION ...]\n\n"
		       "The polling process of a node: owns its ports, and polls for ranks that "
		       "compute.\n"
		       "\n");
		hk_options_help(stdout);
		printf("\nExample:\n  hikyakud --port memif:dir=/run/wires --slots 2\n");
		return 0;
	}
	if (rc == 0 && o.version) {
		printf("hikyakud %s\n", HK_RELEASE);
		return 0;
	}
	if (rc == 0 && !o.port[0])
		rc = hk_error_set(&err, -EINVAL,
				  "no port is given; fix: say --port SPEC, or 'port = SPEC' in %s",
				  HK_OPTIONS_FILE);
	if (rc == 0 && !o.mode)
		o.mode = hk_res_default_mode(o.port);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	if (rc == 0 && o.user[0] && o.realtime)
		hk_wakeup_priority_keep_permission();
	if (rc == 0 && o.user[0])
		rc = change_user(o.user, &err);
	if (rc == 0 && o.cpus[0])
		rc = set_cpus(o.cpus, &err);
	if (rc == 0 && o.background)
		rc = ready = go_to_background(o.job != 0, &err);
	if (rc < 0) {
		fprintf(stderr, "hikyakud: %s\n", err.text);
		return 2;
	}
	return run(&o, ready);
}

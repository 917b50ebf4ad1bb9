/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/hikyakud.c: the daemon's main.
 *
 *   hikyakud [OPTION …]       docs/man/hikyakud.8.md
 *   hikyakud poller …         started by the daemon itself (host/poller.c)
 *   hikyakud ask-port SPEC    for `hikyaku doctor`: what the port can, as JSON
 *
 * --background: the first process waits until the daemon, its child, is ready or has failed, says
 * "ready" or the error, and ends. Under systemd (NOTIFY_SOCKET) readiness is told there too.
 */
#include "host/daemon.h"
#include "host/poller.h"
#include "host/prompt.h"

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

static int become(const char *name, struct hk_error *err)
{
	errno = 0;
	const struct passwd *pw = getpwnam(name);

	if (!pw)
		return hk_error_set(err, -ENOENT, "there is no user '%s'; fix: name one that is",
				    name);
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

/* "0-3,8" */
static int stay_on(const char *list, struct hk_error *err)
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
			return hk_error_set(err, -EINVAL,
					    "--cpus: '%s' is no list of CPUs; fix: write it like "
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
			"--cpus: hikyakud may run on none of %s: %s; fix: name CPUs that "
			"are online",
			list, strerror(errno));
	return 0;
}

static void tell_systemd(const char *text)
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

/* The first process: passes on what the daemon says. The exit status. */
static int wait_until_ready(int fd)
{
	char said[600];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(said) - 1 && ((got = read(fd, said + n, sizeof(said) - 1 - n)) > 0 ||
					(got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	said[n] = '\0';
	if (strcmp(said, "ready\n") == 0) {
		fputs(said, stdout);
		return 0;
	}
	fprintf(stderr, "%s\n",
		n ? said
		  : "hikyakud died while it started; fix: look for memory "
		    "limits, or run it in the foreground");
	return 1;
}

/* Becomes a daemon. In the child, returns the pipe for tell(); the parent does not come back. That @of_job stays
 * in the session of its ranks, in a process group of its own: the kernel shares a core between sessions first
 * (autogroup, sched(7)), and can keep one off it for many seconds. */
static int go_to_background(bool of_job, struct hk_error *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return hk_error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		return hk_error_set(err, -errno, "cannot fork: %s; fix: raise `ulimit -u`",
				    strerror(errno));
	if (pid > 0) {
		close(p[1]);
		exit(wait_until_ready(p[0]));
	}
	/* nothing of the process that started us: not its terminal, its pipes, its directory */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int keep = fcntl(p[1], F_DUPFD_CLOEXEC, 3);
	if ((!of_job && setsid() < 0) || chdir("/") != 0 || null < 0 || keep < 0 ||
	    dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return hk_error_set(err, -errno, "cannot go to the background: %s",
				    strerror(errno));
	if (keep > 3)
		close_range(3, (unsigned)keep - 1, 0);
	close_range((unsigned)keep + 1, ~0U, 0);
	return keep;
}

/* To the process that waits. False if it does not any more: then nobody wants this daemon. */
static bool tell(int fd, const char *text)
{
	if (fd < 0)
		return true;
	bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}

/* ---- a question ---------------------------------------------------------------------------- */

#define ASKED_NO_PORT 2 /* status: it does not name a port */

static int ask_port(const char *spec)
{
	struct hk_res_steering s = {0};
	struct hk_error err = {""};
	char plain[256];
	int rc = hk_ctl_put_text(plain, sizeof(plain), spec)
			 ? hk_res_ask_port(spec, &s, &err)
			 : hk_error_set(&err, -EINVAL,
					"the port's name is too long or has unusual characters; "
					"fix: use plain ASCII, without quotes");

	if (rc) {
		fprintf(stderr, "%s\n", err.text);
		return rc == -EINVAL ? ASKED_NO_PORT : 1;
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
		tell(ready, "hikyakud has no memory");
		return 1;
	}
	d->o = *o;
	int rc = hk_daemon_open(d, &err);
	if (rc == 0) {
		if (tell(ready, "ready\n")) {
			tell_systemd("READY=1");
			hk_daemon_run(d);
		}
		tell_systemd("STOPPING=1");
	} else if (ready < 0) {
		fprintf(stderr, "hikyakud: %s\n", err.text);
	}
	hk_daemon_close(d);
	free(d);
	/* told last: whoever hears of a failure finds nothing left */
	if (rc)
		tell(ready, err.text);
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
		       "The polling process of a node: owns its port, and serves ranks that "
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
				  "no port is given; fix: say --port SPEC, or `port = SPEC` in %s",
				  HK_OPTIONS_FILE);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	if (rc == 0 && o.user[0] && o.realtime)
		hk_prompt_keep_right();
	if (rc == 0 && o.user[0])
		rc = become(o.user, &err);
	if (rc == 0 && o.cpus[0])
		rc = stay_on(o.cpus, &err);
	if (rc == 0 && o.background)
		rc = ready = go_to_background(o.job != 0, &err);
	if (rc < 0) {
		fprintf(stderr, "hikyakud: %s\n", err.text);
		return 2;
	}
	return run(&o, ready);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/helper.c: the clients' end of hikyaku-helper. See port/helper.h.
 */
#include "port/helper.h"
#include "base/descriptors.h"
#include "port/internal.h"

#include <dlfcn.h>
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

#define LIBRARIES "LD_LIBRARY_PATH="

/* ---- the program ----------------------------------------------------------------------------- */

/* Finds the program: $HIKYAKU_HELPER, or where a build and an installation have it, seen from this
 * library. Programs of ours may contain the library. */
static bool find_program(char *path, size_t len)
{
	static const char *const below[] = {"helper/", "hikyaku/src/helper/", "../src/helper/",
					    "../../src/helper/", "../../../src/helper/"};
	const char *given = getenv("HIKYAKU_HELPER");
	Dl_info info;

	if (given) {
		snprintf(path, len, "%s", given);
		return access(path, X_OK) == 0;
	}
	if (!dladdr((void *)(uintptr_t)hk_helper_connect, &info) || !info.dli_fname)
		return false;
	const char *slash = strrchr(info.dli_fname, '/');
	int dir = slash ? (int)(slash - info.dli_fname) : 1;

	for (unsigned i = 0; i < HK_ARRAY_LEN(below); i++) {
		snprintf(path, len, "%.*s/%s%s", dir, slash ? info.dli_fname : ".", below[i],
			 HK_HELPER_NAME);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* Starts a helper, which goes to the background when it listens, and ends by itself. It may serve
 * other jobs after this one, so it has nothing of this job. Of our descriptors it has none: mpirun
 * waits until nobody has the ranks' output. Of our environment it has what the dynamic linker
 * needs: some launchers end all processes whose environment names the job. */
static int start(const char *who, struct hk_error *err)
{
	char path[4096];
	char *const args[] = {path, (char *)"--on-demand", NULL};
	char *environment[] = {NULL, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t at;
	sigset_t none, all;
	pid_t pid;

	if (!find_program(path, sizeof(path)))
		return hk_error_set(err, -ENOENT,
				    "%s: the program hikyaku-helper is not beside the library; "
				    "fix: install it, or name it in HIKYAKU_HELPER",
				    who);
	for (char **e = environ; *e && !environment[0]; e++)
		if (strncmp(*e, LIBRARIES, sizeof(LIBRARIES) - 1) == 0)
			environment[0] = *e;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	for (int fd = 0; fd < 3; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addclosefrom_np(&files, 3);
	posix_spawnattr_init(&at);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	/* a session of its own: Ctrl-C and mpirun end the ranks, and those end the helper */
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
					      POSIX_SPAWN_SETSID);
	int rc = posix_spawn(&pid, path, &files, &at, args, environment);

	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&files);
	while (rc == 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return rc ? hk_error_set(err, -rc, "%s: cannot start %s: %s", who, path, strerror(rc)) : 0;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* -ECONNREFUSED: there is no helper. */
static int connect_once(const char *who, struct hk_error *err)
{
	struct sockaddr_un at;
	socklen_t len = hk_helper_address(&at);
	struct ucred peer;
	socklen_t peer_len = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, len) != 0) {
		int rc = -errno;

		if (fd >= 0)
			close(fd);
		return hk_error_set(err, rc, "%s: cannot reach hikyaku-helper: %s", who,
				    strerror(-rc));
	}
	/* any user can take the name, and would get our frames */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) != 0 ||
	    (peer.uid != 0 && peer.uid != geteuid())) {
		close(fd);
		return hk_error_set(err, -EPERM,
				    "%s: the hikyaku-helper here is not root's but user %u's; fix: "
				    "end process %d, or wait until it ends",
				    who, (unsigned)peer.uid, (int)peer.pid);
	}
	return fd;
}

bool hk_helper_runs(void)
{
	struct hk_error err;
	int fd = connect_once("auto", &err);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int hk_helper_connect(const char *who, int64_t deadline, struct hk_error *err)
{
	for (;;) {
		int fd = connect_once(who, err);

		if (fd != -ECONNREFUSED || hk_clock_ms() >= deadline)
			return fd;
		/* of several that are started at the same moment, all but one end at once */
		int rc = start(who, err);

		if (rc)
			return rc;
		hk_pause_1ms();
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

static int receive(int helper, const char *who, struct hk_helper_reply *reply, int *fd,
		   struct hk_error *err)
{
	union hk_descriptors control;
	struct iovec part = {reply, sizeof(*reply)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(helper, &m, MSG_CMSG_CLOEXEC);

	if (len <= 0)
		return hk_error_set(err, -ECONNRESET, "%s: hikyaku-helper has ended", who);
	unsigned n = hk_descriptors_take(&m, fd, fd ? HK_HELPER_FDS : 0);

	reply->text[sizeof(reply->text) - 1] = '\0';
	bool right = len == sizeof(*reply) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
		     n == (fd && reply->rc == 0 ? HK_HELPER_FDS : 0);

	if (right && reply->rc == 0)
		return 0;
	while (n > 0)
		close(fd[--n]);
	if (right && reply->rc < 0)
		return hk_error_set(err, reply->rc, "%s: %s", who, reply->text);
	return hk_error_set(err, -EPROTO,
			    "%s: hikyaku-helper answers in an unknown form; fix: install the "
			    "library and hikyaku-helper of one version, and restart it",
			    who);
}

static bool ask(int helper, const struct hk_helper_request *request, int with)
{
	struct iovec part = {(void *)(uintptr_t)request, sizeof(*request)};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
	union hk_descriptors control;

	if (with >= 0)
		hk_descriptors_add(&m, &control, &with, 1);
	return sendmsg(helper, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(*request);
}

int hk_helper_ask(int helper, const char *who, const struct hk_helper_request *request, int with,
		  struct hk_helper_reply *reply, int *fd, int64_t deadline, struct hk_error *err)
{
	struct pollfd p = {.fd = helper, .events = POLLIN};

	if (!ask(helper, request, with))
		return hk_error_set(err, -ECONNRESET, "%s: hikyaku-helper has ended", who);
	for (;;) {
		int64_t ms = deadline - hk_clock_ms();

		if (ms <= 0)
			return hk_error_set(err, -ETIMEDOUT,
					    "%s: hikyaku-helper does not answer; fix: restart it",
					    who);
		if (poll(&p, 1, (int)HK_MIN(ms, 1000)) > 0)
			return receive(helper, who, reply, fd, err);
	}
}

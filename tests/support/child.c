/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/child.c: see child.h. */
#include "tests/support/child.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t child_fork(void)
{
	pid_t parent = getpid();

	fflush(NULL);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

int child_wait(pid_t pid)
{
	int status = -1;
	pid_t got;

	while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	CHECK_EQ(got, pid);
	return status;
}

void child_ends_well(pid_t pid)
{
	int status = child_wait(pid);

	CHECK_MSG(status == 0, "a child ended with status %#x", (unsigned)status);
}

void child_runs(void (*fn)(void))
{
	pid_t pid = child_fork();

	if (pid == 0) {
		fn();
		_exit(0);
	}
	child_ends_well(pid);
}

void child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	int status = child_wait(pid);

	CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		  "a child had ended before it was killed: status %#x", (unsigned)status);
}

void two_children(void (*a)(int fd), void (*b)(int fd), int status[2])
{
	void (*run[2])(int fd) = {a, b};
	int fd[2];
	pid_t pid[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	for (int i = 0; i < 2; i++) {
		pid[i] = child_fork();
		if (pid[i])
			continue;
		close(fd[1 - i]);
		run[i](fd[i]);
		_exit(0);
	}
	close(fd[0]);
	close(fd[1]);
	status[0] = child_wait(pid[0]);
	if (status[0] != 0)
		kill(pid[1], SIGKILL);
	status[1] = child_wait(pid[1]);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static pid_t keeper;
static int keeper_fd; /* open as long as this process lives */

pid_t keeper_start(void (*tidy)(void))
{
	int until[2];
	char c;

	CHECK_EQ(pipe2(until, O_CLOEXEC), 0);
	keeper = fork();
	CHECK(keeper >= 0);
	keeper_fd = until[1];
	if (keeper == 0) {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		setsid();
		close(until[1]);
		while (read(until[0], &c, 1) < 0 && errno == EINTR)
			;
		tidy();
		_exit(0);
	}
	close(until[0]);
	return keeper;
}

void keeper_end(void)
{
	close(keeper_fd);
	child_ends_well(keeper);
}

/* ---- what the kernel says ----------------------------------------------------------------------
 */

static void read_proc(pid_t pid, const char *name, char text[512])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	FILE *f = fopen(path, "re");

	CHECK_MSG(f != NULL, "%s: %s", path, strerror(errno));
	text[fread(text, 1, 511, f)] = '\0';
	fclose(f);
}

char process_state(pid_t pid)
{
	char text[512];

	read_proc(pid, "stat", text);
	const char *end = strrchr(text, ')'); /* of the name */

	CHECK(end && end[1] == ' ');
	return end[2];
}

unsigned process_children(pid_t pid, pid_t *child, unsigned max)
{
	char text[512], name[48], *end;
	unsigned n = 0;

	snprintf(name, sizeof(name), "task/%d/children", (int)pid);
	read_proc(pid, name, text);
	for (char *at = text;; at = end, n++) {
		pid_t next = (pid_t)strtol(at, &end, 10);

		if (next <= 0)
			return n;
		if (n < max)
			child[n] = next;
	}
}

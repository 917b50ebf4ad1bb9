/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/daemon_janitor.c: a child that holds the end of a pipe.
 *
 * If the daemon ends well, it says so and the child ends too. If it is killed, the pipe just ends:
 * then the child takes the lock, which has become free, and removes what the daemon left. If both
 * are killed, the next daemon of this user does it (hk_rundir_sweep). It is forked before DPDK
 * starts, so it is small and shares nothing.
 */
#include "host/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noreturn)) static void janitor(const struct hk_rundir *rd, int fd)
{
	char byte, path[128];
	sigset_t all;
	ssize_t n;

	/* whatever ends the daemon must not end this first */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "hk-janitor");
	if (dup2(fd, 0) != 0 || close_range(1, ~0U, 0) != 0 || chdir("/") != 0)
		_exit(1);
	do
		n = read(0, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0); /* it has cleaned up itself */
	hk_rundir_path(rd, "lock", path);
	/* not ours if the next daemon has it already: it has cleaned up first */
	int lock = hk_rundir_lock(path, hk_ctl_now_ms() + 1000, NULL);
	if (lock >= 0)
		hk_rundir_remove(rd);
	_exit(0);
}

int hk_janitor_start(struct hk_daemon *d, struct hk_error *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return hk_error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
	d->janitor = fork();
	if (d->janitor == 0)
		janitor(&d->rd, p[0]);
	close(p[0]);
	d->janitor_fd = p[1];
	if (d->janitor < 0) {
		d->janitor = 0;
		return hk_error_set(err, -errno, "cannot fork: %s; fix: raise `ulimit -u`",
				    strerror(errno));
	}
	return 0;
}

void hk_janitor_dismiss(struct hk_daemon *d)
{
	if (d->janitor <= 0)
		return;
	while (write(d->janitor_fd, "c", 1) < 0 && errno == EINTR)
		;
	close(d->janitor_fd);
	while (waitpid(d->janitor, NULL, 0) < 0 && errno == EINTR)
		;
	d->janitor = 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_janitor.c: the janitor, a child that removes the daemon's files if it is killed.
 *
 * The janitor sleeps in a read from a pipe. A daemon that ends in order writes a byte, and the
 * janitor ends. If the daemon is killed, the pipe closes: then the janitor takes the lock, which is
 * free now, and removes the files. The poller holds the pipe open, too. The kernel kills it with
 * the daemon, but a poller that is just starting could still make DPDK's directory again. If both
 * are killed, the next daemon of this user removes the files (hk_rundir_sweep). The daemon forks
 * the janitor before it starts DPDK, so the janitor is small and shares nothing.
 */
#include "hostd/daemon.h"
#include "base/capabilities.h"
#include "hostd/syscalls.h"

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
	char byte, file[128];
	sigset_t all;
	ssize_t n;

	/* a signal for the whole process group must not end the janitor before the daemon */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "hk-janitor");
	if (dup2(fd, 0) != 0 || close_range(1, ~0U, 0) != 0 || chdir("/") != 0)
		_exit(1);
	if (hk_capabilities_drop(0, NULL) != 0 || hk_syscalls_forbid(false, NULL) != 0)
		_exit(1);
	do
		n = read(0, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0); /* the daemon has removed its files */
	snprintf(file, sizeof(file), "%s/lock", rd->name);
	/* if the next daemon has the lock already, it has removed the files */
	int lock = hk_rundir_lock(rd, file, hk_clock_ms() + 1000, NULL);
	if (lock >= 0)
		hk_rundir_remove(rd);
	_exit(0);
}

int hk_janitor_start(struct hk_daemon *d, struct hk_error *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return hk_error_set(err, -errno, "cannot create a pipe: %s", strerror(errno));
	d->janitor = fork();
	if (d->janitor == 0)
		janitor(&d->rd, p[0]);
	close(p[0]);
	d->janitor_fd = p[1];
	if (d->janitor < 0) {
		d->janitor = 0;
		return hk_error_set(
			err, -errno,
			"cannot fork: %s; fix: raise the limit of processes (ulimit -u)",
			strerror(errno));
	}
	return 0;
}

void hk_janitor_stop(struct hk_daemon *d)
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

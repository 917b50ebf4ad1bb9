/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_syscalls.c: a process that forbade itself system calls cannot make them, in
 * no thread and in no child, and the others work.
 */
#include "hostd/syscalls.h"
#include "base/capabilities.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void looks_into_nobody(void)
{
	char from = 1, to = 0;
	struct iovec local = {&to, 1}, remote = {&from, 1};

	errno = 0;
	CHECK_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), -1);
	CHECK_EQ(errno, EPERM);
	errno = 0;
	CHECK_EQ(unshare(CLONE_NEWUSER), -1);
	CHECK_EQ(errno, EPERM);
	CHECK_EQ(to, 0);
#ifndef __SANITIZE_ADDRESS__
	CHECK_EQ(ptrace(PTRACE_TRACEME, 0, NULL, NULL), -1);
	CHECK_EQ(errno, EPERM);
#endif
}

/* Returns the exit status of a child that executes `true`. */
static int status_of_true(void)
{
	pid_t pid = child_fork();

	if (pid == 0) {
		execl("/bin/true", "true", NULL);
		_exit(errno == EPERM ? 77 : 78);
	}
	int status = child_wait(pid);

	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void prepare(void)
{
	CHECK_OK(hk_capabilities_drop(0, ERR));
}

static void forbid_all(void)
{
	prepare();
	CHECK_OK(hk_syscalls_forbid(false, ERR));
	looks_into_nobody();
	CHECK_EQ(status_of_true(), 77);
	FILE *f = fopen("/proc/self/status", "re"); /* other calls work */

	CHECK(f);
	fclose(f);
}

TEST(a_process_looks_into_nobody_and_starts_no_program)
{
	child_runs(forbid_all);
}

static void forbid_but_programs(void)
{
	prepare();
	CHECK_OK(hk_syscalls_forbid(true, ERR));
	looks_into_nobody();
	CHECK_EQ(status_of_true(), 0);
}

TEST(programs_may_stay_allowed)
{
	child_runs(forbid_but_programs);
}

static int gate[2];

static void *earlier(void *unused)
{
	char byte;

	CHECK_EQ(read(gate[0], &byte, 1), 1);
	looks_into_nobody();
	return unused;
}

static void forbid_in_threads(void)
{
	pthread_t thread;

	CHECK_EQ(pipe(gate), 0);
	CHECK_EQ(pthread_create(&thread, NULL, earlier, NULL), 0);
	prepare();
	CHECK_OK(hk_syscalls_forbid(false, ERR));
	CHECK_EQ(write(gate[1], "", 1), 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(threads_that_run_already_obey)
{
	child_runs(forbid_in_threads);
}

#ifdef __x86_64__
/* Their numbers for a call are other ones. */
static void forbid_other_abis(void)
{
	long rc;

	prepare();
	CHECK_OK(hk_syscalls_forbid(false, ERR));
	errno = 0;
	rc = syscall(0x40000000 + SYS_getpid);
	CHECK_EQ(rc, -1);
	CHECK_EQ(errno, EPERM);
	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(20L) : "memory"); /* getpid of i386 */
	CHECK_EQ(rc, -EPERM);
}

TEST(another_abi_is_no_way_around)
{
	child_runs(forbid_other_abis);
}
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/base/test_capabilities.c: every thread loses its capabilities, also one that sleeps in
 * a system call, and a program that is executed later gets none. Needs root, which has some.
 */
#include "base/capabilities.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 8
#define NET_RAW (UINT64_C(1) << CAP_NET_RAW)

static int gate[2];

/* Reads the mask of permitted capabilities from a status file of /proc. */
static uint64_t permitted(const char *path)
{
	unsigned long long mask = UINT64_MAX;
	char line[128];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "CapPrm: %llx", &mask);
	CHECK(f);
	fclose(f);
	return mask;
}

static void *sleeper(void *tid)
{
	char byte;

	__atomic_store_n((pid_t *)tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	CHECK_EQ(read(gate[0], &byte, 1), 1); /* restarted after the signal */
	return NULL;
}

/* The kernel gives root's programs all capabilities, but not under no_new_privs. */
static void executed_programs_have(uint64_t mask)
{
	char line[64] = "";
	FILE *f = popen("grep CapPrm /proc/self/status", "re");
	unsigned long long got = UINT64_MAX;

	CHECK(f && fgets(line, sizeof(line), f) && sscanf(line, "CapPrm: %llx", &got) == 1);
	pclose(f);
	CHECK_EQ(got, mask);
}

static void drop(uint64_t keep)
{
	pthread_t thread[THREADS];
	pid_t tid[THREADS] = {0};
	char path[64];

	CHECK_EQ(pipe(gate), 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, sleeper, &tid[i]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		while (!__atomic_load_n(&tid[i], __ATOMIC_ACQUIRE))
			(void)sched_yield();
	uint64_t before = permitted("/proc/self/status");

	CHECK_OK(hk_capabilities_drop(keep, ERR));
	CHECK_EQ(permitted("/proc/self/status"), before & keep);
	for (unsigned i = 0; i < THREADS; i++) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid[i]);
		CHECK_EQ(permitted(path), before & keep);
	}
	executed_programs_have(before & keep);
	CHECK_OK(hk_capabilities_drop(0, ERR)); /* the rest, later */
	CHECK_EQ(permitted("/proc/self/status"), 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(write(gate[1], "", 1), 1);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
}

static void drop_all(void)
{
	drop(0);
}

static void drop_but_one(void)
{
	drop(NET_RAW);
}

TEST(all_threads_lose_them)
{
	child_runs(drop_all);
}

TEST(some_stay_if_they_are_needed)
{
	child_runs(drop_but_one);
}

static void with_a_deaf_thread(void)
{
	pthread_t thread;
	pid_t tid = 0;
	sigset_t all, before;

	if (geteuid() != 0) /* nothing to lose, but no_new_privs */
		return;
	CHECK_EQ(pipe(gate), 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	CHECK_EQ(pthread_create(&thread, NULL, sleeper, &tid), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
		(void)sched_yield();
	CHECK_EQ(hk_capabilities_drop(0, ERR), -ETIMEDOUT);
	CHECK_HAS(hk_test_err.text, "1 threads", "kept");
	CHECK_EQ(write(gate[1], "", 1), 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(a_thread_that_does_not_answer_is_an_error)
{
	child_runs(with_a_deaf_thread);
}

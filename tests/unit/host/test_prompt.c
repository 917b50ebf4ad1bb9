/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_prompt.c: what a prompt thread's priority and slice are, with and without the right to a
 * real-time one.
 */
#include "host/prompt.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NICE 3
#define USER 65534

static struct sched_attr attr(void)
{
	struct sched_attr a = {.size = sizeof(a)};

	CHECK_EQ(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a;
}

static bool may_be_realtime(void)
{
	struct sched_attr before = attr(), first = {.size = sizeof(first)};

	first.sched_policy = SCHED_FIFO;
	first.sched_priority = 1;
	if (syscall(SYS_sched_setattr, 0, &first, 0) != 0)
		return false;
	CHECK_EQ(syscall(SYS_sched_setattr, 0, &before, 0), 0);
	return true;
}

static void is_as_before(const struct sched_attr *before)
{
	struct sched_attr a = attr();

	CHECK_EQ(a.sched_policy, before->sched_policy);
	CHECK_EQ(a.sched_nice, before->sched_nice);
	CHECK_EQ(a.sched_runtime, before->sched_runtime);
}

/* On kernels before 6.12 the slice is 0, whatever one asks for. */
static void has_a_short_slice(void)
{
	struct sched_attr before = attr();

	CHECK(!hk_prompt(true));
	struct sched_attr a = attr();

	CHECK_EQ(a.sched_runtime, before.sched_runtime ? HK_PROMPT_SLICE : 0);
	CHECK_EQ(a.sched_policy, before.sched_policy);
	CHECK_EQ(a.sched_nice, before.sched_nice);
	CHECK(!hk_prompt(false));
	is_as_before(&before);
}

static void is_first(void)
{
	struct sched_attr before = attr();

	CHECK(hk_prompt(true));
	struct sched_attr a = attr();

	CHECK_EQ(a.sched_policy, SCHED_FIFO);
	CHECK_EQ(a.sched_priority, HK_PROMPT_PRIORITY);
	/* its children are as others */
	pid_t pid = fork();
	if (pid == 0)
		_exit(attr().sched_policy == SCHED_NORMAL ? 0 : 1);
	int status;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(!hk_prompt(false));
	is_as_before(&before);
	CHECK(hk_prompt(true));
	CHECK_EQ(attr().sched_policy, SCHED_FIFO);
	CHECK(!hk_prompt(false));
	is_as_before(&before);
}

/* In a process of its own: what is chosen is the process's. */
static void in_child(void (*run)(void))
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		run();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static void unasked(void)
{
	has_a_short_slice();
}

static void as_the_machine_allows(void)
{
	struct hk_error why = {""};

	CHECK_EQ(setpriority(PRIO_PROCESS, 0, NICE), 0);
	bool may = may_be_realtime();
	struct sched_attr before = attr();
	int rc = hk_prompt_realtime(&why);

	CHECK_MSG((rc == 0) == may, "%s", why.text);
	is_as_before(&before);
	if (may)
		is_first();
	else
		has_a_short_slice();
}

/* An ordinary user without `ulimit -r`. */
static void without_the_right(void)
{
	const struct rlimit none = {0, 0};
	struct hk_error why = {""};

	CHECK_EQ(setrlimit(RLIMIT_RTPRIO, &none), 0);
	if (geteuid() == 0)
		CHECK_EQ(setuid(USER), 0);
	CHECK_EQ(hk_prompt_realtime(&why), -EPERM);
	CHECK_MSG(strstr(why.text, "ulimit -r 1"), "%s", why.text);
	has_a_short_slice();
}

/* hikyakud, started by root with the option 'user'. */
static void who_becomes_another_user_keeps_the_right(void)
{
	struct hk_error why = {""};

	struct rlimit r;

	if (geteuid() != 0)
		return; /* it has nothing to hand on */
	bool may = may_be_realtime();

	hk_prompt_keep_right();
	/* some sandboxes have a root who may raise no limit */
	CHECK_EQ(getrlimit(RLIMIT_RTPRIO, &r), 0);
	may = may && r.rlim_cur >= HK_PROMPT_PRIORITY;
	CHECK_EQ(setuid(USER), 0);
	CHECK_MSG((hk_prompt_realtime(&why) == 0) == may, "%s", why.text);
	if (may)
		is_first();
}

/* The limit is what ends it where the kernel gives real-time threads all of a core. */
static void has_an_end_if_stuck(void)
{
	struct hk_error why;
	struct rlimit r;

	(void)hk_prompt_realtime(&why);
	CHECK_EQ(getrlimit(RLIMIT_RTTIME, &r), 0);
	CHECK(r.rlim_max <= HK_PROMPT_STUCK / HK_USEC);
	CHECK_EQ(r.rlim_cur, r.rlim_max);
}

static void test_unasked(void)
{
	in_child(unasked);
}

static void test_allowed(void)
{
	in_child(as_the_machine_allows);
}

static void test_without_the_right(void)
{
	in_child(without_the_right);
}

static void test_another_user(void)
{
	in_child(who_becomes_another_user_keeps_the_right);
}

static void test_stuck(void)
{
	in_child(has_an_end_if_stuck);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"unasked_its_slice_is_short", test_unasked},
		{"as_the_machine_allows", test_allowed},
		{"without_the_right", test_without_the_right},
		{"who_becomes_another_user_keeps_the_right", test_another_user},
		{"has_an_end_if_stuck", test_stuck},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

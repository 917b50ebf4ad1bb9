/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_wakeup_priority.c: a thread's wakeup priority, with and without the
 * permission for a real-time priority.
 */
#include "hostd/wakeup_priority.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* On kernels before 6.12 the slice is always 0. */
static void has_a_short_slice(void)
{
	struct sched_attr before = attr();

	CHECK(!hk_wakeup_priority_set(true));
	struct sched_attr a = attr();

	CHECK_EQ(a.sched_runtime, before.sched_runtime ? HK_WAKEUP_PRIORITY_SLICE : 0);
	CHECK_EQ(a.sched_policy, before.sched_policy);
	CHECK_EQ(a.sched_nice, before.sched_nice);
	CHECK(!hk_wakeup_priority_set(false));
	is_as_before(&before);
}

static void has_realtime_priority(void)
{
	struct sched_attr before = attr();

	CHECK(hk_wakeup_priority_set(true));
	struct sched_attr a = attr();

	CHECK_EQ(a.sched_policy, SCHED_FIFO);
	CHECK_EQ(a.sched_priority, HK_WAKEUP_PRIORITY);
	/* its children are ordinary */
	pid_t pid = child_fork();
	if (pid == 0)
		_exit(attr().sched_policy == SCHED_NORMAL ? 0 : 1);
	child_ends_well(pid);
	CHECK(!hk_wakeup_priority_set(false));
	is_as_before(&before);
	CHECK(hk_wakeup_priority_set(true));
	CHECK_EQ(attr().sched_policy, SCHED_FIFO);
	CHECK(!hk_wakeup_priority_set(false));
	is_as_before(&before);
}

/* A test in a child, since the choice is for a whole process. */
#define TEST_IN_CHILD(name)                                                                        \
	static void name(void);                                                                    \
	TEST(name)                                                                                 \
	{                                                                                          \
		child_runs(name);                                                                  \
	}                                                                                          \
	static void name(void)

TEST_IN_CHILD(short_slice_without_a_request)
{
	has_a_short_slice();
}

TEST_IN_CHILD(as_the_machine_allows)
{
	CHECK_EQ(setpriority(PRIO_PROCESS, 0, NICE), 0);
	bool may = may_be_realtime();
	struct sched_attr before = attr();
	int rc = hk_wakeup_priority_realtime(ERR);

	CHECK_MSG((rc == 0) == may, "%s", hk_test_err.text);
	is_as_before(&before);
	if (may)
		has_realtime_priority();
	else
		has_a_short_slice();
}

/* An ordinary user without `ulimit -r`. */
TEST_IN_CHILD(without_the_permission)
{
	const struct rlimit none = {0, 0};

	CHECK_EQ(setrlimit(RLIMIT_RTPRIO, &none), 0);
	if (geteuid() == 0)
		CHECK_EQ(setuid(USER), 0);
	CHECK_REFUSED(hk_wakeup_priority_realtime(ERR), -EPERM, "ulimit -r 1");
	has_a_short_slice();
}

/* hikyakud, started by root with the option 'user'. */
TEST_IN_CHILD(a_new_user_keeps_the_permission)
{
	struct rlimit r;

	if (geteuid() != 0)
		return; /* it has no permission to keep */
	bool may = may_be_realtime();

	hk_wakeup_priority_keep_permission();
	/* in some sandboxes root cannot raise limits */
	CHECK_EQ(getrlimit(RLIMIT_RTPRIO, &r), 0);
	may = may && r.rlim_cur >= HK_WAKEUP_PRIORITY;
	CHECK_EQ(setuid(USER), 0);
	CHECK_MSG((hk_wakeup_priority_realtime(ERR) == 0) == may, "%s", hk_test_err.text);
	if (may)
		has_realtime_priority();
}

/* This limit ends a thread that hangs if the kernel gives real-time threads all of a core. */
TEST_IN_CHILD(has_a_limit_of_cpu_time)
{
	struct rlimit r;

	(void)hk_wakeup_priority_realtime(ERR);
	CHECK_EQ(getrlimit(RLIMIT_RTTIME, &r), 0);
	CHECK(r.rlim_max <= HK_WAKEUP_PRIORITY_MAX_CPU / HK_USEC);
	CHECK_EQ(r.rlim_cur, r.rlim_max);
}

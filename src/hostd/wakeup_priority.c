/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/wakeup_priority.c: a real-time priority if the process may have one, else a short time
 * slice.
 */
#include "hostd/wakeup_priority.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Set once, before a thread has the priority. `ordinary` is stored, since the attributes of a
 * real-time thread do not contain the nice value that it had before. */
static bool realtime;
static struct sched_attr ordinary;

static int get(struct sched_attr *a)
{
	*a = (struct sched_attr){.size = sizeof(*a)};
	return syscall(SYS_sched_getattr, 0, a, sizeof(*a), 0) == 0 ? 0 : -errno;
}

static int set(const struct sched_attr *a)
{
	return syscall(SYS_sched_setattr, 0, a, 0) == 0 ? 0 : -errno;
}

void hk_wakeup_priority_keep_permission(void)
{
	struct rlimit r;

	/* fails without CAP_SYS_RESOURCE; then hk_wakeup_priority_realtime() reports the error */
	if (getrlimit(RLIMIT_RTPRIO, &r) == 0 && r.rlim_cur < HK_WAKEUP_PRIORITY) {
		r.rlim_cur = HK_WAKEUP_PRIORITY;
		r.rlim_max = HK_MAX(r.rlim_max, r.rlim_cur);
		(void)setrlimit(RLIMIT_RTPRIO, &r);
	}
}

uint64_t hk_wakeup_priority_capabilities(void)
{
	struct rlimit r;
	bool enough = getrlimit(RLIMIT_RTPRIO, &r) == 0 && r.rlim_cur >= HK_WAKEUP_PRIORITY;

	return enough ? 0 : UINT64_C(1) << CAP_SYS_NICE;
}

/* Limits the CPU time without a sleep, so that the kernel ends a thread that hangs. Otherwise such
 * a thread could keep its core for ever if real-time threads may use all of it
 * (/proc/sys/kernel/sched_rt_runtime_us). */
static int limit_time(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_RTTIME, &r) != 0)
		return -errno;
	r.rlim_cur = r.rlim_max = HK_MIN(r.rlim_max, HK_WAKEUP_PRIORITY_MAX_CPU / HK_USEC);
	return setrlimit(RLIMIT_RTTIME, &r) == 0 ? 0 : -errno;
}

int hk_wakeup_priority_realtime(struct hk_error *why)
{
	struct sched_attr first = {.size = sizeof(first), .sched_policy = SCHED_FIFO};

	hk_wakeup_priority_keep_permission(); /* every process may raise it to the hard limit */
	int rc = get(&ordinary);

	if (rc == 0)
		rc = limit_time();
	first.sched_priority = HK_WAKEUP_PRIORITY;
	if (rc == 0)
		rc = set(&first);
	if (rc == 0)
		rc = set(&ordinary);
	realtime = rc == 0;
	return rc == 0 ? 0
		       : hk_error_set(
				 why, rc,
				 "no real-time priority: %s; fix: start hikyakud with ulimit -r 1 "
				 "(rtprio in limits.conf(5), LimitRTPRIO= in a unit)",
				 strerror(-rc));
}

bool hk_wakeup_priority_set(bool on)
{
	struct sched_attr a;

	if (realtime) {
		a = ordinary;
		if (on) {
			a.sched_policy = SCHED_FIFO;
			a.sched_priority = HK_WAKEUP_PRIORITY;
			a.sched_nice = 0;
			a.sched_runtime = 0;
		}
		/* its threads and child processes are ordinary; only root can undo this flag, but
		 * nothing has to */
		a.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
	} else if (get(&a) == 0) {
		a.sched_runtime = on ? HK_WAKEUP_PRIORITY_SLICE : 0;
	} else {
		return false;
	}
	return set(&a) == 0 && realtime && on;
}

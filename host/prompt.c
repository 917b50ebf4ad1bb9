/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/prompt.c: real-time priority where the process may have one, else a short slice.
 */
#include "host/prompt.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Set once, before there are prompt threads. */
static bool realtime;
static struct sched_attr
	ordinary; /* reading those of a real-time thread does not tell how nice it was */

static int get(struct sched_attr *a)
{
	*a = (struct sched_attr){.size = sizeof(*a)};
	return syscall(SYS_sched_getattr, 0, a, sizeof(*a), 0) == 0 ? 0 : -errno;
}

static int set(const struct sched_attr *a)
{
	return syscall(SYS_sched_setattr, 0, a, 0) == 0 ? 0 : -errno;
}

void hk_prompt_keep_right(void)
{
	struct rlimit r;

	/* without CAP_SYS_RESOURCE it stays as it is, and hk_prompt_realtime() says what is missing */
	if (getrlimit(RLIMIT_RTPRIO, &r) == 0 && r.rlim_cur < HK_PROMPT_PRIORITY) {
		r.rlim_cur = HK_PROMPT_PRIORITY;
		r.rlim_max = HK_MAX(r.rlim_max, r.rlim_cur);
		(void)setrlimit(RLIMIT_RTPRIO, &r);
	}
}

/* Whoever gets stuck with the core to itself is ended, even where real-time threads may have all of it
 * (/proc/sys/kernel/sched_rt_runtime_us). */
static int limit_time(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_RTTIME, &r) != 0)
		return -errno;
	r.rlim_cur = r.rlim_max = HK_MIN(r.rlim_max, HK_PROMPT_STUCK / HK_USEC);
	return setrlimit(RLIMIT_RTTIME, &r) == 0 ? 0 : -errno;
}

int hk_prompt_realtime(struct hk_error *why)
{
	struct sched_attr first = {.size = sizeof(first), .sched_policy = SCHED_FIFO};

	hk_prompt_keep_right(); /* up to the hard limit everyone may */
	int rc = get(&ordinary);

	if (rc == 0)
		rc = limit_time();
	first.sched_priority = HK_PROMPT_PRIORITY;
	if (rc == 0)
		rc = set(&first);
	if (rc == 0)
		rc = set(&ordinary);
	realtime = rc == 0;
	return rc == 0 ? 0
		       : hk_error_set(why, rc,
				      "no real-time priority: %s; fix: have it started with "
				      "`ulimit -r 1` "
				      "(rtprio in limits.conf(5), LimitRTPRIO= in a unit)",
				      strerror(-rc));
}

bool hk_prompt(bool prompt)
{
	struct sched_attr a;

	if (realtime) {
		a = ordinary;
		if (prompt) {
			a.sched_policy = SCHED_FIFO;
			a.sched_priority = HK_PROMPT_PRIORITY;
			a.sched_nice = 0;
			a.sched_runtime = 0;
		}
		/* its threads and processes are ordinary; only root may take this back, and need not */
		a.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
	} else if (get(&a) == 0) {
		a.sched_runtime = prompt ? HK_PROMPT_SLICE : 0;
	} else {
		return false;
	}
	return set(&a) == 0 && realtime && prompt;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/capabilities.c: see base/capabilities.h.
 */
#include "base/capabilities.h"
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_MS 5000 /* a thread may wait for a core */

static uint64_t kept; /* for the signal's handler */

/* Also async-signal-safe: it consists of system calls. */
static int drop_mine(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &h, d) != 0)
		return -errno;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t keep = (uint32_t)(kept >> 32 * i);

		d[i].permitted &= keep;
		d[i].effective &= keep;
		d[i].inheritable = 0; /* the ambient ones go with these */
	}
	if (syscall(SYS_capset, &h, d) != 0)
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno;
}

static void on_signal(int signal)
{
	int before = errno;

	(void)signal;
	(void)drop_mine(); /* has_dropped() sees whether it worked */
	errno = before;
}

/* The kernel's view. A thread that has just ended has none. */
static bool has_dropped(const char *tid)
{
	unsigned long long permitted = 0;
	unsigned new_privileges = 0;
	char path[64], line[128];

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", tid);
	FILE *f = fopen(path, "re");
	if (!f)
		return true;
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "CapPrm: %llx", &permitted);
		(void)sscanf(line, "NoNewPrivs: %u", &new_privileges);
	}
	fclose(f);
	return (permitted & ~kept) == 0 && new_privileges == 1;
}

/* Tells the threads that have not dropped them yet. Returns how many there are, or a negative
 * errno. */
static int tell_others(void)
{
	DIR *d = opendir("/proc/self/task");
	int left = 0;

	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		if (e->d_name[0] != '.' && !has_dropped(e->d_name)) {
			left++;
			(void)syscall(SYS_tgkill, getpid(), atoi(e->d_name),
				      HK_CAPABILITIES_SIGNAL);
		}
	closedir(d);
	return left;
}

int hk_capabilities_drop(uint64_t keep, struct hk_error *err)
{
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	int64_t deadline = hk_clock_ms() + LIMIT_MS;

	kept = keep;
	int rc = drop_mine();
	if (rc)
		return hk_error_set(err, rc, "cannot give up capabilities: %s", strerror(-rc));
	sigaction(HK_CAPABILITIES_SIGNAL, &a, &before);
	while ((rc = tell_others()) > 0 && hk_clock_ms() < deadline)
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	if (rc == 0)
		sigaction(HK_CAPABILITIES_SIGNAL, &before, NULL);
	/* else a late thread must still find the handler */
	if (rc > 0)
		return hk_error_set(err, -ETIMEDOUT,
				    "%d threads of this process have kept their capabilities", rc);
	return rc == 0 ? 0
		       : hk_error_set(err, rc, "cannot list the threads of this process: %s",
				      strerror(-rc));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/rundir.h: where a daemon of this user is found, and what a dead one has left.
 *
 *   BASE             $HIKYAKU_RUNDIR, else /run/hikyaku for root, else /tmp/hikyaku-UID; mode 0700
 *   BASE/NAME.start  held (flock) by the one rank that starts the daemon; removed by it
 *   BASE/NAME/       one daemon: "default", or "job-KEY-HOST" for the ranks of one job
 *     lock           held (flock) by the daemon as long as it lives
 *     control        its socket; "tagger" of hk-tagger, which keeps its directories here, too: tag-JOB-HOST
 *     log            what it has to tell
 *     leftovers      paths outside of this directory that must go with it, one a line
 *
 * A directory whose lock nobody holds is that of a dead daemon: whoever gets the lock may remove it.
 * DPDK's files are found by the name of the shared memory, which is derived from NAME and the user:
 * BASE of DPDK's runtime directory/dpdk/SHARED, and SHAREDmap_* in every hugetlbfs mount.
 *
 * Threads: no state.
 */
#ifndef HK_HOST_RUNDIR_H
#define HK_HOST_RUNDIR_H

#include "base/common.h"
#include "base/error.h"

#define HK_RUNDIR_NAME_MAX 40
#define HK_RUNDIR_DEFAULT  "default" /* the administrator's daemon */

struct hk_rundir {
	char base[64];
	char name[HK_RUNDIR_NAME_MAX + 1];
	char dir[112];
	char shared[64]; /* name of the shared memory: DPDK's file prefix */
	bool base_given; /* by HIKYAKU_RUNDIR: not removed, even if empty */
};

/* "job-0000beef-node0"; a long host name is shortened and gets a hash. */
void hk_rundir_job_name(uint32_t job_key, char name[HK_RUNDIR_NAME_MAX + 1]);

/* This machine's host name, with only the characters that names may have. */
void hk_rundir_host(char *out, size_t len);

/* Says where the daemon @name of this user lives. Touches nothing. */
int hk_rundir_find(const char *name, struct hk_rundir *rd, struct hk_error *err);

/* Path of @file in the directory. */
void hk_rundir_path(const struct hk_rundir *rd, const char *file, char out[128]);

/* Makes BASE, or checks that it is a private directory of this user. */
int hk_rundir_make_base(const struct hk_rundir *rd, struct hk_error *err);

/* As make_base, but makes nothing: -ENOENT if it is not there. */
int hk_rundir_check_base(const struct hk_rundir *rd, struct hk_error *err);

/* Opens @path and locks it, at the latest at @deadline (hk_ctl_now_ms()). Returns the fd, or
 * -EWOULDBLOCK if another process holds it, or another negative errno. Removing the file while it
 * is locked is safe: those who wait for it take the next one. */
int hk_rundir_lock(const char *path, int64_t deadline, struct hk_error *err);

/* For the daemon: makes the directory, locks it, and removes what a dead predecessor left there and
 * elsewhere. Returns the lock's fd; -EWOULDBLOCK if a living daemon has it. */
int hk_rundir_claim(const struct hk_rundir *rd, int64_t deadline, struct hk_error *err);

/* Notes that @path (a socket, or a directory that is empty then) must go when the daemon has died. */
int hk_rundir_note(const struct hk_rundir *rd, const char *path, struct hk_error *err);

/* Removes the daemon's directory and all that belongs to it. The caller holds its lock. */
void hk_rundir_remove(const struct hk_rundir *rd);

/* Removes the directories of all dead daemons of this user. Returns how many there were. */
unsigned hk_rundir_sweep(void);

#endif

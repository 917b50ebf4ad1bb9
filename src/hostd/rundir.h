/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/rundir.h: run directories: where clients find a daemon of this user, and how the files of a
 * dead daemon are removed.
 *
 *   BASE             $HIKYAKU_RUNDIR, else /run/hikyaku for root, else /tmp/hikyaku-UID; mode 0700
 *   BASE/NAME.start  locked (flock) by the one rank that starts the daemon, which also removes it
 *   BASE/NAME/       one daemon: "default", or "job-KEY-HOST" for the ranks of one job
 *     lock           locked (flock) by the daemon as long as it lives
 *     control        the daemon's socket
 *     tagger         the socket of hk-tagger, whose directories tag-JOB-HOST are in BASE, too
 *     log            the daemon's log
 *     leftovers      files elsewhere to be removed with this directory, one path a line
 *
 * If no process holds the lock, the daemon is dead: the process that gets the lock may remove the
 * directory. DPDK's files have the name of the shared memory, SHARED, which follows from NAME, BASE
 * and the user. They are in dpdk/SHARED in DPDK's runtime directory, and SHAREDmap_* in every
 * hugetlbfs mount.
 *
 * Threads: no state.
 */
#ifndef HK_HOSTD_RUNDIR_H
#define HK_HOSTD_RUNDIR_H

#include "base/common.h"
#include "base/private_dir.h"
#include "hikyaku/error.h"

#pragma GCC visibility push(default)

#define HK_RUNDIR_NAME_MAX 40
#define HK_RUNDIR_DEFAULT  "default" /* the administrator's daemon */

struct hk_rundir {
	char base[HK_PRIVATE_BASE_LEN];
	char name[HK_RUNDIR_NAME_MAX + 1];
	char dir[112];
	char shared[64]; /* DPDK's file prefix, which names the shared memory */
	bool base_given; /* HIKYAKU_RUNDIR names the base: it is never removed */
};

/* "job-0000beef-node0"; a long host name is shortened and gets a hash. */
void hk_rundir_job_name(uint32_t job_key, char name[HK_RUNDIR_NAME_MAX + 1]);

/* This machine's host name; '_' replaces characters that names may not have. */
void hk_rundir_host(char *out, size_t len);

/* Fills @rd for the daemon @name of this user. Accesses no files. */
int hk_rundir_find(const char *name, struct hk_rundir *rd, struct hk_error *err);

/* Path of @file in the directory. */
void hk_rundir_path(const struct hk_rundir *rd, const char *file, char out[128]);

/* Creates BASE, or checks that it is a private directory of this user. */
int hk_rundir_make_base(const struct hk_rundir *rd, struct hk_error *err);

/* Checks that BASE is a private directory of this user. -ENOENT: it does not exist. */
int hk_rundir_check_base(const struct hk_rundir *rd, struct hk_error *err);

/* Opens @file in BASE and locks it, until @deadline (hk_clock_ms()) at the latest. Returns the fd,
 * whose close() unlocks it; -EWOULDBLOCK if another process holds the lock; or another negative
 * errno. The holder may remove the file: processes that wait then lock the next file of that name.
 * While it is there BASE cannot be removed, and paths below BASE lead nowhere else. */
int hk_rundir_lock(const struct hk_rundir *rd, const char *file, int64_t deadline,
		   struct hk_error *err);

/* For the daemon: creates the directory, locks it, and removes the files of a dead predecessor.
 * Returns the lock's fd; -EWOULDBLOCK if a living daemon holds it. */
int hk_rundir_claim(const struct hk_rundir *rd, int64_t deadline, struct hk_error *err);

/* For a rank whose daemon was killed: removes what the rank has made again after the janitor. Does
 * nothing if a living daemon holds the lock. */
void hk_rundir_clean(const struct hk_rundir *rd);

/* Notes @path, a socket or a directory, in `leftovers`. A directory is removed if it is empty. */
int hk_rundir_note(const struct hk_rundir *rd, const char *path, struct hk_error *err);

/* Removes the daemon's directory and all its other files. The caller holds its lock. If a cgroup in
 * `leftovers` is still busy, the directory stays, and a later hk_rundir_sweep() removes both. */
void hk_rundir_remove(const struct hk_rundir *rd);

/* Removes the files of all dead daemons of this user. Returns the number of daemons. */
unsigned hk_rundir_sweep(void);

#pragma GCC visibility pop

#endif

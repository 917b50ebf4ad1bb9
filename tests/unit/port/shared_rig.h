/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/shared_rig.h: what a test needs that shares ports between processes: huge pages of its
 * own, processes in other roles, and a conversation with them.
 *
 * The test runs in a mount namespace of its own, where it mounts a hugetlbfs; DPDK's runtime directory
 * lies in the same temporary directory. So neither can be left behind. A keeper, in a session of its
 * own, waits for the end of the test, however it ends, gives the huge pages back and removes the
 * directory. The other processes die with the test (PR_SET_PDEATHSIG).
 */
#ifndef SHARED_RIG_H
#define SHARED_RIG_H

#include "tests/unit/hk_test.h"

#include <sys/types.h>

#define RIG_WAIT_MS 20000

extern char rig_dir[64], rig_huge[80], rig_run[80];

/* Makes the namespace, the directories and @pages huge pages of 2 MB. */
void rig_up(unsigned pages);

/* Takes the lock of the machine's huge pages, as labs do (python/hikyaku/lab/huge.py): a descriptor to close, or -1
 * if another has it for @wait_ms. */
int rig_pool_lock(int wait_ms);

/* At the end: waits until the keeper has given all back. */
void rig_down(void);

/* A process in another role: this program with `--role` and the words of @role. */
struct rig_proc {
	pid_t pid;
	int fd;
	char name[32];
};
void rig_spawn(struct rig_proc *p, const char *name, const char *role);

/* Sends a line. */
void rig_say(const struct rig_proc *p, const char *line);

/* Waits for a line that starts with @want, and returns the rest of it. */
const char *rig_hear(const struct rig_proc *p, const char *want);

void rig_kill(struct rig_proc *p);

/* Waits for its end by itself, which must be in good order. */
void rig_gone(struct rig_proc *p);

/* Files in @dir; with @name, those whose names start with it. */
unsigned rig_files(const char *dir, const char *name);

/* In a role: the other end of the conversation. */
void role_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool role_asked(char *line, size_t len, int wait_ms);

#endif

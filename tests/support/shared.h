/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/shared.h: set-up for tests that share ports between processes: huge pages,
 * processes in other roles, and a conversation with them.
 *
 * The test runs in a mount namespace of its own, where it mounts a hugetlbfs. DPDK's runtime
 * directory lies in the same temporary directory. So neither can be left behind. A keeper process,
 * in a session of its own, waits for the end of the test, however it ends. It then gives the huge
 * pages back and removes the directory. The other processes die with the test (PR_SET_PDEATHSIG).
 */
#ifndef HK_TEST_SHARED_H
#define HK_TEST_SHARED_H

#include "tests/support/hk_test.h"
#include "tests/support/lines.h"
#include "tests/support/tmpdir.h"

#include <sys/types.h>

#define RIG_WAIT_MS 20000

extern char rig_dir[TMP_PATH], rig_huge[80], rig_run[80];

/* Creates the namespace, the directories and @pages huge pages of 2 MB. */
void rig_up(unsigned pages);

/* Takes the lock of the machine's huge pages, as labs do (python/hikyaku/lab/huge.py). Returns a
 * descriptor to close, or -1 if another process has the lock for @wait_ms. */
int rig_pool_lock(int wait_ms);

/* At the end: waits until the keeper has given everything back. */
void rig_down(void);

/* A process in another role, a ROLE of this program. @role: its name and its arguments. */
struct rig_proc {
	pid_t pid;
	int fd;
	char name[32];
};
void rig_spawn(struct rig_proc *p, const char *name, const char *role, ...)
	__attribute__((format(printf, 3, 4)));

/* Sends a line; waits for a line that starts with @want, and returns the rest of it. */
#define rig_command(p, ...) line_send_to((p)->name, (p)->fd, __VA_ARGS__)
#define rig_expect(p, want) line_expect_from((p)->name, (p)->fd, RIG_WAIT_MS, want)

/* Sends a line and waits for its answer. */
#define rig_call(p, line, want) (line_send_to((p)->name, (p)->fd, "%s", line), rig_expect(p, want))

void rig_kill(struct rig_proc *p);

/* Waits until the process ends by itself, which must be an orderly end. */
void rig_gone(struct rig_proc *p);

/* In a role: the descriptor that leads to the test, for lines.h. */
#define ROLE_FD                3
#define role_reply(...)        line_send_to("the test", ROLE_FD, __VA_ARGS__)
#define role_receive(line, ms) line_receive(ROLE_FD, ms, line, sizeof(line))

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/child.h: processes that a test starts.
 *
 * A child is killed when the test ends, however it ends. A check that fails in a child ends the
 * child with status 1, and so the test that waits for it.
 */
#ifndef HK_TEST_CHILD_H
#define HK_TEST_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* fork(). In the child, which gets 0, the caller ends with _exit(). */
pid_t child_fork(void);

/* Waits for the end of @pid, and returns its status. */
int child_wait(pid_t pid);

/* The same. Fails unless the exit status is 0. */
void child_ends_well(pid_t pid);

/* Runs @fn in a child, which must end well. */
void child_runs(void (*fn)(void));

/* SIGKILL; waits for the end. Fails if the child had ended before. */
void child_kill(pid_t pid);

/* Runs @a and @b in a child each. They get the ends of a socket pair (lines.h). Returns the
 * statuses when both have ended. If @a fails, @b is killed. */
void two_children(void (*a)(int fd), void (*b)(int fd), int status[2]);

/* Starts a process that outlives this one, in a session of its own. When this process ends, or
 * keeper_end() is called, it runs @tidy and ends. */
pid_t keeper_start(void (*tidy)(void));
void keeper_end(void);

/* The kernel's view of a process: its state ('R', 'S', 'T', …); and up to @max of its children.
 * Returns how many children it has. */
char process_state(pid_t pid);
unsigned process_children(pid_t pid, pid_t *child, unsigned max);

#endif

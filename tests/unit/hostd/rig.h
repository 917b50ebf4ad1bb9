/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/rig.h: for tests that run hikyakud: a private run directory, and ranks in their
 * own processes. After each test the rig checks that no process and no file is left.
 *
 * The test is the subreaper of all daemons, so it sees each of them end. Another process, the
 * keeper, in its own session, waits until the test has ended, even by a crash. Then it stops the
 * daemons and removes the directory.
 */
#ifndef HK_TESTS_UNIT_HOSTD_RIG_H
#define HK_TESTS_UNIT_HOSTD_RIG_H

#include "hostd/client.h"
#include "hostd/rundir.h"
#include "tests/support/await.h"
#include "tests/support/child.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/hostd/fake_resources.h"

#include <sys/types.h>

#define RIG_WAIT_MS 20000

extern char rig_dir[TMP_PATH], rig_port[80];

/* Waits until every process that the test has started has ended; checks that no file is left. Also
 * runs after each test. */
void rig_all_gone(void);

/* Starts the daemon @name with more options. True if it got ready. *@said, unless NULL, becomes its
 * output. */
#define rig_daemon(name, said, ...)                                                                \
	rig_daemon_with(name, said, (const char *const[]){__VA_ARGS__, NULL})
bool rig_daemon_with(const char *name, const char **said, const char *const *options);

/* A connection to the daemon @name, or a negative errno. */
int rig_connect(const char *name);
pid_t rig_daemon_pid(const char *name);

/* Sends STOP, and waits until the daemon has removed everything. */
void rig_stop(const char *name);

/* Its STATUS as text, valid until the next call; NULL if it does not run. */
const char *rig_status(const char *name);

/* Waits until the status contains @text. */
void rig_status_has(const char *name, const char *text);

/* Waits until @cond is true. */
#define RIG_WAIT(cond) AWAIT(RIG_WAIT_MS, cond, pause_1ms())

/* The name of the daemon of job @key; valid until the next call. */
const char *rig_job(uint32_t key);

struct hk_hostd_request rig_request(uint32_t key, uint32_t rank, uint32_t ranks);

/* Connects in this process; leaves, and disconnects. Fails the test if that fails. */
struct hk_hostd_client *rig_connect_as(const struct hk_hostd_request *req);
struct hk_hostd_client *rig_attach(uint32_t key, uint32_t rank, uint32_t ranks);
void rig_leave(struct hk_hostd_client *h);

/* The memory of the daemon that gave the lease. */
struct fake_memory *rig_memory(const struct hk_ctl_welcome *lease);

/* A rank in its own process. It connects, sends READY with its worker, and lives until it is killed
 * or told to leave. */
struct rig_rank {
	pid_t pid;
	int fd;
	struct hk_ctl_welcome lease;
	int rc; /* of hk_hostd_client_connect() */
	char text[512];
};
void rig_rank(struct rig_rank *r, const struct hk_hostd_request *req);

/* Several ranks, which begin to connect at the same time. */
void rig_ranks(struct rig_rank *r, unsigned count, const struct hk_hostd_request *req);
void rig_rank_kill(struct rig_rank *r);
/* Has it send LEAVE and end. */
void rig_rank_leave(struct rig_rank *r);
/* Waits until the rank's watcher has seen the daemon's end, and returns the reason. */
const char *rig_rank_lost(struct rig_rank *r);

/* Sends @m without the client's checks; the answer is in @m. Returns its type. */
int rig_ask(int fd, union hk_ctl_msg *m);

/* Such a message, to which the daemon answers with the error @code, in words with @says. */
void rig_error(int fd, union hk_ctl_msg *m, int code, const char *says);
void rig_hello(union hk_ctl_msg *m, uint32_t key);

/* Runs @fn in a child of user @uid, which must end well. */
void rig_as_user(uid_t uid, void (*fn)(void));

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/rig.h: what tests need that run hikyakud: a run directory of their own, ranks in
 * processes of their own, and a look at what is left.
 *
 * The test is the subreaper of all daemons, so it sees each of them end. A keeper, in a session of
 * its own, waits for the end of the test, however it ends: it stops the daemons and removes the
 * directory.
 */
#ifndef HOST_RIG_H
#define HOST_RIG_H

#include "host/client.h"
#include "host/rundir.h"
#include "tests/unit/hk_test.h"
#include "tests/unit/host/fake_resources.h"

#include <sys/types.h>

#define RIG_WAIT_MS 20000

extern char rig_dir[64], rig_port[80];

void rig_up(void);

/* Every process that the test has started has ended, and no file is left. */
void rig_all_gone(void);

/* Waits for the child's end. */
void rig_reap(pid_t pid);

/* Starts the daemon @name with more options. True if it got ready; what it said is in *@said if that is
 * not NULL. */
#define rig_daemon(name, said, ...)                                                                \
	rig_daemon_with(name, said, (const char *const[]){__VA_ARGS__, NULL})
bool rig_daemon_with(const char *name, const char **said, const char *const *options);

/* A connection to the daemon @name, or a negative errno. */
int rig_connect(const char *name);
pid_t rig_daemon_pid(const char *name);

/* Asks for STOP, and waits until the daemon has removed everything. */
void rig_stop(const char *name);

/* Its STATUS as text, valid until the next call; NULL if it does not run. */
const char *rig_status(const char *name);

/* Waits until the status contains @text. */
void rig_status_has(const char *name, const char *text);

/* Waits until @what() is true. */
#define RIG_WAIT(cond)                                                                             \
	do {                                                                                       \
		int64_t rig_end_ = hk_ctl_now_ms() + RIG_WAIT_MS;                                  \
		while (!(cond)) {                                                                  \
			CHECK_MSG(hk_ctl_now_ms() < rig_end_, "waited in vain for %s", #cond);     \
			rig_pause();                                                               \
		}                                                                                  \
	} while (0)
void rig_pause(void);

/* The job's daemon of @key. */
const char *rig_job(uint32_t key);

struct hk_host_request rig_request(uint32_t key, uint32_t rank, uint32_t ranks);

/* Connects, which must succeed. */
struct hk_host *rig_attach(uint32_t key, uint32_t rank, uint32_t ranks);

/* A rank in a process of its own: connects, says READY with its fabric, and then lives until it is
 * killed or told to leave. */
struct rig_rank {
	pid_t pid;
	int fd;
	struct hk_ctl_welcome lease;
	int rc; /* of hk_host_connect */
	char text[512];
};
void rig_rank(struct rig_rank *r, const struct hk_host_request *req);
/* Several at once; they start to connect together. */
void rig_ranks(struct rig_rank *r, unsigned count, const struct hk_host_request *req);
void rig_rank_kill(struct rig_rank *r);
void rig_rank_leave(struct rig_rank *r); /* GOODBYE, then its end */
/* Waits until the rank's watcher has seen the daemon go, and returns the text. */
const char *rig_rank_lost(struct rig_rank *r);

/* A message without help of the client, for wrong ones; the answer is in @m. */
int rig_ask(int fd, union hk_ctl_msg *m);
void rig_hello(union hk_ctl_msg *m, uint32_t key);

/* Runs @fn in a child that is user @uid; it must end with 0. */
void rig_as_user(uid_t uid, void (*fn)(void));

#endif

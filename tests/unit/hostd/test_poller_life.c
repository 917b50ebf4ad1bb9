/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_poller_life.c: the poller meets garbage, or is killed. The daemon cuts off
 * the rank that wrote the garbage, and the next poller polls for the others.
 */
#include "hostd/poller_shared.h"
#include "tests/unit/hostd/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static struct rig_rank r[3];
static struct fake_memory *mem;

static void up(uint32_t key)
{
	struct hk_hostd_request req[3];

	for (unsigned i = 0; i < 3; i++)
		req[i] = rig_request(key, i, 3);
	rig_ranks(r, 3, req);
	for (unsigned i = 0; i < 3; i++)
		CHECK_MSG(r[i].rc == 0, "%s", r[i].text);
	mem = rig_memory(&r[0].lease);
}

static struct fake_worker *worker(unsigned i)
{
	return &mem->worker[r[i].lease.slot];
}

static void is_polled(unsigned i)
{
	uint64_t before = atomic_load(&worker(i)->polls);

	RIG_WAIT(atomic_load(&worker(i)->polls) > before);
}

static void garbage(uint32_t key, enum fake_mode mode)
{
	up(key);
	for (unsigned i = 0; i < 3; i++)
		is_polled(i);
	atomic_store(&worker(1)->mode, mode);
	const char *text = rig_rank_lost(&r[1]);
	CHECK_HAS(text, "the poller died in this rank's memory");
	is_polled(0);
	is_polled(2);
	rig_status_has(rig_job(key), "\"starts\": 2");
	/* its slot becomes free when its process has ended */
	CHECK_EQ(atomic_load(&mem->reclaimed[r[1].lease.slot]), 0);
	rig_rank_kill(&r[1]);
	RIG_WAIT(atomic_load(&mem->reclaimed[r[1].lease.slot]) == 1);
	rig_rank_leave(&r[0]);
	rig_rank_leave(&r[2]);
}

TEST(crashes)
{
	garbage(0x10, FAKE_CRASH);
}

TEST(spins)
{
	garbage(0x11, FAKE_SPIN);
}

static pid_t poller_pid(uint32_t key, pid_t before)
{
	const char *at = NULL;
	pid_t pid = before;

	RIG_WAIT((at = rig_status(rig_job(key))) &&
		 (at = strstr(at, "\"state\": \"on\", \"pid\": ")) &&
		 (pid = (pid_t)strtol(at + 22, NULL, 10)) != before && pid > 0);
	return pid;
}

/* The daemon's status says which priority the poller has (hostd/wakeup_priority.h). */
TEST(has_the_priority_of_the_status)
{
	up(0x16);
	pid_t pid = poller_pid(0x16, 0);
	const char *status = rig_status(rig_job(0x16));

	CHECK(status && strstr(status, "\"realtime\": "));
	int want = strstr(status, "\"realtime\": true") ? SCHED_FIFO : SCHED_OTHER;

	RIG_WAIT((sched_getscheduler(pid) & ~SCHED_RESET_ON_FORK) == want);
	for (unsigned i = 0; i < 3; i++)
		rig_rank_leave(&r[i]);
}

/* Stops the process, and returns when it has stopped. */
static void stop(pid_t pid)
{
	CHECK(kill(pid, SIGSTOP) == 0);
	RIG_WAIT(process_state(pid) == 'T');
}

/* The slot in whose memory the poller is, + 1, or 0; as the daemon sees it. */
static uint32_t slot_inside(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, HK_POLLER_FD_SHARED);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_MSG(fd >= 0, "%s", strerror(errno));
	const struct hk_poller_shared *s = mmap(NULL, sizeof(*s), PROT_READ, MAP_SHARED, fd, 0);
	CHECK(s != MAP_FAILED && s->magic == HK_POLLER_SHARED_MAGIC);
	uint32_t in = atomic_load(&s->inside);

	munmap((void *)(uintptr_t)s, sizeof(*s));
	close(fd);
	return in;
}

/* The poller dies in the memory of a rank that leaves. The rank gets that error instead of LEFT. */
static struct {
	struct hk_hostd_client *host;
	struct hk_error err;
	int rc;
} leaver;

static void *leave(void *arg)
{
	leaver.rc = hk_hostd_client_leave(leaver.host, RIG_WAIT_MS, &leaver.err);
	return arg;
}

TEST(killed_while_one_leaves)
{
	pthread_t t;

	leaver.host = rig_attach(0x15, 0, 1);
	mem = rig_memory(hk_hostd_client_lease(leaver.host));
	atomic_store(&mem->worker[0].stay, 1);
	CHECK_OK(hk_hostd_client_ready(leaver.host, &mem->worker[0], RIG_WAIT_MS, ERR));
	RIG_WAIT(atomic_load(&mem->worker[0].inside));
	CHECK_EQ(pthread_create(&t, NULL, leave, NULL), 0);
	rig_status_has(rig_job(0x15), "\"state\": \"leaving\"");
	CHECK(kill(poller_pid(0x15, 0), SIGKILL) == 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_CMP(leaver.rc, <, 0);
	CHECK_HAS(leaver.err.text, "the poller died in this rank's memory");
	hk_hostd_client_close(leaver.host);
	rig_stop(rig_job(0x15));
}

/* The poller is killed between two polls: no rank is to blame. */
TEST(killed)
{
	pid_t pid = 0;

	up(0x12);
	for (unsigned round = 0; round < 8; round++) {
		pid = poller_pid(0x12, pid);
		for (stop(pid); slot_inside(pid); stop(pid)) {
			CHECK(kill(pid, SIGCONT) == 0);
			pause_1ms();
		}
		CHECK(kill(pid, SIGKILL) == 0);
	}
	poller_pid(0x12, pid);
	for (unsigned i = 0; i < 3; i++)
		is_polled(i);
	for (unsigned i = 0; i < 3; i++)
		rig_rank_leave(&r[i]);
}

TEST(off)
{
	struct hk_hostd_request req = rig_request(0x14, 0, 1);
	req.no_poller = true;
	rig_rank(&r[0], &req);
	CHECK_MSG(r[0].rc == 0, "%s", r[0].text);
	CHECK_EQ(r[0].lease.poller, 0);
	rig_status_has(rig_job(0x14), "\"state\": \"off\"");
	rig_rank_leave(&r[0]);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_poller_life.c: the poller meets garbage, and is killed. The rank that did it is
 * cut off, the others are served on.
 */
#include "host/shared.h"
#include "tests/unit/host/rig.h"

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
	struct hk_host_request req[3];

	rig_up();
	for (unsigned i = 0; i < 3; i++)
		req[i] = rig_request(key, i, 3);
	rig_ranks(r, 3, req);
	for (unsigned i = 0; i < 3; i++)
		CHECK_MSG(r[i].rc == 0, "%s", r[i].text);
	mem = fake_map(r[0].lease.shared, false);
	CHECK(mem != NULL);
}

static struct fake_fabric *fabric(unsigned i)
{
	return &mem->fabric[r[i].lease.slot];
}

static void is_served(unsigned i)
{
	uint64_t before = atomic_load(&fabric(i)->served);

	RIG_WAIT(atomic_load(&fabric(i)->served) > before);
}

static void garbage(uint32_t key, enum fake_mode mode)
{
	up(key);
	for (unsigned i = 0; i < 3; i++)
		is_served(i);
	atomic_store(&fabric(1)->mode, mode);
	const char *text = rig_rank_lost(&r[1]);
	CHECK_MSG(strstr(text, "the poller died in this rank's memory"), "%s", text);
	is_served(0);
	is_served(2);
	rig_status_has(rig_job(key), "\"starts\": 2");
	/* its slot is free when its process is */
	CHECK_EQ(atomic_load(&mem->reclaimed[r[1].lease.slot]), 0);
	rig_rank_kill(&r[1]);
	RIG_WAIT(atomic_load(&mem->reclaimed[r[1].lease.slot]) == 1);
	rig_rank_leave(&r[0]);
	rig_rank_leave(&r[2]);
	rig_all_gone();
}

static void crashes(void)
{
	garbage(0x10, FAKE_CRASH);
}

static void spins(void)
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

/* As the daemon says, which asks for the right before it starts the poller (host/prompt.h). */
static void has_the_priority_that_is_told(void)
{
	up(0x16);
	pid_t pid = poller_pid(0x16, 0);
	const char *told = rig_status(rig_job(0x16));

	CHECK(told && strstr(told, "\"realtime\": "));
	int want = strstr(told, "\"realtime\": true") ? SCHED_FIFO : SCHED_OTHER;

	RIG_WAIT((sched_getscheduler(pid) & ~SCHED_RESET_ON_FORK) == want);
	for (unsigned i = 0; i < 3; i++)
		rig_rank_leave(&r[i]);
	rig_all_gone();
}

/* Stops it, and returns when it does not run any more. */
static void stop(pid_t pid)
{
	char path[64], line[256], *state = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	CHECK(kill(pid, SIGSTOP) == 0);
	do {
		FILE *f = fopen(path, "r");

		CHECK(f != NULL);
		CHECK(fgets(line, sizeof(line), f) && (state = strrchr(line, ')')) != NULL);
		fclose(f);
	} while (state[2] != 'T' && (rig_pause(), true));
}

/* In whose memory it is, as the daemon will see it: slot + 1, or 0. */
static uint32_t serving(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, HK_POLLER_FD_SHARED);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_MSG(fd >= 0, "%s", strerror(errno));
	const struct hk_host_shared *s = mmap(NULL, sizeof(*s), PROT_READ, MAP_SHARED, fd, 0);
	CHECK(s != MAP_FAILED && s->magic == HK_SHARED_MAGIC);
	uint32_t in = atomic_load(&s->serving);

	munmap((void *)(uintptr_t)s, sizeof(*s));
	close(fd);
	return in;
}

/* Dies in the memory of a rank that leaves: that is told so, and not that all is well. */
static struct {
	struct hk_host *host;
	struct hk_error err;
	int rc;
} leaver;

static void *leave(void *arg)
{
	leaver.rc = hk_host_goodbye(leaver.host, RIG_WAIT_MS, &leaver.err);
	return arg;
}

static void killed_while_one_leaves(void)
{
	struct hk_error err = {""};
	pthread_t t;

	rig_up();
	leaver.host = rig_attach(0x15, 0, 1);
	mem = fake_map(hk_host_lease(leaver.host)->shared, false);
	CHECK(mem != NULL);
	atomic_store(&mem->fabric[0].hold, 1);
	CHECK_MSG(hk_host_ready(leaver.host, &mem->fabric[0], RIG_WAIT_MS, &err) == 0, "%s",
		  err.text);
	RIG_WAIT(atomic_load(&mem->fabric[0].inside));
	CHECK_EQ(pthread_create(&t, NULL, leave, NULL), 0);
	rig_status_has(rig_job(0x15), "\"state\": \"leaving\"");
	CHECK(kill(poller_pid(0x15, 0), SIGKILL) == 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_MSG(leaver.rc < 0 && strstr(leaver.err.text, "the poller died in this rank's memory"),
		  "%d: %s", leaver.rc, leaver.err.text);
	hk_host_close(leaver.host);
	rig_stop(rig_job(0x15));
	rig_all_gone();
}

/* Killed from outside between two looks, not inside one: nobody is to blame. */
static void killed(void)
{
	pid_t pid = 0;

	up(0x12);
	for (unsigned round = 0; round < 8; round++) {
		pid = poller_pid(0x12, pid);
		for (stop(pid); serving(pid); stop(pid)) {
			CHECK(kill(pid, SIGCONT) == 0);
			rig_pause();
		}
		CHECK(kill(pid, SIGKILL) == 0);
	}
	poller_pid(0x12, pid);
	for (unsigned i = 0; i < 3; i++)
		is_served(i);
	for (unsigned i = 0; i < 3; i++)
		rig_rank_leave(&r[i]);
	rig_all_gone();
}

static void off(void)
{
	rig_up();
	struct hk_host_request req = rig_request(0x14, 0, 1);
	req.no_poller = true;
	rig_rank(&r[0], &req);
	CHECK_MSG(r[0].rc == 0, "%s", r[0].text);
	CHECK_EQ(r[0].lease.poller, 0);
	rig_status_has(rig_job(0x14), "\"state\": \"off\"");
	rig_rank_leave(&r[0]);
	rig_all_gone();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"has_the_priority_that_is_told", has_the_priority_that_is_told},
		{"crashes", crashes},
		{"spins", spins},
		{"killed", killed},
		{"killed_while_one_leaves", killed_while_one_leaves},
		{"off", off},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

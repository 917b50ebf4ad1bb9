/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_lock.c: the biased lock excludes. Two threads, then two processes, change an
 * ordinary variable under it; each change checks that nobody else is inside. (ThreadSanitizer cannot
 * follow membarrier, so the property itself is watched.)
 */
#include "fabric/lock.h"
#include "tests/unit/hk_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define OWNER_ROUNDS 3000000
#define HELPER_TURNS 20000

struct shared {
	struct hk_biased_lock lock;
	volatile int inside; /* who: 0 nobody, 1 owner, 2 helper */
	volatile uint64_t changes;
	_Atomic bool owner_done;
	uint64_t helper_turns;
};

static void change(struct shared *s, int who)
{
	CHECK(s->inside == 0);
	s->inside = who;
	s->changes = s->changes + 1;
	CHECK(s->inside == who);
	s->inside = 0;
}

static void *helper(void *arg)
{
	struct shared *s = arg;

	while (!atomic_load(&s->owner_done) && s->helper_turns < HELPER_TURNS) {
		if (!hk_biased_try_helper(&s->lock))
			continue;
		change(s, 2);
		s->helper_turns++;
		hk_biased_leave_helper(&s->lock);
	}
	return NULL;
}

static uint64_t owner(struct shared *s)
{
	uint64_t n = 0;

	for (; n < OWNER_ROUNDS; n++) {
		hk_biased_enter(&s->lock);
		change(s, 1);
		if (n % 7 == 0) { /* handlers send: the owner enters again */
			hk_biased_enter(&s->lock);
			hk_biased_leave(&s->lock);
			CHECK(s->inside == 0);
		}
		hk_biased_leave(&s->lock);
	}
	atomic_store(&s->owner_done, true);
	return n;
}

static void all_counted(const struct shared *s, uint64_t owner_turns)
{
	CHECK_EQ(s->changes, owner_turns + s->helper_turns);
	CHECK(s->lock.depth == 0 && s->lock.owner_in == 0 && !hk_biased_helper_in(&s->lock));
}

static void two_threads_exclude_each_other(void)
{
	static struct shared s;
	pthread_t t;

	memset(&s, 0, sizeof(s));
	CHECK(hk_biased_register(&s.lock, false) == 0);
	CHECK(pthread_create(&t, NULL, helper, &s) == 0);
	uint64_t n = owner(&s);

	pthread_join(t, NULL);
	all_counted(&s, n);
}

static struct shared *shared_memory(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(s != MAP_FAILED);
	return s;
}

static void two_processes_exclude_each_other(void)
{
	struct shared *s = shared_memory();
	int status;

	CHECK(hk_biased_register(&s->lock, true) == 0);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CHECK(hk_biased_register(&s->lock, true) == 0);
		helper(s);
		_exit(0);
	}
	uint64_t n = owner(s);

	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	all_counted(s, n);
	munmap(s, sizeof(*s));
}

/* The helper is killed inside: the owner waits until somebody says that it is dead. */
static void a_broken_lock_lets_the_owner_in(void)
{
	struct shared *s = shared_memory();
	int status;
	pid_t pid;

	CHECK(hk_biased_register(&s->lock, true) == 0);
	CHECK(hk_biased_try_helper(&s->lock));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) { /* who notices: after the owner has begun to wait, or before */
		atomic_store(&s->lock.broken, 1);
		_exit(0);
	}
	hk_biased_enter(&s->lock);
	CHECK(atomic_load(&s->lock.broken));
	hk_biased_leave(&s->lock);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	munmap(s, sizeof(*s));
}

static char state_of(pid_t pid)
{
	char path[64], text[512] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *f = fopen(path, "r");

	CHECK(f && fgets(text, sizeof(text), f));
	fclose(f);
	const char *end = strrchr(text, ')'); /* of the name */

	CHECK(end && end[1] == ' ');
	return end[2];
}

/* The helper, inside, is off the owner's core until the owner leaves that. */
static void an_owner_that_waits_sleeps(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct shared *s = shared_memory();
	int status;

	CHECK(hk_biased_register(&s->lock, true) == 0);
	CHECK(hk_biased_try_helper(&s->lock));
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hk_biased_enter(&s->lock);
		hk_biased_leave(&s->lock);
		_exit(0);
	}
	while (!atomic_load(&s->lock.owner_waits))
		sched_yield();
	unsigned asleep = 0, looks = 0;

	while (asleep < 10 && looks++ < 20000) {
		asleep += state_of(pid) == 'S';
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	CHECK_MSG(asleep == 10, "asleep in %u of %u looks", asleep, looks);
	hk_biased_leave_helper(&s->lock);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	munmap(s, sizeof(*s));
}

/* The polling process and a thread of the application's process. */
static void helpers_exclude_each_other(void)
{
	struct hk_biased_lock l = {0};

	CHECK(hk_biased_register(&l, true) == 0);
	CHECK(hk_biased_try_helper(&l));
	CHECK(!hk_biased_try_helper(&l));
	hk_biased_leave_helper(&l);
	CHECK(hk_biased_try_helper(&l));
	hk_biased_leave_helper(&l);
	hk_biased_enter(&l);
	CHECK(!hk_biased_try_helper(&l));
	hk_biased_leave(&l);
	CHECK(hk_biased_try_helper(&l)); /* one that was refused holds nothing */
}

/* A membarrier() is paid for when the lock leans to the owner: not for one that comes and goes, as long as it may not have
 * come to stay. */
static void who_comes_first_has_a_lock_that_was_left(void)
{
	struct hk_biased_lock l = {0};

	CHECK(hk_biased_register(&l, true) == 0);
	for (int turn = 0; turn < 3; turn++) {
		CHECK(hk_biased_try_helper(&l));
		CHECK_EQ(l.helper, HK_HELPER_IN);
		hk_biased_leave_helper(&l);
		CHECK_EQ(l.helper, HK_HELPER_NEAR);
	}
	for (int turn = 0; turn < HK_BIASED_STAYS; turn++) {
		hk_biased_enter(&l);
		hk_biased_enter(&l);
		CHECK_EQ(l.helper, HK_HELPER_OWNER);
		CHECK(!hk_biased_try_helper(&l));
		hk_biased_leave(&l);
		CHECK_EQ(l.helper, HK_HELPER_OWNER); /* it is inside once more */
		hk_biased_leave(&l);
		CHECK_EQ(l.helper, HK_HELPER_NEAR);
		if (turn % 100 == 0) { /* it takes the lock meanwhile, and leaves it so */
			CHECK(hk_biased_try_helper(&l));
			hk_biased_leave_helper(&l);
		}
	}
	for (int turn = 0; turn < 3; turn++) {
		hk_biased_enter(&l);
		CHECK_EQ(l.helper, HK_HELPER_OUT);
		CHECK(!hk_biased_try_helper(&l));
		hk_biased_leave(&l);
		CHECK_EQ(l.helper, HK_HELPER_OUT);
	}
	CHECK(hk_biased_try_helper(&l));
	hk_biased_leave_helper(&l);
	hk_biased_enter(&l);
	CHECK_EQ(l.helper, HK_HELPER_OWNER);
	hk_biased_leave(&l);
}

static void helper_stays_out_while_the_owner_is_in(void)
{
	struct hk_biased_lock lock = {0};

	CHECK(hk_biased_register(&lock, false) == 0);
	hk_biased_enter(&lock);
	CHECK(!hk_biased_try_helper(&lock));
	hk_biased_leave(&lock);
	CHECK(hk_biased_try_helper(&lock));
	hk_biased_leave_helper(&lock);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"helper_stays_out_while_the_owner_is_in", helper_stays_out_while_the_owner_is_in},
		{"who_comes_first_has_a_lock_that_was_left",
		 who_comes_first_has_a_lock_that_was_left},
		{"helpers_exclude_each_other", helpers_exclude_each_other},
		{"two_threads_exclude_each_other", two_threads_exclude_each_other},
		{"two_processes_exclude_each_other", two_processes_exclude_each_other},
		{"a_broken_lock_lets_the_owner_in", a_broken_lock_lets_the_owner_in},
		{"an_owner_that_waits_sleeps", an_owner_that_waits_sleeps},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

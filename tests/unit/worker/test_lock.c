/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_lock.c: the biased lock excludes. Two threads, then two processes, change
 * an ordinary variable under it, and each change checks that nobody else is inside.
 * (ThreadSanitizer cannot follow membarrier, so the test checks the property itself.)
 */
#include "worker/lock.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OWNER_ROUNDS 3000000
#define PROXY_TURNS  20000

struct shared {
	struct hk_biased_lock lock;
	volatile int inside; /* 0: nobody, 1: the owner, 2: the proxy */
	volatile uint64_t changes;
	_Atomic bool owner_done;
	uint64_t proxy_turns;
};

static void change(struct shared *s, int who)
{
	CHECK(s->inside == 0);
	s->inside = who;
	s->changes = s->changes + 1;
	CHECK(s->inside == who);
	s->inside = 0;
}

static void *proxy(void *arg)
{
	struct shared *s = arg;

	while (!atomic_load(&s->owner_done) && s->proxy_turns < PROXY_TURNS) {
		if (!hk_biased_try_proxy(&s->lock))
			continue;
		change(s, 2);
		s->proxy_turns++;
		hk_biased_leave_proxy(&s->lock);
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
	CHECK_EQ(s->changes, owner_turns + s->proxy_turns);
	CHECK(s->lock.depth == 0 && s->lock.owner_in == 0 && !hk_biased_proxy_in(&s->lock));
}

TEST(two_threads_exclude_each_other)
{
	static struct shared s;
	pthread_t t;

	memset(&s, 0, sizeof(s));
	CHECK(hk_biased_register(&s.lock, false) == 0);
	CHECK(pthread_create(&t, NULL, proxy, &s) == 0);
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

TEST(two_processes_exclude_each_other)
{
	struct shared *s = shared_memory();

	CHECK(hk_biased_register(&s->lock, true) == 0);
	pid_t pid = child_fork();

	if (pid == 0) {
		CHECK(hk_biased_register(&s->lock, true) == 0);
		proxy(s);
		_exit(0);
	}
	uint64_t n = owner(s);

	child_ends_well(pid);
	all_counted(s, n);
	munmap(s, sizeof(*s));
}

/* The proxy is killed inside: the owner waits until somebody says that it is dead. */
TEST(a_broken_lock_lets_the_owner_in)
{
	struct shared *s = shared_memory();

	CHECK(hk_biased_register(&s->lock, true) == 0);
	CHECK(hk_biased_try_proxy(&s->lock));
	pid_t pid = child_fork();

	if (pid == 0) { /* who notices: after the owner has begun to wait, or before */
		atomic_store(&s->lock.broken, 1);
		_exit(0);
	}
	hk_biased_enter(&s->lock);
	CHECK(atomic_load(&s->lock.broken));
	hk_biased_leave(&s->lock);
	child_ends_well(pid);
	munmap(s, sizeof(*s));
}

/* The proxy, inside, is off the owner's core until the owner leaves that. */
TEST(an_owner_that_waits_sleeps)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct shared *s = shared_memory();

	CHECK(hk_biased_register(&s->lock, true) == 0);
	CHECK(hk_biased_try_proxy(&s->lock));
	pid_t pid = child_fork();

	if (pid == 0) {
		hk_biased_enter(&s->lock);
		hk_biased_leave(&s->lock);
		_exit(0);
	}
	while (!atomic_load(&s->lock.owner_waits))
		sched_yield();
	unsigned asleep = 0, looks = 0;

	while (asleep < 10 && looks++ < 20000) {
		asleep += process_state(pid) == 'S';
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	CHECK_MSG(asleep == 10, "asleep in %u of %u looks", asleep, looks);
	hk_biased_leave_proxy(&s->lock);
	child_ends_well(pid);
	munmap(s, sizeof(*s));
}

/* The poller, and a thread of the application's process. */
TEST(helpers_exclude_each_other)
{
	struct hk_biased_lock l = {0};

	CHECK(hk_biased_register(&l, true) == 0);
	CHECK(hk_biased_try_proxy(&l));
	CHECK(!hk_biased_try_proxy(&l));
	hk_biased_leave_proxy(&l);
	CHECK(hk_biased_try_proxy(&l));
	hk_biased_leave_proxy(&l);
	hk_biased_enter(&l);
	CHECK(!hk_biased_try_proxy(&l));
	hk_biased_leave(&l);
	CHECK(hk_biased_try_proxy(&l)); /* a refused proxy holds nothing */
}

/* A membarrier() is needed when the lock is biased to the owner. An owner that comes and goes
 * leaves it unbiased, as long as it may not have come to stay. */
TEST(who_comes_first_has_a_lock_that_was_left)
{
	struct hk_biased_lock l = {0};

	CHECK(hk_biased_register(&l, true) == 0);
	for (int turn = 0; turn < 3; turn++) {
		CHECK(hk_biased_try_proxy(&l));
		CHECK_EQ(l.state, HK_BIASED_PROXY_IN);
		hk_biased_leave_proxy(&l);
		CHECK_EQ(l.state, HK_BIASED_TO_NEITHER);
	}
	for (int turn = 0; turn < HK_BIASED_STAYS; turn++) {
		hk_biased_enter(&l);
		hk_biased_enter(&l);
		CHECK_EQ(l.state, HK_BIASED_OWNER_IN);
		CHECK(!hk_biased_try_proxy(&l));
		hk_biased_leave(&l);
		CHECK_EQ(l.state, HK_BIASED_OWNER_IN); /* it is inside once more */
		hk_biased_leave(&l);
		CHECK_EQ(l.state, HK_BIASED_TO_NEITHER);
		if (turn % 100 == 0) { /* it takes the lock meanwhile, and leaves it unbiased */
			CHECK(hk_biased_try_proxy(&l));
			hk_biased_leave_proxy(&l);
		}
	}
	for (int turn = 0; turn < 3; turn++) {
		hk_biased_enter(&l);
		CHECK_EQ(l.state, HK_BIASED_TO_OWNER);
		CHECK(!hk_biased_try_proxy(&l));
		hk_biased_leave(&l);
		CHECK_EQ(l.state, HK_BIASED_TO_OWNER);
	}
	CHECK(hk_biased_try_proxy(&l));
	hk_biased_leave_proxy(&l);
	hk_biased_enter(&l);
	CHECK_EQ(l.state, HK_BIASED_OWNER_IN);
	hk_biased_leave(&l);
}

TEST(proxy_stays_out_while_the_owner_is_in)
{
	struct hk_biased_lock lock = {0};

	CHECK(hk_biased_register(&lock, false) == 0);
	hk_biased_enter(&lock);
	CHECK(!hk_biased_try_proxy(&lock));
	hk_biased_leave(&lock);
	CHECK(hk_biased_try_proxy(&lock));
	hk_biased_leave_proxy(&lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_watchdog.c: how long hk_watchdog_wait() waits. The test replaces the wait
 * itself, which takes no time.
 */
#include "hostd/watchdog.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <pthread.h>

static struct {
	unsigned waits, done_at; /* number of waits; the one in which the thread posts, 0: none */
	bool burns;              /* use CPU time in this thread, whose clock the watchdog reads */
} script;

/* Replaces the C library's function in this program. */
int sem_clockwait(sem_t *done, clockid_t clock, const struct timespec *until)
{
	for (volatile unsigned i = 0; script.burns && i < 1000000;)
		i = i + 1;
	errno = ++script.waits % 2 ? ETIMEDOUT : EINTR;
	return script.waits == script.done_at ? 0 : -1;
}

static pthread_barrier_t end;

static void *sleeper(void *arg)
{
	(void)pthread_barrier_wait(&end);
	return arg;
}

#define LONG_MS 100000000u

static bool waits(clockid_t clock, unsigned cpu_ms, unsigned wall_ms)
{
	struct hk_watchdog p = {cpu_ms, wall_ms};
	sem_t done;

	script.waits = 0;
	CHECK_EQ(sem_init(&done, 0, 0), 0);
	bool got = hk_watchdog_wait(&done, clock, &p);

	sem_destroy(&done);
	return got;
}

/* The watchdog waits for a thread that gets no core, and for one that has not run yet. */
TEST(waits_for_a_thread_without_a_core)
{
	pthread_t t;
	clockid_t clock;

	CHECK_EQ(pthread_barrier_init(&end, NULL, 2), 0);
	CHECK_EQ(pthread_create(&t, NULL, sleeper, NULL), 0);
	CHECK_EQ(pthread_getcpuclockid(t, &clock), 0);
	script.done_at = 1000;
	script.burns = false;
	CHECK(waits(clock, 1000, LONG_MS));
	CHECK(waits(0, 0, LONG_MS));
	CHECK_EQ(script.waits, 1000);
	(void)pthread_barrier_wait(&end);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

TEST(gives_up_a_thread_that_uses_cpu)
{
	clockid_t clock;

	CHECK_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0);
	script.done_at = 0;
	script.burns = true;
	CHECK(!waits(clock, 5, LONG_MS));
	script.done_at = 1;
	CHECK(waits(clock, 0, LONG_MS)); /* a late answer counts */
}

TEST(gives_up_after_the_wall_time)
{
	script.done_at = 0;
	script.burns = true;
	CHECK(!waits(0, 0, 5));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_patience.c: how long one waits for a thread. The waiting itself is the test's, and takes no time.
 */
#include "host/patience.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <pthread.h>

static struct {
	unsigned waits, done_at; /* posted in that one; 0: never */
	bool burns;              /* this thread, whose clock is looked at */
} script;

/* The C library's, for this program. */
int sem_clockwait(sem_t *done, clockid_t clock, const struct timespec *until)
{
	(void)done, (void)clock, (void)until;
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
	struct hk_patience p = {cpu_ms, wall_ms};
	sem_t done;

	script.waits = 0;
	CHECK_EQ(sem_init(&done, 0, 0), 0);
	bool got = hk_patience_wait(&done, clock, &p);

	sem_destroy(&done);
	return got;
}

/* It gets no core: however often one looks, it is waited for. So is one that has not run yet. */
static void who_gets_no_core_is_waited_for(void)
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

static void who_uses_cpu_and_does_not_answer_is_given_up(void)
{
	clockid_t clock;

	CHECK_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0);
	script.done_at = 0;
	script.burns = true;
	CHECK(!waits(clock, 5, LONG_MS));
	script.done_at = 1;
	CHECK(waits(clock, 0, LONG_MS)); /* it has answered: late is not never */
}

static void in_the_end_anybody_is_given_up(void)
{
	script.done_at = 0;
	script.burns = true;
	CHECK(!waits(0, 0, 5));
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"who_gets_no_core_is_waited_for", who_gets_no_core_is_waited_for},
		{"who_uses_cpu_and_does_not_answer_is_given_up",
		 who_uses_cpu_and_does_not_answer_is_given_up},
		{"in_the_end_anybody_is_given_up", in_the_end_anybody_is_given_up},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

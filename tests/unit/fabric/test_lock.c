/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_lock.c: the biased lock excludes. Two threads change an ordinary variable
 * under it; each change checks that nobody else is inside. (ThreadSanitizer cannot follow
 * membarrier, so the property itself is watched.)
 */
#include "fabric/lock.h"
#include "tests/unit/hk_test.h"

#include <pthread.h>

#define OWNER_ROUNDS 3000000
#define HELPER_TURNS 20000

static struct hk_biased_lock lock;
static volatile int inside; /* who: 0 nobody, 1 owner, 2 helper */
static volatile uint64_t changes;
static _Atomic bool owner_done;
static uint64_t helper_turns;

static void change(int who)
{
	CHECK(inside == 0);
	inside = who;
	changes = changes + 1;
	CHECK(inside == who);
	inside = 0;
}

static void *helper(void *arg)
{
	(void)arg;
	while (!atomic_load(&owner_done) && helper_turns < HELPER_TURNS) {
		if (!hk_biased_try_helper(&lock))
			continue;
		change(2);
		helper_turns++;
		hk_biased_leave_helper(&lock);
	}
	return NULL;
}

static void two_threads_exclude_each_other(void)
{
	pthread_t t;
	uint64_t owner = 0;

	CHECK(hk_biased_register() == 0);
	CHECK(pthread_create(&t, NULL, helper, NULL) == 0);
	for (; owner < OWNER_ROUNDS; owner++) {
		hk_biased_enter(&lock);
		change(1);
		if (owner % 7 == 0) { /* handlers send: the owner enters again */
			hk_biased_enter(&lock);
			hk_biased_leave(&lock);
			CHECK(inside == 0);
		}
		hk_biased_leave(&lock);
	}
	atomic_store(&owner_done, true);
	pthread_join(t, NULL);
	CHECK_EQ(changes, owner + helper_turns);
	CHECK(lock.depth == 0 && lock.owner_in == 0 && lock.helper_wants == 0);
}

static void helper_stays_out_while_the_owner_is_in(void)
{
	CHECK(hk_biased_register() == 0);
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
		{"two_threads_exclude_each_other", two_threads_exclude_each_other},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

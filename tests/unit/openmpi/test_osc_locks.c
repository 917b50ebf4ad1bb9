/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/openmpi/test_osc_locks.c: the lock of a window, over every order in which a few ranks
 * can ask and release. There is one writer, or readers alone. Nobody waits while the lock is free.
 * While a rank waits, each other one gets the lock at most once.
 */
#include "openmpi/osc/locks.h"
#include "tests/support/hk_test.h"

#include <string.h>

#define RANKS  3
#define ROUNDS 2
#define STEPS  (2 * RANKS * ROUNDS) /* each round asks and releases */

enum state { IDLE, WAITS, HOLDS };

struct rank {
	bool exclusive;
	enum state state;
	unsigned rounds;        /* that have begun */
	unsigned others[RANKS]; /* how often each got the lock while this one waits */
};

struct world {
	struct hk_osc_lock lock;
	struct hk_osc_waiter waiter[RANKS];
	struct rank rank[RANKS];
	unsigned granted; /* so far */
};

static struct hk_osc_waiters waiters(struct world *w)
{
	return (struct hk_osc_waiters){w->waiter, RANKS};
}

static bool exclusive(unsigned modes, unsigned rank, unsigned round)
{
	return modes >> (rank * ROUNDS + round) & 1;
}

static void granted(struct world *w, unsigned i)
{
	for (unsigned k = 0; k < RANKS; k++) {
		struct rank *r = &w->rank[k];

		if (k != i && r->state == WAITS)
			CHECK_EQ(r->others[i]++, 0);
	}
	w->granted++;
	w->rank[i].state = HOLDS;
}

static void check(const struct world *w)
{
	unsigned readers = 0, writers = 0, waiting = 0;

	for (unsigned i = 0; i < RANKS; i++) {
		const struct rank *r = &w->rank[i];

		readers += r->state == HOLDS && !r->exclusive;
		writers += r->state == HOLDS && r->exclusive;
		waiting += r->state == WAITS;
	}
	struct hk_osc_lock l = w->lock;
	struct hk_osc_waiter all[RANKS];

	memcpy(all, w->waiter, sizeof(all));
	CHECK_EQ(hk_osc_lock_next(&l, (struct hk_osc_waiters){all, RANKS}),
		 HK_OSC_NOBODY); /* nobody waits who need not */
	CHECK(writers <= 1 && (!writers || !readers));
	CHECK_EQ(w->lock.readers, readers);
	CHECK_EQ(w->lock.writer, writers);
	CHECK(!waiting || readers || writers);
	CHECK_EQ((w->lock.head != HK_OSC_NOBODY), (waiting > 0));
}

/* Rank @i asks or releases. False: it can do neither now. */
static bool step(struct world *w, unsigned modes, unsigned i)
{
	struct rank *r = &w->rank[i];

	if (r->state == WAITS || (r->state == IDLE && r->rounds == ROUNDS))
		return false;
	if (r->state == IDLE) {
		r->exclusive = exclusive(modes, i, r->rounds++);
		memset(r->others, 0, sizeof(r->others));
		if (hk_osc_lock_try(&w->lock, waiters(w), i, r->exclusive)) {
			granted(w, i);
			return true;
		}
		hk_osc_lock_wait(&w->lock, waiters(w), i, r->exclusive);
		r->state = WAITS;
		return true;
	}
	r->state = IDLE;
	CHECK(hk_osc_lock_release(&w->lock));
	for (uint32_t next; (next = hk_osc_lock_next(&w->lock, waiters(w))) != HK_OSC_NOBODY;)
		granted(w, next);
	return true;
}

/* Runs the order @choice, and completes it. Sets it to the next one; false: there is none. */
static bool run(unsigned modes, uint8_t *choice, unsigned *orders)
{
	struct world w = {0};

	hk_osc_lock_init(&w.lock);
	for (unsigned s = 0; s < STEPS; s++) {
		uint8_t first = choice[s];

		while (choice[s] < RANKS && !step(&w, modes, choice[s]))
			choice[s]++;
		if (choice[s] < RANKS) {
			check(&w);
			continue;
		}
		CHECK_MSG(first > 0, "nobody can go on");
		if (s == 0)
			return false;
		choice[s] = 0;
		choice[s - 1]++;
		return true;
	}
	CHECK_EQ(w.granted, RANKS * ROUNDS);
	(*orders)++;
	choice[STEPS - 1]++;
	return true;
}

TEST(every_order_of_three_ranks)
{
	unsigned orders = 0;

	for (unsigned modes = 0; modes < 1u << (RANKS * ROUNDS); modes++) {
		uint8_t choice[STEPS] = {0};

		while (run(modes, choice, &orders))
			;
	}
	CHECK_CMP(orders, >, 64 * 1000);
}

TEST(nobody_holds_it)
{
	struct hk_osc_waiter one[1] = {0};
	struct hk_osc_waiters all = {one, 1};
	struct hk_osc_lock l;

	hk_osc_lock_init(&l);
	CHECK(!hk_osc_lock_release(&l));
	CHECK_EQ(hk_osc_lock_next(&l, all), HK_OSC_NOBODY);
	CHECK(hk_osc_lock_try(&l, all, 0, true));
	CHECK(hk_osc_lock_release(&l));
	CHECK(!hk_osc_lock_release(&l));
}

/* Rank 0 asks again at once, and the others only after the next release. All get it equally
 * often. */
TEST(each_gets_its_share)
{
	enum { N = 8, GRANTS = 1000 * N };
	struct hk_osc_waiter each[N] = {0};
	struct hk_osc_waiters all = {each, N};
	unsigned had[N] = {0}, late = HK_OSC_NOBODY;
	struct hk_osc_lock l;
	uint32_t holder = 0;

	hk_osc_lock_init(&l);
	CHECK(hk_osc_lock_try(&l, all, 0, true));
	for (uint32_t i = 1; i < N; i++)
		hk_osc_lock_wait(&l, all, i, true);
	for (unsigned i = 0; i < GRANTS; i++) {
		had[holder]++;
		CHECK(hk_osc_lock_release(&l));
		uint32_t next = hk_osc_lock_next(&l, all);

		CHECK(next != HK_OSC_NOBODY);
		if (holder == 0)
			hk_osc_lock_wait(&l, all, 0, true);
		if (late != HK_OSC_NOBODY)
			hk_osc_lock_wait(&l, all, late, true);
		late = holder == 0 ? HK_OSC_NOBODY : holder;
		holder = next;
	}
	for (uint32_t i = 0; i < N; i++)
		CHECK(had[i] > 1000 - 10 && had[i] < 1000 + 10);
}

/* Another process has written anything there. Nothing else is touched, and every call ends. */
TEST(damaged_ranks)
{
	enum { N = 4 };
	struct hk_osc_waiter each[N + 1];
	struct hk_osc_waiters all = {each, N};
	struct hk_osc_lock l;

	for (unsigned i = 0; i < 100000; i++) {
		l = (struct hk_osc_lock){.head = (uint32_t)hk_rng_range(&hk_test_rng, 0, N),
					 .tail = (uint32_t)hk_rng_range(&hk_test_rng, 0, N),
					 .readers = (uint32_t)hk_rng_range(&hk_test_rng, 0, 2),
					 .writer = hk_rng_range(&hk_test_rng, 0, 3) == 0};
		for (unsigned k = 0; k <= N; k++)
			each[k] = (struct hk_osc_waiter){
				.granted = hk_rng_range(&hk_test_rng, 0, 3),
				.next = (uint32_t)hk_rng_range(&hk_test_rng, 0, N)};
		struct hk_osc_waiter behind = each[N];
		uint32_t rank = (uint32_t)hk_rng_range(&hk_test_rng, 0, N - 1);

		if (!hk_osc_lock_try(&l, all, rank, i % 2))
			hk_osc_lock_wait(&l, all, rank, i % 2);
		(void)hk_osc_lock_release(&l);
		(void)hk_osc_lock_next(&l, all);
		CHECK(memcmp(&behind, &each[N], sizeof(behind)) == 0);
	}
}

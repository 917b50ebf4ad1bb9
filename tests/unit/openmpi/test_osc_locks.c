/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/openmpi/test_osc_locks.c: the lock of a window, over every order in which a few ranks
 * can ask and release. There is one writer, or readers alone. Requests are granted in their order,
 * and nobody waits while the lock is free.
 */
#include "openmpi/osc/locks.h"
#include "tests/support/hk_test.h"

#define RANKS  3
#define ROUNDS 2
#define STEPS  (2 * RANKS * ROUNDS) /* each round asks and releases */

enum state { IDLE, WAITS, HOLDS };

struct rank {
	bool exclusive;
	enum state state;
	unsigned rounds; /* that have begun */
	unsigned asked;  /* when, among all requests */
};

struct world {
	struct hk_osc_lock lock;
	struct hk_osc_waiter waiter[RANKS];
	struct rank rank[RANKS];
	unsigned requests, granted; /* so far; grants follow the requests */
};

static bool exclusive(unsigned modes, unsigned rank, unsigned round)
{
	return modes >> (rank * ROUNDS + round) & 1;
}

static void granted(struct world *w, struct rank *r)
{
	CHECK_EQ(r->asked, w->granted); /* nobody is overtaken */
	w->granted++;
	r->state = HOLDS;
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
		r->asked = w->requests++;
		if (hk_osc_lock_try(&w->lock, r->exclusive)) {
			granted(w, r);
			return true;
		}
		hk_osc_lock_wait(&w->lock, w->waiter, i, r->exclusive);
		r->state = WAITS;
		return true;
	}
	r->state = IDLE;
	CHECK(hk_osc_lock_release(&w->lock));
	for (uint32_t next; (next = hk_osc_lock_next(&w->lock, w->waiter)) != HK_OSC_NOBODY;)
		granted(w, &w->rank[next]);
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
	struct hk_osc_lock l;

	hk_osc_lock_init(&l);
	CHECK(!hk_osc_lock_release(&l));
	CHECK_EQ(hk_osc_lock_next(&l, NULL), HK_OSC_NOBODY);
	CHECK(hk_osc_lock_try(&l, true));
	CHECK(hk_osc_lock_release(&l));
	CHECK(!hk_osc_lock_release(&l));
}

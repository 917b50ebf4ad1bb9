/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_lock_model.c: every interleaving of the biased lock, on a machine with
 * store buffers.
 *
 * The model follows worker/lock.h step by step, so a change there needs a change here. The machine
 * is in tests/support/model.h. The test checks every state. Owner and proxy are never both inside,
 * unless the owner knows that the lock is broken, and touches nothing. Each side can still come to
 * its end: a state from which no path leads there would mean that it is stuck for ever.
 * Locks with one part left out show that the model can find an error.
 */
enum var { OWNER_IN, PROXY_IS, OWNER_WAITS, BROKEN, VARS };
enum { OUT, IN, UNBIASED, OWN }; /* the state of the lock; OWN: unbiased, and the owner is in */
enum side { OWNER, PROXY, SIDES };
enum move { MOVE_OWNER, MOVE_HELPER, DRAIN_OWNER, DRAIN_HELPER, DIE, DECLARE, MOVES };

#define MODEL_VARS  VARS
#define MODEL_SIDES SIDES
#define MODEL_MOVES MOVES
#define MODEL_STATE                                                                                \
	uint8_t depth;          /* the owner's */                                                  \
	uint8_t unbiased;       /* it leaves the lock unbiased */                                  \
	uint8_t unbiased_turns; /* entries that left it so, until now */                           \
	uint8_t knows; /* the owner is in because the lock is broken, and touches nothing */       \
	uint8_t dead;  /* the proxy was killed */

#include "worker/private.h"
#include "tests/support/model.h"

/* ---- the lock, and what may be left out ------------------------------------------------------ */

struct variant {
	bool no_membarrier;   /* the proxy only looks */
	bool no_first_check;  /* the owner does not look whether the proxy wants */
	bool no_second_check; /* the owner does not look again after it has waited */
	bool proxy_stays;     /* the proxy does not take back its wish when it finds the owner in */
	bool owner_stores;    /* the owner takes a lock that was left by a plain store */
	bool proxy_stores;    /* the proxy does so */
	bool ignores_broken;  /* the owner waits for a proxy that is dead */
	bool may_die;         /* the proxy can be killed at any step; then the lock is broken */
	bool may_be_cut; /* the lock is declared broken at any time, of a proxy that lives on */
	unsigned unbiased_turns; /* so often an owner leaves it unbiased that found it so */
	unsigned owner_turns, proxy_turns;
};

/* Where each side is. The owner's side of hk_biased_enter(), hk_biased_leave() with one re-entry.
 */
enum owner_pc {
	O_OUT,
	O_ENTER,       /* owner_in = 1 */
	O_CHECK,       /* is the proxy not out? */
	O_TAKE,        /* unbiased: atomically its own, or out */
	O_BACK,        /* owner_in = 0 */
	O_SAY_WAITS,   /* owner_waits = 1 */
	O_WAIT,        /* proxy in && !broken? */
	O_WAIT_BROKEN, /* … */
	O_WAITED,      /* owner_waits = 0 */
	O_AGAIN,       /* owner_in = 1 */
	O_LOOK_BROKEN, /* broken? then in, else O_CHECK */
	O_IN,
	O_IN_AGAIN, /* inside a handler that sends: depth 2 */
	O_LEAVE,
	O_LEAVE_UNBIASED, /* proxy = unbiased */
	O_END,
};

enum proxy_pc {
	H_OUT,     /* owner_in? then not now */
	H_TAKE,    /* unbiased: atomically in */
	H_WANT,    /* out: atomically in */
	H_BARRIER, /* membarrier() */
	H_LOOK,    /* owner_in? */
	H_BACK,    /* proxy = out */
	H_IN,
	H_LEAVE,
	H_DEAD,
	H_END,
};

static bool owner_inside(const struct machine *m)
{
	return m->pc[OWNER] == O_IN || m->pc[OWNER] == O_IN_AGAIN || m->pc[OWNER] == O_LEAVE;
}

static bool proxy_inside(const struct machine *m)
{
	return m->pc[PROXY] == H_IN || m->pc[PROXY] == H_LEAVE;
}

/* Compare and exchange of what the proxy is, a locked instruction; false if it cannot be done now.
 */
static bool move(struct machine *m, unsigned side, unsigned from, unsigned to, unsigned done,
		 unsigned not_done)
{
	if (m->buffer[side].n)
		return false;
	bool is = m->memory[PROXY_IS] == from;

	if (is)
		m->memory[PROXY_IS] = (uint8_t)to;
	m->pc[side] = (uint8_t)(is ? done : not_done);
	return true;
}

/* One step; false if it cannot be done now. */
static bool owner_step(struct machine *m, const struct variant *v)
{
	uint8_t *pc = &m->pc[OWNER];

	switch ((enum owner_pc) * pc) {
	case O_OUT:
		*pc = m->turns[OWNER] ? O_ENTER : O_END;
		return true;
	case O_ENTER:
		if (!store(m, OWNER, OWNER_IN, 1))
			return false;
		m->depth++;
		*pc = v->no_first_check ? O_IN : O_CHECK;
		return true;
	case O_CHECK:
		*pc = load(m, OWNER, PROXY_IS) ? O_TAKE : O_IN;
		return true;
	case O_TAKE:
		if (v->owner_stores && load(m, OWNER, PROXY_IS) == UNBIASED) {
			if (!store(m, OWNER, PROXY_IS, OUT))
				return false;
			*pc = O_IN;
			return true;
		}
		m->unbiased = m->unbiased_turns < v->unbiased_turns;
		if (!move(m, OWNER, UNBIASED, m->unbiased ? OWN : OUT, O_IN, O_BACK)) {
			m->unbiased = 0;
			return false;
		}
		m->unbiased &= m->pc[OWNER] == O_IN;
		/* the count starts again when the lock is biased again */
		m->unbiased_turns = m->pc[OWNER] != O_IN ? m->unbiased_turns
				    : m->unbiased        ? m->unbiased_turns + 1
							 : 0;
		return true;
	case O_BACK:
		if (!store(m, OWNER, OWNER_IN, 0))
			return false;
		*pc = O_SAY_WAITS;
		return true;
	case O_SAY_WAITS:
		if (!store(m, OWNER, OWNER_WAITS, 1))
			return false;
		*pc = O_WAIT;
		return true;
	case O_WAIT:
		*pc = load(m, OWNER, PROXY_IS) == IN ? O_WAIT_BROKEN : O_WAITED;
		return true;
	case O_WAIT_BROKEN:
		*pc = !v->ignores_broken && load(m, OWNER, BROKEN) ? O_WAITED : O_WAIT;
		return true;
	case O_WAITED:
		if (!store(m, OWNER, OWNER_WAITS, 0))
			return false;
		*pc = O_AGAIN;
		return true;
	case O_AGAIN:
		if (!store(m, OWNER, OWNER_IN, 1))
			return false;
		*pc = O_LOOK_BROKEN;
		return true;
	case O_LOOK_BROKEN:
		m->knows = (uint8_t)load(m, OWNER, BROKEN);
		*pc = m->knows || v->no_second_check ? O_IN : O_CHECK;
		return true;
	case O_IN:
		m->depth++;
		*pc = O_IN_AGAIN;
		return true;
	case O_IN_AGAIN:
		m->depth--;
		*pc = O_LEAVE;
		return true;
	case O_LEAVE:
		if (!store(m, OWNER, OWNER_IN, 0))
			return false;
		m->depth--;
		m->knows = 0;
		m->turns[OWNER]--;
		*pc = m->unbiased ? O_LEAVE_UNBIASED : O_OUT;
		return true;
	case O_LEAVE_UNBIASED:
		if (!store(m, OWNER, PROXY_IS, UNBIASED))
			return false;
		m->unbiased = 0;
		*pc = O_OUT;
		return true;
	case O_END:
		return false;
	}
	return false;
}

static bool proxy_step(struct machine *m, const struct variant *v)
{
	uint8_t *pc = &m->pc[PROXY];

	switch ((enum proxy_pc) * pc) {
	case H_OUT:
		if (!m->turns[PROXY]) {
			*pc = H_END;
			return true;
		}
		if (load(m, PROXY, OWNER_IN))
			m->turns[PROXY]--;
		else
			*pc = H_TAKE;
		return true;
	case H_TAKE:
		if (v->proxy_stores && load(m, PROXY, PROXY_IS) == UNBIASED) {
			if (!store(m, PROXY, PROXY_IS, IN))
				return false;
			*pc = H_IN;
			return true;
		}
		return move(m, PROXY, UNBIASED, IN, H_IN, H_WANT);
	case H_WANT:
		/* it was out: another proxy may have come, or the owner have found it unbiased and
		 * be in */
		return move(m, PROXY, OUT, IN, v->no_membarrier ? H_LOOK : H_BARRIER, H_OUT);
	case H_BARRIER:
		if (!all_drained(m))
			return false;
		*pc = H_LOOK;
		return true;
	case H_LOOK:
		*pc = load(m, PROXY, OWNER_IN) ? H_BACK : H_IN;
		return true;
	case H_BACK:
		if (!v->proxy_stays && !store(m, PROXY, PROXY_IS, OUT))
			return false;
		/* a failed attempt counts, or it could try for ever */
		m->turns[PROXY]--;
		*pc = H_OUT;
		return true;
	case H_IN:
		*pc = H_LEAVE;
		return true;
	case H_LEAVE:
		if (!store(m, PROXY, PROXY_IS, UNBIASED))
			return false;
		m->turns[PROXY]--;
		*pc = H_OUT;
		return true;
	case H_DEAD:
	case H_END:
		return false;
	}
	return false;
}

/* The proxy is killed, wherever it is; what it has stored reaches memory. */
static bool proxy_dies(struct machine *m, const struct variant *v)
{
	if (!v->may_die || m->dead || m->pc[PROXY] == H_END)
		return false;
	m->dead = 1;
	m->pc[PROXY] = H_DEAD;
	return true;
}

/* The process that notices declares the lock broken. That is in memory at once, since it is
 * another thread. */
static bool declared_broken(struct machine *m, const struct variant *v)
{
	if (!(m->dead || v->may_be_cut) || m->memory[BROKEN])
		return false;
	m->memory[BROKEN] = 1;
	return true;
}

/* ---- all states ------------------------------------------------------------------------------ */

static bool model_move(struct machine *m, const struct variant *v, unsigned how)
{
	switch ((enum move)how) {
	case MOVE_OWNER:
		return owner_step(m, v);
	case MOVE_HELPER:
		return proxy_step(m, v);
	case DRAIN_OWNER:
		return drain(m, OWNER);
	case DRAIN_HELPER:
		return drain(m, PROXY);
	case DIE:
		return proxy_dies(m, v);
	case DECLARE:
		return declared_broken(m, v);
	default:
		return false;
	}
}

static bool model_at_end(const struct machine *m)
{
	return m->pc[OWNER] == O_END && (m->pc[PROXY] == H_END || m->pc[PROXY] == H_DEAD);
}

static struct result {
	uint32_t states, both_inside, stuck;
	/* states: each was inside, one waited, the lock was unbiased, also with the owner in */
	uint32_t owner_in, proxy_in, waited, left, unbiased;
} seen;

static void model_visit(const struct machine *m)
{
	seen.owner_in += owner_inside(m);
	seen.proxy_in += proxy_inside(m);
	seen.waited += m->pc[OWNER] == O_WAIT;
	seen.left += m->memory[PROXY_IS] == UNBIASED;
	seen.unbiased += m->memory[PROXY_IS] == OWN;
	seen.both_inside += owner_inside(m) && !m->knows && proxy_inside(m);
	CHECK(m->depth <= 2 && (m->pc[OWNER] != O_END || m->depth == 0));
}

static struct result explore(const struct variant *v)
{
	struct machine start = {.turns = {(uint8_t)v->owner_turns, (uint8_t)v->proxy_turns}};

	seen = (struct result){0};
	struct model_size size = model_explore(&start, v);

	seen.states = size.states;
	seen.stuck = size.stuck;
	return seen;
}

/* ---- the properties -------------------------------------------------------------------------- */

static void holds(const struct variant *v)
{
	struct result r = explore(v);

	CHECK_CMP(r.both_inside, ==, 0);
	CHECK_CMP(r.stuck, ==, 0);
	/* the proof covered something */
	CHECK_CMP(r.owner_in, >, 0);
	CHECK_CMP(r.proxy_in, >, 0);
	CHECK_CMP(r.waited, >, 0);
	CHECK_CMP(r.left, >, 0);
	CHECK_EQ(r.unbiased > 0, v->unbiased_turns > 0);
	CHECK_CMP(r.states, >, 100);
}

TEST(never_both_and_nobody_stuck)
{
	for (unsigned n = 0; n <= 2; n++)
		for (unsigned o = 1; o <= 3; o++)
			for (unsigned h = 1; h <= 3; h++)
				holds(&(struct variant){
					.unbiased_turns = n, .owner_turns = o, .proxy_turns = h});
}

TEST(holds_though_the_proxy_may_die_at_any_step)
{
	for (unsigned turns = 1; turns <= 2; turns++)
		for (unsigned n = 0; n <= 1; n++)
			holds(&(struct variant){.unbiased_turns = n,
						.owner_turns = 2,
						.proxy_turns = turns,
						.may_die = true});
}

/* A rank that is cut off must not wait for a poller that may be busy with it for ever. */
TEST(holds_though_the_owner_is_cut_off_at_any_step)
{
	for (unsigned turns = 1; turns <= 2; turns++)
		for (unsigned n = 0; n <= 1; n++)
			holds(&(struct variant){.unbiased_turns = n,
						.owner_turns = 2,
						.proxy_turns = turns,
						.may_be_cut = true});
}

/* ---- can the model fail? --------------------------------------------------------------------- */

TEST(without_membarrier_both_get_in)
{
	struct result r = explore(
		&(struct variant){.no_membarrier = true, .owner_turns = 1, .proxy_turns = 1});

	CHECK_CMP(r.both_inside, >, 0);
}

TEST(without_the_owners_look_both_get_in)
{
	struct result r = explore(
		&(struct variant){.no_first_check = true, .owner_turns = 1, .proxy_turns = 1});

	CHECK_CMP(r.both_inside, >, 0);
}

TEST(without_the_second_look_both_get_in)
{
	struct result r = explore(
		&(struct variant){.no_second_check = true, .owner_turns = 1, .proxy_turns = 2});

	CHECK_CMP(r.both_inside, >, 0);
}

TEST(a_lock_that_was_left_is_taken_atomically)
{
	struct result owner = explore(
		&(struct variant){.owner_stores = true, .owner_turns = 2, .proxy_turns = 2});
	struct result proxy = explore(
		&(struct variant){.proxy_stores = true, .owner_turns = 2, .proxy_turns = 2});

	CHECK_CMP(owner.both_inside, >, 0);
	CHECK_CMP(proxy.both_inside, >, 0);
}

TEST(a_proxy_that_keeps_its_wish_leaves_the_owner_stuck)
{
	struct result r = explore(
		&(struct variant){.proxy_stays = true, .owner_turns = 2, .proxy_turns = 1});

	CHECK_CMP(r.stuck, >, 0);
}

TEST(an_owner_that_ignores_broken_is_stuck_behind_a_dead_proxy)
{
	struct result r = explore(&(struct variant){
		.ignores_broken = true, .may_die = true, .owner_turns = 1, .proxy_turns = 1});

	CHECK_CMP(r.stuck, >, 0);
}

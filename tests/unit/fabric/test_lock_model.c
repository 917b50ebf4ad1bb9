/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_lock_model.c: every interleaving of the biased lock, on a machine with store
 * buffers.
 *
 * A model of fabric/lock.h, step by step (what is changed there has to be changed here); the machine stands in
 * tests/unit/model.h.
 *
 * Watched in every state: never are both inside, unless the owner knows that the lock is broken, and
 * touches nothing. And from every state: can each side still come to its end? If there is a state from
 * which no path leads there, somebody is stuck for ever.
 *
 * That the model can find anything is shown by locks with one thing left out.
 */
enum var { OWNER_IN, HELPER_IS, OWNER_WAITS, BROKEN, VARS };
enum { OUT, IN, NEAR, OWN }; /* what the helper is; OWN: near, and the owner is in */
enum side { OWNER, HELPER, SIDES };
enum move { MOVE_OWNER, MOVE_HELPER, DRAIN_OWNER, DRAIN_HELPER, DIE, DECLARE, MOVES };

#define MODEL_VARS  VARS
#define MODEL_SIDES SIDES
#define MODEL_MOVES MOVES
#define MODEL_STATE                                                                                \
	uint8_t depth; /* the owner's */                                                           \
	uint8_t near;  /* … that leaves the lock near */                                         \
	uint8_t nears; /* … so often until now */                                                \
	uint8_t knows; /* the owner is in because the lock is broken, and touches nothing */       \
	uint8_t dead;  /* the helper was killed */

#include "tests/unit/model.h"

/* ---- the lock, and what may be left out ------------------------------------------------------ */

struct variant {
	bool no_membarrier;   /* the helper only looks */
	bool no_first_check;  /* the owner does not look whether the helper wants */
	bool no_second_check; /* … not again, after it has waited */
	bool helper_stays;   /* the helper does not take back its wish when it finds the owner in */
	bool owner_stores;   /* the owner takes a lock that was left by a plain store */
	bool helper_stores;  /* … so does the helper */
	bool ignores_broken; /* the owner waits for a helper that is dead */
	bool may_die;        /* the helper can be killed at any step; then the lock is broken */
	bool may_be_cut; /* the lock is declared broken at any time, of a helper that lives on */
	unsigned nears;  /* so often an owner leaves it near that found it so */
	unsigned owner_turns, helper_turns;
};

/* Where each side is. The owner's side of hk_biased_enter(), hk_biased_leave() with one re-entry. */
enum owner_pc {
	O_OUT,
	O_ENTER,       /* owner_in = 1 */
	O_CHECK,       /* is the helper not out? */
	O_TAKE,        /* near: atomically its own, or out */
	O_BACK,        /* owner_in = 0 */
	O_SAY_WAITS,   /* owner_waits = 1 */
	O_WAIT,        /* helper in && !broken? */
	O_WAIT_BROKEN, /* … */
	O_WAITED,      /* owner_waits = 0 */
	O_AGAIN,       /* owner_in = 1 */
	O_LOOK_BROKEN, /* broken? then in, else O_CHECK */
	O_IN,
	O_IN_AGAIN, /* inside a handler that sends: depth 2 */
	O_LEAVE,
	O_LEAVE_NEAR, /* helper = near */
	O_END,
};

enum helper_pc {
	H_OUT,     /* owner_in? then not now */
	H_TAKE,    /* near: atomically in */
	H_WANT,    /* out: atomically in */
	H_BARRIER, /* membarrier() */
	H_LOOK,    /* owner_in? */
	H_BACK,    /* helper = out */
	H_IN,
	H_LEAVE,
	H_DEAD,
	H_END,
};

static bool owner_inside(const struct machine *m)
{
	return m->pc[OWNER] == O_IN || m->pc[OWNER] == O_IN_AGAIN || m->pc[OWNER] == O_LEAVE;
}

static bool helper_inside(const struct machine *m)
{
	return m->pc[HELPER] == H_IN || m->pc[HELPER] == H_LEAVE;
}

/* Compare and exchange of what the helper is, a locked instruction; false if it cannot be done now. */
static bool move(struct machine *m, unsigned side, unsigned from, unsigned to, unsigned done,
		 unsigned not_done)
{
	if (m->buffer[side].n)
		return false;
	bool is = m->memory[HELPER_IS] == from;

	if (is)
		m->memory[HELPER_IS] = (uint8_t)to;
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
		*pc = load(m, OWNER, HELPER_IS) ? O_TAKE : O_IN;
		return true;
	case O_TAKE:
		if (v->owner_stores && load(m, OWNER, HELPER_IS) == NEAR) {
			if (!store(m, OWNER, HELPER_IS, OUT))
				return false;
			*pc = O_IN;
			return true;
		}
		m->near = m->nears < v->nears;
		if (!move(m, OWNER, NEAR, m->near ? OWN : OUT, O_IN, O_BACK)) {
			m->near = 0;
			return false;
		}
		m->near &= m->pc[OWNER] == O_IN;
		/* counted anew from when the lock leans to it */
		m->nears = m->pc[OWNER] != O_IN ? m->nears : m->near ? m->nears + 1 : 0;
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
		*pc = load(m, OWNER, HELPER_IS) == IN ? O_WAIT_BROKEN : O_WAITED;
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
		*pc = m->near ? O_LEAVE_NEAR : O_OUT;
		return true;
	case O_LEAVE_NEAR:
		if (!store(m, OWNER, HELPER_IS, NEAR))
			return false;
		m->near = 0;
		*pc = O_OUT;
		return true;
	case O_END:
		return false;
	}
	return false;
}

static bool helper_step(struct machine *m, const struct variant *v)
{
	uint8_t *pc = &m->pc[HELPER];

	switch ((enum helper_pc) * pc) {
	case H_OUT:
		if (!m->turns[HELPER]) {
			*pc = H_END;
			return true;
		}
		if (load(m, HELPER, OWNER_IN))
			m->turns[HELPER]--;
		else
			*pc = H_TAKE;
		return true;
	case H_TAKE:
		if (v->helper_stores && load(m, HELPER, HELPER_IS) == NEAR) {
			if (!store(m, HELPER, HELPER_IS, IN))
				return false;
			*pc = H_IN;
			return true;
		}
		return move(m, HELPER, NEAR, IN, H_IN, H_WANT);
	case H_WANT:
		/* it was out: another helper may have come, or the owner have found it near and be in */
		return move(m, HELPER, OUT, IN, v->no_membarrier ? H_LOOK : H_BARRIER, H_OUT);
	case H_BARRIER:
		if (!all_drained(m))
			return false;
		*pc = H_LOOK;
		return true;
	case H_LOOK:
		*pc = load(m, HELPER, OWNER_IN) ? H_BACK : H_IN;
		return true;
	case H_BACK:
		if (!v->helper_stays && !store(m, HELPER, HELPER_IS, OUT))
			return false;
		/* an attempt in vain counts: else it could try for ever */
		m->turns[HELPER]--;
		*pc = H_OUT;
		return true;
	case H_IN:
		*pc = H_LEAVE;
		return true;
	case H_LEAVE:
		if (!store(m, HELPER, HELPER_IS, NEAR))
			return false;
		m->turns[HELPER]--;
		*pc = H_OUT;
		return true;
	case H_DEAD:
	case H_END:
		return false;
	}
	return false;
}

/* The helper is killed, wherever it is; what it has stored reaches memory. */
static bool helper_dies(struct machine *m, const struct variant *v)
{
	if (!v->may_die || m->dead || m->pc[HELPER] == H_END)
		return false;
	m->dead = 1;
	m->pc[HELPER] = H_DEAD;
	return true;
}

/* Whoever noticed declares the lock broken: in memory at once, since it is another thread. */
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
		return helper_step(m, v);
	case DRAIN_OWNER:
		return drain(m, OWNER);
	case DRAIN_HELPER:
		return drain(m, HELPER);
	case DIE:
		return helper_dies(m, v);
	case DECLARE:
		return declared_broken(m, v);
	default:
		return false;
	}
}

static bool model_at_end(const struct machine *m)
{
	return m->pc[OWNER] == O_END && (m->pc[HELPER] == H_END || m->pc[HELPER] == H_DEAD);
}

static struct result {
	uint32_t states, both_inside, stuck;
	/* states in which each was inside, one waited, the lock leaned to nobody, also with the owner in */
	uint32_t owner_in, helper_in, waited, left, near;
} seen;

static void model_visit(const struct machine *m)
{
	seen.owner_in += owner_inside(m);
	seen.helper_in += helper_inside(m);
	seen.waited += m->pc[OWNER] == O_WAIT;
	seen.left += m->memory[HELPER_IS] == NEAR;
	seen.near += m->memory[HELPER_IS] == OWN;
	seen.both_inside += owner_inside(m) && !m->knows && helper_inside(m);
	CHECK(m->depth <= 2 && (m->pc[OWNER] != O_END || m->depth == 0));
}

static struct result explore(const struct variant *v)
{
	struct machine start = {.turns = {(uint8_t)v->owner_turns, (uint8_t)v->helper_turns}};

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
	/* and it was no empty proof */
	CHECK_CMP(r.owner_in, >, 0);
	CHECK_CMP(r.helper_in, >, 0);
	CHECK_CMP(r.waited, >, 0);
	CHECK_CMP(r.left, >, 0);
	CHECK_EQ(r.near > 0, v->nears > 0);
	CHECK_CMP(r.states, >, 100);
}

static void never_both_and_nobody_stuck(void)
{
	for (unsigned n = 0; n <= 2; n++)
		for (unsigned o = 1; o <= 3; o++)
			for (unsigned h = 1; h <= 3; h++)
				holds(&(struct variant){
					.nears = n, .owner_turns = o, .helper_turns = h});
}

static void holds_though_the_helper_may_die_at_any_step(void)
{
	for (unsigned turns = 1; turns <= 2; turns++)
		for (unsigned n = 0; n <= 1; n++)
			holds(&(struct variant){.nears = n,
						.owner_turns = 2,
						.helper_turns = turns,
						.may_die = true});
}

/* A rank that is cut off must not wait for a poller that may be busy with it for ever. */
static void holds_though_the_owner_is_cut_off_at_any_step(void)
{
	for (unsigned turns = 1; turns <= 2; turns++)
		for (unsigned n = 0; n <= 1; n++)
			holds(&(struct variant){.nears = n,
						.owner_turns = 2,
						.helper_turns = turns,
						.may_be_cut = true});
}

/* ---- can the model fail? --------------------------------------------------------------------- */

static void without_membarrier_both_get_in(void)
{
	struct result r = explore(
		&(struct variant){.no_membarrier = true, .owner_turns = 1, .helper_turns = 1});

	CHECK_CMP(r.both_inside, >, 0);
}

static void without_the_owners_look_both_get_in(void)
{
	struct result r = explore(
		&(struct variant){.no_first_check = true, .owner_turns = 1, .helper_turns = 1});

	CHECK_CMP(r.both_inside, >, 0);
}

static void without_the_second_look_both_get_in(void)
{
	struct result r = explore(
		&(struct variant){.no_second_check = true, .owner_turns = 1, .helper_turns = 2});

	CHECK_CMP(r.both_inside, >, 0);
}

static void a_lock_that_was_left_is_taken_atomically(void)
{
	struct result owner = explore(
		&(struct variant){.owner_stores = true, .owner_turns = 2, .helper_turns = 2});
	struct result helper = explore(
		&(struct variant){.helper_stores = true, .owner_turns = 2, .helper_turns = 2});

	CHECK_CMP(owner.both_inside, >, 0);
	CHECK_CMP(helper.both_inside, >, 0);
}

static void a_helper_that_keeps_its_wish_leaves_the_owner_stuck(void)
{
	struct result r = explore(
		&(struct variant){.helper_stays = true, .owner_turns = 2, .helper_turns = 1});

	CHECK_CMP(r.stuck, >, 0);
}

static void an_owner_that_ignores_broken_is_stuck_behind_a_dead_helper(void)
{
	struct result r = explore(&(struct variant){
		.ignores_broken = true, .may_die = true, .owner_turns = 1, .helper_turns = 1});

	CHECK_CMP(r.stuck, >, 0);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"never_both_and_nobody_stuck", never_both_and_nobody_stuck},
		{"holds_though_the_helper_may_die_at_any_step",
		 holds_though_the_helper_may_die_at_any_step},
		{"holds_though_the_owner_is_cut_off_at_any_step",
		 holds_though_the_owner_is_cut_off_at_any_step},
		{"without_membarrier_both_get_in", without_membarrier_both_get_in},
		{"without_the_owners_look_both_get_in", without_the_owners_look_both_get_in},
		{"without_the_second_look_both_get_in", without_the_second_look_both_get_in},
		{"a_lock_that_was_left_is_taken_atomically",
		 a_lock_that_was_left_is_taken_atomically},
		{"a_helper_that_keeps_its_wish_leaves_the_owner_stuck",
		 a_helper_that_keeps_its_wish_leaves_the_owner_stuck},
		{"an_owner_that_ignores_broken_is_stuck_behind_a_dead_helper",
		 an_owner_that_ignores_broken_is_stuck_behind_a_dead_helper},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

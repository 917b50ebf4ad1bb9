/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_bell_model.c: every interleaving of a sleeper and two who ring for it.
 *
 * A model of port/bell.h and of those who sleep by it (host/poller.c, host/switch_loop.c), step by step: what is
 * changed there has to be changed here. The machine stands in tests/unit/model.h.
 *
 * Watched in every state: nobody sleeps over work. That is, when all have rung who wanted to, no store is
 * under way and the bell is still, and yet the sleeper sleeps, then it has seen all work that there is:
 * without the help of the clock, unless a ringer was killed. With the clock: from every state the sleeper
 * can come to sleep again having seen all, and being rung for.
 *
 * That the model can find anything is shown by bells with one thing left out.
 */
enum var { SLEEPS, WORK_A, WORK_B, ASKED, VARS };
enum side { RINGER_A, RINGER_B, SLEEPER, SIDES };
enum move { MOVE_A, MOVE_B, MOVE_SLEEPER, DRAIN_A, DRAIN_B, DRAIN_SLEEPER, BEAT, KILL_A, MOVES };

#define MODEL_VARS  VARS
#define MODEL_SIDES SIDES
#define MODEL_MOVES MOVES
#define MODEL_STATE                                                                                \
	uint8_t bell;   /* the eventfd's count, as far as it matters */                            \
	uint8_t had[2]; /* work that the sleeper has seen, of each ringer */                       \
	uint8_t found;  /* … and whether there was new work at this look */                      \
	uint8_t heard;  /* it was rung for, or asked */                                            \
	uint8_t lies;   /* the sleeper's note that it is rung for */                               \
	uint8_t beaten; /* it woke by the clock */

#include "tests/unit/model.h"

struct variant {
	bool no_settling;   /* the sleeper sleeps for long at once, … */
	bool no_last_look;  /* … or after a short wait, without another look */
	bool clock;         /* it wakes now and then */
	bool never_doubts;  /* … and does not look whether it is still rung for */
	bool may_be_killed; /* ringer A, at any step */
	bool asks;          /* what ringer A has no look finds: the sleeper must hear of it, … */
	bool forgets;       /* … and is rung for it as for any work */
	unsigned turns[2];  /* how often each has work for it */
};

/* hk_bell_ring() and hk_bell_ask() */
enum ringer_pc { R_OUT, R_ASK, R_LOOK, R_TAKE, R_RING, R_END, R_KILLED };

static bool ringer_step(struct machine *m, const struct variant *v, unsigned side)
{
	uint8_t *pc = &m->pc[side];
	unsigned var = WORK_A + side;

	switch ((enum ringer_pc) * pc) {
	case R_OUT:
		if (!m->turns[side]) {
			*pc = R_END;
			return true;
		}
		if (!store(m, side, var, load(m, side, var) + 1))
			return false;
		m->turns[side]--;
		*pc = side == RINGER_A && v->asks && !v->forgets ? R_ASK : R_LOOK;
		return true;
	case R_ASK:
		if (!store(m, side, ASKED, 1))
			return false;
		*pc = R_LOOK;
		return true;
	case R_LOOK:
		*pc = load(m, side, SLEEPS) ? R_TAKE : R_OUT;
		return true;
	case R_TAKE: /* a locked instruction */
		if (m->buffer[side].n)
			return false;
		*pc = m->memory[SLEEPS] ? R_RING : R_OUT;
		m->memory[SLEEPS] = 0;
		return true;
	case R_RING: /* a system call */
		m->bell = 1;
		*pc = R_OUT;
		return true;
	case R_END:
	case R_KILLED:
		return false;
	}
	return false;
}

/* The loop of a sleeper. */
enum sleeper_pc { S_LOOK_A, S_LOOK_B, S_LOOKED, S_SETTLE, S_SLEEP, S_RISE, S_HEAR, S_TAKE };

static bool look(struct machine *m, unsigned ringer)
{
	unsigned there = load(m, SLEEPER, WORK_A + ringer);

	m->found |= there != m->had[ringer];
	m->had[ringer] = (uint8_t)there;
	return true;
}

static bool sleeper_step(struct machine *m, const struct variant *v)
{
	uint8_t *pc = &m->pc[SLEEPER];

	switch ((enum sleeper_pc) * pc) {
	case S_LOOK_A:
		m->found = 0;
		*pc = S_LOOK_B;
		return v->asks || look(m, 0);
	case S_LOOK_B:
		*pc = S_LOOKED;
		return look(m, 1);
	case S_LOOKED:
		if (m->found) { /* it stays awake, and looks again */
			*pc = m->lies ? S_RISE : S_LOOK_A;
			return true;
		}
		if (m->lies) {
			*pc = load(m, SLEEPER, ASKED) ? S_RISE : S_SLEEP;
			return true;
		}
		if (m->buffer[SLEEPER].n) /* a locked instruction */
			return false;
		m->memory[SLEEPS] = 1;
		*pc = S_SETTLE;
		return true;
	case S_SETTLE: /* a look first, which is not shown: it may find nothing. Then so long a time that all is drained */
		if (!m->bell && !v->no_settling && !all_drained(m))
			return false;
		m->lies = 1;
		*pc = m->bell ? S_RISE : v->no_last_look ? S_SLEEP : S_LOOK_A;
		return true;
	case S_SLEEP: /* a system call; what wakes it by the clock is another move */
		if (m->buffer[SLEEPER].n || !m->bell)
			return false;
		*pc = S_RISE;
		return true;
	case S_RISE: /* a locked instruction */
		if (m->buffer[SLEEPER].n)
			return false;
		m->memory[SLEEPS] = 0;
		*pc = S_HEAR;
		return true;
	case S_HEAR:
		m->heard = m->bell;
		m->bell = 0;
		m->lies = 0;
		*pc = S_TAKE;
		return true;
	case S_TAKE: /* a locked instruction */
		if (m->buffer[SLEEPER].n)
			return false;
		m->heard |= m->memory[ASKED];
		m->memory[ASKED] = 0;
		if (v->asks && m->heard)
			(void)look(m, 0); /* where it was told to */
		m->heard = 0;
		*pc = S_LOOK_A;
		return true;
	}
	return false;
}

static bool beat(struct machine *m, const struct variant *v)
{
	if (!v->clock || m->pc[SLEEPER] != S_SLEEP || m->buffer[SLEEPER].n)
		return false;
	m->pc[SLEEPER] = m->memory[SLEEPS] || v->never_doubts ? S_LOOK_A : S_RISE;
	m->beaten = 1;
	return true;
}

static bool killed(struct machine *m, const struct variant *v)
{
	if (!v->may_be_killed || m->pc[RINGER_A] >= R_END || m->pc[RINGER_A] == R_ASK)
		return false;       /* who has not asked yet wants nothing */
	m->pc[RINGER_A] = R_KILLED; /* what it has stored reaches memory */
	return true;
}

static bool model_move(struct machine *m, const struct variant *v, unsigned how)
{
	switch ((enum move)how) {
	case MOVE_A:
	case MOVE_B:
		return ringer_step(m, v, how - MOVE_A);
	case MOVE_SLEEPER:
		return sleeper_step(m, v);
	case DRAIN_A:
	case DRAIN_B:
	case DRAIN_SLEEPER:
		return drain(m, how - DRAIN_A);
	case BEAT:
		return beat(m, v);
	case KILL_A:
		return killed(m, v);
	default:
		return false;
	}
}

/* All have done what they wanted, and it sleeps. */
static bool at_rest(const struct machine *m)
{
	return m->pc[RINGER_A] >= R_END && m->pc[RINGER_B] >= R_END && m->pc[SLEEPER] == S_SLEEP &&
	       all_drained(m) && !m->bell;
}

static bool seen_all(const struct machine *m)
{
	return m->had[0] == m->memory[WORK_A] && m->had[1] == m->memory[WORK_B];
}

static bool model_at_end(const struct machine *m)
{
	return at_rest(m) && seen_all(m) && m->memory[SLEEPS];
}

static struct result {
	uint32_t states, stuck;
	uint32_t slept_over; /* states in which it sleeps over work, and only the clock can help */
	uint32_t rests, rung, beaten;
} seen;

static void model_visit(const struct machine *m)
{
	seen.rests += at_rest(m) && seen_all(m);
	seen.slept_over += at_rest(m) && !seen_all(m);
	seen.rung += m->bell;
	seen.beaten += m->beaten;
}

static struct result explore(const struct variant *v)
{
	struct machine start = {.turns = {(uint8_t)v->turns[0], (uint8_t)v->turns[1]}};

	seen = (struct result){0};
	struct model_size size = model_explore(&start, v);

	seen.states = size.states;
	seen.stuck = size.stuck;
	return seen;
}

/* ---- the properties -------------------------------------------------------------------------- */

static void nobody_sleeps_over_work(void)
{
	for (unsigned a = 1; a <= 3; a++) {
		for (unsigned b = 0; b <= 2; b++) {
			struct result r = explore(&(struct variant){.turns = {a, b}});

			CHECK_EQ(r.slept_over, 0);
			CHECK_EQ(r.stuck, 0);
			/* and it was no empty proof */
			CHECK_CMP(r.states, >, 100);
			CHECK_CMP(r.rests, >, 0);
			CHECK_CMP(r.rung, >, 0);
		}
	}
}

/* Woken by the clock it need not lie down anew, if it is still rung for. */
static void nor_with_the_clock(void)
{
	struct result r = explore(&(struct variant){.clock = true, .turns = {2, 2}});

	CHECK_EQ(r.slept_over, 0);
	CHECK_EQ(r.stuck, 0);
	CHECK_CMP(r.beaten, >, 0);
}

/* Should a store take longer to reach memory than the sleeper waits, the clock helps. */
static void a_slow_store_makes_it_late_and_not_deaf(void)
{
	struct result r = explore(
		&(struct variant){.no_settling = true, .clock = true, .turns = {2, 2}});

	CHECK_CMP(r.slept_over, >, 0);
	CHECK_EQ(r.stuck, 0);
}

/* Then the clock has to help, and after that it is rung for again. */
static void a_killed_ringer_makes_it_late_and_not_deaf(void)
{
	struct variant v = {.may_be_killed = true, .turns = {1, 2}};

	CHECK_CMP(explore(&v).slept_over, >, 0);
	v.clock = true;
	CHECK_EQ(explore(&v).stuck, 0);
}

/* What a look does not find is heard of before it sleeps, though it was awake when it was asked. */
static void what_was_asked_is_heard(void)
{
	struct variant v = {.asks = true};

	for (v.turns[0] = 1; v.turns[0] <= 3; v.turns[0]++) {
		for (v.turns[1] = 0; v.turns[1] <= 2; v.turns[1]++) {
			struct result r = explore(&v);

			CHECK_EQ(r.slept_over, 0);
			CHECK_EQ(r.stuck, 0);
			CHECK_CMP(r.rests, >, 0);
		}
	}
	v = (struct variant){.asks = true, .clock = true, .may_be_killed = true, .turns = {2, 1}};
	CHECK_EQ(explore(&v).stuck, 0);
}

/* ---- can the model fail? --------------------------------------------------------------------- */

static void without_settling_it_sleeps_over_work(void)
{
	CHECK_CMP(explore(&(struct variant){.no_settling = true, .turns = {1, 0}}).slept_over, >,
		  0);
}

static void without_a_last_look_it_sleeps_over_work(void)
{
	CHECK_CMP(explore(&(struct variant){.no_last_look = true, .turns = {1, 0}}).slept_over, >,
		  0);
}

static void without_doubt_it_is_deaf_after_a_kill(void)
{
	CHECK_CMP(explore(&(struct variant){.never_doubts = true,
					    .clock = true,
					    .may_be_killed = true,
					    .turns = {1, 1}})
			  .stuck,
		  >, 0);
}

static void without_an_ask_it_does_not_hear(void)
{
	struct variant v = {.asks = true, .forgets = true, .turns = {1, 0}};

	CHECK_CMP(explore(&v).slept_over, >, 0);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"nobody_sleeps_over_work", nobody_sleeps_over_work},
		{"nor_with_the_clock", nor_with_the_clock},
		{"a_slow_store_makes_it_late_and_not_deaf",
		 a_slow_store_makes_it_late_and_not_deaf},
		{"a_killed_ringer_makes_it_late_and_not_deaf",
		 a_killed_ringer_makes_it_late_and_not_deaf},
		{"what_was_asked_is_heard", what_was_asked_is_heard},
		{"without_an_ask_it_does_not_hear", without_an_ask_it_does_not_hear},
		{"without_settling_it_sleeps_over_work", without_settling_it_sleeps_over_work},
		{"without_a_last_look_it_sleeps_over_work",
		 without_a_last_look_it_sleeps_over_work},
		{"without_doubt_it_is_deaf_after_a_kill", without_doubt_it_is_deaf_after_a_kill},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_wakeup_model.c: every interleaving of a sleeper and two signallers.
 *
 * This is a model of port/wakeup.h and of its sleepers (hostd/poller.c, hostd/switch_loop.c), step
 * by step: a change there needs a change here. tests/support/model.h has the machine.
 *
 * The test checks in every state that the sleeper does not sleep over work. More exactly: both
 * signallers have finished, no store is pending, the eventfd is empty, and the sleeper sleeps. Then
 * it has seen all work. Without a clock this holds unless a signaller was killed. With the clock,
 * the sleeper can reach from every state a sleep in which it has seen all work and signals wake it.
 *
 * Variants with one step left out show that the model can find errors.
 */
enum var { SLEEPING, WORK_A, WORK_B, REQUESTED, VARS };
enum side { SIGNALLER_A, SIGNALLER_B, SLEEPER, SIDES };
enum move { MOVE_A, MOVE_B, MOVE_SLEEPER, DRAIN_A, DRAIN_B, DRAIN_SLEEPER, CLOCK, KILL_A, MOVES };

#define MODEL_VARS  VARS
#define MODEL_SIDES SIDES
#define MODEL_MOVES MOVES
#define MODEL_STATE                                                                                \
	uint8_t signalled; /* bool: the eventfd is readable */                                     \
	uint8_t had[2];    /* work of each signaller that the sleeper has seen */                  \
	uint8_t found;     /* bool: the poll has found new work */                                 \
	uint8_t woken;     /* bool: there was a signal or request */                               \
	uint8_t prepared;  /* bool: the sleeper has set SLEEPING */                                \
	uint8_t by_clock;  /* bool: the clock has woken it */

#include "tests/support/model.h"

struct variant {
	bool no_settling;   /* the first wait is long */
	bool no_last_poll;  /* no poll after the short first wait */
	bool clock;         /* the sleeper also wakes by the clock */
	bool never_checks;  /* it does not check then whether signals still wake it */
	bool may_be_killed; /* signaller A may be killed at any step */
	bool requests;      /* polls do not find A's work: A must request attention */
	bool no_request;    /* A only signals instead */
	unsigned turns[2];  /* how often each signaller has work */
};

/* hk_wakeup_signal() and hk_wakeup_request() */
enum signaller_pc { R_OUT, R_REQUEST, R_TEST, R_TAKE, R_WAKE, R_END, R_KILLED };

static bool signaller_step(struct machine *m, const struct variant *v, unsigned side)
{
	uint8_t *pc = &m->pc[side];
	unsigned var = WORK_A + side;

	switch ((enum signaller_pc) * pc) {
	case R_OUT:
		if (!m->turns[side]) {
			*pc = R_END;
			return true;
		}
		if (!store(m, side, var, load(m, side, var) + 1))
			return false;
		m->turns[side]--;
		*pc = side == SIGNALLER_A && v->requests && !v->no_request ? R_REQUEST : R_TEST;
		return true;
	case R_REQUEST:
		if (!store(m, side, REQUESTED, 1))
			return false;
		*pc = R_TEST;
		return true;
	case R_TEST:
		*pc = load(m, side, SLEEPING) ? R_TAKE : R_OUT;
		return true;
	case R_TAKE: /* a locked instruction */
		if (m->buffer[side].n)
			return false;
		*pc = m->memory[SLEEPING] ? R_WAKE : R_OUT;
		m->memory[SLEEPING] = 0;
		return true;
	case R_WAKE: /* a system call */
		m->signalled = 1;
		*pc = R_OUT;
		return true;
	case R_END:
	case R_KILLED:
		return false;
	}
	return false;
}

/* The loop of a sleeper. */
enum sleeper_pc { S_POLL_A, S_POLL_B, S_POLLED, S_SETTLE, S_SLEEP, S_WAKE, S_READ, S_TAKE };

static bool poll_work(struct machine *m, unsigned signaller)
{
	unsigned there = load(m, SLEEPER, WORK_A + signaller);

	m->found |= there != m->had[signaller];
	m->had[signaller] = (uint8_t)there;
	return true;
}

static bool sleeper_step(struct machine *m, const struct variant *v)
{
	uint8_t *pc = &m->pc[SLEEPER];

	switch ((enum sleeper_pc) * pc) {
	case S_POLL_A:
		m->found = 0;
		*pc = S_POLL_B;
		return v->requests || poll_work(m, 0);
	case S_POLL_B:
		*pc = S_POLLED;
		return poll_work(m, 1);
	case S_POLLED:
		if (m->found) { /* it stays awake, and polls again */
			*pc = m->prepared ? S_WAKE : S_POLL_A;
			return true;
		}
		if (m->prepared) {
			*pc = load(m, SLEEPER, REQUESTED) ? S_WAKE : S_SLEEP;
			return true;
		}
		if (m->buffer[SLEEPER].n) /* a locked instruction */
			return false;
		m->memory[SLEEPING] = 1;
		*pc = S_SETTLE;
		return true;
	case S_SETTLE: /* A poll comes first. The model omits it, because it may find nothing. Then
			  the sleeper waits until all stores are drained. */
		if (!m->signalled && !v->no_settling && !all_drained(m))
			return false;
		m->prepared = 1;
		*pc = m->signalled ? S_WAKE : v->no_last_poll ? S_SLEEP : S_POLL_A;
		return true;
	case S_SLEEP: /* a system call; the clock's wake is another move */
		if (m->buffer[SLEEPER].n || !m->signalled)
			return false;
		*pc = S_WAKE;
		return true;
	case S_WAKE: /* a locked instruction */
		if (m->buffer[SLEEPER].n)
			return false;
		m->memory[SLEEPING] = 0;
		*pc = S_READ;
		return true;
	case S_READ:
		m->woken = m->signalled;
		m->signalled = 0;
		m->prepared = 0;
		*pc = S_TAKE;
		return true;
	case S_TAKE: /* a locked instruction */
		if (m->buffer[SLEEPER].n)
			return false;
		m->woken |= m->memory[REQUESTED];
		m->memory[REQUESTED] = 0;
		if (v->requests && m->woken)
			(void)poll_work(m, 0); /* polls where the request says */
		m->woken = 0;
		*pc = S_POLL_A;
		return true;
	}
	return false;
}

static bool clock_wakes(struct machine *m, const struct variant *v)
{
	if (!v->clock || m->pc[SLEEPER] != S_SLEEP || m->buffer[SLEEPER].n)
		return false;
	m->pc[SLEEPER] = m->memory[SLEEPING] || v->never_checks ? S_POLL_A : S_WAKE;
	m->by_clock = 1;
	return true;
}

static bool killed(struct machine *m, const struct variant *v)
{
	if (!v->may_be_killed || m->pc[SIGNALLER_A] >= R_END || m->pc[SIGNALLER_A] == R_REQUEST)
		return false;          /* a signaller that has not requested yet needs nothing */
	m->pc[SIGNALLER_A] = R_KILLED; /* its stores reach memory */
	return true;
}

static bool model_move(struct machine *m, const struct variant *v, unsigned how)
{
	switch ((enum move)how) {
	case MOVE_A:
	case MOVE_B:
		return signaller_step(m, v, how - MOVE_A);
	case MOVE_SLEEPER:
		return sleeper_step(m, v);
	case DRAIN_A:
	case DRAIN_B:
	case DRAIN_SLEEPER:
		return drain(m, how - DRAIN_A);
	case CLOCK:
		return clock_wakes(m, v);
	case KILL_A:
		return killed(m, v);
	default:
		return false;
	}
}

/* Returns whether both signallers have finished and the sleeper sleeps. */
static bool at_rest(const struct machine *m)
{
	return m->pc[SIGNALLER_A] >= R_END && m->pc[SIGNALLER_B] >= R_END &&
	       m->pc[SLEEPER] == S_SLEEP && all_drained(m) && !m->signalled;
}

static bool seen_all(const struct machine *m)
{
	return m->had[0] == m->memory[WORK_A] && m->had[1] == m->memory[WORK_B];
}

static bool model_at_end(const struct machine *m)
{
	return at_rest(m) && seen_all(m) && m->memory[SLEEPING];
}

static struct result {
	uint32_t states, stuck;
	uint32_t slept_over; /* states in which it sleeps over work, so that only the clock can help
			      */
	uint32_t rests, signalled, by_clock;
} seen;

static void model_visit(const struct machine *m)
{
	seen.rests += at_rest(m) && seen_all(m);
	seen.slept_over += at_rest(m) && !seen_all(m);
	seen.signalled += m->signalled;
	seen.by_clock += m->by_clock;
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

TEST(nobody_sleeps_over_work)
{
	for (unsigned a = 1; a <= 3; a++) {
		for (unsigned b = 0; b <= 2; b++) {
			struct result r = explore(&(struct variant){.turns = {a, b}});

			CHECK_EQ(r.slept_over, 0);
			CHECK_EQ(r.stuck, 0);
			/* the model has explored something */
			CHECK_CMP(r.states, >, 100);
			CHECK_CMP(r.rests, >, 0);
			CHECK_CMP(r.signalled, >, 0);
		}
	}
}

/* Woken by the clock, it may sleep again at once if signals still wake it. */
TEST(nor_with_the_clock)
{
	struct result r = explore(&(struct variant){.clock = true, .turns = {2, 2}});

	CHECK_EQ(r.slept_over, 0);
	CHECK_EQ(r.stuck, 0);
	CHECK_CMP(r.by_clock, >, 0);
}

/* If a store takes longer to reach memory than the sleeper waits, the clock helps. */
TEST(a_slow_store_makes_it_late_and_not_deaf)
{
	struct result r = explore(
		&(struct variant){.no_settling = true, .clock = true, .turns = {2, 2}});

	CHECK_CMP(r.slept_over, >, 0);
	CHECK_EQ(r.stuck, 0);
}

/* After a kill the clock helps, and then signals wake the sleeper again. */
TEST(a_killed_ringer_makes_it_late_and_not_deaf)
{
	struct variant v = {.may_be_killed = true, .turns = {1, 2}};

	CHECK_CMP(explore(&v).slept_over, >, 0);
	v.clock = true;
	CHECK_EQ(explore(&v).stuck, 0);
}

/* A request reaches the sleeper before it sleeps, also if it was awake. */
TEST(a_request_is_seen)
{
	struct variant v = {.requests = true};

	for (v.turns[0] = 1; v.turns[0] <= 3; v.turns[0]++) {
		for (v.turns[1] = 0; v.turns[1] <= 2; v.turns[1]++) {
			struct result r = explore(&v);

			CHECK_EQ(r.slept_over, 0);
			CHECK_EQ(r.stuck, 0);
			CHECK_CMP(r.rests, >, 0);
		}
	}
	v = (struct variant){
		.requests = true, .clock = true, .may_be_killed = true, .turns = {2, 1}};
	CHECK_EQ(explore(&v).stuck, 0);
}

/* ---- can the model fail? --------------------------------------------------------------------- */

TEST(without_settling_it_sleeps_over_work)
{
	CHECK_CMP(explore(&(struct variant){.no_settling = true, .turns = {1, 0}}).slept_over, >,
		  0);
}

TEST(without_a_last_look_it_sleeps_over_work)
{
	CHECK_CMP(explore(&(struct variant){.no_last_poll = true, .turns = {1, 0}}).slept_over, >,
		  0);
}

TEST(without_doubt_it_is_deaf_after_a_kill)
{
	CHECK_CMP(explore(&(struct variant){.never_checks = true,
					    .clock = true,
					    .may_be_killed = true,
					    .turns = {1, 1}})
			  .stuck,
		  >, 0);
}

TEST(without_a_request_it_misses_the_signal)
{
	struct variant v = {.requests = true, .no_request = true, .turns = {1, 0}};

	CHECK_CMP(explore(&v).slept_over, >, 0);
}

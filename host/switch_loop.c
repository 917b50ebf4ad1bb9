/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/switch_loop.c: the switch's thread: a round after another, and sleep between (port/bell.h, pace.h, prompt.h).
 */
#include "host/prompt.h"
#include "host/switch_parts.h"
#include "port/bell.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <rte_cycles.h>

#define SPIN_US 100 /* after the last frame; then it sleeps */
#define SLEEP_NS                                                                                   \
	UINT64_C(                                                                                  \
		50000) /* … if some port cannot wake it; else until it is rung for, or for a beat */
#define VAIN       64 /* woken so often in a row for nothing it is slower to wake, … */
#define VAIN_OURS  16 /* … where a ring for it counts as so many of those that it hands on */
#define FRESH_US   50 /* after a frame to a wire, its other end looks by itself: less than SPIN_US */
#define WATCH_US   40 /* a rank that takes nothing for so long, or twice that, has left MPI */
#define CROWDED_US 15 /* … sooner where it has the core as soon as we sleep, and others compute */
#define AWAKE_US   200 /* so long after we woke ranks may be late since we have their core, … */
#define AFTER_US   50  /* … and so long after we slept since we had it */
#define LOOK_EACH  64  /* rounds between looks at commands and freed buffers */

_Static_assert(FRESH_US < SPIN_US, "who is not rung for looks");

void hk_switch_times(struct hk_switch *sw)
{
	uint64_t us = rte_get_tsc_hz() / 1000000;

	hk_pace_init(&sw->pace, rte_get_tsc_hz());
	sw->now = sw->busy_at = rte_rdtsc();
	sw->spin = us * SPIN_US;
	sw->fresh = us * FRESH_US;
	sw->watch = us * WATCH_US;
	sw->watch_crowded = us * CROWDED_US;
	sw->awake_most = us * AWAKE_US;
	sw->after = us * AFTER_US;
	sw->settle = us * (HK_BELL_SETTLE / HK_USEC);
}

static void settle(struct hk_switch *sw)
{
	for (unsigned s = 0; s < sw->slots; s++)
		if (sw->slot[s].share)
			hk_pipe_settle(sw->slot[s].share);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static bool has_taken(const struct hk_switch *sw, unsigned slot)
{
	for (unsigned w = 0; w < sw->wires; w++)
		if (sw->slot[slot].end[w] && !hk_pipe_empty(sw->slot[slot].end[w]))
			return false;
	return true;
}

/* Is there anybody who has not taken what it was given? */
static bool watches(struct hk_switch *sw)
{
	uint64_t left = sw->given | sw->given_before;

	for (unsigned s = 0; left && s < sw->slots; s++)
		if (left >> s & 1 && has_taken(sw, s))
			left &= ~(UINT64_C(1) << s);
	sw->given &= left;
	sw->given_before &= left;
	return left;
}

/* Who has left MPI does not take what it is given: the poller is to do so. And it is to hear what has been rung for it
 * on a wire meanwhile. */
static void watch(struct hk_switch *sw)
{
	uint64_t whom = sw->given | sw->given_before;
	bool wait = false;

	for (unsigned s = 0; s < sw->slots; s++) {
		if (!(whom >> s & 1))
			continue;
		for (unsigned w = 0; w < sw->wires; w++)
			wait |= sw->slot[s].end[w] && hk_pipe_waits(sw->slot[s].end[w]);
	}
	sw->given_before = sw->given;
	sw->given = 0;
	sw->watched_at = sw->now;
	/* a system call: where nothing is to be handed on, only so that a bell does not fill up */
	if (!sw->lies && (sw->hands_on || ++sw->watches % HK_SWITCH_DRAIN_EACH == 0))
		(void)hk_bell_get_up(HK_BELL_SWITCH);
	/* an awake poller may look before the rank counts as away: it is to look once more */
	if (wait && hk_bell_ask(HK_BELL_POLLER))
		hk_switch_count(&sw->rings, 1);
}

static bool all_wake(const struct hk_switch *sw)
{
	for (unsigned w = 0; w < sw->wires; w++)
		if (sw->wire[w].port && !sw->wakes[w])
			return false;
	return true;
}

static void account(struct hk_switch *sw, uint64_t now)
{
	if (sw->first)
		hk_pace_prompt(&sw->pace, now - sw->first_at);
	else
		hk_pace_else(&sw->pace, now - sw->first_at);
	sw->first_at = now;
}

static void prompt(struct hk_switch *sw, bool on)
{
	if (sw->prompt == on)
		return;
	account(sw, rte_rdtsc());
	sw->first = hk_prompt(on);
	sw->prompt = on;
}

/* Sleeps for @ns at the most; with @listens until it is rung. True if it was. */
static bool sleep_for(struct hk_switch *sw, uint64_t ns, bool listens)
{
	const struct timespec limit = {.tv_nsec = (long)ns};
	struct pollfd p = {.fd = sw->bell, .events = POLLIN};

	account(sw, rte_rdtsc());
	bool rung = ppoll(&p, listens, &limit, NULL) > 0;
	uint64_t now = rte_rdtsc();

	hk_pace_else(&sw->pace, now - sw->first_at);
	sw->first_at = now;
	return rung;
}

/* Commands take locks of DPDK's, which spin. */
static void obey(struct hk_switch *sw)
{
	if (!atomic_load_explicit(&sw->command, memory_order_relaxed))
		return;
	prompt(sw, false);
	hk_switch_obey(sw);
}

/* Was it rung for? */
static bool get_up(struct hk_switch *sw)
{
	bool rung = sw->lies && hk_bell_get_up(HK_BELL_SWITCH);

	if (rung)
		hk_switch_count(&sw->rung, 1);
	sw->lies = false;
	return rung;
}

static void yield(struct hk_switch *sw)
{
	uint64_t before = sw->now;

	prompt(sw, false);
	sched_yield();
	sw->now = rte_rdtsc();
	hk_pace_yielded(&sw->pace, before, sw->now);
}

/* Ranks that share a crowded core with us do not poll while we have it, and are not away for that. */
static void works(const struct hk_switch *sw, uint64_t until)
{
	if (hk_pace_crowded(&sw->pace, sw->now))
		hk_bell_works(HK_BELL_SWITCH, sw->woke, until);
}

/* Says that it is about to sleep. True if it had not said so yet. */
static bool lie_down(struct hk_switch *sw)
{
	if (sw->lies || !all_wake(sw))
		return false;
	if (sw->vain >= VAIN)
		(void)sleep_for(sw, SLEEP_NS, false);
	hk_bell_lie_down(HK_BELL_SWITCH);
	sw->lies_at = rte_rdtsc();
	sw->lies = true;
	return true;
}

/* The first time it only says so, and comes back for one more round: ranks that put
 * something into a pipe before it said so rang for nobody. As long as it is still rung for, it need not
 * say so again. */
static void sleep_(struct hk_switch *sw, uint64_t beat_ns)
{
	if (lie_down(sw))
		return;
	hk_switch_count(&sw->sleeps, 1);
	prompt(sw, true);
	account(sw, rte_rdtsc());
	works(sw, rte_rdtsc() + sw->after);
	if (!sw->lies) {
		(void)sleep_for(sw, SLEEP_NS, false);
	} else if (hk_pace_ration(&sw->pace) == 0) {
		(void)sleep_for(sw, hk_pace_fast(&sw->pace), false);
	} else {
		/* signed: it may have been awake since before it lay down */
		bool settled = (int64_t)(sw->woke - sw->lies_at) >= (int64_t)sw->settle;

		if (sleep_for(sw, settled ? beat_ns : HK_MIN(beat_ns, HK_BELL_SETTLE), true) ||
		    !hk_bell_lies(HK_BELL_SWITCH))
			sw->vain += get_up(sw) ? VAIN_OURS : 1;
	}
	sw->woke = sw->now = rte_rdtsc();
	works(sw, sw->woke + sw->awake_most);
}

void hk_switch_turn(struct hk_switch *sw)
{
	unsigned frames = hk_switch_round(sw);

	sw->now = rte_rdtsc();
	if (sw->turns++ % LOOK_EACH == 0 || !frames) {
		obey(sw);
		settle(sw);
	}
	if (frames) {
		(void)get_up(sw);
		sw->vain = 0;
		sw->busy_at = sw->now;
		/* frames without end: others are to have the core as well */
		if (sw->prompt && sw->now - sw->first_at > hk_pace_ration(&sw->pace))
			prompt(sw, false);
	}
	bool crowded = hk_pace_crowded(&sw->pace, sw->now);

	if (sw->now - sw->watched_at > (crowded ? sw->watch_crowded : sw->watch))
		watch(sw);
	if (frames)
		return;
	/* who sends us more within FRESH_US does not ring */
	bool soon = watches(sw) || sw->now - sw->busy_at < sw->spin;

	if (crowded)
		sleep_(sw, soon ? CROWDED_US * 1000 : HK_SWITCH_BEAT_NS);
	else if (soon)
		yield(sw);
	else
		sleep_(sw, HK_SWITCH_BEAT_NS);
}

int hk_switch_loop(void *arg)
{
	struct hk_switch *sw = arg;
	clockid_t cpu;

	if (pthread_getcpuclockid(pthread_self(), &cpu) == 0)
		atomic_store(&sw->cpu, cpu);
	prctl(PR_SET_NAME, "hk-switch");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	while (!sw->stop)
		hk_switch_turn(sw);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/switch_loop.c: the switch's thread: rounds, and yields or sleeps between them.
 *
 * DESIGN NOTES
 *
 * Problem: the switch must move frames within microseconds. But it may share its core with ranks
 * that compute or poll, and must not cost much while no frames come.
 *
 * Approach: after a round without frames the switch yields, for SPIN_US after the last frame. Then
 * it sleeps until a signal (port/wakeup.h) or for at most HK_SWITCH_MAX_SLEEP_NS. On a crowded core
 * (cpu_budget.h) it sleeps at once, for at most CROWDED_US while frames may come without a signal.
 *
 * Before a sleep the switch asks for signals and does one more round, since a rank that sent a
 * frame before that sent no signal. It goes on asking over several sleeps, as long as no signal
 * comes.
 *
 * Invariants:
 *
 * - A sender on a wire signals only after a pause of FRESH_US. FRESH_US < SPIN_US, so the switch at
 *   the other end still polls when a frame comes without a signal.
 * - Commands take DPDK's locks, which spin, so the switch gives up its wakeup priority first.
 * - With real-time priority the switch works no longer than its CPU budget allows.
 *
 * Checks of the ranks: every WATCH_US the switch checks whether each rank has taken its frames. A
 * rank that has not done so for one or two such periods has left MPI, so the switch wakes the
 * poller.
 */
#include "hostd/wakeup_priority.h"
#include "hostd/switch_parts.h"
#include "port/wakeup.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <rte_cycles.h>

#define SPIN_US 100 /* polling after the last frame, before a sleep */
/* Longest sleep if some port cannot wake the switch; and the delay after many useless wakeups. */
#define SHORT_SLEEP_NS UINT64_C(50000)
/* After so many useless wakeups in a row the switch waits SHORT_SLEEP_NS before it asks for
 * signals. A wakeup for the switch itself counts as USELESS_OWN of those that it only passes on. */
#define MAX_USELESS 64
#define USELESS_OWN 16
#define FRESH_US    50 /* after a frame to a wire, its other end still polls */
#define WATCH_US    40 /* between checks whether ranks have taken their frames */
#define CROWDED_US  15 /* the same on a crowded core, where a rank gets the core when we sleep */
/* How long ranks on the switch's core may be late (hk_wakeup_working()): after a sleep of the
 * switch has ended, and after one has begun. */
#define LATE_AWAKE_US  200
#define LATE_ASLEEP_US 50
#define HOUSEKEEPING   64 /* rounds with frames between looks for commands and freed buffers */

_Static_assert(FRESH_US < SPIN_US, "a switch that gets no signal still polls");

void hk_switch_set_times(struct hk_switch *sw)
{
	uint64_t us = hk_eal_tsc_hz() / 1000000;

	hk_cpu_budget_init(&sw->budget, hk_eal_tsc_hz());
	sw->now = sw->frames_at = rte_rdtsc();
	sw->spin = us * SPIN_US;
	sw->signal_after = us * FRESH_US;
	sw->check_after = us * WATCH_US;
	sw->check_after_crowded = us * CROWDED_US;
	sw->max_late = us * LATE_AWAKE_US;
	sw->late_after_sleep = us * LATE_ASLEEP_US;
	sw->settle = us * (HK_WAKEUP_SETTLE / HK_USEC);
}

static void free_returned_buffers(struct hk_switch *sw)
{
	for (unsigned s = 0; s < sw->slots; s++)
		if (sw->slot[s].share)
			hk_pipe_share_reclaim(sw->slot[s].share);
}

/* ---- ranks that take their frames ------------------------------------------------------------ */

static bool has_taken_all(const struct hk_switch *sw, unsigned slot)
{
	for (unsigned w = 0; w < sw->wires; w++)
		if (sw->slot[slot].end[w] && !hk_pipe_empty(sw->slot[slot].end[w]))
			return false;
	return true;
}

/* True if a rank has not taken its frames yet. Removes the others from the bit sets. */
static bool any_untaken(struct hk_switch *sw)
{
	uint64_t left = sw->untaken | sw->untaken_before;

	for (unsigned s = 0; left && s < sw->slots; s++)
		if (left >> s & 1 && has_taken_all(sw, s))
			left &= ~(UINT64_C(1) << s);
	sw->untaken &= left;
	sw->untaken_before &= left;
	return left;
}

/* Wakes the poller if a rank does not take its frames; and if signals on a wire were for the
 * poller. */
static void check_ranks(struct hk_switch *sw)
{
	uint64_t slots = sw->untaken | sw->untaken_before;
	bool wait = false;

	for (unsigned s = 0; s < sw->slots; s++) {
		if (!(slots >> s & 1))
			continue;
		for (unsigned w = 0; w < sw->wires; w++)
			wait |= sw->slot[s].end[w] && hk_pipe_stalled(sw->slot[s].end[w]);
	}
	sw->untaken_before = sw->untaken;
	sw->untaken = 0;
	sw->checked_at = sw->now;
	/* a system call: if no signal can be for the poller, it only empties the wakeup at times */
	if (!sw->waiting && (sw->relays || ++sw->checks % HK_SWITCH_DRAIN_EACH == 0))
		(void)hk_wakeup_finish_wait(HK_WAKEUP_SWITCH);
	/* hk_wakeup_request(): an awake poller may poll too early, so it must poll once more */
	if (wait && hk_wakeup_request(HK_WAKEUP_POLLER))
		hk_switch_count(&sw->n.wakeups_sent, 1);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static bool all_can_wake(const struct hk_switch *sw)
{
	for (unsigned w = 0; w < sw->wires; w++)
		if (sw->wire[w].port && !sw->can_wake[w])
			return false;
	return true;
}

static void account(struct hk_switch *sw, uint64_t now)
{
	if (sw->realtime)
		hk_cpu_budget_spend(&sw->budget, now - sw->accounted_at);
	else
		hk_cpu_budget_refund(&sw->budget, now - sw->accounted_at);
	sw->accounted_at = now;
}

static void set_priority(struct hk_switch *sw, bool on)
{
	if (sw->prioritized == on)
		return;
	account(sw, rte_rdtsc());
	sw->realtime = hk_wakeup_priority_set(on);
	sw->prioritized = on;
}

/* Sleeps for at most @ns; with @signals, a signal ends it. True if one did. */
static bool sleep_for(struct hk_switch *sw, uint64_t ns, bool signals)
{
	const struct timespec limit = {.tv_nsec = (long)ns};
	struct pollfd p = {.fd = sw->wakeup_fd, .events = POLLIN};

	account(sw, rte_rdtsc());
	bool signalled = ppoll(&p, signals, &limit, NULL) > 0;
	uint64_t now = rte_rdtsc();

	hk_cpu_budget_refund(&sw->budget, now - sw->accounted_at);
	sw->accounted_at = now;
	return signalled;
}

static void run_commands(struct hk_switch *sw)
{
	if (!atomic_load_explicit(&sw->command, memory_order_relaxed))
		return;
	set_priority(sw, false);
	hk_switch_run_commands(sw);
}

/* Ends asking for signals. True if there was one for the switch. */
static bool finish_wait(struct hk_switch *sw)
{
	bool signalled = sw->waiting && hk_wakeup_finish_wait(HK_WAKEUP_SWITCH);

	if (signalled)
		hk_switch_count(&sw->n.wakeups_received, 1);
	sw->waiting = false;
	return signalled;
}

static void yield(struct hk_switch *sw)
{
	uint64_t before = sw->now;

	set_priority(sw, false);
	sched_yield();
	sw->now = rte_rdtsc();
	hk_cpu_budget_yielded(&sw->budget, before, sw->now);
}

/* Tells the poller that ranks may be late until @until. Ranks that share a crowded core with the
 * switch do not poll while it has the core. */
static void report_core_use(const struct hk_switch *sw, uint64_t until)
{
	if (hk_cpu_budget_crowded(&sw->budget, sw->now))
		hk_wakeup_working(HK_WAKEUP_SWITCH, sw->woke_at, until);
}

/* Asks for signals. True if it did not do so before. */
static bool prepare_wait(struct hk_switch *sw)
{
	if (sw->waiting || !all_can_wake(sw))
		return false;
	if (sw->useless_wakeups >= MAX_USELESS)
		(void)sleep_for(sw, SHORT_SLEEP_NS, false);
	hk_wakeup_prepare_wait(HK_WAKEUP_SWITCH);
	sw->waiting_since = rte_rdtsc();
	sw->waiting = true;
	return true;
}

/* Sleeps for at most @max_ns, or only asks for signals. */
static void sleep_or_prepare(struct hk_switch *sw, uint64_t max_ns)
{
	if (prepare_wait(sw))
		return;
	hk_switch_count(&sw->n.sleeps, 1);
	set_priority(sw, true);
	account(sw, rte_rdtsc());
	report_core_use(sw, rte_rdtsc() + sw->late_after_sleep);
	if (!sw->waiting) {
		(void)sleep_for(sw, SHORT_SLEEP_NS, false);
	} else if (hk_cpu_budget_left(&sw->budget) == 0) {
		(void)sleep_for(sw, hk_cpu_budget_wait_ns(&sw->budget), false);
	} else {
		/* signed: the switch may have woken before it asked for signals */
		bool settled = (int64_t)(sw->woke_at - sw->waiting_since) >= (int64_t)sw->settle;

		if (sleep_for(sw, settled ? max_ns : HK_MIN(max_ns, HK_WAKEUP_SETTLE), true) ||
		    !hk_wakeup_waiting(HK_WAKEUP_SWITCH))
			sw->useless_wakeups += finish_wait(sw) ? USELESS_OWN : 1;
	}
	sw->woke_at = sw->now = rte_rdtsc();
	report_core_use(sw, sw->woke_at + sw->max_late);
}

void hk_switch_step(struct hk_switch *sw)
{
	unsigned frames = hk_switch_round(sw);

	sw->now = rte_rdtsc();
	if (sw->steps++ % HOUSEKEEPING == 0 || !frames) {
		run_commands(sw);
		free_returned_buffers(sw);
	}
	if (frames) {
		(void)finish_wait(sw);
		sw->useless_wakeups = 0;
		sw->frames_at = sw->now;
		/* without a pause between frames, other threads must get the core, too */
		if (sw->prioritized && sw->now - sw->accounted_at > hk_cpu_budget_left(&sw->budget))
			set_priority(sw, false);
	}
	bool crowded = hk_cpu_budget_crowded(&sw->budget, sw->now);

	if (sw->now - sw->checked_at > (crowded ? sw->check_after_crowded : sw->check_after))
		check_ranks(sw);
	if (frames)
		return;
	/* more frames may come without a signal */
	bool soon = any_untaken(sw) || sw->now - sw->frames_at < sw->spin;
	/* nothing signals that a full port has space again */
	uint64_t longest = sw->tx_waits ? SHORT_SLEEP_NS : HK_SWITCH_MAX_SLEEP_NS;

	if (crowded)
		sleep_or_prepare(sw, soon ? CROWDED_US * 1000 : longest);
	else if (soon)
		yield(sw);
	else
		sleep_or_prepare(sw, longest);
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
		hk_switch_step(sw);
	return 0;
}

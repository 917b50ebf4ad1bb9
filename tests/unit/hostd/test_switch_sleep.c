/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_switch_sleep.c: when the switch sleeps, for how long, and whom it signals.
 *
 * The test calls hk_switch_step() itself, replaces the functions that sleep and yield, and sets the
 * switch's durations. So nothing depends on the machine's speed. The test plays the ranks and the
 * switch at the other end.
 */
#include "hostd/wakeup_priority.h"
#include "hostd/switch_parts.h"
#include "port/wakeup.h"
#include "port/internal.h"
#include "tests/support/child.h"
#include "tests/unit/hostd/switch_rig.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/wait.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#define NEVER   (UINT64_MAX / 2)
#define ENDLESS (INT64_C(1) << 60) /* ticks of a CPU budget */

/* ---- scripted sleeps ------------------------------------------------------------------------- */

static struct {
	unsigned briefly, beats,
		yields;       /* short sleeps, sleeps of HK_SWITCH_MAX_SLEEP_NS, yields */
	unsigned unsignalled; /* sleeps that ignored signals */
	unsigned ordinary;    /* how often it gave up the priority */
	long longest;         /* longest sleep in ns */
	bool signalled;       /* a signal ends each sleep */
	uint64_t takes;       /* ticks of the TSC that each sleep and yield takes */
} slept;

static void pass(void)
{
	for (uint64_t end = rte_rdtsc() + slept.takes; rte_rdtsc() < end;)
		rte_pause();
}

int ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	slept.unsignalled += n == 0;
	slept.briefly += limit->tv_nsec < HK_SWITCH_MAX_SLEEP_NS;
	slept.beats += limit->tv_nsec == HK_SWITCH_MAX_SLEEP_NS;
	slept.longest = HK_MAX(slept.longest, limit->tv_nsec);
	pass();
	return slept.signalled;
}

/* Replaces the function of hostd/wakeup_priority.c: the machine allows the priority. */
bool hk_wakeup_priority_set(bool on)
{
	slept.ordinary += !on;
	return on;
}

int sched_yield(void)
{
	slept.yields++;
	pass();
	return 0;
}

/* ---- a switch, two ranks and a wire ---------------------------------------------------------- */

static int other_end; /* of the wire's control socket */

static void write_abort(void *arg, const char *text)
{
	CHECK(write(other_end, text, strlen(text)) > 0);
}

static const struct hk_abort_log abort_log = {write_abort, NULL};
static struct rank rank[2];

/* The core is crowded for ever, or never. The switch never checks ranks, and its other durations
 * are endless, until a test changes them. */
static void start(bool crowded)
{
	int pair[2];

	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 64}, ERR));
	ring_open(1);
	CHECK_OK(hk_switch_create(&abort_log, &sw, ERR));
	struct hk_switch_wire wire = {.port = port, .queues = 1, .copies = rx_pool};

	CHECK_OK(hk_switch_do_wire(sw, 0, &wire, ERR));
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	hk_wakeup_set_wire(port->id, pair[0]);
	other_end = pair[1];
	sw->can_wake[0] = true;
	for (unsigned i = 0; i < 2; i++) {
		rank_open(&rank[i], i, i);
		CHECK_OK(hk_switch_do_add(sw, i, &rank[i].to_add, ERR));
		hk_pipe_port(rank[i].pipes, &port->info, &rank[i].port);
	}
	sw->budget.crowded_until = crowded ? UINT64_MAX : 0;
	sw->budget.slow_yield = NEVER;
	/* a busy machine may keep the test off its core for longer than a real budget */
	sw->budget.full = sw->budget.balance = ENDLESS;
	sw->spin = sw->check_after = sw->check_after_crowded = NEVER;
	sw->signal_after = rte_rdtsc() / 2; /* shorter than the pause before the first frame */
	sw->settle = 0;
	memset(&slept, 0, sizeof(slept));
}

static void stop(void)
{
	for (unsigned i = 0; i < 2; i++) {
		hk_switch_do_remove(sw, i);
		rank_close(&rank[i]);
	}
	close(hk_wakeup_take_wire(port->id));
	close(other_end);
	CHECK_OK(hk_switch_do_wire(sw, 0, NULL, ERR));
	hk_switch_destroy(sw);
	ring_close();
}

static void steps(unsigned n)
{
	while (n--)
		hk_switch_step(sw);
}

/* Signals that reached the other end since the last call. */
static unsigned signals(void)
{
	unsigned n = 0;
	char c;

	while (recv(other_end, &c, 1, MSG_DONTWAIT) == 1)
		n++;
	return n;
}

/* ---- sleep ----------------------------------------------------------------------------------- */

/* For a moment after a frame, its sender sends more without a signal. So the switch does not sleep
 * long then, even on a crowded core and when its ranks have taken everything. */
static void polls_for_a_moment_after_a_frame(bool crowded)
{
	start(crowded);
	for (unsigned i = 0; i < 10; i++) {
		send_to(&rank[0], 1, 1);
		steps(2); /* to the port, and back */
		CHECK_EQ(receive(&rank[1]), 1);
		steps(5);
	}
	CHECK_EQ(slept.beats, 0);
	CHECK_CMP(crowded ? slept.briefly : slept.yields, >, 10);
	sw->spin = 0; /* the moment is over */
	steps(3);
	CHECK_CMP(slept.beats, >, 0);
	stop();
}

TEST(polls_after_a_frame)
{
	polls_for_a_moment_after_a_frame(false);
	polls_for_a_moment_after_a_frame(true);
}

/* A port that accepts no frame: they wait in the pipe, and none is lost. Nothing signals that the
 * port has space again, so the switch does not sleep long. */
TEST(frames_wait_for_a_full_port)
{
	struct rte_mbuf *held[BUFFERS];
	struct hk_pipe_levels n = {0};

	start(false);
	for (unsigned i = 0; i < BUFFERS; i++)
		CHECK((held[i] = rte_pktmbuf_alloc(rx_pool)) != NULL);
	sw->spin = 0;
	send_to(&rank[0], 1, 5);
	steps(4);
	CHECK(sw->tx_waits);
	CHECK(slept.briefly && slept.beats == 0);
	CHECK_EQ(receive(&rank[1]), 0);
	for (unsigned i = 0; i < 3; i++) /* space for three of the five */
		rte_pktmbuf_free(held[i]);
	steps(2);
	CHECK(sw->tx_waits);
	CHECK_EQ(receive(&rank[1]), 3);
	steps(3); /* frees the three, sends, receives */
	CHECK(!sw->tx_waits);
	CHECK_EQ(receive(&rank[1]), 2);
	hk_switch_pipe_counters(sw, 0, &n);
	CHECK_EQ(n.tx_full, 4 * 5 + 3 * 2);
	steps(3);
	CHECK_CMP(slept.beats, >, 0);
	for (unsigned i = 3; i < BUFFERS; i++)
		rte_pktmbuf_free(held[i]);
	stop();
}

/* A rank that takes nothing has left MPI. An awake poller may poll before that rank counts as not
 * polling, so the switch requests another poll. */
TEST(wakes_the_poller_for_a_rank_that_takes_nothing)
{
	start(false);
	sw->check_after = 0;
	send_to(&rank[0], 1, 1);
	steps(2); /* to the port, and back */
	CHECK_EQ(receive(&rank[1]), 1);
	steps(3);
	CHECK(!hk_wakeup_requested(HK_WAKEUP_POLLER));
	send_to(&rank[0], 1, 1);
	steps(5);
	CHECK(hk_wakeup_requested(HK_WAKEUP_POLLER));
	CHECK_EQ(receive(&rank[1]), 1);
	(void)hk_wakeup_finish_wait(HK_WAKEUP_POLLER);
	stop();
}

/* Bytes on the wire's control socket that the switch has not read. */
static int unread_signals(void)
{
	int n = 0;

	CHECK_EQ(ioctl(other_end, SIOCOUTQ, &n), 0);
	return n;
}

/* While awake, the switch reads signals seldom. It reads them often if they may be for the poller,
 * which is so if the wire has queue pairs that are not the switch's. */
TEST(takes_in_signals_for_others_while_awake)
{
	for (unsigned bulk = 0; bulk < 2; bulk++) {
		start(false);
		struct hk_switch_wire wire = {.port = port, .queues = 1 - bulk, .copies = rx_pool};

		/* now it reads its control socket */
		CHECK_OK(hk_switch_do_wire(sw, 0, &wire, ERR));
		const struct hk_wire_signal m = {HK_WIRE_SIGNAL_TYPE, 1 + HK_WAKEUP_POLLER, {0}};

		CHECK_EQ(send(other_end, &m, sizeof(m), 0), sizeof(m));
		sw->check_after = 0;
		steps(10);
		CHECK_EQ(unread_signals() == 0, bulk);
		CHECK_EQ(hk_wakeup_requested(HK_WAKEUP_POLLER), bulk);
		steps(HK_SWITCH_DRAIN_EACH);
		CHECK_EQ(unread_signals(), 0);
		(void)hk_wakeup_finish_wait(HK_WAKEUP_POLLER);
		stop();
	}
}

/* A rank's store before the switch asked for signals may not be in memory yet, and the rank sends
 * no signal for it. So the switch polls once more before it sleeps long. */
TEST(settles_before_it_sleeps_long)
{
	start(false);
	sw->settle = NEVER;
	sw->spin = 0;
	steps(5);
	CHECK(slept.beats == 0 && slept.briefly);
	CHECK_EQ(slept.longest, (long)HK_WAKEUP_SETTLE);
	sw->settle = 0; /* that time is over */
	steps(2);
	CHECK_EQ(slept.beats, 2);
	stop();
	/* the same if the switch lost its core before the first sleep, for any time */
	start(false);
	sw->spin = 0;
	slept.takes = hk_eal_tsc_hz() / 100000;
	sw->settle = slept.takes / 2;
	steps(1); /* asks for signals */
	CHECK(sw->waiting && slept.briefly + slept.beats == 0);
	pass();
	steps(1);
	CHECK(slept.briefly == 1 && slept.beats == 0);
	steps(1);
	CHECK_EQ(slept.beats, 1);
	stop();
}

/* On a crowded core the switch reports since when it has the core, and for a while after a sleep.
 * So the poller does not take ranks on this core for not polling. Other values there excuse a rank
 * for no longer than the poller's limit. */
TEST(reports_since_when_it_has_the_core)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		start(crowded);
		sw->spin = 0;
		hk_wakeup_working(HK_WAKEUP_SWITCH, 0, 0);
		steps(3); /* asks for signals, sleeps, and wakes */
		CHECK_CMP(slept.beats, >, 0);
		uint64_t woke = sw->woke_at, most = 1000000;

		CHECK_EQ(hk_wakeup_core_lost(HK_WAKEUP_SWITCH, woke + 100, most),
			 crowded ? woke : woke + 100);
		CHECK_EQ(hk_wakeup_core_lost(HK_WAKEUP_SWITCH, woke + sw->max_late, most),
			 woke + sw->max_late);
		CHECK_EQ(hk_wakeup_core_lost(HK_WAKEUP_SWITCH, woke + 100, 10),
			 crowded ? woke + 90 : woke + 100);
		CHECK_EQ(hk_wakeup_core_lost(HK_WAKEUP_SWITCH, woke - 1, most), woke - 1);
		stop();
	}
}

/* With the priority the switch has the core before all others, so it gives it up if frames keep
 * coming. */
TEST(has_priority_for_a_moment)
{
	start(true);
	CHECK(!sw->prioritized);
	steps(1);
	CHECK(!sw->prioritized); /* it only asks for signals */
	steps(1);
	CHECK(sw->prioritized && slept.briefly + slept.beats);
	sw->budget.balance = ENDLESS;
	send_to(&rank[0], 1, 1);
	steps(2);
	CHECK_EQ(receive(&rank[1]), 1);
	CHECK(sw->prioritized);
	sw->budget.balance = 0;
	send_to(&rank[0], 1, 1);
	steps(1);
	CHECK(!sw->prioritized);
	stop();
	start(false);
	steps(5);
	CHECK(!sw->prioritized && slept.yields); /* no priority before a yield */
	stop();
}

/* With the priority the switch works no longer than it sleeps. When its CPU budget is used up, it
 * sleeps and ignores signals, until half of the budget is back. */
TEST(has_priority_no_longer_than_it_sleeps)
{
	start(true);
	hk_cpu_budget_init(&sw->budget, hk_eal_tsc_hz());
	sw->budget.crowded_until = UINT64_MAX;
	sw->spin = 0;
	steps(2);
	CHECK(sw->prioritized && slept.unsignalled == 0);
	sw->budget.balance = -sw->budget.full;
	steps(1);
	CHECK(sw->prioritized && slept.unsignalled == 1);
	/* the debt, and half of the budget */
	CHECK_CMP(slept.longest, >=, (long)(HK_CPU_BUDGET + HK_CPU_BUDGET / 2));
	CHECK_CMP(slept.longest, <, (long)(2 * HK_CPU_BUDGET));
	slept.takes = (uint64_t)sw->budget.full * 2;
	steps(1);
	unsigned unsignalled = slept.unsignalled;

	steps(3);
	CHECK_EQ(slept.unsignalled, unsignalled);
	/* endless signals: no sleep that accepts them lasts, and each step is work */
	slept.takes = 0;
	slept.signalled = true;
	for (unsigned i = 0; slept.unsignalled == unsignalled && i < 1000000; i++)
		steps(1);
	CHECK_CMP(slept.unsignalled, >, unsignalled);
	stop();
}

/* ---- signals --------------------------------------------------------------------------------- */

TEST(signals_only_the_first_frame)
{
	start(false);
	for (unsigned i = 0; i < 10; i++) {
		send_to(&rank[0], 99, 1);
		steps(3);
	}
	CHECK_EQ(signals(), 1);
	stop();
}

/* A yield or a sleep between two frames may be long, and the other end may sleep after that time.
 */
TEST(signals_after_it_was_kept_off_its_core)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		start(crowded);
		sw->signal_after = hk_eal_tsc_hz() / 1000 * 5; /* 5 ms: long beside a round */
		slept.takes = 2 * sw->signal_after;
		for (unsigned i = 1; i <= 5; i++) {
			send_to(&rank[0], 99, 1);
			steps(4);
			CHECK_MSG(signals() == 1, "frame %u had no signal", i);
		}
		stop();
	}
}

/* ---- commands -------------------------------------------------------------------------------- */

static void *remove_a_slot(void *done)
{
	CHECK_OK(hk_switch_slot_remove(sw, 0, ERR));
	atomic_store((_Atomic bool *)done, true);
	return NULL;
}

/* Commands take DPDK's locks, which spin, and their holder may need this core. */
TEST(has_no_priority_during_commands)
{
	_Atomic bool done = false;
	pthread_t t;

	start(true);
	sw->spin = 0;
	steps(3);
	CHECK(sw->prioritized && slept.ordinary == 0);
	CHECK_EQ(pthread_create(&t, NULL, remove_a_slot, &done), 0);
	while (!atomic_load(&done)) {
		sw->budget.balance = sw->budget.full; /* nothing else takes the priority away */
		steps(1);
	}
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(slept.ordinary, 1);
	CHECK_OK(hk_switch_do_add(sw, 0, &rank[0].to_add, ERR)); /* stop() removes it */
	stop();
}

/* The switch makes no progress: hikyakud aborts, and writes the reason to its log. */
TEST(writes_why_it_aborts)
{
	char text[200] = "";

	start(false);
	sw->watchdog.wall_ms = 0;
	pid_t child = child_fork();

	if (child == 0) {
		other_end = hk_wakeup_take_wire(port->id);
		CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
		CHECK(freopen("/dev/null", "w", stderr) != NULL); /* as in the background */
		(void)hk_switch_slot_remove(sw, 0, ERR);
		_exit(0);
	}
	int status = child_wait(child);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	CHECK(recv(other_end, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
	CHECK_HAS(text, "its switch made no progress", "fix: ");
	stop();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_poller.c: the poller's rounds and sleeps. The test plays the daemon's side
 * of hostd/poller_shared.h.
 */
#include "hostd/poller.h"
#include "hostd/wakeup_priority.h"
#include "hostd/resources.h"
#include "tests/support/hk_test.h"
#include "tests/unit/hostd/fake_resources.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 4

static struct hk_poller_shared s;

/* Stands for a worker in a rank's memory. */
static struct spot {
	_Atomic int allowed;
	_Atomic uint64_t polls;
	enum hk_proxied result;
} spot[SLOTS];

static enum hk_proxied poll_spot(void *worker)
{
	struct spot *p = worker;

	CHECK_MSG(atomic_load(&p->allowed), "polled after the daemon saw that the poller had left");
	CHECK_EQ(atomic_load(&s.inside), p - spot + 1);
	atomic_fetch_add(&p->polls, 1);
	CHECK(atomic_load(&p->allowed));
	return p->result;
}

static void up(void)
{
	memset(&s, 0, sizeof(s));
	memset(spot, 0, sizeof(spot));
	s.slots = SLOTS;
	for (unsigned i = 0; i < SLOTS; i++)
		atomic_store(&s.slot[i].worker, (uintptr_t)&spot[i]);
}

static void on(unsigned i)
{
	atomic_store(&spot[i].allowed, 1);
	atomic_store(&s.slot[i].state, HK_POLLER_SLOT_ON);
}

TEST(rounds)
{
	bool any = true;

	up();
	CHECK_EQ(hk_poller_round(&s, poll_spot, &any), HK_PROXIED_POLLING);
	CHECK(!any && atomic_load(&s.rounds) == 1);
	on(1);
	on(3);
	CHECK_EQ(hk_poller_round(&s, poll_spot, &any), HK_PROXIED_POLLING);
	CHECK(any && atomic_load(&s.inside) == 0);
	CHECK(spot[1].polls == 1 && spot[3].polls == 1 && spot[0].polls == 0);
	spot[1].result = HK_PROXIED_BUSY;
	spot[3].result = HK_PROXIED_IDLE;
	CHECK_EQ(hk_poller_round(&s, poll_spot, &any), HK_PROXIED_BUSY);
	spot[1].result = HK_PROXIED_POLLING;
	CHECK_EQ(hk_poller_round(&s, poll_spot, &any), HK_PROXIED_IDLE);
	CHECK(s.slot[1].poller_polls == 3 && s.slot[1].not_polling == 1 &&
	      s.slot[3].not_polling == 2);
	/* an unknown state counts as off */
	atomic_store(&s.slot[1].state, 7);
	hk_poller_round(&s, poll_spot, &any);
	CHECK(spot[1].polls == 3);
}

/* ---- wires ----------------------------------------------------------------------------------- */

static _Atomic uint32_t attached;

/* While the poller attaches the port, the daemon decides to close it. The daemon must see that the
 * poller still uses it. */
static int attach_slowly(uint16_t id, void **port)
{
	CHECK_EQ(id, 6);
	atomic_store(&s.wire[3].wanted, 0);
	CHECK_MSG(atomic_load(&s.wire[3].attached) == 7,
		  "the daemon would close a port that is being attached");
	atomic_store(&attached, 1);
	*port = &attached;
	return 0;
}

TEST(nothing_is_closed_that_is_being_attached)
{
	static void *port[HK_CTL_MAX_NODES];

	up();
	fake_attach = attach_slowly;
	atomic_store(&s.wire[3].wanted, 7);
	CHECK_OK(hk_poller_wires(&s, port, ERR));
	CHECK(port[3] == &attached && atomic_load(&s.wire[3].attached) == 7);
	CHECK_OK(hk_poller_wires(&s, port, ERR));
	CHECK(port[3] == NULL && atomic_load(&s.wire[3].attached) == 0 &&
	      atomic_load(&attached) == 0);
	fake_attach = NULL;
}

static _Atomic bool stop;
static void *poll_all(void *arg)
{
	while (!atomic_load(&stop))
		hk_poller_round(&s, poll_spot, NULL);
	return arg;
}

/* The daemon switches a slot off and waits until the poller has left it. No poll may follow. */
TEST(leaves_a_slot)
{
	pthread_t t;
	unsigned while_inside = 0;

	up();
	on(0);
	on(2);
	CHECK(pthread_create(&t, NULL, poll_all, NULL) == 0);
	while (!atomic_load(&spot[0].polls) || !atomic_load(&spot[2].polls))
		sched_yield();
	/* until the daemon has often found the poller inside; the time depends on the machine's
	 * load */
	for (unsigned i = 0; i < 50000000 && (i < 200000 || while_inside < 20000); i++) {
		if (i % 4096 == 0)
			sched_yield();
		unsigned slot = i % 2 * 2;
		atomic_store(&s.slot[slot].state, HK_POLLER_SLOT_OFF);
		for (unsigned spins = 0; atomic_load(&s.inside) == slot + 1; spins++) {
			while_inside += spins == 0;
			if (spins > 100)
				sched_yield();
		}
		atomic_store(&spot[slot].allowed, 0);
		/* now the poller polls only the other slot */
		on(slot);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
}

/* ---- scripted sleeps ------------------------------------------------------------------------- */

/* In place of the kernel's sleeps, while `on`. Notes each sleep of max_sleep_ns, and ends each one
 * that accepts signals by a signal. */
static struct script {
	bool on;
	/* number of the sleep after which a frame comes; after which somebody requests a wakeup;
	 * without a signal; after which the channel ends. 0: never */
	unsigned busy_at, request_at, quiet_at, end_at;
	enum hk_proxied result; /* of all other polls */
	bool note_polls;        /* note the waits between polls, too */
	bool settled;           /* it has slept HK_RES_SETTLE_NS since it asked for signals */
	char seen[64];
} scripted;

static int scripted_sleep(struct pollfd *p, nfds_t n, const struct timespec *limit)
{
	size_t len = strlen(scripted.seen);

	spot[1].result = scripted.result;
	if (n == 2 && limit->tv_nsec == HK_RES_SETTLE_NS) {
		CHECK(!scripted.settled);
		scripted.settled = true;
		return 0;
	}
	if (limit->tv_nsec != hk_poller_timing.max_sleep_ns) {
		CHECK_EQ(n, 1); /* awake, it does not wait for signals */
		if (scripted.note_polls)
			scripted.seen[len++] = limit->tv_nsec == hk_poller_timing.recheck_ns ? 's'
											     : 'n';
		if (len == scripted.request_at)
			atomic_store(&fake_wakeup.requested, 1);
		if (len == scripted.end_at)
			p[0].revents = POLLIN;
		return 0;
	}
	CHECK(n == 1 || (n == 2 && scripted.settled));
	scripted.seen[len++] = n == 2 ? 'R' : '-';
	if (len == scripted.busy_at)
		spot[1].result = HK_PROXIED_BUSY;
	if (len == scripted.end_at)
		p[0].revents = POLLIN;
	if (n == 2 && len != scripted.quiet_at) {
		CHECK(eventfd_write(fake_wakeup.fd, 1) == 0);
		p[1].revents = POLLIN;
		scripted.settled = false;
	}
	return 1;
}

/* Replaces the C library's function in this program. */
int ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	struct timespec left;

	if (scripted.on)
		return scripted_sleep(p, n, limit);
	if (limit)
		left = *limit; /* the kernel writes there */
	return (int)syscall(SYS_ppoll, p, n, limit ? &left : NULL, mask, (size_t)8);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static struct {
	pthread_t thread;
	int channel[2];
	struct hk_poller_timing timing;
} l;

static void *loop(void *arg)
{
	int rc = hk_poller_loop(&s, l.channel[1], fake_wakeup.fd, poll_spot, &l.timing, ERR);

	return rc == 0 ? NULL : (void *)1;
}

static void channel_open(void)
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, l.channel) == 0);
	fake_wakeup.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(fake_wakeup.fd >= 0);
	atomic_store(&fake_wakeup.waiting, 0);
	atomic_store(&fake_wakeup.requested, 0);
}

static void channel_close(void)
{
	close(l.channel[1]);
	close(fake_wakeup.fd);
}

static void loop_start(void *(*run)(void *))
{
	channel_open();
	CHECK(pthread_create(&l.thread, NULL, run, NULL) == 0);
}

/* The end of the channel ends it. */
static void loop_end(void)
{
	void *failed;

	close(l.channel[0]);
	pthread_join(l.thread, &failed);
	CHECK(failed == NULL);
	channel_close();
}

#define UNTIL(cond)                                                                                \
	while (!(cond))                                                                            \
	sched_yield()

/* The scheduling policy while the poller attaches, and while it polls. */
static struct {
	_Atomic bool attached, polled, realtime;
	_Atomic int policy[2];
} runs;

static void note_run(unsigned polling)
{
	atomic_store(&runs.policy[polling], sched_getscheduler(0) & ~SCHED_RESET_ON_FORK);
}

static int attach_and_note(uint16_t id, void **port)
{
	note_run(0);
	*port = &attached;
	atomic_store(&runs.attached, true);
	return 0;
}

static enum hk_proxied poll_and_note(void *worker)
{
	if (atomic_load(&runs.attached)) {
		note_run(1);
		atomic_store(&runs.polled, true);
	}
	return HK_PROXIED_IDLE;
}

static void *loop_and_note(void *arg)
{
	atomic_store(&runs.realtime, hk_wakeup_priority_realtime(ERR) == 0);
	(void)hk_poller_loop(&s, l.channel[1], fake_wakeup.fd, poll_and_note, &hk_poller_timing,
			     ERR);
	return arg;
}

/* Attaching takes DPDK's locks, which spin, and their holder may need this core. Polling takes
 * none. */
TEST(has_priority_except_while_it_attaches)
{
	up();
	on(1);
	fake_attach = attach_and_note;
	atomic_store(&s.wire[0].wanted, 1);
	atomic_store(&s.wire_changes, 1);
	loop_start(loop_and_note);
	UNTIL(atomic_load(&runs.polled));
	loop_end();
	fake_attach = NULL;
	CHECK_EQ(atomic_load(&runs.policy[0]), SCHED_OTHER);
	CHECK_EQ(atomic_load(&runs.policy[1]),
		 atomic_load(&runs.realtime) ? SCHED_FIFO : SCHED_OTHER);
}

/* Without a slot to poll it sleeps until the daemon wakes it. The end of the channel ends it. */
TEST(wakes_and_ends)
{
	up();
	l.timing = hk_poller_timing;
	loop_start(loop);
	UNTIL(atomic_load(&s.rounds) > 0);
	on(2);
	CHECK(send(l.channel[0], "", 1, 0) == 1);
	UNTIL(atomic_load(&spot[2].polls) >= 20);
	loop_end();
}

/* max_sleep_ns is longer than the test: only signals wake the poller. */
static void asleep_without_a_beat(void)
{
	up();
	on(1);
	spot[1].result = HK_PROXIED_IDLE;
	l.timing = hk_poller_timing;
	l.timing.max_sleep_ns = 999999999;
	loop_start(loop);
	UNTIL(hk_res_waiting() && atomic_load(&s.sleeps) == 1);
}

static void signal_poller(void)
{
	CHECK(eventfd_write(fake_wakeup.fd, 1) == 0);
}

TEST(sleeps_until_a_signal)
{
	asleep_without_a_beat();
	for (unsigned i = 2; i < 2 + l.timing.max_useless; i++) {
		uint64_t before = atomic_load(&spot[1].polls);

		signal_poller();
		UNTIL(atomic_load(&s.sleeps) == i);
		/* it polls for a while, and once more after it has asked for signals */
		CHECK_CMP(atomic_load(&spot[1].polls), >=, before + l.timing.idle_polls);
		CHECK_EQ(atomic_load(&s.wakeups_received), i - 1);
		CHECK_EQ(atomic_load(&s.wakeups_useless), i - 2);
	}
	loop_end();
}

/* If all ranks poll, one more poll is enough, at the time when a rank would count as not polling.
 * Each further one would take the core from a rank. */
TEST(polls_once_more_if_all_ranks_poll)
{
	asleep_without_a_beat();
	/* the first round, and the two with which each sleep begins: after it has asked for
	 * signals, and after HK_RES_SETTLE_NS */
	UNTIL(atomic_load(&s.rounds) == 3);
	spot[1].result = HK_PROXIED_POLLING;

	signal_poller();
	UNTIL(atomic_load(&s.sleeps) == 2 && hk_res_waiting());
	/* when woken, after recheck_ns, and the two of the sleep */
	UNTIL(atomic_load(&s.rounds) == 7);
	loop_end();
	CHECK_EQ(atomic_load(&spot[1].polls), 7);
}

/* A sender may be killed between two steps: when it has cleared `waiting`, and before its signal.
 * Then the poller finds `waiting` cleared after max_sleep_ns, and asks for signals again. */
TEST(asks_again_after_a_sender_was_killed)
{
	up();
	on(1);
	l.timing = hk_poller_timing;
	loop_start(loop);
	UNTIL(hk_res_waiting());
	atomic_store(&fake_wakeup.waiting, 0);
	UNTIL(hk_res_waiting());
	loop_end();
}

/* Runs the loop by @script. Its sleeps must be @want. */
static void sleeps_so(struct script script, const char *want)
{
	up();
	on(1);
	spot[1].result = script.result;
	scripted = script;
	channel_open();
	close(l.channel[0]); /* the loop reads this when the script sets POLLIN */
	scripted.on = true;
	CHECK_OK(hk_poller_loop(&s, l.channel[1], fake_wakeup.fd, poll_spot, &hk_poller_timing,
				ERR));
	scripted.on = false;
	CHECK_MSG(strcmp(scripted.seen, want) == 0,
		  "its sleeps, with signals (R) and without (-): %s", scripted.seen);
	channel_close();
}

/* After useless signals the poller ignores them for max_sleep_ns at a time. When one leads to work,
 * it accepts all again. */
TEST(ignores_useless_signals)
{
	/* it accepts max_useless + 1 signals, then one in every second sleep; sleep 20 finds work,
	 * and it starts again */
	sleeps_so((struct script){.busy_at = 20, .end_at = 40, .result = HK_PROXIED_IDLE},
		  "RRRRR-R-R-R-R-R-R-R-"
		  "RRRRR-R-R-R-R-R-R-R-");
}

/* One long sleep without a signal ends the count of useless ones. */
TEST(listens_again_after_a_silence)
{
	sleeps_so((struct script){.quiet_at = 5, .end_at = 12, .result = HK_PROXIED_IDLE},
		  "RRRR"
		  "R"
		  "RRRRR-R");
}

/* Signals for ranks that poll again by themselves hardly count as useless. */
TEST(listens_if_ranks_come_back_by_themselves)
{
	sleeps_so((struct script){.end_at = 21, .result = HK_PROXIED_POLLING}, "RRRRRRRRRRRRRRRRR"
									       "-R-R");
}

/* A rank that has just left MPI still counts as polling. A request comes while the poller is awake,
 * so it polls once more, a moment later, before it sleeps. */
TEST(remembers_a_request_while_awake)
{
	struct script script = {.note_polls = true, .end_at = 7, .result = HK_PROXIED_POLLING};

	sleeps_so(script, "RsRsRsR");
	script.request_at = 2; /* in the first wait between polls */
	sleeps_so(script, "RssRsRs");
}

/* Unacknowledged packets of a rank that is not polling keep the poller awake, but not for ever. */
TEST(unacknowledged_packets_keep_it_awake_for_a_while)
{
	up();
	on(3);
	spot[3].result = HK_PROXIED_UNACKED;
	l.timing = hk_poller_timing;
	l.timing.max_sleep_ns = 999999999;
	l.timing.idle_poll_ns = 1000;
	loop_start(loop);
	UNTIL(atomic_load(&s.sleeps) == 1);
	CHECK_CMP(atomic_load(&spot[3].polls), >=, l.timing.unacked_polls);
	CHECK_CMP(atomic_load(&spot[3].polls), <=, l.timing.unacked_polls + 3);
	loop_end();
}

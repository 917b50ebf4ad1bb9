/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/poller.c: the poller's loop and its main (poller.h has the design notes).
 */
#include "hostd/poller.h"
#include "base/capabilities.h"
#include "base/clock.h"
#include "hostd/wakeup_priority.h"
#include "hostd/resources.h"
#include "hostd/syscalls.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum hk_proxied hk_poller_round(struct hk_poller_shared *s, hk_proxy_poll_fn poll_worker, bool *any)
{
	enum hk_proxied most = HK_PROXIED_POLLING;
	bool some = false;

	for (uint32_t i = 0; i < s->slots; i++) {
		struct hk_poller_shared_slot *slot = &s->slot[i];

		if (atomic_load_explicit(&slot->state, memory_order_relaxed) != HK_POLLER_SLOT_ON)
			continue;
		some = true;
		/* set `inside` first, then read the state: see poller_shared.h */
		atomic_store(&s->inside, i + 1);
		if (atomic_load(&slot->state) == HK_POLLER_SLOT_ON) {
			uint64_t worker = atomic_load(&slot->worker);
			enum hk_proxied found = poll_worker((void *)(uintptr_t)worker);

			most = HK_MAX(most, found);
			atomic_fetch_add_explicit(&slot->poller_polls, 1, memory_order_relaxed);
			if (found != HK_PROXIED_POLLING)
				atomic_fetch_add_explicit(&slot->not_polling, 1,
							  memory_order_relaxed);
		}
		atomic_store_explicit(&s->inside, 0, memory_order_release);
	}
	atomic_fetch_add_explicit(&s->rounds, 1, memory_order_relaxed);
	if (any)
		*any = some;
	return most;
}

int hk_poller_wires(struct hk_poller_shared *s, void *port[HK_CTL_MAX_NODES], struct hk_error *err)
{
	for (unsigned i = 0; i < HK_CTL_MAX_NODES; i++) {
		struct hk_poller_shared_wire *w = &s->wire[i];
		uint32_t wanted = atomic_load(&w->wanted), attached = atomic_load(&w->attached);

		if (wanted == attached)
			continue;
		if (attached) {
			hk_res_detach(port[i]);
			port[i] = NULL;
			atomic_store(&w->attached, 0);
		}
		if (wanted) {
			/* set `attached` first, then read `wanted` again: see poller_shared.h */
			atomic_store(&w->attached, wanted);
			if (atomic_load(&w->wanted) != wanted) {
				atomic_store(&w->attached, 0);
				continue; /* wire_changes has grown: it is handled in the next round
					   */
			}
			int rc = hk_res_attach((uint16_t)(wanted - 1), &port[i], err);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* Without a signal, a frame for a rank that is not polling waits for twice max_sleep_ns. */
const struct hk_poller_timing hk_poller_timing = {
	.max_sleep_ns = 2000000,
	.idle_poll_ns = 120000,
	.busy_poll_ns = 30000,
	.recheck_ns = HK_RES_NOT_POLLING_NS,
	.busy_polls = 20,
	.idle_polls = 4,
	.unacked_polls = 80,
	.max_useless = 4,
};

/* ---- one sleep after another -------------------------------------------------------------------
 */

struct wake {
	unsigned busy, recheck, idle, unacked; /* polls left of each kind */
	unsigned useless;                      /* weighted wakeups since one that led to work */
	bool signalled; /* woken by a signal, and every rank seen since was polling */
	bool waiting;   /* it has asked for signals */
	bool settled;   /* it has slept HK_RES_SETTLE_NS since then */
};

/* A useless wakeup weighs less if all ranks were polling: it was for a rank that came back. */
#define USELESS             4u
#define USELESS_ALL_POLLING 1u

/* More signals follow one for a rank that has just left MPI: polls with busy_poll_ns after it. */
#define POLLS_AFTER_SIGNAL 3u

/* Updates @w by the result of a round. */
static void after_round(struct wake *w, const struct hk_poller_timing *timing,
			enum hk_proxied found)
{
	if (found != HK_PROXIED_POLLING && w->signalled) {
		w->busy = HK_MIN(timing->busy_polls, POLLS_AFTER_SIGNAL);
		w->idle = timing->idle_polls;
		w->signalled = false;
	}
	switch (found) {
	case HK_PROXIED_BUSY:
		*w = (struct wake){.busy = timing->busy_polls,
				   .idle = timing->idle_polls,
				   .unacked = timing->unacked_polls,
				   .waiting = w->waiting,
				   .settled = w->settled};
		break;
	case HK_PROXIED_UNACKED:
		if (w->unacked && !w->busy && !w->recheck && !w->idle) {
			w->unacked--;
			w->idle = 1;
		}
		break;
	case HK_PROXIED_POLLING: /* all are back: each further poll would cost them CPU time */
		if (w->signalled && !w->recheck) {
			w->signalled = false;
			w->useless -= HK_MIN(w->useless, USELESS - USELESS_ALL_POLLING);
		}
		w->busy = w->idle = 0;
		w->unacked = timing->unacked_polls;
		break;
	case HK_PROXIED_IDLE:
		w->unacked = timing->unacked_polls;
		break;
	}
}

/* Updates @w after a sleep that a signal has ended. */
static void after_signal(struct wake *w, const struct hk_poller_timing *timing,
			 struct hk_poller_shared *s)
{
	w->busy = 0;
	w->recheck = 1; /* the signal may come before the rank counts as not polling */
	w->idle = timing->idle_polls;
	w->signalled = true;
	atomic_fetch_add_explicit(&s->wakeups_received, 1, memory_order_relaxed);
	if (w->useless)
		atomic_fetch_add_explicit(&s->wakeups_useless, 1, memory_order_relaxed);
	w->useless += USELESS;
}

/* Sleeps @ns (0: without limit) or until the daemon sends something; with @signals also until a
 * signal. */
static int sleep_for(struct pollfd p[2], uint32_t ns, bool signals, struct hk_error *err)
{
	struct timespec t = {.tv_nsec = ns};

	p[0].revents = p[1].revents = 0;
	if (ppoll(p, signals ? 2 : 1, ns ? &t : NULL, NULL) < 0 && errno != EINTR)
		return hk_error_set(err, -errno, "the poller cannot sleep: %s", strerror(errno));
	return 0;
}

/* Sleeps until a signal, the daemon or max_sleep_ns. */
static int sleep_until_signal(struct wake *w, const struct hk_poller_timing *timing,
			      struct hk_poller_shared *s, struct pollfd p[2], struct hk_error *err)
{
	bool requested = hk_res_requested();
	int rc = 0;

	p[1].revents = 0;
	if (!requested)
		rc = sleep_for(p,
			       w->settled ? timing->max_sleep_ns
					  : HK_MIN(timing->max_sleep_ns, HK_RES_SETTLE_NS),
			       true, err);
	/* hk_res_waiting() finds what a sender leaves that was killed before it sent its signal */
	if (requested || p[1].revents || !hk_res_waiting()) {
		w->waiting = false;
		if (hk_res_finish_wait())
			after_signal(w, timing, s);
	} else if (!p[0].revents) {
		if (w->settled)
			w->useless = 0; /* a whole sleep without a signal */
		w->settled = true;
	}
	return rc;
}

/* Waits until the next round is due: for a moment while there is work, else until a signal. The
 * first call that finds no work only asks for signals and returns, so that one more round finds
 * what came before that. @least: shortest wait of the first kind in ns. */
static int wait_for_next(struct wake *w, const struct hk_poller_timing *timing, uint32_t least,
			 bool any, struct hk_poller_shared *s, struct pollfd p[2],
			 struct hk_error *err)
{
	bool awake = w->busy || w->recheck || w->idle;
	bool ignore_signals = w->useless > USELESS * timing->max_useless;

	if ((awake || !any) && w->waiting) {
		w->waiting = false;
		if (hk_res_finish_wait())
			w->recheck = 1; /* there is work, but perhaps of another rank */
	}
	if (!any)
		return sleep_for(p, 0, false, err);
	if (awake) {
		unsigned *kind = w->busy ? &w->busy : w->recheck ? &w->recheck : &w->idle;

		(*kind)--;
		uint32_t ns = kind == &w->busy      ? timing->busy_poll_ns
			      : kind == &w->recheck ? timing->recheck_ns
						    : timing->idle_poll_ns;
		return sleep_for(p, HK_MAX(ns, least), false, err);
	}
	if (!w->waiting) {
		hk_res_prepare_wait();
		w->waiting = true;
		w->settled = false;
		atomic_fetch_add_explicit(&s->sleeps, 1, memory_order_relaxed);
		return 0;
	}
	if (ignore_signals) {
		w->useless = USELESS * timing->max_useless;
		return sleep_for(p, timing->max_sleep_ns, false, err);
	}
	return sleep_until_signal(w, timing, s, p, err);
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static int rounds(struct hk_poller_shared *s, int channel, int wakeup_fd,
		  hk_proxy_poll_fn poll_worker, const struct hk_poller_timing *timing,
		  struct hk_error *err)
{
	static void *port[HK_CTL_MAX_NODES];
	struct pollfd p[2] = {{.fd = channel, .events = POLLIN},
			      {.fd = wakeup_fd, .events = POLLIN}};
	struct wake w = {.unacked = timing->unacked_polls};
	uint32_t changes = 0;
	bool realtime = hk_wakeup_priority_set(true);

	for (;;) {
		bool any;
		uint32_t now = atomic_load(&s->wire_changes);
		if (now != changes) {
			/* Attaching takes DPDK's locks, which spin. Their holder may be a rank or
			 * the daemon, on this core. */
			(void)hk_wakeup_priority_set(false);
			int rc = hk_poller_wires(s, port, err);
			realtime = hk_wakeup_priority_set(true);
			if (rc)
				return rc;
			changes = now;
		}
		uint64_t start = realtime ? hk_clock_ns() : 0;
		after_round(&w, timing, hk_poller_round(s, poll_worker, &any));
		p[0].revents = 0;
		/* with real-time priority, a rank that computes gets half of the core: sleep as
		 * long as the round took */
		uint32_t least = realtime ? (uint32_t)HK_MIN(hk_clock_ns() - start,
							     timing->max_sleep_ns)
					  : 0;
		int rc = wait_for_next(&w, timing, least, any, s, p, err);
		if (rc)
			return rc;
		if (!p[0].revents)
			continue;
		char buf[64];
		ssize_t got = recv(channel, buf, sizeof(buf), MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return 0; /* the daemon has ended, or has ended the channel */
	}
}

int hk_poller_loop(struct hk_poller_shared *s, int channel, int wakeup_fd,
		   hk_proxy_poll_fn poll_worker, const struct hk_poller_timing *timing,
		   struct hk_error *err)
{
	int rc = rounds(s, channel, wakeup_fd, poll_worker, timing, err);
	(void)hk_wakeup_priority_set(false);
	return rc;
}

static int fail(const struct hk_error *err)
{
	send(HK_POLLER_FD_CHANNEL, err->text, strlen(err->text), MSG_NOSIGNAL);
	fprintf(stderr, "hikyakud poller: %s\n", err->text);
	return 1;
}

int hk_poller_main(int argc, char **argv)
{
	struct hk_error err = {""};

	/* arguments: SHARED HUGE-DIR DAEMON-PID REALTIME */
	if (argc != 5) {
		fprintf(stderr, "hikyakud: the poller is started by hikyakud itself; fix: run "
				"hikyakud without 'poller'\n");
		return 2;
	}
	/* if the daemon is killed, the kernel ends this process, even in an endless loop */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", getppid());
	if (strcmp(pid, argv[3]) != 0)
		return 1; /* the daemon has died already */
	prctl(PR_SET_NAME, "hk-poller");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	signal(SIGINT, SIG_IGN); /* the daemon handles Ctrl-C */
	signal(SIGHUP, SIG_IGN);
	/* It follows what ranks write. All that needs privileges is open in the daemon. */
	if (hk_capabilities_drop(hk_wakeup_priority_capabilities(), &err) != 0 ||
	    hk_syscalls_forbid(false, &err) != 0)
		return fail(&err);

	struct hk_poller_shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED,
					  HK_POLLER_FD_SHARED, 0);
	if (s == MAP_FAILED || s->magic != HK_POLLER_SHARED_MAGIC ||
	    s->version != HK_POLLER_SHARED_VERSION || s->slots < 1 || s->slots > HK_CTL_MAX_SLOTS) {
		hk_error_set(&err, -EPROTO,
			     "hikyakud gave the poller a wrong descriptor; fix: start hikyakud, "
			     "not its poller");
		return fail(&err);
	}
	int wakeup_fd;
	if (hk_res_join(argv[1], argv[2][0] ? argv[2] : NULL, &wakeup_fd, &err) != 0)
		return fail(&err);
	for (unsigned i = 0; i < HK_CTL_MAX_NODES; i++)
		atomic_store(&s->wire[i].attached,
			     0);               /* a poller before this one may have set it */
	atomic_fetch_add(&s->wire_changes, 1); /* so that the first round attaches all wires */
	atomic_store(&s->ready, 1);
	/* a zero byte: the poller is ready */
	if (send(HK_POLLER_FD_CHANNEL, "", 1, MSG_NOSIGNAL) != 1) {
		hk_res_leave();
		return 1;
	}
	/* not earlier, since hk_res_join() polls in places */
	if (strcmp(argv[4], "on") == 0 && hk_wakeup_priority_realtime(&err) != 0)
		fprintf(stderr, "hikyakud poller: %s\n",
			err.text); /* the daemon got the priority, this process did not */
	int rc = hk_poller_loop(s, HK_POLLER_FD_CHANNEL, wakeup_fd, hk_res_proxy_poll,
				&hk_poller_timing, &err);
	if (rc)
		fail(&err);
	hk_res_leave();
	return rc ? 1 : 0;
}

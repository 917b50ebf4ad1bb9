/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/poller.c: serves the slots of absent ranks, and sleeps between until it is rung for.
 */
#include "host/poller.h"
#include "host/prompt.h"
#include "host/resources.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum hk_served hk_poller_round(struct hk_host_shared *s, hk_serve_fn serve, bool *any)
{
	enum hk_served most = HK_SERVED_PRESENT;
	bool some = false;

	for (uint32_t i = 0; i < s->slots; i++) {
		struct hk_shared_slot *slot = &s->slot[i];

		if (atomic_load_explicit(&slot->state, memory_order_relaxed) != HK_SHARED_SERVE)
			continue;
		some = true;
		/* first "I am inside", then "may I?": see shared.h */
		atomic_store(&s->serving, i + 1);
		if (atomic_load(&slot->state) == HK_SHARED_SERVE) {
			uint64_t fabric = atomic_load(&slot->fabric);
			enum hk_served found = serve((void *)(uintptr_t)fabric);

			most = HK_MAX(most, found);
			atomic_fetch_add_explicit(&slot->looks, 1, memory_order_relaxed);
			if (found != HK_SERVED_PRESENT)
				atomic_fetch_add_explicit(&slot->away, 1, memory_order_relaxed);
		}
		atomic_store_explicit(&s->serving, 0, memory_order_release);
	}
	atomic_fetch_add_explicit(&s->rounds, 1, memory_order_relaxed);
	if (any)
		*any = some;
	return most;
}

int hk_poller_wires(struct hk_host_shared *s, void *port[HK_CTL_MAX_NODES], struct hk_error *err)
{
	for (unsigned i = 0; i < HK_CTL_MAX_NODES; i++) {
		struct hk_shared_wire *w = &s->wire[i];
		uint32_t want = atomic_load(&w->want), have = atomic_load(&w->have);

		if (want == have)
			continue;
		if (have) {
			hk_res_detach(port[i]);
			port[i] = NULL;
			atomic_store(&w->have, 0);
		}
		if (want) {
			/* first "I am at it", then "shall I still?": see shared.h */
			atomic_store(&w->have, want);
			if (atomic_load(&w->want) != want) {
				atomic_store(&w->have, 0);
				continue; /* there is another change */
			}
			int rc = hk_res_attach((uint16_t)(want - 1), &port[i], err);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* Twice the beat is what a frame waits for an absent rank if nobody rings. */
const struct hk_poller_pace hk_poller_pace = {
	.beat_ns = 2000000,
	.watch_ns = 120000,
	.busy_ns = 30000,
	.soon_ns = HK_RES_ABSENT_NS,
	.keen = 20,
	.rest = 4,
	.owed = 80,
	.vain = 4,
};

/* How many looks it stays awake. */
struct wake {
	unsigned keen, soon, rest, owed;
	unsigned vain; /* rings since one that led to something, by their weights */
	bool heard;    /* it was rung for, and has seen no owner away yet */
	bool lies;     /* it is rung for … */
	bool settled;  /* … and may wait for long: see HK_RES_SETTLE_NS */
};

/* A ring weighs less if its owner came by itself: it was for a rank that is served. */
#define VAIN_AWAY    4u
#define VAIN_PRESENT 1u

/* What an owner is rung for that has just left may be on its way: so many looks soon. */
#define SOON 3u

static void after_look(struct wake *w, const struct hk_poller_pace *pace, enum hk_served found)
{
	if (found != HK_SERVED_PRESENT && w->heard) {
		w->keen = HK_MIN(pace->keen, SOON);
		w->rest = pace->rest;
		w->heard = false;
	}
	switch (found) {
	case HK_SERVED_BUSY:
		*w = (struct wake){pace->keen, 0,     pace->rest, pace->owed,
				   0,          false, w->lies,    w->settled};
		break;
	case HK_SERVED_OWED:
		if (w->owed && !w->keen && !w->soon && !w->rest) {
			w->owed--;
			w->rest = 1;
		}
		break;
	case HK_SERVED_PRESENT: /* all are back: each look now would cost them */
		if (w->heard && !w->soon) {
			w->heard = false;
			w->vain -= HK_MIN(w->vain, VAIN_AWAY - VAIN_PRESENT);
		}
		w->keen = w->rest = 0;
		w->owed = pace->owed;
		break;
	case HK_SERVED_IDLE:
		w->owed = pace->owed;
		break;
	}
}

static void rung(struct wake *w, const struct hk_poller_pace *pace, struct hk_host_shared *s)
{
	w->keen = 0;
	w->soon = 1; /* the ring may have come before the owner counts as away */
	w->rest = pace->rest;
	w->heard = true;
	atomic_fetch_add_explicit(&s->rung, 1, memory_order_relaxed);
	if (w->vain)
		atomic_fetch_add_explicit(&s->in_vain, 1, memory_order_relaxed);
	w->vain += VAIN_AWAY;
}

/* Waits for the daemon, for @ns (0: without end), and with @bell for a ring. */
static int wait_for(struct pollfd p[2], uint32_t ns, bool bell, struct hk_error *err)
{
	struct timespec t = {.tv_nsec = ns};

	p[0].revents = p[1].revents = 0;
	if (ppoll(p, bell ? 2 : 1, ns ? &t : NULL, NULL) < 0 && errno != EINTR)
		return hk_error_set(err, -errno, "the poller cannot sleep: %s", strerror(errno));
	return 0;
}

/* Naps for @least at least, sleeps, or says that it is about to; then it comes back for one more look. */
static int sleep_or_nap(struct wake *w, const struct hk_poller_pace *pace, uint32_t least, bool any,
			struct hk_host_shared *s, struct pollfd p[2], struct hk_error *err)
{
	bool awake = w->keen || w->soon || w->rest, deaf = w->vain > VAIN_AWAY * pace->vain;
	int rc = 0;

	if ((awake || !any) && w->lies) {
		w->lies = false;
		if (hk_res_get_up())
			w->soon = 1; /* it found something meanwhile, but for whom it was rung? */
	}
	if (!any)
		return wait_for(p, 0, false, err);
	if (awake) {
		unsigned *of = w->keen ? &w->keen : w->soon ? &w->soon : &w->rest;

		(*of)--;
		uint32_t nap = of == &w->keen   ? pace->busy_ns
			       : of == &w->soon ? pace->soon_ns
						: pace->watch_ns;
		rc = wait_for(p, HK_MAX(nap, least), false, err);
	} else if (!w->lies) {
		hk_res_lie_down();
		w->lies = true;
		w->settled = false;
		atomic_fetch_add_explicit(&s->sleeps, 1, memory_order_relaxed);
	} else if (deaf) {
		w->vain = VAIN_AWAY * pace->vain;
		rc = wait_for(p, pace->beat_ns, false, err);
	} else {
		bool asked = hk_res_asked();

		p[1].revents = 0;
		if (!asked)
			rc = wait_for(p,
				      w->settled ? pace->beat_ns
						 : HK_MIN(pace->beat_ns, HK_RES_SETTLE_NS),
				      true, err);
		/* the last is what a ringer leaves that was killed before it rang */
		if (asked || p[1].revents || !hk_res_lies()) {
			w->lies = false;
			if (hk_res_get_up())
				rung(w, pace, s);
		} else if (!p[0].revents) {
			if (w->settled)
				w->vain = 0; /* a whole beat of silence */
			w->settled = true;
		}
	}
	return rc;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

static int rounds(struct hk_host_shared *s, int channel, int bell, hk_serve_fn serve,
		  const struct hk_poller_pace *pace, struct hk_error *err)
{
	static void *port[HK_CTL_MAX_NODES];
	struct pollfd p[2] = {{.fd = channel, .events = POLLIN}, {.fd = bell, .events = POLLIN}};
	struct wake w = {.owed = pace->owed};
	uint32_t changes = 0;
	bool first = hk_prompt(true); /* it has the core before all others */

	for (;;) {
		bool any;
		uint32_t now = atomic_load(&s->changes);
		if (now != changes) {
			/* DPDK's locks spin. Who has one may be a rank or the daemon, on this very core. */
			(void)hk_prompt(false);
			int rc = hk_poller_wires(s, port, err);
			first = hk_prompt(true);
			if (rc)
				return rc;
			changes = now;
		}
		uint64_t start = first ? now_ns() : 0;
		after_look(&w, pace, hk_poller_round(s, serve, &any));
		p[0].revents = 0;
		/* who computes is to have half of the core */
		uint32_t least = first ? (uint32_t)HK_MIN(now_ns() - start, pace->beat_ns) : 0;
		int rc = sleep_or_nap(&w, pace, least, any, s, p, err);
		if (rc)
			return rc;
		if (!p[0].revents)
			continue;
		char buf[64];
		ssize_t got = recv(channel, buf, sizeof(buf), MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return 0; /* the daemon has gone, or wants us to */
	}
}

int hk_poller_loop(struct hk_host_shared *s, int channel, int bell, hk_serve_fn serve,
		   const struct hk_poller_pace *pace, struct hk_error *err)
{
	int rc = rounds(s, channel, bell, serve, pace, err);
	(void)hk_prompt(false);
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

	/* started by the daemon alone: SHARED HUGE-DIR DAEMON-PID REALTIME */
	if (argc != 5) {
		fprintf(stderr, "hikyakud: the poller is started by hikyakud itself; fix: run "
				"hikyakud without 'poller'\n");
		return 2;
	}
	/* a daemon that is killed takes us along, even out of an endless loop in a rank's memory */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", getppid());
	if (strcmp(pid, argv[3]) != 0)
		return 1; /* it has died already */
	prctl(PR_SET_NAME, "hk-poller");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	signal(SIGINT, SIG_IGN); /* Ctrl-C is the daemon's affair */
	signal(SIGHUP, SIG_IGN);

	struct hk_host_shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED,
					HK_POLLER_FD_SHARED, 0);
	if (s == MAP_FAILED || s->magic != HK_SHARED_MAGIC || s->version != HK_SHARED_VERSION ||
	    s->slots < 1 || s->slots > HK_CTL_MAX_SLOTS) {
		hk_error_set(&err, -EPROTO, "the poller was given no memory of hikyakud's");
		return fail(&err);
	}
	int bell;
	if (hk_res_join(argv[1], argv[2][0] ? argv[2] : NULL, &bell, &err) != 0)
		return fail(&err);
	for (unsigned i = 0; i < HK_CTL_MAX_NODES; i++)
		atomic_store(&s->wire[i].have, 0); /* those of a poller before us */
	atomic_fetch_add(&s->changes, 1);          /* all of them before the first round */
	atomic_store(&s->ready, 1);
	/* one byte: look */
	if (send(HK_POLLER_FD_CHANNEL, "", 1, MSG_NOSIGNAL) != 1) {
		hk_res_leave();
		return 1;
	}
	/* not sooner: what joined polls in places */
	if (strcmp(argv[4], "on") == 0 && hk_prompt_realtime(&err) != 0)
		fprintf(stderr, "hikyakud poller: %s\n", err.text); /* the daemon had it */
	int rc = hk_poller_loop(s, HK_POLLER_FD_CHANNEL, bell, hk_res_serve, &hk_poller_pace, &err);
	if (rc)
		fail(&err);
	hk_res_leave();
	return rc ? 1 : 0;
}

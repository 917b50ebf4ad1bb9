/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/workers.c: threads that handle what is deferred, so that the core can go on receiving.
 *
 * Each worker has two rings: what the core gives it, and what it has handled. The core keeps account of what each
 * holds, never more than a ring, so a worker never waits for room. A worker that has nothing to do spins a
 * little, then yields, then sleeps for moments: the core makes no system call to wake it.
 *
 * What handlers cost is measured here, and collected by the core, which decides.
 */
#include "rtc/internal.h"
#include "rtc/ring.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#define SPINS  2000
#define YIELDS 200
#define REST   (50 * HK_USEC)

struct cost { /* written by the worker alone */
	_Atomic uint64_t ns, messages;
};

struct worker {
	struct hk_ring in, out;
	struct cost cost[HK_RTC_MAX_TYPES];
	/* the core's */
	_Alignas(64) unsigned held;
	uint64_t ns_seen[HK_RTC_MAX_TYPES], messages_seen[HK_RTC_MAX_TYPES];
	struct hk_rtc *rtc;
	pthread_t thread;
	bool started;
};

struct hk_workers {
	atomic_bool stop;
	unsigned count, next;
	struct worker w[];
};

/* ---- a worker -------------------------------------------------------------------------------- */

static void handle(struct worker *w, struct hk_msg *m, unsigned n)
{
	struct hk_rtc_type_state *t = &w->rtc->type[m->type];
	struct cost *c = &w->cost[m->type];
	uint64_t since = hk_clock_now(&w->rtc->clock);

	for (unsigned i = 0; i < n; i++)
		m[i].verdict = HK_RTC_DROP;
	t->on_message(w->rtc, t->arg, m, n);
	uint64_t ns = hk_clock_now(&w->rtc->clock) - since;
	atomic_store_explicit(&c->ns, atomic_load_explicit(&c->ns, memory_order_relaxed) + ns,
			      memory_order_relaxed);
	atomic_store_explicit(&c->messages,
			      atomic_load_explicit(&c->messages, memory_order_relaxed) + n,
			      memory_order_relaxed);
	hk_ring_put(&w->out, m, n);
}

static void rest(unsigned idle)
{
	const struct timespec moment = {.tv_nsec = REST};
	if (idle < SPINS)
#if defined(__x86_64__)
		__builtin_ia32_pause();
#else
		;
#endif
	else if (idle < SPINS + YIELDS)
		sched_yield();
	else
		nanosleep(&moment, NULL);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const struct hk_workers *all = w->rtc->workers;
	struct hk_msg m[HK_RTC_BURST];

	for (unsigned idle = 0;;) {
		unsigned n = hk_ring_get(&w->in, m, HK_RTC_BURST);
		if (n) {
			handle(w, m, n);
			idle = 0;
		} else if (atomic_load_explicit(&all->stop, memory_order_acquire)) {
			return NULL;
		} else {
			rest(idle);
			idle += idle < SPINS + YIELDS;
		}
	}
}

/* ---- the core's side ------------------------------------------------------------------------- */

static int start_one(struct hk_workers *w, unsigned i, const struct hk_rtc_config *cfg,
		     struct hk_error *err)
{
	pthread_attr_t attr;
	cpu_set_t cpu;
	int rc = pthread_attr_init(&attr);

	if (rc == 0 && cfg->worker_cpu) {
		CPU_ZERO(&cpu);
		if (cfg->worker_cpu[i] >= 0 && cfg->worker_cpu[i] < CPU_SETSIZE)
			CPU_SET(cfg->worker_cpu[i], &cpu);
		rc = pthread_attr_setaffinity_np(&attr, sizeof(cpu), &cpu);
	}
	if (rc == 0)
		rc = pthread_create(&w->w[i].thread, &attr, work, &w->w[i]);
	w->w[i].started = rc == 0;
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return 0;
	return hk_error_set(err, -rc, "worker %u cannot be started%s: %s; fix: %s", i,
			    cfg->worker_cpu ? " on its processor" : "", strerror(rc),
			    cfg->worker_cpu ? "name processors that this process may use"
					    : "take fewer workers");
}

int hk_workers_start(struct hk_rtc *r, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	size_t bytes = sizeof(struct hk_workers) + cfg->workers * sizeof(struct worker);
	struct hk_workers *w = NULL;
	sigset_t all, before;
	int rc = 0;

	if (cfg->workers == 0)
		return 0;
	if (posix_memalign((void **)&w, 64, bytes))
		return hk_error_set(err, -ENOMEM, "no memory for %u workers; fix: take fewer",
				    cfg->workers);
	memset(w, 0, bytes);
	w->count = cfg->workers;
	r->workers = w;
	/* signals are for the threads of the program */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; rc == 0 && i < w->count; i++) {
		w->w[i].rtc = r;
		rc = start_one(w, i, cfg, err);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		hk_workers_stop(w, UINT64_MAX); /* they have nothing to do */
		r->workers = NULL;
	}
	return rc;
}

bool hk_workers_stop(struct hk_workers *w, uint64_t deadline)
{
	const struct timespec until = {.tv_sec = (time_t)HK_MIN(deadline / HK_SEC, INT32_MAX),
				       .tv_nsec = (long)(deadline % HK_SEC)};

	if (!w)
		return true;
	atomic_store_explicit(&w->stop, true, memory_order_release);
	for (unsigned i = 0; i < w->count; i++) {
		if (!w->w[i].started)
			continue;
		if (pthread_clockjoin_np(w->w[i].thread, NULL, CLOCK_MONOTONIC, &until) != 0)
			return false;
		w->w[i].started = false;
	}
	free(w);
	return true;
}

unsigned hk_workers_room(const struct hk_workers *w)
{
	return w->count * HK_RING - hk_workers_held(w);
}

unsigned hk_workers_held(const struct hk_workers *w)
{
	unsigned held = 0;
	for (unsigned i = 0; i < w->count; i++)
		held += w->w[i].held;
	return held;
}

/* Spread: what one burst brings may be all that there is for a while. */
unsigned hk_workers_put(struct hk_workers *w, const struct hk_msg *m, unsigned n)
{
	unsigned share = (n + w->count - 1) / w->count, done = 0;

	for (unsigned tries = 0; done < n && tries < 2 * w->count; tries++) {
		struct worker *one = &w->w[w->next];
		unsigned room = HK_RING - one->held;
		unsigned now = HK_MIN(n - done, tries < w->count ? HK_MIN(share, room) : room);
		one->held += hk_ring_put(&one->in, m + done, now);
		done += now;
		w->next = w->next + 1 < w->count ? w->next + 1 : 0;
	}
	return done;
}

/* What messages of this type have cost there since the last time. */
static void take_cost(struct hk_rtc *r, struct worker *w, uint8_t type)
{
	struct hk_rtc_type_state *t = &r->type[type];
	uint64_t ns = atomic_load_explicit(&w->cost[type].ns, memory_order_relaxed);
	uint64_t messages = atomic_load_explicit(&w->cost[type].messages, memory_order_relaxed);
	unsigned n = (unsigned)(messages - w->messages_seen[type]);

	if (n == 0)
		return;
	t->stats.worker_ns += ns - w->ns_seen[type];
	t->stats.messages += n;
	if (hk_budget_sample(&t->budget, ns - w->ns_seen[type], n))
		t->stats.bursts_over_budget++;
	w->ns_seen[type] = ns;
	w->messages_seen[type] = messages;
}

unsigned hk_workers_collect(struct hk_rtc *r)
{
	struct hk_workers *all = r->workers;
	struct hk_msg m[HK_RTC_BURST];
	unsigned total = 0;

	for (unsigned i = 0; i < all->count; i++) {
		struct worker *w = &all->w[i];
		unsigned n = w->held ? hk_ring_get(&w->out, m, HK_RTC_BURST) : 0;
		if (n == 0)
			continue;
		w->held -= n;
		take_cost(r, w, m->type);
		hk_rtc_verdicts(r, &r->type[m->type], m, n);
		total += n;
	}
	return total;
}

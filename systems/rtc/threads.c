/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/threads.c: handler threads, which handle deferred messages so that the core keeps receiving.
 *
 * Each thread has two rings: messages to handle, and handled messages. The core counts the messages
 * that a thread has, and never submits more than a ring holds. So a thread always finds space for
 * its results. A thread without work spins briefly, then yields, then sleeps for short times. So
 * the core needs no system call to wake it.
 *
 * Threads measure the cost of handlers. The core collects the figures and decides.
 */
#include "rtc/internal.h"
#include "rtc/ring.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#define SPINS    2000
#define YIELDS   200
#define SLEEP_NS (50 * HK_USEC)

struct cost { /* written only by the handler thread */
	_Atomic uint64_t ns, messages;
};

struct handler_thread {
	struct hk_rtc_ring in, out;
	struct cost cost[HK_RTC_MAX_TYPES];
	/* the core's fields */
	_Alignas(64) unsigned outstanding;
	uint64_t ns_seen[HK_RTC_MAX_TYPES], messages_seen[HK_RTC_MAX_TYPES];
	struct hk_rtc *rtc;
	pthread_t thread;
	bool started;
};

struct hk_rtc_threads {
	atomic_bool stop;
	unsigned count, next;
	struct handler_thread w[];
};

/* ---- a handler thread ------------------------------------------------------------------------ */

static void handle(struct handler_thread *w, struct hk_msg *m, unsigned n)
{
	struct hk_rtc_type_state *t = &w->rtc->type[m->type];
	struct cost *c = &w->cost[m->type];
	uint64_t since = hk_rtc_clock_now(&w->rtc->clock);

	for (unsigned i = 0; i < n; i++)
		m[i].action = HK_RTC_DONE;
	t->on_message(w->rtc, t->arg, m, n);
	uint64_t ns = hk_rtc_clock_now(&w->rtc->clock) - since;
	atomic_store_explicit(&c->ns, atomic_load_explicit(&c->ns, memory_order_relaxed) + ns,
			      memory_order_relaxed);
	atomic_store_explicit(&c->messages,
			      atomic_load_explicit(&c->messages, memory_order_relaxed) + n,
			      memory_order_relaxed);
	hk_rtc_ring_push(&w->out, m, n);
}

static void idle_wait(unsigned idle)
{
	const struct timespec moment = {.tv_nsec = SLEEP_NS};
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
	struct handler_thread *w = arg;
	const struct hk_rtc_threads *all = w->rtc->threads;
	struct hk_msg m[HK_RTC_BURST];

	for (unsigned idle = 0;;) {
		unsigned n = hk_rtc_ring_pop(&w->in, m, HK_RTC_BURST);
		if (n) {
			handle(w, m, n);
			idle = 0;
		} else if (atomic_load_explicit(&all->stop, memory_order_acquire)) {
			return NULL;
		} else {
			idle_wait(idle);
			idle += idle < SPINS + YIELDS;
		}
	}
}

/* ---- the core's side ------------------------------------------------------------------------- */

static int start_one(struct hk_rtc_threads *w, unsigned i, const struct hk_rtc_config *cfg,
		     struct hk_error *err)
{
	pthread_attr_t attr;
	cpu_set_t cpu;
	int rc = pthread_attr_init(&attr);

	if (rc == 0 && cfg->thread_cpu) {
		CPU_ZERO(&cpu);
		if (cfg->thread_cpu[i] >= 0 && cfg->thread_cpu[i] < CPU_SETSIZE)
			CPU_SET(cfg->thread_cpu[i], &cpu);
		rc = pthread_attr_setaffinity_np(&attr, sizeof(cpu), &cpu);
	}
	if (rc == 0)
		rc = pthread_create(&w->w[i].thread, &attr, work, &w->w[i]);
	w->w[i].started = rc == 0;
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return 0;
	return hk_error_set(err, -rc, "handler thread %u cannot be started%s: %s; fix: %s", i,
			    cfg->thread_cpu ? " on its CPU" : "", strerror(rc),
			    cfg->thread_cpu ? "use CPUs of this process in thread_cpu"
					    : "use fewer threads");
}

int hk_rtc_threads_start(struct hk_rtc *r, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	size_t bytes = sizeof(struct hk_rtc_threads) + cfg->threads * sizeof(struct handler_thread);
	struct hk_rtc_threads *w = NULL;
	sigset_t all, before;
	int rc = 0;

	if (cfg->threads == 0)
		return 0;
	if (posix_memalign((void **)&w, 64, bytes))
		return hk_error_set(err, -ENOMEM,
				    "no memory for %u handler threads; fix: use fewer threads",
				    cfg->threads);
	memset(w, 0, bytes);
	w->count = cfg->threads;
	r->threads = w;
	/* signals go to the program's own threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; rc == 0 && i < w->count; i++) {
		w->w[i].rtc = r;
		rc = start_one(w, i, cfg, err);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		hk_rtc_threads_stop(w, UINT64_MAX); /* they have no messages */
		r->threads = NULL;
	}
	return rc;
}

bool hk_rtc_threads_stop(struct hk_rtc_threads *w, uint64_t deadline)
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

unsigned hk_rtc_threads_available(const struct hk_rtc_threads *w)
{
	return w->count * HK_RTC_RING_SIZE - hk_rtc_threads_outstanding(w);
}

unsigned hk_rtc_threads_outstanding(const struct hk_rtc_threads *w)
{
	unsigned outstanding = 0;
	for (unsigned i = 0; i < w->count; i++)
		outstanding += w->w[i].outstanding;
	return outstanding;
}

/* Spreads the messages over all threads, because a burst may be the only one for a while. */
unsigned hk_rtc_threads_submit(struct hk_rtc_threads *w, const struct hk_msg *m, unsigned n)
{
	unsigned share = (n + w->count - 1) / w->count, done = 0;

	for (unsigned tries = 0; done < n && tries < 2 * w->count; tries++) {
		struct handler_thread *one = &w->w[w->next];
		unsigned available = HK_RTC_RING_SIZE - one->outstanding;
		unsigned now = HK_MIN(n - done,
				      tries < w->count ? HK_MIN(share, available) : available);
		one->outstanding += hk_rtc_ring_push(&one->in, m + done, now);
		done += now;
		w->next = w->next + 1 < w->count ? w->next + 1 : 0;
	}
	return done;
}

/* Takes the cost of this type since the last time. */
static void collect_cost(struct hk_rtc *r, struct handler_thread *w, uint8_t type)
{
	struct hk_rtc_type_state *t = &r->type[type];
	uint64_t ns = atomic_load_explicit(&w->cost[type].ns, memory_order_relaxed);
	uint64_t messages = atomic_load_explicit(&w->cost[type].messages, memory_order_relaxed);
	unsigned n = (unsigned)(messages - w->messages_seen[type]);

	if (n == 0)
		return;
	t->stats.thread_ns += ns - w->ns_seen[type];
	t->stats.messages += n;
	if (hk_rtc_budget_sample(&t->budget, ns - w->ns_seen[type], n))
		t->stats.bursts_over_budget++;
	w->ns_seen[type] = ns;
	w->messages_seen[type] = messages;
}

unsigned hk_rtc_threads_collect(struct hk_rtc *r)
{
	struct hk_rtc_threads *all = r->threads;
	struct hk_msg m[HK_RTC_BURST];
	unsigned total = 0;

	for (unsigned i = 0; i < all->count; i++) {
		struct handler_thread *w = &all->w[i];
		unsigned n = w->outstanding ? hk_rtc_ring_pop(&w->out, m, HK_RTC_BURST) : 0;
		if (n == 0)
			continue;
		w->outstanding -= n;
		collect_cost(r, w, m->type);
		hk_rtc_messages_finish(r, &r->type[m->type], m, n);
		total += n;
	}
	return total;
}

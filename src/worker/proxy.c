/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/proxy.c: the progress thread, the RMA proxy, and the poller's part. They poll for an
 * application that does not, so that acknowledgements and timers go on.
 *
 * DESIGN NOTES
 *
 * Progress thread. It sleeps, and checks from time to time whether the application's progress
 * counter has moved. If it has not, the application computes, and the thread polls for it. It
 * acknowledges and stores what arrives, up to the credit that was given. It never runs a handler,
 * because Open MPI is not entered from foreign threads.
 *
 * Poller. hikyakud's poller does the same for a worker in shared memory, but cannot reach the
 * application's memory. It stores the frames and messages that need that memory, and wakes the RMA
 * proxy, a thread of the application's process. The RMA proxy replaces the poller for as long as
 * there is such work.
 */
#include "worker/proxy.h"
#include "base/thread.h"
#include "worker/idle.h"
#include "worker/rma_internal.h"
#include "worker/rx.h"
#include "worker/tx.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* The poller wakes the RMA proxy after this time without a poll by the application. A rank that
 * was off its core for a moment polls again before. */
#define RMA_PROXY_AFTER HK_MSEC

/* An RMA proxy that has polled within this time does what the poller would, and stores nothing. */
#define RMA_PROXY_ACTIVE (300 * HK_USEC)

/* True if at @now the application has not polled for @for_ns. */
static bool app_not_polling(const struct hk_worker *w, uint64_t now, uint64_t for_ns)
{
	uint64_t app_at = atomic_load_explicit(&w->app_polled_at, memory_order_relaxed);

	return (int64_t)(now - app_at) >= (int64_t)for_ns;
}

static void sleep_us(unsigned us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Other ranks wait for the poller, and the application may poll again. */
#define ROUNDS 64

/* Polls until the ports are empty, so that one wakeup takes in all that arrived meanwhile, or
 * until the application wants the lock. */
static void poll_for_app(struct hk_worker *w)
{
	const struct hk_engine_counters *n = hk_engine_counters(w->engine);
	uint64_t before;
	unsigned rounds = 0;

	do {
		before = n->rx_packets + n->rx_acks; /* acks: replies to gets go on */
		w->gather++;
		/* run the timers now, not only every few empty polls */
		w->idle_polls |= HK_IDLE_CLOCK - 1;
		hk_rx_poll(w, true);
		w->gather--;
		hk_txqs_flush(w);
	} while (n->rx_packets + n->rx_acks != before && ++rounds < ROUNDS &&
		 !atomic_load_explicit(&w->lock.owner_waits, memory_order_relaxed));
	hk_engine_set_refusing(w->engine, false); /* the application has space */
	w->n.proxy_polls++;
}

static void *progress_thread_main(void *arg)
{
	struct hk_worker *w = arg;
	uint32_t seen = atomic_load(&w->progress_calls);
	bool not_polling = false;

	while (!atomic_load_explicit(&w->thread.stop, memory_order_relaxed)) {
		sleep_us(not_polling ? w->thread.period_us : w->thread.idle_us);
		uint32_t ticks = atomic_load_explicit(&w->progress_calls, memory_order_relaxed);

		not_polling = ticks == seen;
		seen = ticks;
		if (!not_polling || !hk_biased_try_proxy(&w->lock))
			continue;
		poll_for_app(w);
		hk_biased_leave_proxy(&w->lock);
	}
	return NULL;
}

static int start_thread(struct hk_worker *w, void *(*run)(void *), const char *name,
			struct hk_error *err)
{
	atomic_store(&w->thread.stop, false);
	w->thread.running = true;
	int rc = hk_thread_start(&w->thread.thread, name, run, w);

	w->thread.running = rc == 0;
	if (rc)
		return hk_error_set(err, rc,
				    "cannot start thread %s: %s; fix: raise "
				    "`ulimit -u`",
				    name, strerror(-rc));
	return 0;
}

int hk_worker_progress_thread_start(struct hk_worker *w, unsigned idle_us, unsigned period_us,
				    struct hk_error *err)
{
	if (hk_biased_register(&w->lock, false) != 0)
		return hk_error_set(
			err, -ENOSYS,
			"the progress thread needs membarrier(2): %s; fix: run without it, and "
			"poll often",
			strerror(errno));
	w->thread.idle_us = idle_us;
	w->thread.period_us = period_us;
	return start_thread(w, progress_thread_main, "hk-progress", err);
}

/* ---- RMA proxy ------------------------------------------------------------------------------- */

/* The RMA proxy polls at this interval while it has work, and sleeps after this many polls
 * without. */
#define RMA_PROXY_US         50
#define RMA_PROXY_IDLE_POLLS 20

static void rma_proxy_sleep(struct hk_worker *w)
{
	while (!atomic_exchange(&w->rma_proxy.wake, 0) && !atomic_load(&w->thread.stop))
		syscall(SYS_futex, &w->rma_proxy.wake, FUTEX_WAIT, 0, NULL, NULL, 0);
}

void hk_rma_proxy_wake(struct hk_worker *w)
{
	atomic_store(&w->rma_proxy.wake, 1);
	syscall(SYS_futex, &w->rma_proxy.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Polls once. True if there was work, and may be more. */
static bool rma_proxy_poll(struct hk_worker *w)
{
	const struct hk_engine_counters *n = hk_engine_counters(w->engine);

	if (!hk_biased_try_proxy(&w->lock))
		return atomic_load(&w->rx_backlog.own) > 0; /* the lock's holder serves, too */
	atomic_store_explicit(&w->rma_proxy.polled_at, hk_now(w), memory_order_relaxed);
	uint64_t before = n->rx_packets + n->rx_acks;
	bool stored = w->rx_backlog.own > 0;

	hk_rx_backlog_deliver(w);
	hk_puts_acked(w);
	poll_for_app(w);
	bool more = stored || n->rx_packets + n->rx_acks != before || w->rx_backlog.own ||
		    w->get_replies.unsent;

	hk_biased_leave_proxy(&w->lock);
	return more;
}

/* Must the RMA proxy poll, or wait until it must? An application that has just posted a reply to a
 * peer's call sends it when it polls. But it may compute from now on. */
static bool is_needed(const struct hk_worker *w, bool *polls)
{
	*polls = app_not_polling(w, hk_now(w), HK_WORKER_NOT_POLLING);
	return *polls || hk_rpcs_posted(&w->rpcs);
}

static void *rma_proxy_main(void *arg)
{
	struct hk_worker *w = arg;
	bool polls;

	while (!atomic_load(&w->thread.stop) && !atomic_load(&w->lock.broken)) {
		rma_proxy_sleep(w);
		/* These polls may be all that keeps the application off its core. So they end
		 * when it polls again; otherwise the poller would wake this thread for ever. */
		for (unsigned idle = 0;
		     idle < RMA_PROXY_IDLE_POLLS && is_needed(w, &polls) &&
		     !atomic_load(&w->thread.stop) && !atomic_load(&w->lock.broken);
		     idle++) {
			if (polls && rma_proxy_poll(w))
				idle = 0;
			sleep_us(RMA_PROXY_US);
		}
	}
	return NULL;
}

int hk_worker_rma_proxy_start(struct hk_worker *w, struct hk_error *err)
{
	int rc = start_thread(w, rma_proxy_main, "hk-rma-proxy", err);

	w->rma_proxy.running = rc == 0;
	return rc;
}

void hk_worker_thread_stop(struct hk_worker *w)
{
	if (!w->thread.running)
		return;
	atomic_store(&w->thread.stop, true);
	hk_rma_proxy_wake(w);
	pthread_join(w->thread.thread, NULL);
	w->thread.running = false;
}

/* ---- poller ---------------------------------------------------------------------------------- */

int hk_worker_share(struct hk_worker *w, struct hk_error *err)
{
	if (hk_biased_register(&w->lock, true) == 0) {
		w->shared = true;
		w->wakeup.at = w->cfg.wakeup_after ? 0 : UINT64_MAX;
		return 0;
	}
	return hk_error_set(
		err, -ENOSYS,
		"sharing a worker with hikyakud needs membarrier(2): %s; fix: let the worker "
		"poll alone",
		strerror(errno));
}

int hk_worker_proxy_init(void)
{
	struct hk_biased_lock unused;

	/* workers with keys need the second; without AES no rank has any */
	(void)hk_seal_attach(NULL);
	return hk_biased_register(&unused, true);
}

void hk_worker_next_poll_at(struct hk_worker *w, uint64_t then)
{
	atomic_store_explicit(&w->app_polled_at, then, memory_order_relaxed);
}

HK_NOINLINE uint64_t hk_worker_idle(struct hk_worker *w, struct hk_idle *idle)
{
	uint64_t now = hk_worker_now(w);
	bool silent = hk_idle_checks_silence(idle) && hk_worker_peer_silent(w, HK_IDLE_SILENT);
	bool blocked = hk_idle_checks_not_polling(idle) && hk_worker_peers_not_polling(w);
	uint64_t sleep_ns = hk_idle_poll(idle, now, silent, blocked);

	hk_worker_next_poll_at(w, hk_idle_next_poll_at(idle));
	return sleep_ns;
}

enum hk_proxy_state hk_worker_proxy_poll(struct hk_worker *w, uint64_t tsc)
{
	const struct hk_engine_counters *n = hk_engine_counters(w->engine);

	uint64_t rma_proxy_at = atomic_load_explicit(&w->rma_proxy.polled_at, memory_order_relaxed);
	bool at_work = rma_proxy_at && hk_now(w) - rma_proxy_at < RMA_PROXY_ACTIVE;

	if (!app_not_polling(w, hk_time_of(w, tsc), HK_WORKER_NOT_POLLING) || at_work ||
	    !hk_biased_try_proxy(&w->lock))
		return HK_PROXY_POLLING;
	uint64_t before = n->rx_packets + n->rx_acks;

	w->by_poller = true;
	hk_engine_set_proxy(w->engine, true);
	poll_for_app(w);
	hk_engine_set_proxy(w->engine, false);
	w->by_poller = false;
	bool busy = n->rx_packets + n->rx_acks != before;
	bool unacked = hk_engine_unacked(w->engine, HK_PEER_NONE) ||
		       hk_peers_listed(w, HK_LIST_SEND_QUEUE);

	bool due = w->rx_backlog.own || hk_rpcs_posted(&w->rpcs) || w->get_replies.unsent;
	bool call = w->rma_proxy.running && due && app_not_polling(w, hk_now(w), RMA_PROXY_AFTER);

	hk_biased_leave_proxy(&w->lock);
	if (HK_UNLIKELY(call))
		hk_rma_proxy_wake(w);
	return busy ? HK_PROXY_BUSY : unacked ? HK_PROXY_UNACKED : HK_PROXY_IDLE;
}

void hk_worker_break(struct hk_worker *w, const char *text)
{
	w->broken_text = text;
	atomic_store_explicit(&w->lock.broken, 1, memory_order_release);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

int hk_worker_wait_fd(const struct hk_worker *w, unsigned port)
{
	return port < w->txqs ? hk_port_wait_fd(w->txq[port]->port) : -1;
}

void hk_worker_hold(struct hk_worker *w)
{
	hk_biased_enter(&w->lock);
}

void hk_worker_release(struct hk_worker *w)
{
	hk_biased_leave(&w->lock);
}

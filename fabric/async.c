/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/async.c: the helper thread, and what the polling process does in its place. Keeps acks and
 * timers alive while the application computes.
 *
 * It sleeps, and looks from time to time whether the application's progress counter has moved. If
 * it has not, the application is computing, and the helper polls in its stead: what arrives is
 * acknowledged and kept, up to the credit that was given. It never runs a handler, because Open
 * MPI is not entered from foreign threads.
 *
 * The polling process does the same for a fabric in shared memory, but cannot reach what lies in the application's.
 * What asks for that it keeps, and wakes a thread of the application's process, the servant, which takes its place
 * for as long as there is such work.
 */
#include "fabric/internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* … and one that was only kept off its core for a moment comes back by itself. */
#define HK_SERVANT_AFTER HK_MSEC

/* The servant has looked so lately: it does what the polling process would, and keeps nothing. */
#define HK_SERVANT_AT_WORK (300 * HK_USEC)

/* Had the application not polled for @for_ns, at @now? */
static bool absent(const struct hk_fabric *f, uint64_t now, uint64_t for_ns)
{
	uint64_t app_at = atomic_load_explicit(&f->app_at, memory_order_relaxed);

	return (int64_t)(now - app_at) >= (int64_t)for_ns;
}

static void sleep_us(unsigned us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Others wait to be served, and the application may come back. */
#define SERVE_ROUNDS 64

/* Polls until the ports are empty, so that one wake-up takes all that came meanwhile; or until the
 * application comes back. */
static void poll_for_app(struct hk_fabric *f)
{
	const struct hk_engine_counters *n = hk_engine_counters(f->engine);
	uint64_t before;
	unsigned rounds = 0;

	do {
		before = n->rx_packets + n->rx_acks; /* acks: gets that are served go on */
		f->gather++;
		/* the timers are looked at every few empty polls: pretend it is time */
		f->idle |= HK_IDLE_CLOCK - 1;
		hk_rx_poll(f, true);
		f->gather--;
		hk_tx_flush(f);
	} while (n->rx_packets + n->rx_acks != before && ++rounds < SERVE_ROUNDS &&
		 !atomic_load_explicit(&f->lock.owner_waits, memory_order_relaxed));
	hk_engine_refuse(f->engine, false); /* the application has room */
	f->n.async_polls++;
}

/* What is parked is looked at so often. */
#define PARKED_LOOK_US 200u

static void *helper_main(void *arg)
{
	struct hk_fabric *f = arg;
	uint32_t seen = atomic_load(&f->app_ticks);
	bool away = false;

	while (!atomic_load_explicit(&f->helper_stop, memory_order_relaxed)) {
		sleep_us(hk_parked_busy(f) ? HK_MIN(PARKED_LOOK_US, f->helper_period_us)
			 : away            ? f->helper_period_us
					   : f->helper_idle_us);
		hk_parked_look(f);
		uint32_t ticks = atomic_load_explicit(&f->app_ticks, memory_order_relaxed);

		away = ticks == seen;
		seen = ticks;
		if (!away || !hk_biased_try_helper(&f->lock))
			continue;
		poll_for_app(f);
		hk_biased_leave_helper(&f->lock);
	}
	return NULL;
}

static int start_thread(struct hk_fabric *f, void *(*run)(void *), const char *name,
			struct hk_error *err)
{
	sigset_t all, old;

	atomic_store(&f->helper_stop, false);
	f->helper_runs = true;
	/* the application's signals are the application's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&f->helper, NULL, run, f);

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	f->helper_runs = rc == 0;
	if (rc)
		return hk_error_set(err, -rc,
				    "cannot start the helper thread: %s; fix: raise "
				    "`ulimit -u`",
				    strerror(rc));
	pthread_setname_np(f->helper, name);
	return 0;
}

int hk_fabric_async_start(struct hk_fabric *f, unsigned idle_us, unsigned period_us,
			  struct hk_error *err)
{
	if (hk_biased_register(&f->lock, false) != 0)
		return hk_error_set(
			err, -ENOSYS,
			"the helper thread needs membarrier(2): %s; fix: run without it "
			"(btl_hikyaku_async 0)",
			strerror(errno));
	f->helper_idle_us = idle_us;
	f->helper_period_us = period_us;
	return start_thread(f, helper_main, "hk-helper", err);
}

/* ---- the servant ----------------------------------------------------------------------------- */

/* It looks each so often while it has work, and lies down after so many looks without. */
#define SERVANT_LOOK_US 50
#define SERVANT_LOOKS   20

static void servant_sleep(struct hk_fabric *f)
{
	while (!atomic_exchange(&f->servant_wake, 0) && !atomic_load(&f->helper_stop))
		syscall(SYS_futex, &f->servant_wake, FUTEX_WAIT, 0, NULL, NULL, 0);
}

void hk_servant_call(struct hk_fabric *f)
{
	atomic_store(&f->servant_wake, 1);
	syscall(SYS_futex, &f->servant_wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* One look. True if there was work, and may be more. */
static bool servant_look(struct hk_fabric *f)
{
	const struct hk_engine_counters *n = hk_engine_counters(f->engine);

	if (!hk_biased_try_helper(&f->lock))
		return atomic_load(&f->kept_own) >
		       0; /* somebody else is there: the owner serves, too */
	atomic_store_explicit(&f->servant_at, hk_now(f), memory_order_relaxed);
	uint64_t before = n->rx_packets + n->rx_acks;
	bool kept = f->kept_own > 0;

	hk_rx_serve_kept(f);
	hk_puts_acked(f);
	poll_for_app(f);
	bool more = kept || n->rx_packets + n->rx_acks != before || f->kept_own || f->serves_wait;

	hk_biased_leave_helper(&f->lock);
	return more;
}

static void *servant_main(void *arg)
{
	struct hk_fabric *f = arg;

	while (!atomic_load(&f->helper_stop) && !atomic_load(&f->lock.broken)) {
		servant_sleep(f);
		for (; hk_parked_busy(f) && !atomic_load(&f->helper_stop) &&
		       !atomic_load(&f->lock.broken);
		     sleep_us(PARKED_LOOK_US))
			hk_parked_look(f);
		/* Our looks may be all that keeps the application off its core: once it is back we end, or we
		 * were woken for ever. */
		for (unsigned idle = 0;
		     idle < SERVANT_LOOKS && absent(f, hk_now(f), HK_FABRIC_ABSENT) &&
		     !atomic_load(&f->helper_stop) && !atomic_load(&f->lock.broken);
		     idle++) {
			if (servant_look(f))
				idle = 0;
			hk_parked_look(f);
			sleep_us(SERVANT_LOOK_US);
		}
	}
	return NULL;
}

int hk_fabric_servant_start(struct hk_fabric *f, struct hk_error *err)
{
	int rc = start_thread(f, servant_main, "hk-servant", err);

	f->servant_runs = rc == 0;
	return rc;
}

void hk_async_stop(struct hk_fabric *f)
{
	if (!f->helper_runs)
		return;
	atomic_store(&f->helper_stop, true);
	hk_servant_call(f);
	pthread_join(f->helper, NULL);
	f->helper_runs = false;
}

/* ---- the polling process --------------------------------------------------------------------- */

int hk_fabric_share(struct hk_fabric *f, struct hk_error *err)
{
	if (hk_biased_register(&f->lock, true) == 0) {
		f->shared = true;
		f->ring_at = f->cfg.ring_after ? 0 : UINT64_MAX;
		return 0;
	}
	return hk_error_set(
		err, -ENOSYS,
		"sharing with a polling process needs membarrier(2): %s; fix: let the rank "
		"poll alone (btl_hikyaku_host inline)",
		strerror(errno));
}

int hk_fabric_serve_init(void)
{
	struct hk_biased_lock unused;

	return hk_biased_register(&unused, true);
}

void hk_fabric_back_at(struct hk_fabric *f, uint64_t then)
{
	atomic_store_explicit(&f->app_at, then, memory_order_relaxed);
}

enum hk_serve hk_fabric_serve(struct hk_fabric *f, uint64_t tsc)
{
	const struct hk_engine_counters *n = hk_engine_counters(f->engine);

	uint64_t servant_at = atomic_load_explicit(&f->servant_at, memory_order_relaxed);
	bool at_work = servant_at && hk_now(f) - servant_at < HK_SERVANT_AT_WORK;

	if (!absent(f, hk_time_of(f, tsc), HK_FABRIC_ABSENT) || at_work ||
	    !hk_biased_try_helper(&f->lock))
		return HK_SERVE_PRESENT;
	uint64_t before = n->rx_packets + n->rx_acks;

	f->stand_in = true;
	hk_engine_stand_in(f->engine, true);
	poll_for_app(f);
	hk_engine_stand_in(f->engine, false);
	f->stand_in = false;
	bool busy = n->rx_packets + n->rx_acks != before;
	bool owed = hk_engine_unacked(f->engine, HK_PEER_NONE) || hk_listed(f, HK_LIST_BACKLOG);

	bool call = f->servant_runs && f->kept_own && absent(f, hk_now(f), HK_SERVANT_AFTER);

	hk_biased_leave_helper(&f->lock);
	if (HK_UNLIKELY(call))
		hk_servant_call(f);
	return busy ? HK_SERVE_BUSY : owed ? HK_SERVE_OWED : HK_SERVE_IDLE;
}

void hk_fabric_break(struct hk_fabric *f, const char *text)
{
	f->why_broken = text;
	atomic_store_explicit(&f->lock.broken, 1, memory_order_release);
}

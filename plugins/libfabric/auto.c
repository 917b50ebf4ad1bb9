/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/auto.c: progress of a domain while its program calls nothing (FI_PROGRESS_AUTO).
 *
 * The worker's progress thread runs no handlers. So messages would meet no receive, and nobody
 * would carry out atomic operations. This thread takes the domain's lock and polls as the program
 * does, unless that has polled itself since the last time.
 */
#include "libfabric/provider.h"

#include "base/thread.h"

#include <errno.h>

#define PERIOD (500 * HK_USEC) /* while the program computes */
#define GRACE  (2 * HK_MSEC)   /* while it polls */
#define ROUNDS 64              /* until the program's calls get their turn */

static void *run(void *arg)
{
	struct hk_fi_domain *d = arg;
	unsigned seen = 0;

	pthread_mutex_lock(&d->lock);
	while (!d->auto_stop) {
		bool computes = d->polls == seen;
		unsigned rounds = 0;

		if (computes)
			do
				hk_fi_progress(d);
			while (!d->idle && ++rounds < ROUNDS);
		seen = d->polls;
		uint64_t end = hk_clock_ns() + (computes ? PERIOD : GRACE);
		const struct timespec t = {.tv_sec = (time_t)(end / HK_SEC),
					   .tv_nsec = (long)(end % HK_SEC)};

		(void)pthread_cond_clockwait(&d->auto_end, &d->lock, CLOCK_MONOTONIC, &t);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

int hk_fi_auto_start(struct hk_fi_domain *d, struct hk_error *err)
{
	int rc = hk_thread_start(&d->auto_thread, "hk-auto", run, d);

	if (rc)
		return hk_error_set(err, rc, "cannot start a thread: %s; fix: raise `ulimit -u`",
				    strerror(-rc));
	d->auto_runs = true;
	return 0;
}

void hk_fi_auto_stop(struct hk_fi_domain *d)
{
	if (!d->auto_runs)
		return;
	pthread_mutex_lock(&d->lock);
	d->auto_stop = true;
	pthread_cond_signal(&d->auto_end);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->auto_thread, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/proxy.h: the worker's own thread: its progress thread, or the RMA proxy of a worker that
 * hikyakud's poller shares.
 */
#ifndef HK_WORKER_PROXY_H
#define HK_WORKER_PROXY_H

#include "hikyaku/worker.h"

#include <pthread.h>
#include <stdatomic.h>

struct hk_progress_thread {
	pthread_t thread;
	bool running; /* the RMA proxy counts, too */
	_Atomic bool stop;
	unsigned idle_us, period_us; /* as in hk_worker_progress_thread_start() */
};

struct hk_rma_proxy {
	_Atomic uint32_t wake; /* a futex: 1 when the poller wants the RMA proxy */
	bool running;
	_Atomic uint64_t polled_at; /* ns: its last poll; 0: none yet */
};

/* Wakes the RMA proxy. */
void hk_rma_proxy_wake(struct hk_worker *w);

/* Ends the thread, if there is one. */
void hk_worker_thread_stop(struct hk_worker *w);

#endif

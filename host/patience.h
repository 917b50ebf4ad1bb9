/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/patience.h: waiting for another thread of this process that is to do something soon.
 *
 * How long that takes says little where cores are shared: a thread that gets none may stand still for many seconds, and
 * is well. One that hangs uses CPU, or sleeps for ever. So what is counted is its CPU time, and the wall's only in the end.
 */
#ifndef HK_HOST_PATIENCE_H
#define HK_HOST_PATIENCE_H

#include "base/common.h"

#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

struct hk_patience {
	unsigned cpu_ms, wall_ms; /* given up after so much of either */
};

/* Where a process that aborts says why: its standard error may be nowhere. */
struct hk_last_words {
	void (*say)(void *arg, const char *text);
	void *arg;
};

/* Waits until the other thread posts @done. @clock: its CPU-time clock (pthread_getcpuclockid(3)); 0 if it has not run
 * yet. False: given up; it may post all the same, so @done must live on. */
bool hk_patience_wait(sem_t *done, clockid_t clock, const struct hk_patience *p);

#endif

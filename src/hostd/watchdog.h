/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/watchdog.h: waiting for another thread of this process, with a limit.
 *
 * On shared cores the time until the other thread answers means little. A thread that gets no core
 * may stand still for many seconds without a fault. A thread that hangs uses CPU time, or sleeps
 * for ever. So the limit is mainly one of CPU time, and only a long limit is one of wall time.
 */
#ifndef HK_HOSTD_WATCHDOG_H
#define HK_HOSTD_WATCHDOG_H

#include "base/common.h"

#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

struct hk_watchdog {
	unsigned cpu_ms, wall_ms; /* CPU time of the other thread; wall time */
};

/* Writes the abort message where a person can read it: standard error may lead nowhere. */
struct hk_abort_log {
	void (*write)(void *arg, const char *text);
	void *arg;
};

/* Waits until the other thread posts @done. @clock: its CPU-time clock (pthread_getcpuclockid(3)),
 * or 0 if it has not run yet. False: a limit of @p is exceeded. The thread may still post later, so
 * @done must stay valid. */
bool hk_watchdog_wait(sem_t *done, clockid_t clock, const struct hk_watchdog *p);

#endif

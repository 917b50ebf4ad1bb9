/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/watchdog.c: waits for a thread with limits of CPU time and wall time.
 */
#include "hostd/watchdog.h"

#include <stdint.h>

#define CHECK_MS 100

static uint64_t ms(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool hk_watchdog_wait(sem_t *done, clockid_t clock, const struct hk_watchdog *p)
{
	uint64_t start = ms(CLOCK_MONOTONIC), used = clock ? ms(clock) : 0;

	for (;;) {
		uint64_t check = ms(CLOCK_MONOTONIC) + CHECK_MS;
		struct timespec until = {(time_t)(check / 1000), (long)(check % 1000) * 1000000};

		if (sem_clockwait(done, CLOCK_MONOTONIC, &until) == 0)
			return true;
		/* a signal interrupted the wait, or the next check is due */
		if ((clock && ms(clock) - used > p->cpu_ms) ||
		    ms(CLOCK_MONOTONIC) - start > p->wall_ms)
			return sem_trywait(done) == 0;
	}
}

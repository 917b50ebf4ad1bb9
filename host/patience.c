/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/patience.c: waiting for a thread for as long as it gets no core.
 */
#include "host/patience.h"

#include <stdint.h>

#define LOOK_MS 100

static uint64_t ms(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool hk_patience_wait(sem_t *done, clockid_t clock, const struct hk_patience *p)
{
	uint64_t start = ms(CLOCK_MONOTONIC), used = clock ? ms(clock) : 0;

	for (;;) {
		uint64_t look = ms(CLOCK_MONOTONIC) + LOOK_MS;
		struct timespec until = {(time_t)(look / 1000), (long)(look % 1000) * 1000000};

		if (sem_clockwait(done, CLOCK_MONOTONIC, &until) == 0)
			return true;
		/* interrupted, or it is time to look */
		if ((clock && ms(clock) - used > p->cpu_ms) ||
		    ms(CLOCK_MONOTONIC) - start > p->wall_ms)
			return sem_trywait(done) == 0;
	}
}

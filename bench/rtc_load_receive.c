/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_load_receive.c: the work of a receiver, and what it costs.
 *
 * The kernel spends time on a packet before the receiver's process sees it. A core's ticks show
 * that time, together with everything else that runs on the core (/proc/stat; a tick is 10 ms or
 * less). Without CONFIG_IRQ_TIME_ACCOUNTING the process's own time contains interrupts that came
 * while it ran.
 */
#include "rtc_load.h"

#include "base/clock.h"
#include "examples/add.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* CPU time in ns. */
struct spent {
	uint64_t at, process, busy, softirq; /* busy, softirq: of the receiver's core */
};

static struct {
	uint64_t handled, first, last;
	struct spent begin, end;
} tally;

/* ---- work ------------------------------------------------------------------------------------ */

/* Without a pause instruction, as in a handler that computes. */
static void hold(uint64_t ns)
{
	uint64_t until = hk_clock_ns() + ns;

	while (hk_clock_ns() < until)
		;
}

/* At its start the program chooses the version for AVX2 or for other processors. */
__attribute__((target_clones("avx2", "default"))) void load_answer(void **payload, uint16_t *len,
								   unsigned n)
{
	if (!tally.handled)
		tally.first = hk_clock_ns();
	if (load.hold)
		hold(n * load.hold);
	for (unsigned i = 0; i < n; i++) {
		if (len[i] != REQUEST_LEN) {
			len[i] = 0;
			continue;
		}
		char *p = payload[i];
		uint32_t sum = load.hold ? 0 : add_values(p, load.repeat, load.plain);
		memcpy(p, &sum, sizeof(sum));
		memcpy(p + ANSWER_STAMP, p + STAMP_AT, REQUEST_LEN - STAMP_AT);
		len[i] = ANSWER_LEN;
	}
	tally.handled += n;
	tally.last = hk_clock_ns();
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* The time that this core was not idle, and that it spent in softirqs. */
static void core_time(struct spent *s)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq;
	char line[512], name[24];
	FILE *f = fopen("/proc/stat", "r");
	uint64_t tick = HK_SEC / (uint64_t)sysconf(_SC_CLK_TCK);

	snprintf(name, sizeof(name), "cpu%d ", sched_getcpu());
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, name, strlen(name)) != 0)
			continue;
		if (sscanf(line + strlen(name), "%llu %llu %llu %llu %llu %llu %llu", &user, &nice,
			   &system, &idle, &iowait, &irq, &softirq) == 7) {
			s->busy = (user + nice + system + irq + softirq) * tick;
			s->softirq = softirq * tick;
		}
		break;
	}
	if (f)
		fclose(f);
}

static struct spent spent_now(void)
{
	struct spent s = {.at = hk_clock_ns()};
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	s.process = (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
	core_time(&s);
	return s;
}

void load_mark(unsigned type)
{
	if (type == MARK_BEGIN && !tally.begin.at)
		tally.begin = spent_now();
	else if (type == MARK_END && !tally.end.at)
		tally.end = spent_now();
}

void load_print(uint64_t refused)
{
	const struct spent *a = &tally.begin, *b = &tally.end;

	printf("{\"handled\": %llu, \"answers_refused\": %llu, \"handling_ns\": %llu, "
	       "\"wall_ns\": %llu, \"process_ns\": %llu, \"core_ns\": %llu, "
	       "\"core_softirq_ns\": %llu}\n",
	       (unsigned long long)tally.handled, (unsigned long long)refused,
	       (unsigned long long)(tally.last - tally.first), (unsigned long long)(b->at - a->at),
	       (unsigned long long)(b->process - a->process),
	       (unsigned long long)(b->busy - a->busy),
	       (unsigned long long)(b->softirq - a->softirq));
	fflush(stdout);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/peers.c: what other peers cost two that talk: silent and idle.
 */
#include "sim/scenarios.h"
#include "sim/work.h"

#include <inttypes.h>

/* ---- silent: host 0 sends to hosts 2 and later, which never answer, and then to host 1 ------- */

static void silent_begin(struct run *r)
{
	host_start(&r->hosts, 0, r->o.net.hosts - 1, true);
	for (uint32_t i = 1; i < r->o.net.hosts; i++) {
		host_start(&r->hosts, i, 1, true);
		r->hosts.host[i].silent = i > 1;
	}
	r->left = 1;
	run_call_soon(r, SCENARIO_SPREAD, 0, 0);
}

static void silent_call(struct run *r, uint32_t a, uint32_t b)
{
	(void)a;
	(void)b;
	for (uint32_t i = 2; i < r->o.net.hosts; i++)
		host_send(&r->hosts, 0, i, r->o.size, false, 0);
	host_send(&r->hosts, 0, 1, r->o.size, false, 0);
}

static void silent_delivered(struct run *r, const struct msg *m)
{
	r->left--;
	run_sample(r, m->began);
}

static void silent_report(const struct run *r, FILE *out)
{
	/* behind all others in the NIC */
	scenario_report_end(r, out, run_ideal(r, r->o.net.hosts - 1, r->o.size, false));
}

static void silent_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 66, 8, 1, 100 * HK_SEC);
	o->flows = 1;
}

const struct scenario scenario_silent = {
	.name = "silent",
	.min_hosts = 2,
	.defaults = silent_defaults,
	.begin = silent_begin,
	.call = silent_call,
	.delivered = silent_delivered,
	.report = silent_report,
};

/* ---- idle: a ping-pong between hosts 0 and 1, before and after others spoke once ------------- */

#define SETTLE (100 * HK_MSEC) /* time for the last acknowledgements and timers of the others */

#define FIRST 10 /* rounds that do not count: peers learn of each other */

enum { ALONE, SPEAK, BESIDE, QUIET, END };

struct idle {
	unsigned phase;
	uint64_t work[END]; /* at the begin of each phase, and after it */
	uint64_t done[END];
};

static void idle_phase(struct run *r, unsigned phase)
{
	struct idle *x = r->state;

	x->phase = phase;
	x->work[phase] = engine_work;
}

static void ping(struct run *r)
{
	r->round_began = r->net.events.now;
	host_send(&r->hosts, 1, 0, 8, false, 0);
}

static void idle_begin(struct run *r)
{
	r->state = sim_alloc(sizeof(struct idle));
	for (uint32_t i = 0; i < r->o.net.hosts; i++)
		host_start(&r->hosts, i, i ? 1 : r->o.net.hosts - 1, i < 2);
	r->left = 1;
	run_call_soon(r, SCENARIO_SPREAD, ALONE, 0);
}

static void idle_call(struct run *r, uint32_t phase, uint32_t host)
{
	struct idle *x = r->state;

	if (phase == SPEAK) {
		host_send(&r->hosts, host, 0, 8, false, 0);
		return;
	}
	if (phase == END) {
		x->done[QUIET] = engine_work;
		r->left = 0;
		return;
	}
	r->rounds = 0;
	idle_phase(r, phase);
	ping(r);
}

static void idle_next(struct run *r)
{
	struct idle *x = r->state;
	uint64_t settled = r->net.events.now + SETTLE * SIM_NS;

	x->done[x->phase] = engine_work;
	if (x->phase == ALONE) {
		idle_phase(r, SPEAK);
		for (uint32_t i = 2; i < r->o.net.hosts; i++)
			run_call_soon(r, SETTLE / 2, SPEAK, i);
		events_add(&r->net.events, settled, EVENT_CALL, BESIDE, 0);
	} else {
		uint64_t keepalive = r->o.host.engine.keepalive;

		idle_phase(r, QUIET);
		events_add(&r->net.events, r->net.events.now + 2 * keepalive * SIM_NS, EVENT_CALL,
			   END, 0);
	}
}

static void idle_delivered(struct run *r, const struct msg *m)
{
	const struct idle *x = r->state;

	if (m->from > 1)
		return;
	if (m->to == 0) {
		host_send(&r->hosts, 0, 1, 8, false, 0);
		return;
	}
	if (x->phase == BESIDE)
		run_sample(r, r->round_began);
	if (++r->rounds == FIRST)
		idle_phase(r, x->phase);
	if (r->rounds == FIRST + r->o.count)
		idle_next(r);
	else
		ping(r);
}

static double per(uint64_t work, uint64_t n)
{
	return n ? (double)work / (double)n : 0;
}

static void idle_report(const struct run *r, FILE *out)
{
	const struct idle *x = r->state;
	uint64_t others = r->o.net.hosts - 2;
	uint64_t alone = x->done[ALONE] - x->work[ALONE];
	uint64_t beside = x->done[BESIDE] - x->work[BESIDE];

	fprintf(out,
		"  \"work_alone\": %.2f,\n  \"work_beside\": %.2f,\n  \"work_ratio\": %.4f,\n"
		"  \"work_keepalive\": %.2f,\n",
		per(alone, r->o.count), per(beside, r->o.count), per(beside, alone),
		per(x->done[QUIET] - x->work[QUIET], others));
}

static void idle_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 10002, 8, 1000, 100 * HK_SEC);
	o->flows = 1;
}

const struct scenario scenario_idle = {
	.name = "idle",
	.min_hosts = 2,
	.defaults = idle_defaults,
	.begin = idle_begin,
	.call = idle_call,
	.delivered = idle_delivered,
	.report = idle_report,
};

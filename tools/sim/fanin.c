/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/fanin.c: many hosts send some messages each to host 0, all at once: burst, eager and bulk.
 */
#include "sim/scenarios.h"

#include <inttypes.h>

static void begin(struct run *r)
{
	scenario_start_fanin(r);
	r->left = (uint64_t)r->o.flows * r->o.count;
	for (uint32_t i = 0; i < r->o.flows; i++)
		run_call_soon(r, SCENARIO_SPREAD, i, 0);
}

static void call(struct run *r, uint32_t flow, uint32_t b)
{
	(void)b;
	for (uint32_t i = 0; i < r->o.count; i++)
		host_send(&r->hosts, flow + 1, 0, r->o.size, false, flow);
}

static void delivered(struct run *r, const struct msg *m)
{
	r->left--;
	r->flow[m->tag].bytes += m->bytes;
	r->flow[m->tag].completed++;
	run_sample(r, m->began);
}

static void report(const struct run *r, FILE *out)
{
	uint64_t ideal = run_ideal(r, (uint64_t)r->o.flows * r->o.count, r->o.size, false);

	scenario_report_end(r, out, ideal);
}

static void defaults(struct sim_options *o, uint32_t size, uint32_t count)
{
	scenario_default_limits(o, 65, size, count, 100 * HK_SEC);
	o->flows = o->net.hosts - 1;
}

static void burst_defaults(struct sim_options *o)
{
	defaults(o, 8, 64);
}

static void eager_defaults(struct sim_options *o)
{
	defaults(o, 16 << 10, 1);
}

static void bulk_defaults(struct sim_options *o)
{
	defaults(o, 64 << 10, 1);
}

const struct scenario scenario_burst = {
	.name = "burst",
	.min_hosts = 2,
	.defaults = burst_defaults,
	.begin = begin,
	.call = call,
	.delivered = delivered,
	.report = report,
};
const struct scenario scenario_eager = {
	.name = "eager",
	.min_hosts = 2,
	.defaults = eager_defaults,
	.begin = begin,
	.call = call,
	.delivered = delivered,
	.report = report,
};
const struct scenario scenario_bulk = {
	.name = "bulk",
	.min_hosts = 2,
	.defaults = bulk_defaults,
	.begin = begin,
	.call = call,
	.delivered = delivered,
	.report = report,
};

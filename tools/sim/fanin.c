/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/fanin.c: scenarios in which many hosts send to host 0.
 */
#include "sim/scenarios.h"

#define SPREAD (1 * HK_USEC) /* hosts begin within this time */

static void start_hosts(struct run *r)
{
	host_start(&r->hosts, 0, r->o.flows, true);
	for (uint32_t i = 1; i <= r->o.flows; i++)
		host_start(&r->hosts, i, 1, false);
}

/* ---- once: each sends some messages ---------------------------------------------------------- */

static void once_begin(struct run *r)
{
	start_hosts(r);
	r->left = (uint64_t)r->o.flows * r->o.count;
	for (uint32_t i = 0; i < r->o.flows; i++)
		run_call_soon(r, SPREAD, i, 0);
}

static void once_call(struct run *r, uint32_t flow, uint32_t b)
{
	(void)b;
	for (uint32_t i = 0; i < r->o.count; i++)
		host_send(&r->hosts, flow + 1, 0, r->o.size, false, flow);
}

static void once_delivered(struct run *r, const struct msg *m)
{
	r->left--;
	r->flow[m->tag].bytes += m->bytes;
	r->flow[m->tag].completed++;
	run_sample(r, m->began);
}

static void ignore(struct run *r, const struct msg *m)
{
	(void)r;
	(void)m;
}

static void once_report(const struct run *r, FILE *out)
{
	uint64_t ideal = run_ideal(r, (uint64_t)r->o.flows * r->o.count, r->o.size, false);

	fprintf(out, "  \"ideal_ms\": %.3f,\n", (double)ideal / 1e9);
	fprintf(out, "  \"last_delivery_ms\": %.3f,\n",
		(double)(r->last_delivery - HK_MIN(r->start, r->last_delivery)) / 1e9);
	fprintf(out, "  \"undelivered\": %lu,\n", (unsigned long)r->left);
}

static void once_defaults(struct sim_options *o, uint32_t size, uint32_t count)
{
	o->size = o->size ? o->size : size;
	o->count = o->count ? o->count : count;
	o->time = o->time ? o->time : 100 * HK_SEC * SIM_NS;
	o->flows = o->net.hosts - 1;
}

static void burst_defaults(struct sim_options *o)
{
	once_defaults(o, 8, 64);
}

static void eager_defaults(struct sim_options *o)
{
	once_defaults(o, 16 << 10, 1);
}

static void bulk_defaults(struct sim_options *o)
{
	once_defaults(o, 64 << 10, 1);
}

const struct scenario scenario_burst = {"burst",        burst_defaults, once_begin, once_call,
					once_delivered, ignore,         once_report};
const struct scenario scenario_eager = {"eager",        eager_defaults, once_begin, once_call,
					once_delivered, ignore,         once_report};
const struct scenario scenario_bulk = {"bulk",         bulk_defaults, once_begin, once_call,
				       once_delivered, ignore,        once_report};

/* ---- closed loop: each keeps some puts outstanding ------------------------------------------- */

static void loop_begin(struct run *r)
{
	start_hosts(r);
	for (uint32_t i = 0; i < r->o.flows; i++)
		run_call_soon(r, SPREAD, i, 0);
}

static void loop_call(struct run *r, uint32_t flow, uint32_t b)
{
	(void)b;
	r->flow[flow].began = r->net.events.now;
	for (uint32_t i = 0; i < r->o.count; i++)
		host_send(&r->hosts, flow + 1, 0, r->o.size, true, flow);
}

static void loop_completed(struct run *r, const struct msg *m)
{
	struct flow *f = &r->flow[m->tag];

	f->bytes += m->bytes;
	f->completed++;
	f->began = r->net.events.now;
	run_sample(r, m->began);
	host_send(&r->hosts, m->from, 0, r->o.size, true, m->tag);
}

static void loop_report(const struct run *r, FILE *out)
{
	uint32_t starved = 0;
	uint64_t oldest = 0;
	uint64_t fair = run_ideal(r, (uint64_t)r->o.flows * r->o.count, r->o.size, true);

	for (uint32_t i = 0; i < r->flows; i++) {
		starved += r->flow[i].completed == 0;
		oldest = HK_MAX(oldest, r->net.events.now - r->flow[i].began);
	}
	fprintf(out, "  \"fair_ms\": %.3f,\n  \"starved\": %u,\n  \"oldest_ms\": %.3f,\n",
		(double)fair / 1e9, starved, (double)oldest / 1e9);
}

static void incast_defaults(struct sim_options *o)
{
	o->size = o->size ? o->size : 64 << 10;
	o->count = o->count ? o->count : 1;
	o->time = o->time ? o->time : HK_SEC * SIM_NS;
	o->flows = o->net.hosts - 1;
}

static void longflows_defaults(struct sim_options *o)
{
	o->size = o->size ? o->size : 1 << 20;
	o->count = o->count ? o->count : 2; /* the flow never pauses between them */
	o->time = o->time ? o->time : 4 * HK_SEC * SIM_NS;
	o->flows = o->net.hosts - 1;
}

const struct scenario scenario_incast = {"incast", incast_defaults, loop_begin, loop_call,
					 ignore,   loop_completed,  loop_report};
const struct scenario scenario_longflows = {"longflows", longflows_defaults, loop_begin, loop_call,
					    ignore,      loop_completed,     loop_report};

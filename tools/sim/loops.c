/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/loops.c: flows to host 0 that keep puts outstanding until the time is over: incast,
 * longflows, lone and pingpong.
 */
#include "sim/scenarios.h"

#define PING    UINT32_MAX     /* the tag of the ping-pong's messages, which belong to no flow */
#define WARM_UP (20 * HK_MSEC) /* flows run so long before the ping-pong begins, ns */

static void start(struct run *r, uint32_t flow, uint32_t from)
{
	r->flow[flow].began = r->net.events.now;
	for (uint32_t i = 0; i < r->o.count; i++)
		host_send(&r->hosts, from, 0, r->o.size, true, flow);
}

static void completed(struct run *r, const struct msg *m)
{
	if (m->tag == PING)
		return;
	struct flow *f = &r->flow[m->tag];

	f->bytes += m->bytes;
	f->completed++;
	f->began = r->net.events.now;
	if (r->o.scenario != &scenario_pingpong)
		run_sample(r, m->began);
	host_send(&r->hosts, m->from, 0, r->o.size, true, m->tag);
}

static void report(const struct run *r, FILE *out)
{
	uint32_t starved = 0;
	uint64_t oldest = 0;
	uint64_t fair = run_ideal(r, (uint64_t)r->flows * r->o.count, r->o.size, true);

	for (uint32_t i = 0; i < r->flows; i++) {
		starved += r->flow[i].completed == 0;
		oldest = HK_MAX(oldest, r->net.events.now - r->flow[i].began);
	}
	fprintf(out, "  \"fair_ms\": %.3f,\n  \"starved\": %u,\n  \"oldest_ms\": %.3f,\n",
		(double)fair / 1e9, starved, (double)oldest / 1e9);
}

/* ---- incast and longflows: every host but one sends ------------------------------------------ */

static void all_begin(struct run *r)
{
	scenario_start_fanin(r);
	for (uint32_t i = 0; i < r->flows; i++)
		run_call_soon(r, SCENARIO_SPREAD, i, 0);
}

static void all_call(struct run *r, uint32_t flow, uint32_t b)
{
	(void)b;
	start(r, flow, flow + 1);
}

static void incast_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 65, 64 << 10, 1, HK_SEC);
	o->flows = o->net.hosts - 1;
}

static void longflows_defaults(struct sim_options *o)
{
	/* with two puts a flow never pauses between them */
	scenario_default_limits(o, 5, 1 << 20, 2, 4 * HK_SEC);
	o->flows = o->net.hosts - 1;
}

const struct scenario scenario_incast = {
	.name = "incast",
	.min_hosts = 2,
	.defaults = incast_defaults,
	.begin = all_begin,
	.call = all_call,
	.completed = completed,
	.report = report,
};
const struct scenario scenario_longflows = {
	.name = "longflows",
	.min_hosts = 2,
	.defaults = longflows_defaults,
	.begin = all_begin,
	.call = all_call,
	.completed = completed,
	.report = report,
};

/* ---- lone: host 1 has a flow after every other host has sent one small message --------------- */

static void lone_begin(struct run *r)
{
	scenario_start_fanin(r);
	for (uint32_t i = 2; i < r->o.net.hosts; i++)
		run_call_soon(r, SCENARIO_SPREAD, i, 0);
}

static void lone_call(struct run *r, uint32_t host, uint32_t b)
{
	(void)b;
	host_send(&r->hosts, host, 0, 8, false, PING);
}

static void lone_delivered(struct run *r, const struct msg *m)
{
	if (m->tag == PING && ++r->rounds == r->o.net.hosts - 2) {
		run_measure(r);
		start(r, 0, 1);
	}
}

static void lone_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 1002, 1 << 20, 2, 500 * HK_MSEC);
	o->flows = 1;
}

const struct scenario scenario_lone = {
	.name = "lone",
	.min_hosts = 3,
	.defaults = lone_defaults,
	.begin = lone_begin,
	.call = lone_call,
	.delivered = lone_delivered,
	.completed = completed,
	.report = report,
};

/* ---- pingpong: hosts 1 and 0, while every other host has a flow to host 0 -------------------- */

static void pingpong_begin(struct run *r)
{
	host_start(&r->hosts, 0, r->o.net.hosts - 1, true);
	host_start(&r->hosts, 1, 1, true);
	for (uint32_t i = 2; i < r->o.net.hosts; i++) {
		host_start(&r->hosts, i, 1, false);
		run_call_soon(r, SCENARIO_SPREAD, i, 0);
	}
	events_add(&r->net.events, r->start + WARM_UP * SIM_NS, EVENT_CALL, 1, 0);
}

static void ping(struct run *r)
{
	r->round_began = r->net.events.now;
	host_send(&r->hosts, 1, 0, 8, false, PING);
}

static void pingpong_call(struct run *r, uint32_t host, uint32_t b)
{
	(void)b;
	if (host == 1) {
		run_measure(r);
		ping(r);
	} else {
		start(r, host - 2, host);
	}
}

static void pingpong_delivered(struct run *r, const struct msg *m)
{
	if (m->tag != PING)
		return;
	if (m->to == 0) {
		host_send(&r->hosts, 0, 1, 8, false, PING);
		return;
	}
	run_sample(r, r->round_began);
	r->rounds++;
	ping(r);
}

static void pingpong_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 65, 1 << 20, 2, HK_SEC);
	o->flows = o->net.hosts - 2;
}

const struct scenario scenario_pingpong = {
	.name = "pingpong",
	.min_hosts = 2,
	.defaults = pingpong_defaults,
	.begin = pingpong_begin,
	.call = pingpong_call,
	.delivered = pingpong_delivered,
	.completed = completed,
	.report = report,
};

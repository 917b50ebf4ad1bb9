/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/run.c: one run of a scenario. See run.h.
 */
#include "sim/run.h"

#include <stdlib.h>

static void delivered(void *arg, const struct msg *m)
{
	struct run *r = arg;

	r->delivered_bytes += m->bytes;
	r->last_delivery = r->net.events.now;
	if (r->o.scenario->delivered)
		r->o.scenario->delivered(r, m);
}

static void completed(void *arg, const struct msg *m)
{
	struct run *r = arg;

	if (r->o.scenario->completed)
		r->o.scenario->completed(r, m);
}

void run_init(struct run *r, const struct sim_options *o)
{
	*r = (struct run){
		.o = *o, .rng = {o->seed}, .start = SIM_START, .measured_from = SIM_START};
	r->end = SIM_START + o->time;
	net_init(&r->net, &o->net, hk_rng_next(&r->rng), SIM_START);
	hosts_init(&r->hosts, &o->host, &r->net, o->net.hosts);
	r->hosts.delivered = delivered;
	r->hosts.completed = completed;
	r->hosts.arg = r;
	r->flows = o->flows;
	r->flow = sim_alloc(r->flows * sizeof(*r->flow));
}

void run_free(struct run *r)
{
	hosts_free(&r->hosts);
	net_free(&r->net);
	if (r->o.scenario->end && r->state)
		r->o.scenario->end(r);
	free(r->state);
	free(r->flow);
	free(r->sample);
}

void run_print(const struct sim_options *o, FILE *out)
{
	struct run r;

	run_init(&r, o);
	run_go(&r);
	run_report(&r, out);
	run_free(&r);
}

static void happen(struct run *r, const struct event *ev)
{
	if (ev->kind == EVENT_WAKE)
		host_wake(&r->hosts, ev->a);
	else if (ev->kind == EVENT_TAKEN)
		host_taken(&r->hosts, ev->a, ev->b);
	else if (ev->kind == EVENT_CALL)
		r->o.scenario->call(r, ev->a, ev->b);
	else
		net_event(&r->net, ev);
}

void run_go(struct run *r)
{
	struct event ev;

	r->o.scenario->begin(r);
	bool finite = r->left > 0;

	while ((!finite || r->left) && events_next(&r->net.events, r->end, &ev))
		happen(r, &ev);
}

void run_on(struct run *r, uint64_t time)
{
	uint64_t until = r->net.events.now + time;
	struct event ev;

	while (events_next(&r->net.events, until, &ev))
		happen(r, &ev);
}

void run_call_soon(struct run *r, uint64_t spread, uint32_t a, uint32_t b)
{
	events_add(&r->net.events, r->net.events.now + SIM_NS * hk_rng_range(&r->rng, 0, spread),
		   EVENT_CALL, a, b);
}

void run_measure(struct run *r)
{
	r->measured_from = r->net.events.now;
	r->delivered_bytes = 0;
}

void run_sample(struct run *r, uint64_t began)
{
	r->sample = sim_grow(r->sample, r->samples, &r->samples_cap, sizeof(*r->sample));
	r->sample[r->samples++] = (float)(r->net.events.now - began) / 1e6f;
}

uint64_t run_ideal(const struct run *r, uint64_t messages, uint32_t size, bool put)
{
	uint32_t one = host_payload(&r->hosts);
	uint32_t head = put || size > HK_WIRE_MAX_FRAGS * one ? HK_WIRE_PUT_OVERHEAD
							      : HK_WIRE_DATA_OVERHEAD;
	uint64_t bytes = (uint64_t)(size / one) * net_wire_bytes(head + one);

	if (size % one)
		bytes += net_wire_bytes(head + size % one);
	return messages * bytes * r->o.net.ps_per_byte / r->o.net.host_ports;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/scenarios.c: see scenarios.h.
 */
#include "sim/scenarios.h"

#include <inttypes.h>

void scenario_start_fanin(struct run *r)
{
	uint32_t hosts = r->o.net.hosts;

	host_start(&r->hosts, 0, hosts - 1, true);
	for (uint32_t i = 1; i < hosts; i++)
		host_start(&r->hosts, i, 1, false);
}

void scenario_default_limits(struct sim_options *o, uint32_t hosts, uint32_t size, uint32_t count,
			     uint64_t time)
{
	o->net.hosts = o->net.hosts ? o->net.hosts : hosts;
	o->size = o->size ? o->size : size;
	o->count = o->count ? o->count : count;
	o->time = o->time ? o->time : time * SIM_NS;
}

void scenario_report_end(const struct run *r, FILE *out, uint64_t ideal)
{
	uint64_t last = r->last_delivery ? r->last_delivery - r->measured_from : 0;

	fprintf(out, "  \"ideal_ms\": %.3f,\n  \"last_delivery_ms\": %.3f,\n", (double)ideal / 1e9,
		(double)last / 1e9);
	fprintf(out, "  \"undelivered\": %" PRIu64 ",\n", r->left);
}

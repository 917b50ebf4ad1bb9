/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/mesh.c: all hosts send to all others: alltoall and mixed.
 */
#include "sim/scenarios.h"

#include <math.h>
#include <stdlib.h>

static void start_all(struct run *r)
{
	for (uint32_t i = 0; i < r->o.net.hosts; i++)
		host_start(&r->hosts, i, r->o.net.hosts - 1, true);
}

/* ---- alltoall: each host sends to each other one, all in the same order, from cold ----------- */

static void alltoall_begin(struct run *r)
{
	uint64_t hosts = r->o.net.hosts;

	start_all(r);
	r->left = hosts * (hosts - 1) * r->o.count;
	for (uint32_t i = 0; i < r->o.net.hosts; i++)
		run_call_soon(r, SCENARIO_SPREAD, i, 0);
}

static void alltoall_call(struct run *r, uint32_t host, uint32_t b)
{
	(void)b;
	for (uint32_t n = 0; n < r->o.count; n++)
		for (uint32_t to = 0; to < r->o.net.hosts; to++)
			if (to != host)
				host_send(&r->hosts, host, to, r->o.size, false, host);
}

static void alltoall_delivered(struct run *r, const struct msg *m)
{
	r->left--;
	r->flow[m->from].bytes += m->bytes;
	r->flow[m->from].completed++;
	run_sample(r, m->began);
}

static void alltoall_report(const struct run *r, FILE *out)
{
	uint64_t each = (r->o.net.hosts - 1) * (uint64_t)r->o.count;

	scenario_report_end(r, out, run_ideal(r, each, r->o.size, false));
}

static void alltoall_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 64, 64 << 10, 1, 100 * HK_SEC);
	o->flows = o->net.hosts;
	o->share_of = o->net.hosts;
}

const struct scenario scenario_alltoall = {
	.name = "alltoall",
	.min_hosts = 2,
	.defaults = alltoall_defaults,
	.begin = alltoall_begin,
	.call = alltoall_call,
	.delivered = alltoall_delivered,
	.report = alltoall_report,
};

/* ---- mixed: messages of many sizes between random hosts, at random times --------------------- */

/* One class of sizes: uniform in the logarithm between its limits. */
static const struct class
{
	const char *name;
	uint32_t lo, hi; /* bytes */
	uint32_t share;  /* of messages, percent */
} classes[] = {
	{"tiny", 8, 512, 50},
	{"eager", 1 << 10, 16 << 10, 35},
	{"bulk", 32 << 10, 256 << 10, 13},
	{"long", 512 << 10, 2 << 20, 2},
};

#define CLASSES 4
_Static_assert(HK_ARRAY_LEN(classes) == CLASSES, "one list of samples a class");

struct mixed {
	float *slowdown[CLASSES];
	uint32_t count[CLASSES], cap[CLASSES];
};

static double uniform(struct hk_rng *rng) /* in (0, 1] */
{
	return (double)((hk_rng_next(rng) >> 11) + 1) / 9007199254740992.0;
}

static uint32_t draw(struct hk_rng *rng, uint32_t *class)
{
	uint32_t p = (uint32_t)hk_rng_below(rng, 100);

	for (*class = 0; p >= classes[*class].share; (*class)++)
		p -= classes[*class].share;
	const struct class *c = &classes[*class];

	return (uint32_t)(c->lo * pow((double)c->hi / c->lo, 1 - uniform(rng)));
}

/* Mean bytes of a message: of the logarithmic uniform distribution in each class. */
static double mean_size(void)
{
	double sum = 0;

	for (unsigned i = 0; i < CLASSES; i++)
		sum += classes[i].share / 100.0 * (classes[i].hi - classes[i].lo) /
		       log((double)classes[i].hi / classes[i].lo);
	return sum;
}

/* The next message of @host: gaps are exponential, so that each host sends `load` of its link. */
static void next(struct run *r, uint32_t host)
{
	double gap = mean_size() * r->o.net.ps_per_byte * 100 / r->o.load;

	events_add(&r->net.events, r->net.events.now + (uint64_t)(-log(uniform(&r->rng)) * gap) + 1,
		   EVENT_CALL, host, 0);
}

static void mixed_begin(struct run *r)
{
	start_all(r);
	r->state = sim_alloc(sizeof(struct mixed));
	for (uint32_t i = 0; i < r->o.net.hosts; i++)
		next(r, i);
}

static void mixed_call(struct run *r, uint32_t host, uint32_t b)
{
	uint32_t class, to = (uint32_t)hk_rng_below(&r->rng, r->o.net.hosts - 1);

	(void)b;
	uint32_t size = draw(&r->rng, &class);

	host_send(&r->hosts, host, to + (to >= host), size, false, class);
	next(r, host);
}

/* ps for a message alone in the network. */
static uint64_t alone(const struct run *r, uint32_t size)
{
	uint32_t first = HK_MIN(size, host_payload(&r->hosts));
	unsigned hops = 2; /* of most messages; of a leafspine, those within a leaf */

	return run_ideal(r, 1, size, false) + (hops - 1) * run_ideal(r, 1, first, false) +
	       hops * r->o.net.link_delay;
}

static void mixed_delivered(struct run *r, const struct msg *m)
{
	struct mixed *x = r->state;
	uint32_t c = m->tag;

	run_sample(r, m->began);
	x->slowdown[c] = sim_grow(x->slowdown[c], x->count[c], &x->cap[c], sizeof(*x->slowdown[c]));
	x->slowdown[c][x->count[c]++] = (float)((double)(r->net.events.now - m->began) /
						(double)alone(r, m->bytes));
	r->flow[m->from].bytes += m->bytes;
	r->flow[m->from].completed++;
}

static void mixed_report(const struct run *r, FILE *out)
{
	const struct mixed *x = r->state;

	fprintf(out, "  \"load\": %u,\n  \"classes\": [", r->o.load);
	for (unsigned i = 0; i < CLASSES; i++) {
		run_sort(x->slowdown[i], x->count[i]);
		fprintf(out,
			"%s\n    {\"name\": \"%s\", \"from\": %u, \"to\": %u, \"messages\": %u, "
			"\"slowdown_p50\": %.3f, \"slowdown_p99\": %.3f}",
			i ? "," : "", classes[i].name, classes[i].lo, classes[i].hi, x->count[i],
			run_quantile(x->slowdown[i], x->count[i], .5),
			run_quantile(x->slowdown[i], x->count[i], .99));
	}
	fprintf(out, "\n  ],\n");
}

static void mixed_end(struct run *r)
{
	struct mixed *x = r->state;

	for (unsigned i = 0; i < CLASSES; i++)
		free(x->slowdown[i]);
}

static void mixed_defaults(struct sim_options *o)
{
	scenario_default_limits(o, 64, 1, 1, 100 * HK_MSEC);
	o->load = o->load ? o->load : 60;
	o->flows = o->net.hosts;
	o->share_of = o->net.hosts;
}

const struct scenario scenario_mixed = {
	.name = "mixed",
	.min_hosts = 2,
	.defaults = mixed_defaults,
	.begin = mixed_begin,
	.call = mixed_call,
	.delivered = mixed_delivered,
	.report = mixed_report,
	.end = mixed_end,
};

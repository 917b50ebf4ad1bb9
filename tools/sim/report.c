/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/report.c: a run's results, as one JSON object.
 */
#include "sim/run.h"

#include <stdlib.h>

double run_jain(const struct run *r)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < r->flows; i++) {
		double b = (double)r->flow[i].bytes;

		sum += b;
		squares += b * b;
	}
	return squares > 0 ? sum * sum / (r->flows * squares) : 0;
}

double run_quantile(const struct run *r, double q)
{
	if (!r->samples)
		return 0;
	double at = q * r->samples;
	uint32_t i = (uint32_t)at;

	i += at > i; /* the nearest rank */
	return (double)r->sample[i ? i - 1 : 0];
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void options(const struct run *r, FILE *out)
{
	const struct sim_options *o = &r->o;

	fprintf(out, "  \"scenario\": \"%s\",\n  \"hosts\": %u,\n  \"rate_gbit\": %u,\n",
		o->scenario->name, o->net.hosts, o->rate_gbit);
	fprintf(out, "  \"frame\": %u,\n  \"buffer\": %u,\n  \"size\": %u,\n  \"count\": %u,\n",
		o->host.mtu, o->net.buffer, o->size, o->count);
	fprintf(out, "  \"seed\": %lu,\n  \"topology\": \"%s\",\n", (unsigned long)o->seed,
		o->net.topology == TOPOLOGY_STAR ? "star" : "leafspine");
}

static void hosts(const struct run *r, FILE *out)
{
	struct host_stats sum = {0};
	uint64_t refused = 0, duplicates = 0, rto = 0, loss = 0;

	for (uint32_t i = 0; i < r->hosts.count; i++) {
		const struct host_stats *n = &r->hosts.host[i].n;
		const struct hk_engine_counters *e = host_counters(&r->hosts, i);

		sum.rx_held_max = HK_MAX(sum.rx_held_max, n->rx_held_max);
		sum.rx_no_buffer += n->rx_no_buffer;
		sum.tx_dropped += n->tx_dropped;
		sum.data += n->data;
		sum.resends += n->resends;
		sum.controls += n->controls;
		sum.reordered += n->reordered;
		sum.disconnects += n->disconnects;
		refused += e->refused;
		duplicates += e->rx_duplicates;
		rto += e->loss_rto;
		loss += e->loss_time;
	}
	fprintf(out,
		"  \"data_frames\": %lu,\n  \"resends\": %lu,\n  \"controls\": %lu,\n"
		"  \"refused\": %lu,\n  \"duplicates\": %lu,\n  \"timeouts\": %lu,\n"
		"  \"found_lost\": %lu,\n",
		(unsigned long)sum.data, (unsigned long)sum.resends, (unsigned long)sum.controls,
		(unsigned long)refused, (unsigned long)duplicates, (unsigned long)rto,
		(unsigned long)loss);
	fprintf(out,
		"  \"reordered\": %lu,\n  \"held_max\": %u,\n  \"no_rx_buffer\": %lu,\n"
		"  \"nic_dropped\": %lu,\n  \"disconnects\": %lu,\n",
		(unsigned long)sum.reordered, sum.rx_held_max, (unsigned long)sum.rx_no_buffer,
		(unsigned long)sum.tx_dropped, (unsigned long)sum.disconnects);
}

static void network(struct run *r, FILE *out)
{
	uint32_t busiest = net_busiest(&r->net);
	struct port *p = &r->net.port[busiest];
	struct port_stats sum = net_sum(&r->net);
	double mean = series_mean(&p->queue, r->start, r->net.events.now);
	uint64_t sent = p->n.frames + p->n.dropped;

	fprintf(out, "  \"loss\": %.5f,\n", sent ? (double)p->n.dropped / (double)sent : 0);
	fprintf(out, "  \"queue_mean\": %.0f,\n  \"queue_max\": %u,\n", mean, p->n.queue_max);
	fprintf(out,
		"  \"dropped\": %lu,\n  \"dropped_bulk\": %lu,\n  \"marked\": %lu,\n"
		"  \"lost_by_links\": %lu,\n  \"events\": %lu,\n",
		(unsigned long)sum.dropped, (unsigned long)sum.dropped_bulk,
		(unsigned long)sum.marked, (unsigned long)r->net.lost_by_links,
		(unsigned long)r->net.events.done);
}

static void plots(const struct run *r, FILE *out)
{
	const struct series *s = &r->net.port[net_busiest(&r->net)].queue;

	fprintf(out, "  \"queue\": {\"bin_us\": %.3f, \"mean\": [", (double)s->width / 1e6);
	for (uint32_t i = 0; i < s->used; i++)
		fprintf(out, "%s%.0f", i ? ", " : "", s->bin[i].area / (double)s->width);
	fprintf(out, "], \"max\": [");
	for (uint32_t i = 0; i < s->used; i++)
		fprintf(out, "%s%u", i ? ", " : "", s->bin[i].max);
	fprintf(out, "]},\n  \"quantiles_us\": [");
	for (unsigned i = 0; i <= 200 && r->samples; i++)
		fprintf(out, "%s%.3f", i ? ", " : "", run_quantile(r, i / 200.0));
	fprintf(out, "],\n  \"flow_bytes\": [");
	for (uint32_t i = 0; i < r->flows; i++)
		fprintf(out, "%s%lu", i ? ", " : "", (unsigned long)r->flow[i].bytes);
	fprintf(out, "]\n");
}

void run_report(struct run *r, FILE *out)
{
	double ps = (double)(r->net.events.now - r->start);

	if (r->samples)
		qsort(r->sample, r->samples, sizeof(*r->sample), by_value);
	fprintf(out, "{\n");
	options(r, out);
	fprintf(out, "  \"ended\": %s,\n  \"time_ms\": %.3f,\n", r->ended ? "true" : "false",
		ps / 1e9);
	fprintf(out, "  \"share\": %.4f,\n  \"jain\": %.4f,\n",
		ps > 0 ? (double)r->delivered_bytes * r->o.net.ps_per_byte / ps : 0, run_jain(r));
	fprintf(out,
		"  \"completions\": %u,\n  \"p50_us\": %.3f,\n  \"p99_us\": %.3f,\n"
		"  \"max_us\": %.3f,\n",
		r->samples, run_quantile(r, .5), run_quantile(r, .99), run_quantile(r, 1));
	r->o.scenario->report(r, out);
	network(r, out);
	hosts(r, out);
	plots(r, out);
	fprintf(out, "}\n");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/report.c: a run's results, as one JSON object.
 */
#include "sim/run.h"

#include <inttypes.h>
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

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

void run_sort(float *sample, uint32_t count)
{
	if (count)
		qsort(sample, count, sizeof(*sample), by_value);
}

double run_quantile(const float *sample, uint32_t count, double q)
{
	if (!count)
		return 0;
	double at = q * count;
	uint32_t i = (uint32_t)at;

	i += at > i; /* the nearest rank */
	return (double)sample[i ? i - 1 : 0];
}

static double quantile(const struct run *r, double q)
{
	return run_quantile(r->sample, r->samples, q);
}

static void options(const struct run *r, FILE *out)
{
	const struct sim_options *o = &r->o;

	fprintf(out, "  \"scenario\": \"%s\",\n  \"hosts\": %u,\n  \"rate_gbit\": %g,\n",
		o->scenario->name, o->net.hosts, o->rate_mbps / 1e3);
	fprintf(out, "  \"frame\": %u,\n  \"buffer\": %u,\n  \"size\": %u,\n  \"count\": %u,\n",
		o->host.mtu, o->net.buffer, o->size, o->count);
	fprintf(out, "  \"seed\": %" PRIu64 ",\n  \"topology\": \"%s\",\n", o->seed,
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
		"  \"data_frames\": %" PRIu64 ",\n  \"resends\": %" PRIu64
		",\n  \"controls\": %" PRIu64 ",\n"
		"  \"refused\": %" PRIu64 ",\n  \"duplicates\": %" PRIu64
		",\n  \"timeouts\": %" PRIu64 ",\n"
		"  \"found_lost\": %" PRIu64 ",\n",
		sum.data, sum.resends, sum.controls, refused, duplicates, rto, loss);
	fprintf(out,
		"  \"reordered\": %" PRIu64 ",\n  \"held_max\": %u,\n  \"no_rx_buffer\": %" PRIu64
		",\n"
		"  \"nic_dropped\": %" PRIu64 ",\n  \"disconnects\": %" PRIu64 ",\n",
		sum.reordered, sum.rx_held_max, sum.rx_no_buffer, sum.tx_dropped, sum.disconnects);
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
		"  \"dropped\": %" PRIu64 ",\n  \"dropped_bulk\": %" PRIu64
		",\n  \"marked\": %" PRIu64 ",\n"
		"  \"lost_by_links\": %" PRIu64 ",\n  \"events\": %" PRIu64 ",\n",
		sum.dropped, sum.dropped_bulk, sum.marked, r->net.lost_by_links,
		r->net.events.done);
}

static void plots(const struct run *r, FILE *out)
{
	const struct series *s = &r->net.port[net_busiest(&r->net)].queue;

	fprintf(out, "  \"queue\": {\"bin_us\": %.3f, \"mean\": [", (double)s->width / 1e6);
	for (uint32_t i = 0; i < s->used; i++) {
		uint64_t end = HK_MIN(s->at - s->start, (i + 1) * s->width); /* the last is short */

		fprintf(out, "%s%.0f", i ? ", " : "",
			s->bin[i].area / (double)(end - i * s->width));
	}
	fprintf(out, "], \"max\": [");
	for (uint32_t i = 0; i < s->used; i++)
		fprintf(out, "%s%u", i ? ", " : "", s->bin[i].max);
	fprintf(out, "]},\n  \"quantiles_us\": [");
	for (unsigned i = 0; i <= 200 && r->samples; i++)
		fprintf(out, "%s%.3f", i ? ", " : "", quantile(r, i / 200.0));
	fprintf(out, "],\n  \"flow_bytes\": [");
	for (uint32_t i = 0; i < r->flows; i++)
		fprintf(out, "%s%" PRIu64 "", i ? ", " : "", r->flow[i].bytes);
	fprintf(out, "]\n");
}

void run_report(struct run *r, FILE *out)
{
	double ps = (double)(r->net.events.now - r->measured_from);
	uint32_t links = HK_MAX(r->o.share_of, 1u) * r->o.net.host_ports;
	double share = ps > 0 ? (double)r->delivered_bytes * r->o.net.ps_per_byte / ps / links : 0;

	run_sort(r->sample, r->samples);
	fprintf(out, "{\n");
	options(r, out);
	fprintf(out, "  \"ended\": %s,\n  \"time_ms\": %.3f,\n", r->left ? "false" : "true",
		ps / 1e9);
	fprintf(out, "  \"share\": %.4f,\n  \"jain\": %.4f,\n", share, run_jain(r));
	fprintf(out,
		"  \"completions\": %u,\n  \"p50_us\": %.3f,\n  \"p99_us\": %.3f,\n"
		"  \"max_us\": %.3f,\n",
		r->samples, quantile(r, .5), quantile(r, .99), quantile(r, 1));
	r->o.scenario->report(r, out);
	network(r, out);
	hosts(r, out);
	plots(r, out);
	fprintf(out, "}\n");
}

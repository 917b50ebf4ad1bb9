/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/stats.c: the router's counters as JSON.
 */
#include "devmem/router/router.h"

#include <inttypes.h>

/* Reads a counter. Each is one word with one writer; several may be from slightly different
 * times. */
static uint64_t now(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Whether the NIC writes headers into main memory, as text. */
static const char *split_text(const struct hk_router *r, unsigned i)
{
	const struct hk_port_info *info = &r->port[i]->info;

	return !r->headers ? "not asked" : info->split ? "by the NIC" : info->split_refusal;
}

static void port(struct hk_router *r, unsigned i, FILE *out)
{
	const struct hk_forward_counters *c = &r->forward.port[i].count;
	const uint8_t *mac = r->forward.port[i].mac;
	const char *comma = "";

	fprintf(out,
		"{\"port\": %u, \"spec\": \"%s\", \"split\": \"%s\", \"mac\": "
		"\"%02x:%02x:%02x:%02x:%02x:%02x\", "
		"\"in_packets\": %" PRIu64 ", \"in_bytes\": %" PRIu64 ", \"out_packets\": %" PRIu64
		", \"out_bytes\": %" PRIu64 ", \"tx_full\": %" PRIu64
		", \"read_header_bytes\": %" PRIu64 ", \"icmp_sent\": %" PRIu64
		", \"icmp_limited\": %" PRIu64 ", \"icmp_silent\": %" PRIu64
		", \"fragmented\": %" PRIu64 ", \"fragments\": %" PRIu64 ", \"results\": {",
		i, r->port[i]->info.spec, split_text(r, i), mac[0], mac[1], mac[2], mac[3], mac[4],
		mac[5], now(&c->in_packets), now(&c->in_bytes), now(&c->out_packets),
		now(&c->out_bytes), now(&r->tx_full[i]), now(&c->header_bytes), now(&c->icmp_sent),
		now(&c->icmp_limited), now(&c->icmp_silent), now(&c->fragmented),
		now(&c->fragments));
	for (unsigned v = 0; v < HK_RESULTS; v++) {
		uint64_t n = now(&c->result[v]);
		if (n) {
			fprintf(out, "%s\"%s\": %" PRIu64, comma, hk_router_result_name(v), n);
			comma = ", ";
		}
	}
	fprintf(out, "}}");
}

void hk_router_stats(struct hk_router *r, FILE *out)
{
	const struct hk_fib *fib = atomic_load(&r->fib);

	fprintf(out,
		"{\"mode\": \"%s\", \"routes4\": %zu, \"routes6\": %zu, \"implied_routes\": %zu, "
		"\"reloads\": %u, \"ports\": [",
		hk_router_mode_name(r->o.mode), fib->routes[0] - fib->implied[0],
		fib->routes[1] - fib->implied[1], fib->implied[0] + fib->implied[1], r->reloads);
	for (unsigned i = 0; i < r->o.ports; i++) {
		fprintf(out, "%s", i ? ", " : "");
		port(r, i, out);
	}
	fprintf(out, "]");
	if (r->kernel)
		fprintf(out,
			", \"kernel\": {\"written\": %" PRIu64 ", \"read\": %" PRIu64
			", \"lost\": %" PRIu64 ", \"neighbours\": %u}",
			now(&r->kernel->written), now(&r->kernel->read), now(&r->kernel->lost),
			r->kernel->neighbours);
	if (r->o.marker_len)
		fprintf(out, ", \"in_main_memory\": %" PRIu64, r->in_main_memory);
	fprintf(out, "}\n");
}

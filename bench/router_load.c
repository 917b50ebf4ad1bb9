/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/router_load.c: sends a router as many 64-byte frames as it takes, or one at a time.
 *
 *   router_load --in SPEC --out SPEC [--batches N | --delays N]
 *
 * Frames enter the router at one port and leave it at the other. The program sends received frames
 * again, with a new header. Destinations are 4096 addresses of 10.0.0.0/16. It prints the rate of
 * received frames in the best and the median batch. It also prints the share of frames that the
 * router's port did not take. If that share is not well above 0, the result is the limit of this
 * program and not of the router.
 *
 * With --delays it sends N frames, each after the one before has come, and prints quantiles of the
 * time between.
 */
#include "base/clock.h"
#include "devmem/router/load.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#define BURST 32

static uint8_t frame[HK_LOAD_FRAMES][HK_LOAD_FRAME];

static struct hk_port *open_port(const char *spec)
{
	struct hk_eal_config eal = {.memory_mb = 128};
	struct hk_error err = {""};
	struct hk_port *port;

	if (hk_eal_init(&eal, &err) || hk_port_open(spec, 4096, NULL, 20000, &port, &err) ||
	    hk_port_wait_link(port, 20000, &err)) {
		fprintf(stderr, "router_load: %s\n", err.text);
		exit(1);
	}
	return port;
}

/* Whether frames still come, by the time since the last one. */
static void watch(unsigned came, uint64_t *idle_since)
{
	if (came) {
		*idle_since = 0;
		return;
	}
	uint64_t t = hk_clock_ns();
	*idle_since = *idle_since ? *idle_since : t;
	if (t - *idle_since > 10 * HK_SEC) {
		fprintf(stderr, "router_load: nothing came for 10 s\n");
		exit(1);
	}
}

static void measure_rate(struct hk_port *a, struct hk_port *b, struct hk_load_rates *rates)
{
	unsigned next = 0;
	uint64_t offered = 0, refused = 0, idle_since = 0;

	while (rates->done < rates->batches) {
		struct rte_mbuf *m[BURST];
		unsigned n = hk_port_rx(b, 0, m, BURST);
		hk_load_rates_add(rates, n);
		watch(n, &idle_since);
		for (; n < BURST && (m[n] = rte_pktmbuf_alloc(a->pool)) != NULL; n++)
			(void)rte_pktmbuf_append(m[n], HK_LOAD_FRAME);
		for (unsigned i = 0; i < n; i++)
			memcpy(rte_pktmbuf_mtod(m[i], void *), frame[next++ % HK_LOAD_FRAMES],
			       HK_LOAD_FRAME);
		unsigned sent = n ? hk_port_tx(a, 0, m, (uint16_t)n) : 0;
		rte_pktmbuf_free_bulk(m + sent, n - sent);
		offered += n;
		refused += n - sent;
	}
	printf("{");
	hk_load_rates_end(rates, stdout);
	printf(", \"refused\": %.3f}\n", (double)refused / (double)offered);
}

static void measure_delays(struct hk_port *a, struct hk_port *b, struct hk_load_delays *delays)
{
	for (unsigned next = 0; delays->count < delays->max; next++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(a->pool);
		uint8_t *f = m ? (uint8_t *)rte_pktmbuf_append(m, HK_LOAD_FRAME) : NULL;
		uint64_t idle_since = 0;
		if (!f) {
			fprintf(stderr, "router_load: the port has no buffers left\n");
			exit(1);
		}
		memcpy(f, frame[next % HK_LOAD_FRAMES], HK_LOAD_FRAME);
		hk_load_stamp(f, rte_rdtsc());
		while (hk_port_tx(a, 0, &m, 1) == 0)
			watch(0, &idle_since);
		while (hk_port_rx(b, 0, &m, 1) == 0)
			watch(0, &idle_since);
		hk_load_delays_add(delays,
				   rte_rdtsc() - hk_load_stamped(rte_pktmbuf_mtod(m, uint8_t *)));
		rte_pktmbuf_free(m);
	}
	printf("{");
	hk_load_delays_end(delays, (double)hk_eal_tsc_hz(), stdout);
	printf("}\n");
}

int main(int argc, char **argv)
{
	const char *in = NULL, *out = NULL;
	unsigned batches = 1000, count = 0;
	struct hk_load_rates rates;
	struct hk_load_delays delays;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--in") == 0)
			in = argv[i + 1];
		else if (strcmp(argv[i], "--out") == 0)
			out = argv[i + 1];
		else if (strcmp(argv[i], "--batches") == 0)
			batches = (unsigned)atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--delays") == 0)
			count = (unsigned)atoi(argv[i + 1]);
	}
	if (!in || !out || !batches ||
	    !(count ? hk_load_delays_begin(&delays, count)
		    : hk_load_rates_begin(&rates, batches))) {
		fprintf(stderr, "usage: %s --in SPEC --out SPEC [--batches N | --delays N]\n",
			argv[0]);
		return 2;
	}
	hk_load_frames(frame, 1, NULL, 0);
	struct hk_port *a = open_port(in), *b = open_port(out);
	if (count) {
		/* the client end of a memif offers buffers when it first receives */
		struct rte_mbuf *m;
		if (hk_port_rx(b, 0, &m, 1))
			rte_pktmbuf_free(m);
		measure_delays(a, b, &delays);
	} else {
		rates.since = hk_clock_ns();
		measure_rate(a, b, &rates);
	}
	hk_port_close(a);
	hk_port_close(b);
	return 0;
}

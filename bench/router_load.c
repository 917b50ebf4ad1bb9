/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/router_load.c: sends a router as many 64-byte frames as it takes.
 *
 *   router_load --in SPEC --out SPEC [--batches N]
 *
 * Frames enter the router at one port and leave it at the other. The program sends received frames
 * again, with a new header. Destinations are 4096 addresses of 10.0.0.0/16. It prints the rate of
 * received frames in the best and the median batch. It also prints the share of frames that the
 * router's port did not take. If that share is not well above 0, the result is the limit of this
 * program and not of the router.
 */
#include "base/clock.h"
#include "devmem/router/header.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

#define BURST   32
#define BATCH   8192
#define HEADERS 4096
#define SIZE    64

static uint8_t header[HEADERS][SIZE];
static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

static void make_headers(void)
{
	for (unsigned i = 0; i < HEADERS; i++) {
		uint8_t *f = header[i], *h = f + HK_ETHER_LEN;
		memcpy(f, mac, 6);
		memcpy(f + 6, (uint8_t[]){2, 0, 0, 0, 0, 0x99, 8, 0}, 8);
		memcpy(h,
		       (uint8_t[]){0x45,
				   0,
				   0,
				   SIZE - HK_ETHER_LEN,
				   0,
				   0,
				   0,
				   0,
				   64,
				   17,
				   0,
				   0,
				   198,
				   18,
				   9,
				   9,
				   10,
				   0,
				   (uint8_t)(i * 13 >> 8),
				   (uint8_t)(i * 13)},
		       20);
		uint16_t sum = (uint16_t)~hk_sum(h, 20, 0);
		memcpy(h + 10, &sum, 2);
	}
}

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

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const char *in = NULL, *out = NULL;
	unsigned batches = 1000, done = 0, next = 0, got = 0;
	uint64_t offered = 0, refused = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--in") == 0)
			in = argv[i + 1];
		else if (strcmp(argv[i], "--out") == 0)
			out = argv[i + 1];
		else if (strcmp(argv[i], "--batches") == 0)
			batches = (unsigned)atoi(argv[i + 1]);
	}
	double *rate = calloc(HK_MAX(batches, 1u), sizeof(*rate));
	if (!in || !out || !rate || !batches) {
		fprintf(stderr, "usage: %s --in SPEC --out SPEC [--batches N]\n", argv[0]);
		return 2;
	}
	make_headers();
	struct hk_port *a = open_port(in), *b = open_port(out);
	uint64_t since = hk_clock_ns(), idle_since = since;
	while (done < batches) {
		struct rte_mbuf *m[BURST];
		unsigned n = hk_port_rx(b, 0, m, BURST);
		got += n;
		if (n) {
			idle_since = 0;
		} else {
			uint64_t t = hk_clock_ns();
			idle_since = idle_since ? idle_since : t;
			if (t - idle_since > 10 * HK_SEC) {
				fprintf(stderr, "router_load: nothing came for 10 s\n");
				return 1;
			}
		}
		for (; n < BURST && (m[n] = rte_pktmbuf_alloc(a->pool)) != NULL; n++)
			(void)rte_pktmbuf_append(m[n], SIZE);
		for (unsigned i = 0; i < n; i++)
			memcpy(rte_pktmbuf_mtod(m[i], void *), header[next++ % HEADERS], SIZE);
		unsigned sent = n ? hk_port_tx(a, 0, m, (uint16_t)n) : 0;
		rte_pktmbuf_free_bulk(m + sent, n - sent);
		offered += n;
		refused += n - sent;
		if (got >= BATCH) {
			uint64_t t = hk_clock_ns();
			rate[done++] = (double)got * 1e3 / (double)(t - since);
			since = t;
			got = 0;
		}
	}
	qsort(rate, done, sizeof(*rate), by_value);
	printf("{\"best\": %.3f, \"upper\": %.3f, \"median\": %.3f, \"unit\": \"million/s\", "
	       "\"refused\": %.3f}\n",
	       rate[done - 1], rate[done - 1 - done / 10], rate[done / 2],
	       (double)refused / (double)offered);
	free(rate);
	hk_port_close(a);
	hk_port_close(b);
	return 0;
}

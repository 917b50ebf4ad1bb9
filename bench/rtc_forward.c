/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_forward.c: compares an rtc node that sends messages back with the simplest DPDK loop on
 * the same port: rte_eth_rx_burst(), swap the MAC addresses, rte_eth_tx_burst().
 *
 *   taskset -c 0 rtc_forward --dir /tmp/wires --role client &
 *   taskset -c 1 rtc_forward --dir /tmp/wires --role rtc        # or dpdk
 *
 * With --hold the node works for so many nanoseconds on each message before it answers. This shows
 * how long a handler may take before throughput falls (the first experiment of Yamamoto, Kawashima
 * and Matsuo, 2022).
 *
 * The client is plain DPDK as well. It keeps a window of 64-byte frames on the wire and sends each
 * returned frame again, so that the other side is the limit. It prints the rate of the best and of
 * the median batch. The best one shows the code's cost on a machine that also does other work.
 */
#include "base/clock.h"
#include "port/port.h"
#include "hikyaku/rtc.h"
#include "wire/msg.h"

#include <errno.h>
#include <getopt.h>
#include <rte_cycles.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ETH_HLEN    14
#define LEAVE_TRIES 1000000
#define BURST       32
#define BATCH       4096 /* frames */
#define KEY         7u
#define TYPE        1

static struct {
	const char *dir, *role;
	unsigned window, batches, frame, size, hold_ns;
} opt = {.window = 128, .batches = 2000, .frame = 2048, .size = 64};

static volatile sig_atomic_t stop;
static struct hk_rtc *node;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
	if (node)
		hk_rtc_stop(node);
}

static void die(const struct hk_error *err)
{
	fprintf(stderr, "rtc_forward: %s\n", err->text);
	exit(1);
}

static struct hk_port *open_wire(uint32_t self)
{
	struct hk_eal_config eal = {.memory_mb = 128};
	struct hk_error err = {""};
	struct hk_port *port;
	char set[200], spec[256];
	bool server;

	snprintf(set, sizeof(set), "memif:dir=%s,frame=%u", opt.dir, opt.frame);
	if (hk_port_wire_spec(set, KEY, self, !self, spec, sizeof(spec), &server, &err) ||
	    hk_eal_init(&eal, &err) || hk_port_open(spec, 4096, NULL, 20000, &port, &err) ||
	    hk_port_wait_link(port, 20000, &err))
		die(&err);
	return port;
}

static void send_all(struct hk_port *port, struct rte_mbuf **m, unsigned n)
{
	unsigned sent = 0;
	while (sent < n && !stop)
		sent += hk_port_tx(port, 0, m + sent, (uint16_t)(n - sent));
	if (sent < n)
		rte_pktmbuf_free_bulk(m + sent, n - sent);
}

/* ---- the measured side ----------------------------------------------------------------------- */

static void forward(void)
{
	struct hk_port *port = open_wire(0);
	struct rte_mbuf *m[BURST];

	for (unsigned spins = 0; !stop; spins++) {
		unsigned n = hk_port_rx(port, 0, m, BURST);
		if (n == 0 && spins % 65536 == 0 && !hk_port_link(port))
			break;
		for (unsigned i = 0; i < n; i++) {
			uint8_t *f = rte_pktmbuf_mtod(m[i], uint8_t *), mac[6];
			memcpy(mac, f, 6);
			memcpy(f, f + 6, 6);
			memcpy(f + 6, mac, 6);
		}
		if (n)
			send_all(port, m, n);
	}
	hk_port_close(port);
}

static uint64_t work_cycles; /* for each message */

/* Without a pause instruction, as in a handler that computes. */
static void work(uint64_t until)
{
	while (rte_rdtsc() < until)
		;
}

static void echo(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	(void)r;
	(void)arg;
	if (work_cycles)
		work(rte_rdtsc() + n * work_cycles);
	for (unsigned i = 0; i < n; i++)
		m[i].action = HK_RTC_REPLY;
}

static void on_member(struct hk_rtc *r, void *arg, uint16_t who, bool joined)
{
	(void)arg;
	(void)who;
	if (!joined)
		hk_rtc_stop(r);
}

static void serve(void)
{
	const struct hk_rtc_type type = {.name = "echo", .on_message = echo};
	struct hk_rtc_config cfg;
	struct hk_error err = {""};
	struct hk_rtc_type_stats s;
	char address[200], peers[] = "/tmp/rtc-forward-XXXXXX";
	FILE *f = fdopen(mkstemp(peers), "w");

	if (!f)
		exit(1);
	fprintf(f, "0 memif:dir=%s\n1 memif:dir=%s\n", opt.dir, opt.dir);
	fclose(f);
	snprintf(address, sizeof(address), "memif:dir=%s,frame=%u", opt.dir, opt.frame);
	hk_rtc_defaults(&cfg);
	cfg.backend = "dpdk";
	cfg.address = address;
	cfg.peers_file = peers;
	cfg.key = KEY;
	cfg.timeout_ms = 20000;
	cfg.alive_ms =
		10000; /* a client may lose its core for a second; it sends LEAVE at its end */
	cfg.on_member = on_member;
	int rc = hk_rtc_open(&cfg, &node, &err);
	(void)unlink(peers);
	if (rc || hk_rtc_register(node, TYPE, &type, &err))
		die(&err);
	work_cycles = opt.hold_ns * hk_eal_tsc_hz() / HK_SEC;
	hk_rtc_run(node);
	hk_rtc_type_stats(node, TYPE, &s);
	printf("{\"messages\": %llu, \"handler_ns\": %.2f}\n", (unsigned long long)s.messages,
	       (double)s.handler_ns / (double)HK_MAX(s.messages, 1u));
	hk_rtc_close(node);
}

/* ---- the client ------------------------------------------------------------------------------ */

static void write_frame(uint8_t *f, uint8_t type, unsigned size, uint32_t number)
{
	static const uint8_t eth[ETH_HLEN] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6};
	const struct hk_msg_hdr h = {.ver_flags = HK_MSG_VERSION,
				     .type = type,
				     .len = (uint16_t)(size - ETH_HLEN - HK_MSG_HLEN),
				     .src = 1,
				     .dst = 0,
				     .key = KEY,
				     .number = number,
				     .epoch = 1};
	memcpy(f, eth, sizeof(eth));
	hk_msg_encode(f + ETH_HLEN, &h);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Makes new requests of returned frames and drops other frames. Returns the number of requests.
 */
static unsigned turn_round(struct rte_mbuf **m, unsigned n, uint32_t *number)
{
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		uint8_t *f = rte_pktmbuf_mtod(m[i], uint8_t *);
		if (f[ETH_HLEN + 1] != TYPE) {
			rte_pktmbuf_free(m[i]);
			continue;
		}
		write_frame(f, TYPE, opt.size, (*number)++);
		m[k++] = m[i];
	}
	return k;
}

/* Tells the other side to end. DPDK's loop sees that the link goes down. */
static void leave(struct hk_port *port, uint32_t number)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	unsigned size = ETH_HLEN + HK_MSG_HLEN;

	if (!m)
		return;
	write_frame((uint8_t *)rte_pktmbuf_append(m, (uint16_t)size), HK_MSG_T_LEAVE, size, number);
	for (unsigned tries = 0; tries < LEAVE_TRIES; tries++)
		if (hk_port_tx(port, 0, &m, 1) == 1)
			return;
	rte_pktmbuf_free(m); /* then the node notices the silence */
}

static void ask(void)
{
	struct hk_port *port = open_wire(1);
	struct rte_mbuf *m[BURST];
	double *rate = calloc(opt.batches, sizeof(*rate));
	uint32_t number = 1;
	unsigned done = 0;
	uint64_t open = 0, got = 0, since = hk_clock_ns(), idle_since = since;

	if (!rate)
		exit(1);
	while (done < opt.batches && !stop) {
		unsigned k = turn_round(m, hk_port_rx(port, 0, m, BURST), &number);
		got += k;
		if (k)
			idle_since = 0;
		if (k == 0) {
			uint64_t t = hk_clock_ns();
			idle_since = idle_since ? idle_since : t;
			if (t - idle_since > 200 * HK_MSEC) /* lost, or not yet a member */
				open = 0, idle_since = t;
			while (open < opt.window && k < BURST &&
			       (m[k] = rte_pktmbuf_alloc(port->pool)) != NULL) {
				uint8_t *f = (uint8_t *)rte_pktmbuf_append(m[k],
									   (uint16_t)opt.size);
				memset(f, 0, opt.size);
				write_frame(f, TYPE, opt.size, number++);
				open++;
				k++;
			}
		}
		if (k)
			send_all(port, m, k);
		if (got >= BATCH) {
			uint64_t t = hk_clock_ns();
			rate[done++] = (double)got * 1e3 / (double)(t - since);
			since = t;
			got = 0;
		}
	}
	qsort(rate, done, sizeof(*rate), by_value);
	if (done)
		printf("{\"best\": %.3f, \"upper\": %.3f, \"median\": %.3f, \"unit\": "
		       "\"million/s\"}\n",
		       rate[done - 1], rate[done - 1 - done / 10], rate[done / 2]);
	free(rate);
	leave(port, number);
	hk_port_close(port);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"dir", required_argument, NULL, 'd'},
		{"role", required_argument, NULL, 'r'},
		{"window", required_argument, NULL, 'w'},
		{"batches", required_argument, NULL, 'b'},
		{"size", required_argument, NULL, 's'},
		{"hold", required_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		unsigned v = optarg ? (unsigned)atoi(optarg) : 0;
		if (o == 'd')
			opt.dir = optarg;
		else if (o == 'r')
			opt.role = optarg;
		else if (o == 'w')
			opt.window = v;
		else if (o == 'b')
			opt.batches = v;
		else if (o == 's')
			opt.size = v;
		else if (o == 'h')
			opt.hold_ns = v;
		else
			return 2;
	}
	if (!opt.dir || !opt.role || opt.window < 1 || opt.window > 256 || opt.batches < 1 ||
	    opt.size < 64 || opt.size > opt.frame) {
		fprintf(stderr,
			"usage: %s --dir DIR --role client|rtc|dpdk [--window 1..256] "
			"[--batches N] [--size 64..2048] [--hold NS]\n",
			argv[0]);
		return 2;
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (strcmp(opt.role, "client") == 0)
		ask();
	else if (strcmp(opt.role, "rtc") == 0)
		serve();
	else
		forward();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/hop_bench.c: the cost of our own code for a small message, without MPI and without another
 * core.
 *
 * Both ends are in one thread, so no cache line travels and no side waits. The times are those of
 * instructions and of the stalls that they cause. One hop is a message from one end to the other,
 * which also acknowledges the one before:
 *
 *   engine    the protocol: number and header, parse and account, reap
 *   raw       the driver (rings in memory, without a copy): a frame sent and received
 *   worker    all of our code: alloc, send, the driver, progress whose first poll finds the frame,
 *             handler
 *   empty     a progress call that finds no frame
 *   auth      as worker, with HK_PROTECTION_AUTH
 *   seal      as worker, with HK_PROTECTION_SEAL
 *   tag       the library's part of auth, at one end: each tag waits for the one before, as a
 *             message between two ranks waits for it
 *
 *   taskset -c 0 hop_bench [--batches N]
 *
 * It runs many short batches of all in turn, and prints the best and the median of each in
 * nanoseconds. The best is the cost of the code, whatever else the machine does. worker - raw is
 * our share of a message's latency.
 */
#include "base/clock.h"
#include "worker/private.h"
#include "hikyaku/worker.h"
#include "port/port.h"
#include "seal/gcm.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eth_ring.h>

#define HOPS      128 /* in a batch; short, so that some batches run undisturbed */
#define PAYLOAD   22  /* Open MPI's match header and 8 bytes */
#define FRAME     (HK_ETH_HLEN + HK_WIRE_HLEN + PAYLOAD)
#define AM        65
#define FRAME_MAX 2048

static struct rte_mempool *pool;
static struct hk_engine *engine[2];
static hk_peer engine_peer[2];
static struct hk_port *raw[2];
static struct hk_worker *worker[HK_PROTECTION_SEAL + 1][2]; /* by protection */
static hk_peer worker_peer[HK_PROTECTION_SEAL + 1][2];
static struct hk_gcm_key tag_key;
static unsigned delivered;
static uint64_t virtual = 1000; /* the engines' clock */

static void fail(const char *what)
{
	fprintf(stderr, "hop_bench: %s\n", what);
	exit(1);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static void make_engine(unsigned i)
{
	struct hk_engine_config cfg;

	hk_engine_config_default(&cfg);
	cfg.key = 1;
	cfg.endpoint = i;
	cfg.epoch = 1;
	size_t bytes = (hk_engine_size(&cfg) + 63) / 64 * 64;
	void *arena = aligned_alloc(64, bytes);

	engine[i] = arena ? hk_engine_init(arena, bytes, &cfg) : NULL;
	engine_peer[i] = engine[i] ? hk_engine_peer_add(engine[i], !i, 1, 0) : HK_PEER_NONE;
	if (engine_peer[i] == HK_PEER_NONE)
		fail("no memory for the engines");
}

/* Makes two ports of DPDK's driver for rings in memory. Each receives the frames that the other
 * sends, in the same buffers. */
static void make_wire(const char *name, struct hk_port *port[2])
{
	struct rte_ring *ring[2];
	char text[32];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%s_%u", name, i);
		ring[i] = rte_ring_create(text, 256, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (!ring[i])
			fail("no memory for rings");
	}
	for (unsigned i = 0; i < 2; i++) {
		struct rte_eth_conf conf = {0};

		snprintf(text, sizeof(text), "%s_port_%u", name, i);
		int id = rte_eth_from_rings(text, &ring[i], 1, &ring[!i], 1, 0);

		port[i] = calloc(1, sizeof(*port[i]));
		if (id < 0 || !port[i] || rte_eth_dev_configure((uint16_t)id, 1, 1, &conf) != 0 ||
		    rte_eth_rx_queue_setup((uint16_t)id, 0, 256, 0, NULL, pool) != 0 ||
		    rte_eth_tx_queue_setup((uint16_t)id, 0, 256, 0, NULL) != 0 ||
		    rte_eth_dev_start((uint16_t)id) != 0)
			fail("no port over rings");
		port[i]->id = (uint16_t)id;
		port[i]->pool = pool;
		port[i]->info = (struct hk_port_info){.frame_max = FRAME_MAX,
						      .queues = 1,
						      .rx_ring = 256,
						      .point_to_point = true};
	}
}

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	(void)arg;
	(void)peer;
	(void)am;
	(void)iov;
	delivered += n;
}

static void make_worker(unsigned i, struct hk_port *port, enum hk_protection protection)
{
	struct hk_worker_config cfg;
	struct hk_error err = {""};
	struct hk_worker **w = &worker[protection][i];

	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = 2 * protection + i; /* pools have its name */
	cfg.engine.epoch = 1;
	cfg.engine.protection = protection;
	cfg.frame_max = port->info.frame_max;
	if (hk_worker_open(&cfg, w, &err) != 0 || hk_worker_add_queue(*w, port, 0, &err) < 0)
		fail(err.text);
	hk_worker_set_am(*w, AM, on_message, NULL);
}

/* Two workers that know each other. */
static void make_workers(const char *name, struct hk_port **wire, enum hk_protection protection)
{
	struct hk_worker **pair = worker[protection];
	struct hk_peer_addr addr;
	struct hk_error err = {""};

	make_wire(name, wire);
	for (unsigned i = 0; i < 2; i++)
		make_worker(i, wire[i], protection);
	for (unsigned i = 0; i < 2; i++) {
		hk_worker_address(pair[!i], 0, &addr);
		addr.name = "the other";
		if (hk_worker_peer_add(pair[i], &addr, &worker_peer[protection][i], &err) != 0)
			fail(err.text);
	}
}

/* ---- hops ------------------------------------------------------------------------------------ */

static void engine_hop(unsigned from)
{
	static _Alignas(64) uint8_t space[192];
	uint8_t *frame = space + 128 - HK_WIRE_HLEN - HK_ETH_HLEN; /* payload: on a cache line */
	const struct hk_packet pkt = {
		.token = 1, .len = PAYLOAD, .type = HK_WIRE_DATA, .am = AM, .frags = 1};
	struct hk_rx rx;
	uint64_t tokens[8];

	frame[12] = HK_WIRE_ETHERTYPE >> 8;
	frame[13] = HK_WIRE_ETHERTYPE & 0xff;
	if (!hk_engine_send(engine[from], engine_peer[from], &pkt, virtual, frame + HK_ETH_HLEN))
		fail("an engine did not accept a packet");
	hk_engine_input(engine[!from], frame, FRAME, 2, virtual + 200, &rx);
	if (rx.result != HK_RX_DELIVER)
		fail("an engine did not deliver");
	(void)hk_engine_reap(engine[!from], tokens, HK_ARRAY_LEN(tokens));
	virtual += 400;
}

static void raw_hop(unsigned from)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(raw[from]->pool);

	if (!m)
		fail("no buffer");
	m->data_len = FRAME;
	m->pkt_len = FRAME;
	if (hk_port_tx(raw[from], 0, &m, 1) != 1)
		fail("the wire took no frame");
	if (hk_port_rx(raw[!from], 0, &m, 1) != 1)
		fail("the wire lost a frame");
	rte_pktmbuf_free(m);
}

static void hop_between(enum hk_protection protection, unsigned from)
{
	unsigned before = delivered;
	struct hk_worker **pair = worker[protection];
	hk_buf *b = hk_worker_alloc(pair[from]);

	if (!b)
		fail("a worker has no frame buffer");
	memset(hk_buf_data(b), 1, PAYLOAD);
	if (hk_worker_send(pair[from], worker_peer[protection][from], AM, b, PAYLOAD) != 0)
		fail("a worker did not send");
	hk_worker_progress(pair[!from]);
	if (delivered != before + 1)
		fail("a worker did not deliver");
}

static void worker_hop(unsigned from)
{
	hop_between(HK_PROTECTION_OFF, from);
}

static void auth_hop(unsigned from)
{
	hop_between(HK_PROTECTION_AUTH, from);
}

static void seal_hop(unsigned from)
{
	hop_between(HK_PROTECTION_SEAL, from);
}

static void empty_hop(unsigned from)
{
	hk_worker_progress(worker[HK_PROTECTION_OFF][from]);
}

static void tag_hop(unsigned from)
{
	static const uint8_t nonce[HK_GCM_NONCE_LEN];
	static uint8_t frame[HK_WIRE_HLEN + PAYLOAD];
	const struct hk_gcm_piece piece = {frame, sizeof(frame)};

	(void)from;
	hk_gcm_sign(&tag_key, nonce, &piece, 1, frame); /* the next frame begins with this tag */
}

/* ---- timing ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*hop)(unsigned from);
} what[] = {{"engine", engine_hop}, {"raw", raw_hop},   {"worker", worker_hop},
	    {"empty", empty_hop},   {"auth", auth_hop}, {"seal", seal_hop},
	    {"tag", tag_hop}};

static int by_value(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static long parse(int argc, char **argv)
{
	static const struct option options[] = {{"batches", required_argument, NULL, 'b'}, {0}};
	long batches = 2000;

	for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
		if (o != 'b' || (batches = atol(optarg)) < 1 || batches > 1000000) {
			fprintf(stderr, "usage: hop_bench [--batches 1…1000000]\n");
			exit(2);
		}
	return batches;
}

int main(int argc, char **argv)
{
	long batches = parse(argc, argv);
	struct hk_eal_config eal = {.memory_mb = 512};
	struct hk_error err = {""};
	struct hk_port *wire[HK_PROTECTION_SEAL + 1][2];
	double *ns[HK_ARRAY_LEN(what)];

	if (hk_eal_init(&eal, &err) != 0)
		fail(err.text);
	pool = rte_pktmbuf_pool_create("hop", 4095, 256, 0, FRAME_MAX + RTE_PKTMBUF_HEADROOM, 0);
	if (!pool)
		fail("no memory for buffers");
	for (unsigned i = 0; i < 2; i++)
		make_engine(i);
	make_wire("raw", raw);
	make_workers("worker", wire[HK_PROTECTION_OFF], HK_PROTECTION_OFF);
	make_workers("auth", wire[HK_PROTECTION_AUTH], HK_PROTECTION_AUTH);
	make_workers("seal", wire[HK_PROTECTION_SEAL], HK_PROTECTION_SEAL);
	hk_gcm_expand(&tag_key, (const uint8_t[HK_GCM_KEY_LEN]){0});
	for (unsigned k = 0; k < HK_ARRAY_LEN(what); k++)
		if (!(ns[k] = calloc((size_t)batches, sizeof(double))))
			fail("no memory");

	for (long b = 0; b < batches; b++)
		for (unsigned k = 0; k < HK_ARRAY_LEN(what); k++) {
			uint64_t start = hk_clock_ns();

			for (unsigned i = 0; i < HOPS; i++)
				what[k].hop(i & 1);
			ns[k][b] = (double)(hk_clock_ns() - start) / HOPS;
		}
	for (unsigned k = 0; k < HK_ARRAY_LEN(what); k++) {
		qsort(ns[k], (size_t)batches, sizeof(double), by_value);
		printf("{\"metric\":\"hop_ns\",\"what\":\"%s\",\"best\":%.1f,\"median\":%.1f}\n",
		       what[k].name, ns[k][0], ns[k][batches / 2]);
		free(ns[k]);
	}
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned p = 0; p <= HK_PROTECTION_SEAL; p++)
			hk_worker_close(worker[p][i], 100);
		free(engine[i]);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_switch.c: the software switch between a port and the pipes of ranks.
 *
 * The port is a net_ring that leads back to itself: what one rank sends comes back to the rank that the
 * frame names. The test plays all ranks. Needs root, for huge pages: the bell that wakes the switch is one of
 * a memory that processes share.
 */
#include "host/switch.h"
#include "tests/unit/hk_test.h"
#include "tests/unit/port/shared_rig.h"
#include "wire/wire.h"

#include <time.h>

#define WAIT_MS 30000 /* no test takes a hundredth of it */
#define KEY     0x53574954u
#define WORKER  2
#define PAGES   40
#define SHARE   16
#define BUFFERS 256

static void say(void *arg, const char *text)
{
	(void)arg;
	FAIL("%s", text);
}

static const struct hk_last_words words = {say, NULL};
static struct hk_port *port;
static struct hk_switch *sw;
static struct rte_mempool *rx_pool;

struct rank {
	unsigned slot;
	struct hk_pipe *pipes;
	struct rte_mempool *tx_pool;
	struct hk_port port;
};

/* A port of @all queue pairs, of which the switch has @eager. */
static void start_with(unsigned all, unsigned eager)
{
	struct hk_eal_config eal = {.role = HK_EAL_PRIMARY,
				    .shared = "hkt-switch",
				    .huge_dir = rig_huge,
				    .memory_mb = 2 * PAGES,
				    .worker = WORKER};
	struct hk_error err = {""};
	static unsigned rings;
	char spec[64];

	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	snprintf(spec, sizeof(spec), "vdev:net_ring%u", rings++);
	struct rte_mempool *pool[8];
	struct hk_port_queues q = {.count = all, .pool = pool};

	CHECK_MSG(hk_pool_create(spec + 5, BUFFERS, 9216, &rx_pool, &err) == 0, "%s", err.text);
	for (unsigned i = 0; i < all; i++)
		pool[i] = rx_pool;
	CHECK_MSG(hk_port_open_queues(spec, &q, WAIT_MS, &port, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_switch_start(WORKER, &words, &sw, &err) == 0, "%s", err.text);
	struct hk_switch_wire wire = {.port = port, .queues = eager, .copies = rx_pool};

	CHECK_MSG(hk_switch_wire(sw, 0, &wire, &err) == 0, "%s", err.text);
}

static void start(void)
{
	start_with(1, 1);
}

static void stop(void)
{
	struct hk_error err = {""};

	CHECK_EQ(hk_switch_wire(sw, 0, NULL, &err), 0);
	hk_switch_stop(sw);
	hk_port_close(port);
	hk_pool_free(rx_pool);
}

static void rank_add(struct rank *r, unsigned slot, uint32_t endpoint)
{
	static unsigned pools;
	struct hk_error err = {""};
	char name[20];

	r->slot = slot;
	r->pipes = aligned_alloc(64, HK_SWITCH_WIRES * sizeof(*r->pipes));
	CHECK(r->pipes != NULL);
	snprintf(name, sizeof(name), "tx%u", pools++);
	CHECK_MSG(hk_pool_create_room(name, 128, 0, 2048, &r->tx_pool, &err) == 0, "%s", err.text);
	struct hk_switch_slot s = {.job_key = KEY,
				   .endpoint = endpoint,
				   .pipes = r->pipes,
				   .tx_pool = r->tx_pool,
				   .share = SHARE};

	CHECK_MSG(hk_switch_slot_add(sw, slot, &s, &err) == 0, "%s", err.text);
	hk_pipe_port(r->pipes, &port->info, &r->port);
}

static void rank_remove(struct rank *r)
{
	struct hk_error err = {""};

	CHECK_EQ(hk_switch_slot_remove(sw, r->slot, &err), 0);
	hk_pool_free(r->tx_pool);
	free(r->pipes);
}

/* @n frames for @endpoint. */
static void send_to(struct rank *r, uint32_t endpoint, unsigned n)
{
	struct hk_wire_hdr h = {.version = HK_WIRE_VERSION,
				.type = HK_WIRE_DATA,
				.frags = 1,
				.key = KEY,
				.src = 1,
				.dst = endpoint};

	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(r->tx_pool);
		uint8_t mac[6] = {2};

		CHECK(m != NULL);
		char *at = rte_pktmbuf_append(m, HK_ETH_HLEN + HK_WIRE_HLEN);

		hk_wire_put_eth(at, mac, mac);
		hk_wire_put_hdr(at + HK_ETH_HLEN, &h);
		CHECK_EQ(hk_port_tx(&r->port, 0, &m, 1), 1);
	}
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Waits until the switch has received @frames since it started. */
static void passed(uint64_t frames)
{
	struct hk_switch_counters n;
	uint64_t end = now_ms() + WAIT_MS;

	do {
		hk_switch_counters(sw, &n);
		CHECK_MSG(now_ms() < end, "%lu of %lu frames came", n.rx_frames, frames);
	} while (n.rx_frames < frames);
}

static unsigned receive(struct rank *r)
{
	struct rte_mbuf *m[32];
	unsigned all = 0, n;

	while ((n = hk_port_rx(&r->port, 0, m, 32)) > 0)
		for (all += n; n > 0; n--)
			rte_pktmbuf_free_seg(m[n - 1]);
	return all;
}

/* A rank has died and its slot has not come back yet when its successor attaches, in a slot behind it or before. */
static void the_living_gets_the_frames(void)
{
	for (unsigned before = 0; before < 2; before++) {
		struct rank dead, living, other;

		start();
		rank_add(&dead, 1, 7);
		rank_add(&other, 3, 8);
		send_to(&other, 7, 1); /* the switch remembers whose the last frame was */
		passed(1);
		CHECK_EQ(receive(&dead), 1);
		rank_add(&living, before ? 0 : 2, 7);
		send_to(&other, 7, 5);
		passed(6);
		CHECK_EQ(receive(&dead), 0);
		CHECK_EQ(receive(&living), 5);
		rank_remove(&dead);
		send_to(&other, 7, 5);
		passed(11);
		CHECK_EQ(receive(&living), 5);
		rank_remove(&living);
		rank_remove(&other);
		stop();
	}
}

/* What is dropped is counted for the slot, and anew for its next rank. */
static void drops_are_counted_for_each_slot(void)
{
	struct hk_switch_drops n;
	struct rank a, b;

	start();
	rank_add(&a, 0, 7);
	rank_add(&b, 1, 8);
	send_to(&b, 7, SHARE + 5);
	passed(SHARE + 5);
	for (uint64_t end = now_ms() + WAIT_MS; hk_switch_drops(sw, 0, &n), n.rx_share < 5;)
		CHECK_MSG(now_ms() < end, "%lu drops are counted", n.rx_share);
	CHECK_EQ(n.rx_share, 5);
	CHECK_EQ(n.rx_full + n.tx_lost, 0);
	hk_switch_drops(sw, 1, &n);
	CHECK_EQ(n.rx_full + n.rx_share + n.tx_lost, 0);
	rank_remove(&a);
	rank_add(&a, 0, 9);
	hk_switch_drops(sw, 0, &n);
	CHECK_EQ(n.rx_share, 0);
	rank_remove(&a);
	rank_remove(&b);
	stop();
}

/* Ranks are spread over the eager pool by their slots; what lies behind it is not the switch's. */
static void eager_pool(void)
{
	struct rank r[3];
	struct rte_eth_stats s;
	struct rte_mbuf *m, *none[1];

	start_with(3, 2);
	for (unsigned i = 0; i < 3; i++)
		rank_add(&r[i], i, 7 + i);
	for (unsigned i = 0; i < 3; i++)
		send_to(&r[i], 7, 1 + i);
	passed(6);
	CHECK_EQ(receive(&r[0]), 6);
	CHECK_EQ(rte_eth_stats_get(port->id, &s), 0);
	CHECK_EQ(s.q_ipackets[0], 1 + 3); /* slots 0 and 2 */
	CHECK_EQ(s.q_ipackets[1], 2);     /* slot 1 */
	CHECK_EQ(s.q_ipackets[2], 0);

	/* a rank polls the third pair: the switch leaves what comes there alone */
	m = rte_pktmbuf_alloc(rx_pool);
	CHECK(m != NULL);
	m->data_len = 100;
	m->pkt_len = 100;
	CHECK_EQ(hk_port_tx(port, 2, &m, 1), 1);
	send_to(&r[0], 8, 4);
	passed(10);
	CHECK_EQ(receive(&r[1]), 4);
	CHECK_EQ(hk_port_rx(port, 2, none, 1), 1);
	rte_pktmbuf_free(none[0]);
	for (unsigned i = 0; i < 3; i++)
		rank_remove(&r[i]);
	stop();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"the_living_gets_the_frames", the_living_gets_the_frames},
		{"eager_pool", eager_pool},
		{"drops_are_counted_for_each_slot", drops_are_counted_for_each_slot},
	};

	rig_up(PAGES);
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	rig_down();
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/switch_rig.h: a port of a switch, and ranks behind the switch.
 *
 * The port is a net_ring that leads back to itself: a frame that one rank sends comes back to the
 * rank that it names. The test plays all ranks, and has its own way to add them to the switch.
 */
#ifndef HK_TESTS_UNIT_HOSTD_SWITCH_RIG_H
#define HK_TESTS_UNIT_HOSTD_SWITCH_RIG_H

#include "hostd/switch.h"
#include "tests/support/frames.h"
#include "tests/support/hk_test.h"

#define KEY     0x53574954u
#define SHARE   16
#define BUFFERS 256

static struct hk_switch *sw;
static struct hk_port *port;
static struct rte_mempool *rx_pool;

struct rank {
	unsigned slot;
	struct hk_pipe *pipes;
	struct rte_mempool *tx_pool;
	struct hk_port port;
	struct hk_switch_slot to_add; /* what the switch needs to know */
};

/* Opens the port, with @queues queue pairs (at most 8). */
static void ring_open(unsigned queues)
{
	struct rte_mempool *pool[8];
	struct hk_port_queues q = {.count = queues, .pool = pool};
	static unsigned rings;
	char spec[64];

	snprintf(spec, sizeof(spec), "vdev:net_ring%u", rings++);
	CHECK_OK(hk_pool_create(spec + 5, BUFFERS, 9216, &rx_pool, ERR));
	for (unsigned i = 0; i < queues; i++)
		pool[i] = rx_pool;
	CHECK_OK(hk_port_open_queues(spec, &q, 30000, &port, ERR));
}

static void ring_close(void)
{
	hk_port_close(port);
	hk_pool_free(rx_pool);
}

/* Makes the memory of a rank. */
static void rank_open(struct rank *r, unsigned slot, uint32_t endpoint)
{
	static unsigned pools;
	char name[20];

	r->slot = slot;
	r->pipes = aligned_alloc(64, HK_SWITCH_WIRES * sizeof(*r->pipes));
	CHECK(r->pipes != NULL);
	snprintf(name, sizeof(name), "tx%u", pools++);
	CHECK_OK(hk_pool_create_sized(name, 128, 0, 2048, &r->tx_pool, ERR));
	r->to_add = (struct hk_switch_slot){.job_key = KEY,
					    .endpoint = endpoint,
					    .pipes = r->pipes,
					    .tx_pool = r->tx_pool,
					    .share = SHARE};
}

static void rank_close(struct rank *r)
{
	hk_pool_free(r->tx_pool);
	free(r->pipes);
}

/* The rank sends @n frames to @endpoint. */
static void send_to(struct rank *r, uint32_t endpoint, unsigned n)
{
	const struct hk_wire_hdr h = frame_hdr(HK_WIRE_DATA, KEY, 1, endpoint);

	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(r->tx_pool);

		CHECK(m != NULL);
		frame_encode(rte_pktmbuf_append(m, HK_ETH_HLEN + HK_WIRE_HLEN), &h, NULL,
			     HK_WIRE_BARE);
		CHECK_EQ(hk_port_tx(&r->port, 0, &m, 1), 1);
	}
}

/* Takes all frames that wait for the rank. Returns how many. */
static unsigned receive(struct rank *r)
{
	struct rte_mbuf *m[32];
	unsigned all = 0, n;

	while ((n = hk_port_rx(&r->port, 0, m, 32)) > 0)
		for (all += n; n > 0; n--)
			rte_pktmbuf_free_seg(m[n - 1]);
	return all;
}

#endif

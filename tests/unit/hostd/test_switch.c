/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_switch.c: the software switch between a port and the pipes of ranks.
 *
 * It needs root for huge pages, since the switch's wakeup is in memory that processes share.
 */
#include "tests/support/await.h"
#include "tests/support/shared.h"
#include "tests/unit/hostd/switch_rig.h"

#define WAIT_MS 30000 /* a test takes less than a hundredth of it */
#define WORKER  2
#define PAGES   40

static void write_abort(void *arg, const char *text)
{
	FAIL("%s", text);
}

static const struct hk_abort_log abort_log = {write_abort, NULL};

/* Starts a switch that polls @eager of the @all queue pairs of a port. */
static void start_with(unsigned all, unsigned eager)
{
	struct hk_eal_config eal = {.role = HK_EAL_PRIMARY,
				    .shared = "hkt-switch",
				    .huge_dir = rig_huge,
				    .memory_mb = 2 * PAGES,
				    .worker = WORKER};

	CHECK_OK(hk_eal_init(&eal, ERR));
	ring_open(all);
	CHECK_OK(hk_switch_start(WORKER, &abort_log, &sw, ERR));
	struct hk_switch_wire wire = {.port = port, .queues = eager, .copies = rx_pool};

	CHECK_OK(hk_switch_wire(sw, 0, &wire, ERR));
}

static void start(void)
{
	start_with(1, 1);
}

static void stop(void)
{
	CHECK_OK(hk_switch_wire(sw, 0, NULL, ERR));
	hk_switch_stop(sw);
	ring_close();
}

static void rank_add(struct rank *r, unsigned slot, uint32_t endpoint)
{
	rank_open(r, slot, endpoint);
	CHECK_OK(hk_switch_slot_add(sw, slot, &r->to_add, ERR));
	hk_pipe_port(r->pipes, &port->info, &r->port);
}

static void rank_remove(struct rank *r)
{
	CHECK_OK(hk_switch_slot_remove(sw, r->slot, ERR));
	rank_close(r);
}

/* Waits until the switch has received @frames since it started. */
static void passed(uint64_t frames)
{
	struct hk_switch_counters n = {0};

	AWAIT(WAIT_MS, n.rx_frames >= frames, hk_switch_counters(sw, &n));
}

/* A rank has died, and the restarted rank attaches before the old slot is free: in a slot after it,
 * or before it. */
TEST(the_living_gets_the_frames)
{
	for (unsigned before = 0; before < 2; before++) {
		struct rank dead, living, other;

		start();
		rank_add(&dead, 1, 7);
		rank_add(&other, 3, 8);
		send_to(&other, 7, 1); /* the switch remembers the slot of the last frame */
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

/* The switch counts dropped frames for each slot, and from zero for the next rank in it. */
TEST(drops_are_counted_for_each_slot)
{
	struct hk_pipe_levels n = {0};
	struct rank a, b;

	start();
	rank_add(&a, 0, 7);
	rank_add(&b, 1, 8);
	send_to(&b, 7, SHARE + 5);
	passed(SHARE + 5);
	AWAIT(WAIT_MS, n.rx_dropped_quota >= 5, hk_switch_pipe_counters(sw, 0, &n));
	CHECK_EQ(n.rx_dropped_quota, 5);
	CHECK_EQ(n.rx_dropped_full + n.tx_full, 0);
	hk_switch_pipe_counters(sw, 1, &n);
	CHECK_EQ(n.rx_dropped_full + n.rx_dropped_quota + n.tx_full, 0);
	rank_remove(&a);
	rank_add(&a, 0, 9);
	hk_switch_pipe_counters(sw, 0, &n);
	CHECK_EQ(n.rx_dropped_quota, 0);
	rank_remove(&a);
	rank_remove(&b);
	stop();
}

/* The slot's number selects a rank's eager queue. The switch leaves the other queues alone. */
TEST(eager_pool)
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

	/* a rank polls the third queue pair: the switch does not take its frames */
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

BEFORE_ALL()
{
	rig_up(PAGES);
}

AFTER_ALL()
{
	rig_down();
}

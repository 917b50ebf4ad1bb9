/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_rank_counters.c: hk_res_rank_counters() on memory that a hostile rank has
 * written. Unreadable pages surround the memory, so the test dies if a read goes too far.
 */
#include "engine/internal.h"
#include "worker/internal.h"
#include "hostd/resources.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN ((size_t)64 << 10)

static uint64_t memory; /* LEN bytes, with a page on each side that cannot be read */

static uint64_t map(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, LEN + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && mprotect(p + page, LEN, PROT_READ | PROT_WRITE) == 0);
	return (uint64_t)(uintptr_t)(p + page);
}

/* Writes a worker at @at with an engine at @engine, if the memory has space there, and reads it. */
static int read_from(uint64_t at, uint64_t engine, struct hk_res_rank *n)
{
	struct hk_worker *w = (void *)(uintptr_t)at;

	if (at >= memory && at <= memory + LEN - sizeof(*w) && at % 8 == 0)
		w->engine = (void *)(uintptr_t)engine;
	return hk_res_rank_counters(memory, LEN, at, n);
}

static void setup(void)
{
	if (!memory)
		memory = map();
	memset((void *)(uintptr_t)memory, 0, LEN);
}

/* Each counter has its own name. */
TEST(a_correct_rank)
{
	struct hk_worker *w;
	struct hk_engine *e;
	struct hk_res_rank n;

	setup();
	w = (void *)(uintptr_t)memory;
	e = (void *)(uintptr_t)(memory + LEN - sizeof(*e)); /* the last possible address */
	CHECK_EQ(read_from(memory, (uint64_t)(uintptr_t)e, &n), 0);
	CHECK_EQ(n.engine.tx_packets + n.worker.proxy_backlogged + n.levels.unpolled_ns, 0);
	e->n = (struct hk_engine_counters){.tx_packets = 1,
					   .tx_bytes = 2,
					   .rx_packets = 3,
					   .rx_bytes = 4,
					   .tx_resends = 5,
					   .loss_time = 6,
					   .loss_rto = 7,
					   .tx_acks = 8,
					   .rx_duplicates = 9,
					   .no_credit = 10,
					   .dead_peers = 11};
	w->n = (struct hk_worker_counters){
		.proxy_backlogged = 12, .messages_sent = 13, .put_bytes = 14, .tx_bulk = 16};
	w->rx_backlog.frames = 15;
	w->ns_mult = UINT64_C(1) << 32;
	CHECK_EQ(hk_res_rank_counters(memory, LEN, memory, &n), 0);
	CHECK_EQ(n.engine.tx_packets, 1);
	CHECK_EQ(n.engine.tx_bytes, 2);
	CHECK_EQ(n.engine.rx_packets, 3);
	CHECK_EQ(n.engine.rx_bytes, 4);
	CHECK_EQ(n.engine.tx_resends, 5);
	CHECK_EQ(n.engine.loss_time, 6);
	CHECK_EQ(n.engine.loss_rto, 7);
	CHECK_EQ(n.engine.tx_acks, 8);
	CHECK_EQ(n.engine.rx_duplicates, 9);
	CHECK_EQ(n.engine.no_credit, 10);
	CHECK_EQ(n.engine.dead_peers, 11);
	CHECK_EQ(n.worker.proxy_backlogged, 12);
	CHECK_EQ(n.worker.messages_sent, 13);
	CHECK_EQ(n.worker.put_bytes, 14);
	CHECK_EQ(n.levels.rx_backlog_frames, 15);
	CHECK_EQ(n.worker.tx_bulk, 16);
	CHECK(n.levels.unpolled_ns > 0);
	w->app_polled_at = UINT64_MAX / 2; /* a look in the future */
	CHECK_EQ(hk_res_rank_counters(memory, LEN, memory, &n), 0);
	CHECK_EQ(n.levels.unpolled_ns, 0);
}

/* The sums contain the frames of all txqs, except those that are not entirely in the memory. */
TEST(txqs)
{
	struct hk_res_rank n;

	setup();
	struct hk_worker *w = (void *)(uintptr_t)memory;
	struct hk_txq *l = (void *)(uintptr_t)(memory + LEN / 2);
	uint64_t engine = memory + LEN / 4;

	for (unsigned i = 0; i < 2; i++) {
		w->txq[i] = &l[i];
		l[i].own_port.rx_frames = 10 + i;
		l[i].own_port.tx_frames = 20 + i;
		l[i].own_port.tx_full = 30 + i;
	}
	w->txqs = 2;
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.levels.rx_frames, 21);
	CHECK_EQ(n.levels.tx_frames, 41);
	CHECK_EQ(n.levels.tx_full, 61);
	const uint64_t at = offsetof(struct hk_txq, own_port) + offsetof(struct hk_port, rx_frames);

	w->txq[0] = (void *)(uintptr_t)(memory + LEN - at - 16); /* its last counter is outside */
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.levels.rx_frames, 11);
	w->txq[1] = (void *)(uintptr_t)(0 - at); /* wraps round */
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.levels.rx_frames + n.levels.tx_frames + n.levels.tx_full, 0);
	w->txqs = UINT32_MAX; /* more than there can be: of those behind there is no pointer */
	w->txq[HK_MAX_PORTS - 1] = &l[1];
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.levels.rx_frames, 11);
}

/* All addresses near the edges, for the worker and for its engine. */
TEST(edges)
{
	const uint64_t sizes[] = {sizeof(struct hk_worker), sizeof(struct hk_engine_counters)};
	struct hk_res_rank n;

	setup();
	uint64_t engine = memory + sizeof(struct hk_worker);

	for (uint64_t back = 0; back <= 2 * sizes[0]; back++) {
		uint64_t at = memory + LEN - back;
		bool fits = back >= sizes[0] && at % 8 == 0;

		CHECK_EQ(read_from(at, engine, &n), fits ? 0 : -EFAULT);
	}
	setup();
	uint64_t ahead = offsetof(struct hk_engine, n) + sizes[1];

	for (uint64_t back = 0; back <= 2 * ahead; back++) {
		uint64_t e = memory + LEN - back;
		bool fits = back >= ahead && e % 8 == 0;

		CHECK_EQ(read_from(memory, e, &n), fits ? 0 : -EFAULT);
	}
	for (uint64_t before = 1; before <= 4096; before++) {
		CHECK_EQ(read_from(memory - before, engine, &n), -EFAULT);
		CHECK_EQ(read_from(memory, memory - before, &n), -EFAULT);
	}
	/* the memory is smaller than a worker */
	for (uint64_t len = 0; len < sizes[0]; len += 8)
		CHECK_EQ(hk_res_rank_counters(memory + LEN - len, len, memory + LEN - len, &n),
			 -EFAULT);
	CHECK_EQ(n.engine.tx_packets, 0);
}

/* Addresses that overflow when a length is added to them. */
TEST(wild_addresses)
{
	const uint64_t bad[] = {0,
				8,
				4096,
				UINT64_MAX,
				UINT64_MAX - 7,
				UINT64_MAX - 4095,
				UINT64_C(1) << 63,
				(UINT64_C(1) << 63) - 8,
				(UINT64_C(1) << 47) - 8};
	struct hk_res_rank n;

	setup();
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(read_from(bad[i], memory, &n), -EFAULT);
		CHECK_EQ(read_from(memory, bad[i], &n), -EFAULT);
	}
}

/* Random words everywhere, and pointers near valid ones. A read outside kills the test. */
TEST(noise)
{
	struct hk_rng *r = &hk_test_rng;
	struct hk_res_rank n;
	unsigned good = 0;

	setup();
	for (unsigned round = 0; round < 200000; round++) {
		uint64_t *word = (uint64_t *)(uintptr_t)memory;
		uint64_t at = memory + hk_rng_below(r, LEN / 8) * 8;
		uint64_t engine = hk_rng_chance(r, 900000)
					  ? memory + (hk_rng_below(r, LEN / 4) - LEN / 16) * 8
					  : hk_rng_next(r);

		word[hk_rng_below(r, LEN / 8)] = hk_rng_next(r);
		good += read_from(at, engine, &n) == 0;
	}
	CHECK(good > 1000);
}

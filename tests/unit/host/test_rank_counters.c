/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_rank_counters.c: hk_res_rank_counters() on memory that a hostile rank has written.
 * The memory ends at pages that cannot be read, so one word too far ends the test.
 */
#include "engine/internal.h"
#include "fabric/internal.h"
#include "host/resources.h"
#include "tests/unit/hk_test.h"

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

/* A fabric at @at whose engine is at @engine, both written as a rank writes: wherever there is room. */
static int read_from(uint64_t at, uint64_t engine, struct hk_res_rank *n)
{
	struct hk_fabric *f = (void *)(uintptr_t)at;

	if (at >= memory && at <= memory + LEN - sizeof(*f) && at % 8 == 0)
		f->engine = (void *)(uintptr_t)engine;
	return hk_res_rank_counters(memory, LEN, at, n);
}

static void setup(void)
{
	if (!memory)
		memory = map();
	memset((void *)(uintptr_t)memory, 0, LEN);
}

/* Each counter arrives under its own name. */
static void honest(void)
{
	struct hk_fabric *f;
	struct hk_engine *e;
	struct hk_res_rank n;

	setup();
	f = (void *)(uintptr_t)memory;
	e = (void *)(uintptr_t)(memory + LEN - sizeof(*e)); /* the last place for one */
	CHECK_EQ(read_from(memory, (uint64_t)(uintptr_t)e, &n), 0);
	CHECK_EQ(n.tx_packets + n.kept + n.unpolled_ns, 0);
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
	f->n = (struct hk_fabric_counters){
		.async_kept = 12, .am_sent = 13, .put_bytes = 14, .tx_bulk = 16};
	f->kept_frames = 15;
	f->ns_mult = UINT64_C(1) << 32;
	CHECK_EQ(hk_res_rank_counters(memory, LEN, memory, &n), 0);
	CHECK_EQ(n.tx_packets, 1);
	CHECK_EQ(n.tx_bytes, 2);
	CHECK_EQ(n.rx_packets, 3);
	CHECK_EQ(n.rx_bytes, 4);
	CHECK_EQ(n.resends, 5);
	CHECK_EQ(n.loss_time, 6);
	CHECK_EQ(n.loss_rto, 7);
	CHECK_EQ(n.tx_acks, 8);
	CHECK_EQ(n.duplicates, 9);
	CHECK_EQ(n.no_credit, 10);
	CHECK_EQ(n.dead_peers, 11);
	CHECK_EQ(n.kept, 12);
	CHECK_EQ(n.messages_sent, 13);
	CHECK_EQ(n.put_bytes, 14);
	CHECK_EQ(n.kept_now, 15);
	CHECK_EQ(n.tx_bulk, 16);
	CHECK(n.unpolled_ns > 0);
	f->app_at = UINT64_MAX / 2; /* a look in the future */
	CHECK_EQ(hk_res_rank_counters(memory, LEN, memory, &n), 0);
	CHECK_EQ(n.unpolled_ns, 0);
}

/* Frames of all lanes are added up; a lane that lies elsewhere, or partly, counts for nothing. */
static void lanes(void)
{
	struct hk_res_rank n;

	setup();
	struct hk_fabric *f = (void *)(uintptr_t)memory;
	struct hk_lane *l = (void *)(uintptr_t)(memory + LEN / 2);
	uint64_t engine = memory + LEN / 4;

	for (unsigned i = 0; i < 2; i++) {
		f->lane[i] = &l[i];
		l[i].copy.rx_frames = 10 + i;
		l[i].copy.tx_frames = 20 + i;
		l[i].copy.tx_full = 30 + i;
	}
	f->lanes = 2;
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.rx_frames, 21);
	CHECK_EQ(n.tx_frames, 41);
	CHECK_EQ(n.tx_full, 61);
	const uint64_t at = offsetof(struct hk_lane, copy) + offsetof(struct hk_port, rx_frames);

	f->lane[0] = (void *)(uintptr_t)(memory + LEN - at - 16); /* its last counter is outside */
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.rx_frames, 11);
	f->lane[1] = (void *)(uintptr_t)(0 - at); /* wraps round */
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.rx_frames + n.tx_frames + n.tx_full, 0);
	f->lanes = UINT32_MAX; /* more than there can be: of those behind there is no pointer */
	f->lane[HK_MAX_PORTS - 1] = &l[1];
	CHECK_EQ(read_from(memory, engine, &n), 0);
	CHECK_EQ(n.rx_frames, 11);
}

/* Every place at the edges, for the fabric and for the engine it names. */
static void edges(void)
{
	const uint64_t sizes[] = {sizeof(struct hk_fabric), sizeof(struct hk_engine_counters)};
	struct hk_res_rank n;

	setup();
	uint64_t engine = memory + sizeof(struct hk_fabric);

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
	/* a memory that is smaller than a fabric */
	for (uint64_t len = 0; len < sizes[0]; len += 8)
		CHECK_EQ(hk_res_rank_counters(memory + LEN - len, len, memory + LEN - len, &n),
			 -EFAULT);
	CHECK_EQ(n.tx_packets, 0);
}

/* Addresses that overflow when a length is added to them. */
static void wild_addresses(void)
{
	const uint64_t wild[] = {0,
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
	for (unsigned i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		CHECK_EQ(read_from(wild[i], memory, &n), -EFAULT);
		CHECK_EQ(read_from(memory, wild[i], &n), -EFAULT);
	}
}

/* Noise all over; pointers drawn close to the truth. Nothing is read outside, or this dies. */
static void noise(void)
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

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"honest", honest}, {"lanes", lanes},
		{"edges", edges},   {"wild_addresses", wild_addresses},
		{"noise", noise},
	};

	return hk_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}

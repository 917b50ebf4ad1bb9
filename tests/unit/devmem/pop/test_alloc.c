/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/pop/test_alloc.c: devmem/pop/alloc.h against a model that has a byte for each
 * grain of the range.
 */
#include "devmem/pop/alloc.h"
#include "tests/support/hk_test.h"

#include <errno.h>

#define GRAIN HK_ALLOC_GRAIN

struct model {
	struct hk_alloc *a;
	uint64_t grains;
	unsigned char *taken; /* [grains] */
	struct block {
		uint64_t at, size, align;
	} * blocks;
	size_t n;
	uint64_t used, rejected;
};

static void model_init(struct model *m, uint64_t size, size_t blocks)
{
	*m = (struct model){.a = hk_alloc_new(size), .grains = size / GRAIN};
	m->taken = calloc(m->grains, 1);
	m->blocks = calloc(blocks, sizeof(*m->blocks));
	CHECK(m->a && m->taken && m->blocks);
}

static void model_end(struct model *m)
{
	hk_alloc_delete(m->a);
	free(m->taken);
	free(m->blocks);
}

static uint64_t grains_of(uint64_t size)
{
	return (size + GRAIN - 1) / GRAIN;
}

/* A free piece of so many bytes is enough, as alloc.h states. */
static uint64_t enough(uint64_t size, uint64_t align)
{
	uint64_t n = grains_of(size) * GRAIN + (align > GRAIN ? align - GRAIN : 0);
	return n + n / 32 + GRAIN;
}

static void take(struct model *m, uint64_t size, uint64_t align)
{
	struct hk_alloc_usage u;

	hk_alloc_usage(m->a, &u);
	uint64_t at = hk_alloc_take(m->a, size, align);
	if (at == HK_ALLOC_NONE) {
		/* refused: then no piece was large enough, and free bytes are within the bound */
		m->rejected++;
		CHECK_CMP(u.largest_free, <, enough(size, align));
		CHECK_CMP(u.free, <, (m->n + 1) * enough(size, align));
		return;
	}
	CHECK_EQ(at % (align ? align : GRAIN), 0);
	CHECK_CMP(at / GRAIN + grains_of(size), <=, m->grains);
	for (uint64_t g = at / GRAIN; g < at / GRAIN + grains_of(size); g++) {
		CHECK(!m->taken[g]);
		m->taken[g] = 1;
	}
	CHECK_EQ(hk_alloc_size(m->a, at), grains_of(size) * GRAIN);
	m->blocks[m->n++] = (struct block){at, size, align};
	m->used += grains_of(size) * GRAIN;
}

static void give(struct model *m, size_t i)
{
	struct block b = m->blocks[i];

	CHECK_EQ(hk_alloc_give(m->a, b.at), 0);
	memset(m->taken + b.at / GRAIN, 0, grains_of(b.size));
	CHECK_EQ(hk_alloc_give(m->a, b.at), -EINVAL); /* freed twice */
	m->blocks[i] = m->blocks[--m->n];
	m->used -= grains_of(b.size) * GRAIN;
}

static void compare(struct model *m)
{
	struct hk_alloc_usage u;
	uint64_t pieces = 0, largest = 0, run = 0;

	for (uint64_t g = 0; g <= m->grains; g++) {
		if (g < m->grains && !m->taken[g]) {
			pieces += run++ == 0;
			largest = HK_MAX(largest, run);
		} else {
			run = 0;
		}
	}
	hk_alloc_usage(m->a, &u);
	CHECK_EQ(u.used, m->used);
	CHECK_EQ(u.free, m->grains * GRAIN - m->used);
	CHECK_EQ(u.blocks, m->n);
	CHECK_EQ(u.free_pieces, pieces);
	CHECK_EQ(u.largest_free, largest * GRAIN);
	const char *wrong = hk_alloc_check(m->a);
	CHECK_MSG(!wrong, "%s", wrong);
}

/* A million operations with sizes of all magnitudes, in a range that is nearly empty or nearly
 * full. */
TEST(million)
{
	struct model m;
	const size_t max = 4000;

	model_init(&m, 16u << 20, max + 1);
	for (unsigned i = 0; i < 1000000; i++) {
		unsigned wave = i / 50000 % 2 ? 350000 : 650000;
		if (m.n < max && (m.n == 0 || hk_rng_chance(&hk_test_rng, wave))) {
			uint64_t size = 1 + hk_rng_below(&hk_test_rng,
							 UINT64_C(1) << hk_rng_range(&hk_test_rng,
										     1, 16));
			uint64_t align = hk_rng_chance(&hk_test_rng, 700000)
						 ? 0
						 : UINT64_C(1) << hk_rng_below(&hk_test_rng, 15);
			take(&m, size, align);
		} else {
			give(&m, hk_rng_below(&hk_test_rng, m.n));
		}
		if (i % 20000 == 0)
			compare(&m);
	}
	CHECK_CMP(m.rejected, >, 100); /* otherwise the bound was not tried */
	while (m.n)
		give(&m, m.n - 1);
	struct hk_alloc_usage u;
	hk_alloc_usage(m.a, &u);
	CHECK_EQ(u.free_pieces, 1);
	CHECK_EQ(u.largest_free, 16u << 20);
	compare(&m);
	model_end(&m);
}

/* Buffers of one size fill the range to the last byte, in whatever order they were freed. */
TEST(one_size)
{
	struct model m;
	const uint64_t each = 2176, n = (1u << 20) / each;

	model_init(&m, n * each, n);
	for (unsigned round = 0; round < 20; round++) {
		while (m.n < n)
			take(&m, each, 0);
		CHECK_EQ(m.rejected, 0);
		CHECK_EQ(hk_alloc_take(m.a, 1, 0), HK_ALLOC_NONE);
		for (size_t k = 0; k < n / 2; k++)
			give(&m, hk_rng_below(&hk_test_rng, m.n));
		compare(&m);
	}
	model_end(&m);
}

TEST(refused)
{
	struct hk_alloc *a = hk_alloc_new(4096);

	CHECK(!hk_alloc_new(0));
	CHECK(!hk_alloc_new(63));
	CHECK(!hk_alloc_new(HK_ALLOC_SIZE_MAX + 1));
	CHECK_EQ(hk_alloc_take(a, 0, 0), HK_ALLOC_NONE);
	CHECK_EQ(hk_alloc_take(a, 64, 3), HK_ALLOC_NONE);
	CHECK_EQ(hk_alloc_take(a, 64, HK_ALLOC_ALIGN_MAX * 2), HK_ALLOC_NONE);
	CHECK_EQ(hk_alloc_take(a, UINT64_MAX, 0), HK_ALLOC_NONE);
	CHECK_EQ(hk_alloc_take(a, 4097, 0), HK_ALLOC_NONE);
	CHECK_EQ(hk_alloc_give(a, 0), -EINVAL);
	uint64_t at = hk_alloc_take(a, 100, 0);
	CHECK_EQ(at, 0);
	CHECK_EQ(hk_alloc_give(a, 64), -EINVAL); /* inside of a block */
	CHECK_EQ(hk_alloc_give(a, 1), -EINVAL);
	CHECK_EQ(hk_alloc_give(a, UINT64_MAX - 63), -EINVAL);
	CHECK_EQ(hk_alloc_size(a, 64), 0);
	CHECK_EQ(hk_alloc_give(a, at), 0);
	CHECK_EQ(hk_alloc_take(a, 4096, 4096), 0);
	hk_alloc_delete(a);
	hk_alloc_delete(NULL);
}

/* The bytes that alignment skips stay free. */
TEST(alignment)
{
	struct hk_alloc *a = hk_alloc_new(3u << 20);
	struct hk_alloc_usage u;

	CHECK_EQ(hk_alloc_take(a, 64, 0), 0);
	CHECK_EQ(hk_alloc_take(a, 1u << 20, 1u << 20), 1u << 20);
	hk_alloc_usage(a, &u);
	CHECK_EQ(u.free, (3u << 20) - (1u << 20) - 64);
	CHECK_EQ(hk_alloc_take(a, 512, 512), 512);
	CHECK(!hk_alloc_check(a));
	hk_alloc_delete(a);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_notify.c: repeated puts to a notify target, and the layouts that they use.
 * The test compares their bytes one by one, in each way of tests/support/pair.h. The neighbour runs
 * ahead as far as the contract allows, and further.
 */
#include "tests/support/pair.h"

#include "worker/rma_internal.h"

enum { MAX_BLOCKS = 64 };

struct spread { /* a message in pieces, and its bytes in order */
	struct hk_block block[MAX_BLOCKS];
	struct hk_layout layout;
};

/* Draws a layout of @len bytes in up to @blocks pieces of @memory_, with gaps, in any order. */
static void spread_draw(struct spread *s, char *memory_, uint64_t len, unsigned blocks)
{
	uint64_t at = 0, room = MEMORY / MAX_BLOCKS;
	unsigned n = 0;

	CHECK(len <= room);
	while (at < len && n < blocks) {
		uint64_t left = len - at;
		uint64_t piece = n + 1 == blocks ? left : hk_rng_range(&hk_test_rng, 1, left);
		char *slot = memory_ + (n * 37 % MAX_BLOCKS) * room;

		s->block[n++] = (struct hk_block){
			slot + hk_rng_below(&hk_test_rng, room - piece + 1), at, piece};
		at += piece;
	}
	s->layout = (struct hk_layout){s->block, n, len};
}

TEST(layouts_copy_any_stretch)
{
	MAPPED(m, 1);
	MAPPED(copy, 2);
	char whole[MEMORY / MAX_BLOCKS], part[MEMORY / MAX_BLOCKS];

	for (int round = 0; round < 300; round++) {
		struct spread s, t;
		uint64_t len = hk_rng_range(&hk_test_rng, 1, round < 200 ? 200 : sizeof(whole));

		spread_draw(&s, m, len, (unsigned)hk_rng_range(&hk_test_rng, 1, MAX_BLOCKS));
		char *to = whole; /* the plain way */

		for (size_t i = 0; i < s.layout.count; i++) {
			memcpy(to, s.block[i].base, s.block[i].len);
			to += s.block[i].len;
		}
		for (int k = 0; k < 20; k++) {
			uint64_t at = hk_rng_below(&hk_test_rng, len);
			uint64_t n = hk_rng_range(&hk_test_rng, 0, len - at);

			hk_layout_gather(&s.layout, at, n, part);
			CHECK(memcmp(part, whole + at, n) == 0);
		}
		/* piece by piece, backwards, into another layout, and out of it again */
		spread_draw(&t, copy, len, (unsigned)hk_rng_range(&hk_test_rng, 1, MAX_BLOCKS));
		for (uint64_t at = len, n; at > 0; at -= n) {
			n = hk_rng_range(&hk_test_rng, 1, at);
			hk_layout_scatter(&t.layout, at - n, n, whole + at - n);
		}
		hk_layout_gather(&t.layout, 0, len, part);
		CHECK(memcmp(part, whole, len) == 0);
	}
}

/* For each length of a block: nothing before or behind it is written. */
TEST(layouts_keep_within_blocks)
{
	enum { LONGEST = 300, GUARD = 64 };
	char in[LONGEST + 2 * GUARD], out[LONGEST + 2 * GUARD], untouched[GUARD];

	memset(untouched, 0x55, sizeof(untouched));
	for (unsigned len = 1; len <= LONGEST; len++) {
		struct hk_block block = {in + GUARD, 0, len};
		struct hk_layout one = {&block, 1, len};

		for (int way = 0; way < 2; way++) {
			memset(in, 0x33, sizeof(in));
			memset(out, 0x55, sizeof(out));
			for (unsigned i = 0; i < len; i++)
				in[GUARD + i] = (char)hk_rng_below(&hk_test_rng, 256);
			block.base = (way ? out : in) + GUARD;
			if (way)
				hk_layout_scatter(&one, 0, len, in + GUARD);
			else
				hk_layout_gather(&one, 0, len, out + GUARD);
			CHECK(memcmp(out + GUARD, in + GUARD, len) == 0);
			CHECK(memcmp(out, untouched, GUARD) == 0);
			CHECK(memcmp(out + GUARD + len, untouched, GUARD) == 0);
		}
	}
}

/* ---- exchanges ------------------------------------------------------------------------------- */

struct side { /* one end of a symmetric exchange */
	struct spread from, to;
	char *source, *target, *staging;
	struct hk_notify_target in;
	hk_region region;
	struct xfer x[2];
};

static struct side side[2];
static unsigned depth = 2;

/* A side keeps its memory, since to map it for each scene takes more time than the scene. The bytes
 * of the scene before are overwritten in the target. */
static void side_open(int e, uint64_t len, unsigned blocks)
{
	struct side *s = &side[e];

	if (s->source == NULL) {
		s->source = memory(10 + (uint64_t)e);
		s->target = memory(20);
		s->staging = memory(30);
	}
	spread_draw(&s->from, s->source, len, blocks);
	spread_draw(&s->to, s->target, len, blocks);
	for (size_t b = 0; b < s->to.layout.count; b++)
		memset(s->to.block[b].base, (int)hk_rng_below(&hk_test_rng, 256),
		       s->to.block[b].len);
	s->region = hk_worker_notify_add(end[e].w, &s->in, end[e].peer, &s->to.layout, s->staging,
					 depth);
	CHECK(s->region != HK_REGION_NONE);
	s->x[0].status = s->x[1].status = 1;
}

static void side_close(int e)
{
	hk_worker_notify_del(end[e].w, &side[e].in);
}

/* The bytes of put @n of side @e: each depends on side, number and place. */
static char pattern(int e, uint32_t n, uint64_t at)
{
	return (char)(at * 31 + n * 7 + (uint64_t)e * 101 + (at >> 8));
}

static void fill(int e, uint32_t n)
{
	const struct hk_layout *l = &side[e].from.layout;

	for (size_t b = 0; b < l->count; b++)
		for (uint64_t i = 0; i < l->block[b].len; i++)
			l->block[b].base[i] = pattern(e, n, l->block[b].at + i);
}

static void check(int e, uint32_t n)
{
	const struct hk_layout *l = &side[e].to.layout;

	for (size_t b = 0; b < l->count; b++)
		for (uint64_t i = 0; i < l->block[b].len; i++)
			CHECK_MSG(l->block[b].base[i] == pattern(!e, n, l->block[b].at + i),
				  "side %d, put %u, byte %llu", e, n,
				  (unsigned long long)(l->block[b].at + i));
}

static void notify_start(struct xfer *x, int e, const struct hk_layout *from, hk_region r,
			 uint32_t n)
{
	x->status = 0;
	CHECK_EQ(hk_worker_put_notify(end[e].w, end[e].peer, &x->op, from, r, n, done, &x->status),
		 0);
}

static void put_nth(int e, uint32_t n)
{
	struct side *s = &side[e];

	finish(&s->x[n & 1]);
	fill(e, n);
	notify_start(&s->x[n & 1], e, &s->from.layout, side[!e].region, n);
}

/* The source is overwritten as soon as it may be. */
static void source_free(int e, uint32_t n)
{
	UNTIL(hk_op_source_free(&side[e].x[n & 1].op));
	fill(e, n + 1000);
}

static void exchanges(uint64_t len, unsigned blocks, uint32_t rounds)
{
	side_open(A, len, blocks);
	side_open(B, len, blocks);
	for (uint32_t n = 1; n <= rounds; n++) {
		int first = (int)hk_rng_below(&hk_test_rng, 2);
		/* some arrive before the target is open, some after, some while it opens */
		uint64_t before = hk_rng_below(&hk_test_rng, 3) ? 0
								: hk_rng_below(&hk_test_rng, 40);

		put_nth(first, n);
		hk_worker_notify_open(end[first].w, &side[first].in);
		while (before--)
			progress();
		hk_worker_notify_open(end[!first].w, &side[!first].in);
		put_nth(!first, n);
		for (int e = 0; e < 2; e++) {
			UNTIL(hk_notify_complete(&side[e].in));
			hk_worker_notify_take(end[e].w, &side[e].in);
			check(e, n);
			source_free(e, n);
			CHECK(!hk_notify_complete(&side[e].in));
		}
	}
	for (int e = 0; e < 2; e++) {
		for (int i = 0; i < 2; i++)
			CHECK_EQ(finish(&side[e].x[i]), 1);
		CHECK_EQ(hk_worker_counters(end[e].w)->put_refused, 0);
	}
	side_close(A);
	side_close(B);
}

static void all_sizes(void)
{
	static const uint64_t sizes[] = {0, 1, 8, 511, 512, 4000, 9122, 9123, 30000, 65536};

	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		exchanges(sizes[i], 1, 12);
		exchanges(sizes[i], 1 + (unsigned)hk_rng_below(&hk_test_rng, MAX_BLOCKS), 12);
	}
}

/* The number wraps at 2^31. */
EACH_WAY(numbers_wrap)
{
	side_open(A, 5000, 3);
	side_open(B, 5000, 3);
	side[B].in.taken = UINT32_MAX / 2 - 5;
	for (uint32_t n = UINT32_MAX / 2 - 4, k = 0; k < 10; k++, n++) {
		hk_worker_notify_open(end[B].w, &side[B].in);
		put_nth(A, n);
		UNTIL(hk_notify_complete(&side[B].in));
		hk_worker_notify_take(end[B].w, &side[B].in);
		check(B, n);
		source_free(A, n);
	}
	CHECK_EQ(hk_worker_counters(end[B].w)->put_refused, 0);
	side_close(A);
	side_close(B);
}

/* A put that is ahead waits in its own place of the staging buffer. A put without a place is
 * refused, and what lies there stays. */
static void puts_that_are_too_early(void)
{
	side_open(A, 20000, 5);
	side_open(B, 20000, 5);
	const struct hk_worker_counters *n = hk_worker_counters(end[B].w);
	uint64_t before = n->put_bytes_in, refused = n->put_refused;

	for (uint32_t k = 1; k <= depth; k++)
		put_nth(A, k);
	UNTIL(n->put_bytes_in == before + 20000 * depth);
	put_nth(A, depth + 1); /* too early */
	put_nth(A, depth + 2);
	finish(&side[A].x[0]);
	finish(&side[A].x[1]);
	CHECK_EQ(n->put_bytes_in, before + 20000 * depth);
	CHECK(n->put_refused > refused);
	for (uint32_t k = 1; k <= depth; k++) {
		CHECK(hk_notify_complete(&side[B].in));
		hk_worker_notify_open(end[B].w, &side[B].in);
		hk_worker_notify_take(end[B].w, &side[B].in);
		check(B, k);
	}
	CHECK(!hk_notify_complete(&side[B].in));
	side_close(A);
	side_close(B);
}

/* A put of another kind, of another length, or for a target that is gone places nothing. */
EACH_WAY(what_does_not_fit_is_refused)
{
	const struct hk_worker_counters *n = hk_worker_counters(end[B].w);
	struct hk_block block;
	struct hk_layout longer;
	struct xfer x;
	uint64_t before;

	side_open(A, 1000, 1);
	side_open(B, 1000, 1);
	MAPPED(plain, 40);
	hk_region region = hk_worker_region_add(end[B].w, plain, 1000, HK_REGION_WRITE,
						end[B].peer);

	block = (struct hk_block){side[A].source, 0, 1001};
	longer = (struct hk_layout){&block, 1, 1001};
#define REFUSED(call)                                                                              \
	do {                                                                                       \
		before = n->put_refused;                                                           \
		call;                                                                              \
		finish(&x);                                                                        \
		CHECK_EQ(n->put_refused, before + 1);                                              \
	} while (0)
	REFUSED(notify_start(&x, A, &longer, side[B].region, 1));
	REFUSED(put_start(&x, A, side[A].source, 1000, side[B].region, 0));
	REFUSED(notify_start(&x, A, &side[A].from.layout, region, 1));
	REFUSED(notify_start(&x, A, &side[A].from.layout, side[B].region, 0));
	REFUSED(notify_start(&x, A, &side[A].from.layout, side[B].region,
			     3)); /* 1 and 2 are next */
	CHECK(!hk_notify_complete(&side[B].in));
	CHECK_EQ(n->put_bytes_in, 0);
	hk_worker_notify_del(end[B].w, &side[B].in);
	REFUSED(notify_start(&x, A, &side[A].from.layout, HK_REGION_NONE, 1));
#undef REFUSED
	hk_worker_region_del(end[B].w, region);
	side_close(A);
	side_close(B);
}

/* More staged stretches arrive than a slot notes: all of it stays staged until it is complete. */
EACH_WAY(staged_bytes_in_many_stretches)
{
	enum { LEN = 1000 };
	char bytes[LEN];
	MAPPED(target, 41);
	MAPPED(staging, 42);
	struct hk_block block = {target, 0, LEN};
	struct hk_layout to = {&block, 1, LEN};
	struct hk_worker *w = end[B].w;
	struct hk_notify_target in;
	hk_region r = hk_worker_notify_add(w, &in, end[B].peer, &to, staging, depth);

	for (unsigned i = 0; i < LEN; i++)
		bytes[i] = pattern(0, 1, i);
	/* every second stretch first, as frames that overtake each other would bring them */
	for (unsigned half = 0; half < 2; half++)
		for (unsigned i = half; i < LEN / 10; i += 2) {
			struct hk_wire_put p = {r, 1u | 1u << 31, i * 10};

			CHECK(hk_notify_place(&in, &p, bytes + i * 10, 10));
			if (half == 1 && i == LEN / 20 + 1)
				hk_worker_notify_open(w, &in);
			CHECK(memcmp(target, bytes, 10) != 0);
		}
	CHECK(hk_notify_complete(&in));
	hk_worker_notify_take(w, &in);
	CHECK(memcmp(target, bytes, LEN) == 0);
	hk_worker_notify_del(w, &in);
}

static void with_all_places(void (*scene)(void))
{
	for (depth = 2; depth <= HK_NOTIFY_DEPTH; depth *= 2)
		each_way(scene);
	depth = 2;
}

TEST(exchanges_of_all_sizes)
{
	with_all_places(all_sizes);
}

TEST(exchanges_of_all_sizes_by_paths)
{
	each_way_by_paths(all_sizes);
}

TEST(exchanges_of_all_sizes_by_two_ports)
{
	each_way_by_two_ports(all_sizes);
}

TEST(a_fast_neighbour_overwrites_nothing)
{
	with_all_places(puts_that_are_too_early);
}

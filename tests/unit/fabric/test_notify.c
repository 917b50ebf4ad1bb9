/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_notify.c: puts that come again and again to an inbox, and the layouts that they use.
 *
 * What they bring is compared byte by byte, in each way of pair.h; the neighbour runs ahead as far as the
 * contract allows, and further.
 */
#include "tests/unit/fabric/pair.h"

#include "fabric/internal.h"

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

static void layouts_copy_any_stretch(void)
{
	char *m = memory(1), *copy = memory(2);
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
	munmap(m, MEMORY);
	munmap(copy, MEMORY);
}

/* Whatever the length of a block: nothing before or behind it is written. */
static void layouts_keep_within_blocks(void)
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

/* ---- exchanges ----------------------------------------------------------------------------------- */

struct side { /* one end of a symmetric exchange */
	struct spread from, to;
	char *source, *target, *early;
	struct hk_inbox in;
	hk_region region;
	struct hk_op op[2];
	int status[2];
};

static struct side side[2];
static unsigned places = 2;

static void side_open(int e, uint64_t len, unsigned blocks)
{
	struct side *s = &side[e];

	s->source = memory(10 + (uint64_t)e);
	s->target = memory(20);
	s->early = memory(30);
	spread_draw(&s->from, s->source, len, blocks);
	spread_draw(&s->to, s->target, len, blocks);
	s->region = hk_fabric_inbox_add(end[e].f, &s->in, end[e].peer, &s->to.layout, s->early,
					places);
	CHECK(s->region != HK_REGION_NONE);
	s->status[0] = s->status[1] = 1;
}

static void side_close(int e)
{
	hk_fabric_inbox_del(end[e].f, &side[e].in);
	munmap(side[e].source, MEMORY);
	munmap(side[e].target, MEMORY);
	munmap(side[e].early, MEMORY);
}

/* What side @e sends as number @n: a byte of each place depends on all three. */
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

static void put(int e, uint32_t n)
{
	struct side *s = &side[e];

	UNTIL(s->status[n & 1]);
	s->status[n & 1] = 0;
	fill(e, n);
	CHECK_EQ(hk_fabric_put_notify(end[e].f, end[e].peer, &s->op[n & 1], &s->from.layout,
				      side[!e].region, n, done, &s->status[n & 1]),
		 0);
}

/* The source is overwritten as soon as it may be. */
static void source_free(int e, uint32_t n)
{
	UNTIL(hk_op_source_free(&side[e].op[n & 1]));
	fill(e, n + 1000);
}

static void exchanges(uint64_t len, unsigned blocks, uint32_t rounds)
{
	side_open(A, len, blocks);
	side_open(B, len, blocks);
	for (uint32_t n = 1; n <= rounds; n++) {
		int first = (int)hk_rng_below(&hk_test_rng, 2);
		/* some come early, some find the inbox open, some meet it being opened */
		uint64_t before = hk_rng_below(&hk_test_rng, 3) ? 0
								: hk_rng_below(&hk_test_rng, 40);

		put(first, n);
		hk_fabric_inbox_open(end[first].f, &side[first].in);
		while (before--)
			progress();
		hk_fabric_inbox_open(end[!first].f, &side[!first].in);
		put(!first, n);
		for (int e = 0; e < 2; e++) {
			UNTIL(hk_inbox_whole(&side[e].in));
			hk_fabric_inbox_take(end[e].f, &side[e].in);
			check(e, n);
			source_free(e, n);
			CHECK(!hk_inbox_whole(&side[e].in));
		}
	}
	for (int e = 0; e < 2; e++) {
		for (int i = 0; i < 2; i++) {
			UNTIL(side[e].status[i]);
			CHECK_EQ(side[e].status[i], 1);
		}
		CHECK_EQ(hk_fabric_counters(end[e].f)->put_refused, 0);
	}
	side_close(A);
	side_close(B);
}

static void exchanges_of_all_sizes(void)
{
	static const uint64_t sizes[] = {0, 1, 8, 511, 512, 4000, 9122, 9123, 30000, 65536};

	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		exchanges(sizes[i], 1, 12);
		exchanges(sizes[i], 1 + (unsigned)hk_rng_below(&hk_test_rng, MAX_BLOCKS), 12);
	}
}

/* The number wraps at 2^31. */
static void numbers_wrap(void)
{
	side_open(A, 5000, 3);
	side_open(B, 5000, 3);
	side[B].in.taken = UINT32_MAX / 2 - 5;
	for (uint32_t n = UINT32_MAX / 2 - 4, k = 0; k < 10; k++, n++) {
		hk_fabric_inbox_open(end[B].f, &side[B].in);
		put(A, n);
		UNTIL(hk_inbox_whole(&side[B].in));
		hk_fabric_inbox_take(end[B].f, &side[B].in);
		check(B, n);
		source_free(A, n);
	}
	CHECK_EQ(hk_fabric_counters(end[B].f)->put_refused, 0);
	side_close(A);
	side_close(B);
}

/* A neighbour that is ahead waits in its own place; one for which there is none is refused, and what lies
 * there stays. */
static void a_fast_neighbour_overwrites_nothing(void)
{
	side_open(A, 20000, 5);
	side_open(B, 20000, 5);
	const struct hk_fabric_counters *n = hk_fabric_counters(end[B].f);
	uint64_t before = n->put_bytes_in, refused = n->put_refused;

	for (uint32_t k = 1; k <= places; k++)
		put(A, k);
	UNTIL(n->put_bytes_in == before + 20000 * places);
	put(A, places + 1); /* too early */
	put(A, places + 2);
	UNTIL(side[A].status[0] && side[A].status[1]);
	CHECK_EQ(n->put_bytes_in, before + 20000 * places);
	CHECK(n->put_refused > refused);
	for (uint32_t k = 1; k <= places; k++) {
		CHECK(hk_inbox_whole(&side[B].in));
		hk_fabric_inbox_open(end[B].f, &side[B].in);
		hk_fabric_inbox_take(end[B].f, &side[B].in);
		check(B, k);
	}
	CHECK(!hk_inbox_whole(&side[B].in));
	side_close(A);
	side_close(B);
}

/* A put of another kind, of another length, or for an inbox that is gone places nothing. */
static void what_does_not_fit_is_refused(void)
{
	const struct hk_fabric_counters *n = hk_fabric_counters(end[B].f);
	struct hk_block block;
	struct hk_layout longer;
	struct hk_op op;
	int status = 0;
	uint64_t before;

	side_open(A, 1000, 1);
	side_open(B, 1000, 1);
	char *plain = memory(40);
	hk_region region = hk_fabric_region_add(end[B].f, plain, 1000, HK_REGION_WRITE,
						end[B].peer);

	block = (struct hk_block){side[A].source, 0, 1001};
	longer = (struct hk_layout){&block, 1, 1001};
#define REFUSED(call)                                                                              \
	do {                                                                                       \
		before = n->put_refused;                                                           \
		status = 0;                                                                        \
		CHECK_EQ((call), 0);                                                               \
		UNTIL(status);                                                                     \
		CHECK_EQ(n->put_refused, before + 1);                                              \
	} while (0)
	REFUSED(hk_fabric_put_notify(end[A].f, end[A].peer, &op, &longer, side[B].region, 1, done,
				     &status));
	REFUSED(hk_fabric_put(end[A].f, end[A].peer, &op, side[A].source, 1000, side[B].region, 0,
			      done, &status));
	REFUSED(hk_fabric_put_notify(end[A].f, end[A].peer, &op, &side[A].from.layout, region, 1,
				     done, &status));
	REFUSED(hk_fabric_put_notify(end[A].f, end[A].peer, &op, &side[A].from.layout,
				     side[B].region, 0, done, &status));
	REFUSED(hk_fabric_put_notify(end[A].f, end[A].peer, &op, &side[A].from.layout,
				     side[B].region, 3, done, &status)); /* 1 and 2 are next */
	CHECK(!hk_inbox_whole(&side[B].in));
	CHECK_EQ(n->put_bytes_in, 0);
	hk_fabric_inbox_del(end[B].f, &side[B].in);
	REFUSED(hk_fabric_put_notify(end[A].f, end[A].peer, &op, &side[A].from.layout,
				     HK_REGION_NONE, 1, done, &status));
#undef REFUSED
	hk_fabric_region_del(end[B].f, region);
	munmap(plain, MEMORY);
	side_close(A);
	side_close(B);
}

/* More stretches come early than are noted: all of it waits until it is whole. */
static void early_bytes_in_many_stretches(void)
{
	enum { LEN = 1000 };
	char *target = memory(41), *early = memory(42), bytes[LEN];
	struct hk_block block = {target, 0, LEN};
	struct hk_layout to = {&block, 1, LEN};
	struct hk_fabric *f = end[B].f;
	struct hk_inbox in;
	hk_region r = hk_fabric_inbox_add(f, &in, end[B].peer, &to, early, places);

	for (unsigned i = 0; i < LEN; i++)
		bytes[i] = pattern(0, 1, i);
	/* every second stretch first, as frames that overtake each other would bring them */
	for (unsigned half = 0; half < 2; half++)
		for (unsigned i = half; i < LEN / 10; i += 2) {
			struct hk_wire_put p = {r, 1u | 1u << 31, i * 10};

			CHECK(hk_inbox_in(&in, &p, bytes + i * 10, 10));
			if (half == 1 && i == LEN / 20 + 1)
				hk_fabric_inbox_open(f, &in);
			CHECK(memcmp(target, bytes, 10) != 0);
		}
	CHECK(hk_inbox_whole(&in));
	hk_fabric_inbox_take(f, &in);
	CHECK(memcmp(target, bytes, LEN) == 0);
	hk_fabric_inbox_del(f, &in);
	munmap(target, MEMORY);
	munmap(early, MEMORY);
}

static void test_layout(void)
{
	layouts_copy_any_stretch();
	layouts_keep_within_blocks();
}

static void with_all_places(void (*scene)(void))
{
	for (places = 2; places <= HK_INBOX_PLACES; places *= 2)
		each_way(scene);
	places = 2;
}

static void test_exchanges(void)
{
	with_all_places(exchanges_of_all_sizes);
}

static void test_exchanges_by_rails(void)
{
	each_way_by_rails(exchanges_of_all_sizes);
}

static void test_exchanges_by_two_ports(void)
{
	each_way_by_two_ports(exchanges_of_all_sizes);
}

static void test_wrap(void)
{
	each_way(numbers_wrap);
}

static void test_fast_neighbour(void)
{
	with_all_places(a_fast_neighbour_overwrites_nothing);
}

static void test_refused(void)
{
	each_way(what_does_not_fit_is_refused);
}

static void test_stretches(void)
{
	each_way(early_bytes_in_many_stretches);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"layout", test_layout},
		{"exchanges", test_exchanges},
		{"exchanges_by_two_ports", test_exchanges_by_two_ports},
		{"exchanges_by_rails", test_exchanges_by_rails},
		{"wrap", test_wrap},
		{"fast_neighbour", test_fast_neighbour},
		{"refused", test_refused},
		{"stretches", test_stretches},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/router/test_fib.c: compares the forwarding table with the simplest one, a list
 * of prefixes that is searched from its beginning. It uses random tables and random updates.
 */
#include "devmem/router/fib.h"
#include "devmem/router/header.h"
#include "port/port.h"
#include "tests/support/hk_test.h"

#include <errno.h>

#define ROUTES  400
#define UPDATES 3000
#define PROBES  64
#define HOPS    20

struct naive {
	struct {
		uint8_t prefix[16], depth, family;
		uint32_t cell;
	} r[2 * ROUTES + UPDATES];
	size_t n;
};

static struct naive naive;

BEFORE_ALL()
{
	struct hk_eal_config eal = {.memory_mb = 512,
				    .extra_args = "--force-max-simd-bitwidth=512"};

	CHECK_OK(hk_eal_init(&eal, ERR));
}

static uint32_t naive_find(unsigned family, const uint8_t *address)
{
	int best = -1;
	uint32_t cell = family == 6;

	for (size_t i = 0; i < naive.n; i++)
		if (naive.r[i].family == family && (int)naive.r[i].depth > best &&
		    hk_prefix_holds(naive.r[i].prefix, naive.r[i].depth, address)) {
			best = naive.r[i].depth;
			cell = naive.r[i].cell;
		}
	return cell;
}

static size_t naive_at(unsigned family, const uint8_t *prefix, unsigned depth)
{
	size_t i = 0;

	while (i < naive.n && !(naive.r[i].family == family && naive.r[i].depth == depth &&
				memcmp(naive.r[i].prefix, prefix, 16) == 0))
		i++;
	return i;
}

/* Uses few different bytes, so that prefixes nest, and lengths at which the tables' levels meet. */
static void draw_prefix(unsigned family, uint8_t prefix[16], unsigned *depth)
{
	static const uint8_t bytes[] = {0x10, 0x11, 0x40, 0xb0};
	unsigned most = family == 4 ? 32 : 128;

	memset(prefix, 0, 16);
	for (unsigned i = 0; i < most / 8; i++)
		prefix[i] = hk_rng_below(&hk_test_rng, 8)
				    ? bytes[hk_rng_below(&hk_test_rng, i < 3 ? 2 : 4)]
				    : (uint8_t)hk_rng_next(&hk_test_rng);
	prefix[0] = family == 4 ? 0x0a : 0xfd; /* not a special address */
	*depth = (unsigned)hk_rng_range(&hk_test_rng, 8, most);
	for (unsigned bit = *depth; bit < most; bit++)
		prefix[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
}

static void probe(const struct hk_fib *fib, unsigned family)
{
	uint8_t address[PROBES][16];
	uint32_t word[PROBES];
	uint64_t hop[PROBES];

	for (unsigned i = 0; i < PROBES; i++) {
		unsigned depth;
		size_t near = naive.n ? hk_rng_below(&hk_test_rng, naive.n) : 0;
		draw_prefix(family, address[i], &depth);
		if (naive.n && naive.r[near].family == family && hk_rng_below(&hk_test_rng, 2)) {
			/* the edges of a prefix in the table */
			memcpy(address[i], naive.r[near].prefix, 16);
			if (hk_rng_below(&hk_test_rng, 2))
				for (unsigned b = naive.r[near].depth;
				     b < (family == 4 ? 32u : 128u); b++)
					address[i][b / 8] |= (uint8_t)(0x80u >> b % 8);
		}
		word[i] = hk_be32(address[i]);
	}
	if (family == 4)
		hk_fib_lookup4(fib, word, hop, PROBES);
	else
		hk_fib_lookup6(fib, address, hop, PROBES);
	for (unsigned i = 0; i < PROBES; i++) {
		char text[HK_ADDRESS_TEXT];
		uint32_t want = naive_find(family, address[i]);
		CHECK_MSG(hop[i] == want, "%s: hop %llu, and it should be %u",
			  hk_address_text(family, address[i], -1, text), (unsigned long long)hop[i],
			  want);
	}
}

static struct hk_fib *make_random(unsigned routes)
{
	struct hk_routes *r;
	struct hk_fib *fib;

	CHECK_OK(hk_routes_new("test", 1, &r, ERR));
	naive.n = 0;
	for (unsigned i = 0; i < routes; i++) {
		unsigned family = i % 2 ? 4 : 6, depth;
		uint8_t prefix[16];
		draw_prefix(family, prefix, &depth);
		if (naive_at(family, prefix, depth) < naive.n)
			continue;
		uint8_t via[16] = {1, 1, 1, (uint8_t)(1 + hk_rng_below(&hk_test_rng, HOPS))};
		uint32_t hop = hk_routes_hop(r, HK_HOP_UNRESOLVED, family, via, 0, 1);
		CHECK(hk_routes_add(r, family, prefix, depth, hop, i + 1));
		memcpy(naive.r[naive.n].prefix, prefix, 16);
		naive.r[naive.n].depth = (uint8_t)depth;
		naive.r[naive.n].family = (uint8_t)family;
		naive.r[naive.n++].cell = hop + 2;
	}
	CHECK_OK(hk_routes_finish(r, ERR));
	CHECK_OK(hk_fib_make(r, &fib, ERR));
	hk_routes_free(r);
	return fib;
}

TEST(random_tables)
{
	for (unsigned i = 0; i < 4; i++) {
		struct hk_fib *fib = make_random(i == 0 ? 0 : ROUTES);
		for (unsigned n = 0; n < 40; n++)
			probe(fib, n % 2 ? 4 : 6);
		hk_fib_free(fib);
	}
}

/* The routes that a line or a command names. */
static size_t named(const struct hk_fib *f)
{
	return f->routes[0] + f->routes[1] - f->implied[0] - f->implied[1];
}

/* Checks every update near its prefix and elsewhere: no other prefix may change. */
TEST(random_updates)
{
	struct hk_fib *fib = make_random(ROUTES);
	uint32_t cells = fib->cells;
	unsigned refused = 0;

	for (unsigned i = 0; i < UPDATES; i++) {
		unsigned family = hk_rng_below(&hk_test_rng, 2) ? 4 : 6, depth;
		uint8_t prefix[16];
		draw_prefix(family, prefix, &depth);
		size_t at = naive_at(family, prefix, depth);
		if (naive.n && hk_rng_below(&hk_test_rng, 2)) {
			at = hk_rng_below(&hk_test_rng, naive.n);
			family = naive.r[at].family;
			depth = naive.r[at].depth;
			memcpy(prefix, naive.r[at].prefix, 16);
		}
		if (hk_rng_below(&hk_test_rng, 2)) {
			int rc = hk_fib_update(fib, family, prefix, depth, UINT32_MAX, false);
			CHECK_EQ(rc, at < naive.n ? 0 : -ENOENT);
			if (at < naive.n)
				naive.r[at] = naive.r[--naive.n];
		} else {
			uint32_t cell = 2 + HK_HOP_KINDS +
					(uint32_t)hk_rng_below(&hk_test_rng,
							       cells - 2 - HK_HOP_KINDS);
			int rc = hk_fib_update(fib, family, prefix, depth, cell, false);
			if (rc == -ENOSPC) { /* long IPv6 prefixes exhaust the groups; the update
						then has no effect */
				refused++;
				continue;
			}
			CHECK_EQ(rc, 0);
			memcpy(naive.r[at].prefix, prefix, 16);
			naive.r[at].depth = (uint8_t)depth;
			naive.r[at].family = (uint8_t)family;
			naive.r[at].cell = cell;
			naive.n += at == naive.n;
		}
		CHECK_EQ(named(fib), naive.n);
		if (i % 8 == 0)
			probe(fib, family);
	}
	for (unsigned n = 0; n < 40; n++)
		probe(fib, n % 2 ? 4 : 6);
	CHECK(refused < UPDATES / 4);
	hk_fib_free(fib);
}

TEST(counts)
{
	static const char text[] = "address 10.0.0.1/24 port 0\nroute 10.7.0.0/16 blackhole\n";
	static const uint8_t subnet[16] = {10, 0, 0}, found[16] = {10, 0, 0, 9};
	struct hk_routes *r;
	struct hk_fib *fib;

	CHECK_OK(hk_routes_parse(text, sizeof(text) - 1, "test", 1, &r, ERR));
	CHECK_OK(hk_fib_make(r, &fib, ERR));
	hk_routes_free(r);
	size_t all = fib->routes[0], implied = fib->implied[0];
	uint32_t cell = fib->cells - 1;
	CHECK_EQ(named(fib), 1);
	for (unsigned i = 0; i < 2; i++) { /* a neighbour that the kernel found, and found again */
		CHECK_EQ(hk_fib_update(fib, 4, found, 32, cell, true), 0);
		CHECK_EQ(fib->implied[0], implied + 1);
		CHECK_EQ(named(fib), 1);
	}
	CHECK_EQ(hk_fib_update(fib, 4, found, 32, cell, false), 0); /* now a command names it */
	CHECK_EQ(hk_fib_update(fib, 4, subnet, 24, cell, false), 0);
	CHECK_EQ(hk_fib_update(fib, 4, subnet, 24, cell, false), 0);
	CHECK_EQ(named(fib), 3);
	CHECK_EQ(hk_fib_update(fib, 4, found, 32, cell, true), 0);
	CHECK_EQ(named(fib), 3);
	CHECK_EQ(fib->routes[0], all + 1);
	CHECK_EQ(hk_fib_update(fib, 4, (uint8_t[16]){0}, 0, cell, false), 0);
	CHECK_EQ(named(fib), 4);
	CHECK_EQ(hk_fib_update(fib, 4, (uint8_t[16]){0}, 0, UINT32_MAX, false), 0);
	CHECK_EQ(hk_fib_update(fib, 4, subnet, 24, UINT32_MAX, false), 0);
	CHECK_EQ(hk_fib_update(fib, 4, (uint8_t[16]){10, 0, 0, 1}, 32, UINT32_MAX, false), 0);
	CHECK_EQ(named(fib), 2);
	CHECK_EQ(fib->routes[0], all - 1);
	CHECK_EQ(fib->implied[0], implied - 2);
	hk_fib_free(fib);
}

/* A default route is a cell that copies the cell that it names. */
TEST(defaults_and_cells)
{
	static const char text[] =
		"route 0.0.0.0/0 via 10.0.0.2 port 1\nroute 10.1.0.0/16 via 10.0.0.2 "
		"port 1\nroute ::/0 blackhole\nroute 2001::/16 via fd00::9 port 0\n";
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};
	struct hk_routes *r;
	struct hk_fib *fib;
	uint32_t address[2] = {0x08080808, 0x0a010001};
	uint8_t six[4][16] = {{0x26}, {0x20, 0x01, 0, 2, [15] = 1}, {0x20, 0x01, 0, 9}, {0xfd}};
	uint64_t hop[4];

	CHECK_OK(hk_routes_parse(text, sizeof(text) - 1, "test", 2, &r, ERR));
	CHECK_OK(hk_fib_make(r, &fib, ERR));
	hk_routes_free(r);
	hk_fib_lookup4(fib, address, hop, 2);
	CHECK_EQ(hop[0], 0);
	CHECK_EQ(hk_cell_kind(hk_fib_cell(fib, hop[0])), HK_HOP_UNRESOLVED);
	hk_fib_cell_set(fib, (uint32_t)hop[1], hk_cell_make(HK_HOP_FORWARD, 1, mac));
	for (unsigned i = 0; i < 2; i++) {
		hk_cell c = hk_fib_cell(fib, hop[i]);
		CHECK(hk_cell_kind(c) == HK_HOP_FORWARD && hk_cell_port(c) == 1 &&
		      memcmp(&c, mac, 6) == 0);
	}
	CHECK_EQ(hk_fib_update(fib, 4, (uint8_t[16]){0}, 0, UINT32_MAX, false), 0);
	CHECK_EQ(hk_fib_update(fib, 4, (uint8_t[16]){0}, 0, UINT32_MAX, false), -ENOENT);
	CHECK_EQ(hk_cell_kind(hk_fib_cell(fib, 0)), HK_HOP_NO_ROUTE);
	CHECK_EQ(hk_fib_update(fib, 4, (uint8_t[16]){10}, 7, 3, false), -EINVAL);
	/* an exception in a martian block takes the route around the block, not the default */
	hk_fib_lookup6(fib, six, hop, 4);
	CHECK_EQ(hk_cell_kind(hk_fib_cell(fib, hop[0])), HK_HOP_BLACKHOLE);
	CHECK_EQ(hk_cell_kind(hk_fib_cell(fib, hop[1])), HK_HOP_UNRESOLVED);
	CHECK_EQ(hk_cell_kind(hk_fib_cell(fib, hop[2])), HK_HOP_MARTIAN);
	CHECK_EQ(hop[3], 1);
	hk_fib_free(fib);
}

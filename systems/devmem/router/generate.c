/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/generate.c: generated tables.
 */
#include "devmem/router/generate.h"

#include "devmem/router/special.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1500000

/* Prefixes of each length in a million, /8 to /24, rounded from public statistics of the global
 * table. */
static const uint32_t share[25] = {
	[8] = 16,     [9] = 13,     [10] = 40,     [11] = 100,    [12] = 300,   [13] = 600,
	[14] = 1200,  [15] = 2100,  [16] = 13600,  [17] = 8300,   [18] = 14000, [19] = 25000,
	[20] = 45000, [21] = 52000, [22] = 112000, [23] = 100000,
};

static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static int by_address(const void *a, const void *b)
{
	const struct hk_table_prefix *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->depth - y->depth;
}

/* Whether the prefix is unicast, does not overlap a special prefix, and is not in the next hops'
 * block. */
static bool usable(uint32_t address, unsigned depth)
{
	uint8_t bytes[4] = {(uint8_t)(address >> 24), (uint8_t)(address >> 16),
			    (uint8_t)(address >> 8), (uint8_t)address};
	uint32_t mask = UINT32_MAX << (32 - depth);
	size_t n;
	const struct hk_special *s = hk_special_table(4, &n);

	if (((198u << 24 | 18u << 16) & mask) == (address & mask) ||
	    address >> 17 == (198u << 24 | 18u << 16) >> 17)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned common = HK_MIN(depth, (unsigned)s[i].depth);
		if (hk_prefix_holds(s[i].address, common, bytes))
			return false;
	}
	return true;
}

int hk_table_make(uint64_t seed, size_t count, unsigned hops, struct hk_table_prefix **out,
		  struct hk_error *err)
{
	*out = NULL;
	if (count == 0 || count > MOST || hops == 0 || hops > 60000)
		return hk_error_set(err, -EINVAL,
				    "a table has 1 to %d prefixes and 1 to 60000 next hops; fix: "
				    "give smaller numbers",
				    MOST);
	struct hk_table_prefix *t = calloc(count, sizeof(*t));
	uint8_t *taken = calloc(1u << 25,
				1); /* a bit for each prefix up to /24, at 2^depth + its number */
	size_t at = 0;
	if (!t || !taken) {
		free(t);
		free(taken);
		return hk_error_set(err, -ENOMEM, "no memory for %zu prefixes", count);
	}
	for (unsigned depth = 8; depth <= 24; depth++) {
		size_t want = depth == 24 ? count - at
					  : (size_t)((uint64_t)share[depth] * count / 1000000);
		/* there are too few short prefixes: the rest become longer ones */
		want = HK_MIN(want, ((size_t)1 << depth) / 2);
		for (size_t i = 0; i < want;) {
			uint64_t x = draw(&seed);
			uint32_t address = (uint32_t)x & UINT32_MAX << (32 - depth);
			uint32_t bit = 1u << depth | address >> (32 - depth);
			if ((taken[bit >> 3] >> (bit & 7) & 1) || !usable(address, depth))
				continue;
			taken[bit >> 3] |= (uint8_t)(1u << (bit & 7));
			t[at++] = (struct hk_table_prefix){address, (uint8_t)depth,
							   (uint16_t)((x >> 32) % hops)};
			i++;
		}
	}
	free(taken);
	qsort(t, count, sizeof(*t), by_address);
	*out = t;
	return 0;
}

uint32_t hk_table_hop(unsigned i)
{
	return (198u << 24 | 18u << 16) + i / 250 * 256 + 2 + i % 250;
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *p, uint64_t value, unsigned bytes)
{
	while (bytes--)
		*p++ = (uint8_t)(value >> 8 * bytes);
	return p;
}

/* RFC 6396, 4.3.1: a collector with one peer, which has an IPv4 address and a 4-byte AS number. */
static bool write_peers(FILE *out)
{
	uint8_t b[64], *p = put(b, 0, 4);

	p = put(put(put(p, 13, 2), 1, 2), 4 + 2 + 2 + 1 + 4 + 4 + 4, 4);
	p = put(put(put(p, hk_table_hop(0), 4), 0, 2), 1, 2);
	p = put(put(put(put(p, 2, 1), hk_table_hop(0), 4), hk_table_hop(0), 4), 64500, 4);
	return fwrite(b, (size_t)(p - b), 1, out) == 1;
}

/* RFC 6396, 4.3.2, with ORIGIN, AS_PATH and NEXT_HOP. */
static bool write_rib(const struct hk_table_prefix *t, uint32_t sequence, FILE *out)
{
	static const uint8_t origin[] = {0x40, 1, 1, 0},
			     path[] = {0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4};
	uint8_t b[128], *p = put(b, 0, 4);
	unsigned bytes = (t->depth + 7u) / 8, attrs = sizeof(origin) + sizeof(path) + 7;

	p = put(put(put(p, 13, 2), 2, 2), 4 + 1 + bytes + 2 + 2 + 4 + 2 + attrs, 4);
	p = put(put(p, sequence, 4), t->depth, 1);
	p = put(p, t->address >> (32 - 8 * bytes), bytes);
	p = put(put(put(put(p, 1, 2), 0, 2), 0, 4), attrs, 2);
	memcpy(p, origin, sizeof(origin));
	memcpy(p + sizeof(origin), path, sizeof(path));
	p = put(p + sizeof(origin) + sizeof(path), 0x400304, 3);
	p = put(p, hk_table_hop(t->hop), 4);
	return fwrite(b, (size_t)(p - b), 1, out) == 1;
}

bool hk_table_write(const struct hk_table_prefix *t, size_t count, bool mrt, FILE *out)
{
	bool ok = !mrt || write_peers(out);

	for (size_t i = 0; i < count && ok; i++) {
		uint32_t a = t[i].address, h = hk_table_hop(t[i].hop);
		ok = mrt ? write_rib(&t[i], (uint32_t)i, out)
			 : fprintf(out, "%u.%u.%u.%u/%u %u.%u.%u.%u\n", a >> 24, a >> 16 & 255,
				   a >> 8 & 255, a & 255, t[i].depth, h >> 24, h >> 16 & 255,
				   h >> 8 & 255, h & 255) > 0;
	}
	return ok && fflush(out) == 0;
}

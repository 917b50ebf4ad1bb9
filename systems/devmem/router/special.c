/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/special.c: the table of special addresses.
 */
#include "devmem/router/special.h"

/* Each column is as in the registries. Entries that restrict nothing are omitted, except inside an
 * entry that does. */
#define YES true
#define NO  false

static const struct hk_special table4[] = {
	{{0}, 8, YES, NO, NO, "this network", "RFC 1122, 3.2.1.3"},
	{{127}, 8, NO, NO, NO, "loopback", "RFC 1122, 3.2.1.3"},
	{{169, 254}, 16, YES, YES, NO, "link-local", "RFC 3927"},
	{{192, 0, 0}, 24, NO, NO, NO, "protocol assignments", "RFC 6890, 2.1"},
	{{192, 0, 0, 0}, 29, YES, YES, YES, "service continuity", "RFC 7335"},
	{{192, 0, 0, 8}, 32, YES, NO, NO, "dummy address", "RFC 7600"},
	{{192, 0, 0, 9}, 32, YES, YES, YES, "port control anycast", "RFC 7723"},
	{{192, 0, 0, 10}, 32, YES, YES, YES, "TURN anycast", "RFC 8155"},
	{{192, 0, 2}, 24, NO, NO, NO, "documentation", "RFC 5737"},
	{{198, 51, 100}, 24, NO, NO, NO, "documentation", "RFC 5737"},
	{{203, 0, 113}, 24, NO, NO, NO, "documentation", "RFC 5737"},
	{{224}, 4, NO, YES, NO, "multicast", "RFC 1112, 4"},
	{{240}, 4, NO, NO, NO, "reserved", "RFC 1112, 4"},
	{{255, 255, 255, 255}, 32, NO, YES, NO, "limited broadcast", "RFC 919, 7"},
};

static const struct hk_special table6[] = {
	{{0}, 128, YES, NO, NO, "unspecified", "RFC 4291, 2.5.2"},
	{{[15] = 1}, 128, NO, NO, NO, "loopback", "RFC 4291, 2.5.3"},
	{{[10] = 0xff, 0xff}, 96, NO, NO, NO, "IPv4-mapped", "RFC 4291, 2.5.5.2"},
	{{0x20, 0x01}, 23, NO, NO, NO, "protocol assignments", "RFC 2928"},
	{{0x20, 0x01}, 32, YES, YES, YES, "Teredo", "RFC 4380"},
	{{0x20, 0x01, 0, 1, [15] = 1}, 128, YES, YES, YES, "port control anycast", "RFC 7723"},
	{{0x20, 0x01, 0, 1, [15] = 2}, 128, YES, YES, YES, "TURN anycast", "RFC 8155"},
	{{0x20, 0x01, 0, 1, [15] = 3}, 128, YES, YES, YES, "DNS-SD anycast", "RFC 9665"},
	{{0x20, 0x01, 0, 2}, 48, YES, YES, YES, "benchmarking", "RFC 5180"},
	{{0x20, 0x01, 0, 3}, 32, YES, YES, YES, "AMT", "RFC 7450"},
	{{0x20, 0x01, 0, 4, 1, 0x12}, 48, YES, YES, YES, "AS112", "RFC 7535"},
	{{0x20, 0x01, 0, 0x20}, 28, YES, YES, YES, "ORCHIDv2", "RFC 7343"},
	{{0x20, 0x01, 0, 0x30}, 28, YES, YES, YES, "drone identifiers", "RFC 9374"},
	{{0x20, 0x01, 0x0d, 0xb8}, 32, NO, NO, NO, "documentation", "RFC 3849"},
	{{0x3f, 0xff}, 20, NO, NO, NO, "documentation", "RFC 9637"},
	{{0xfe, 0x80}, 10, YES, YES, NO, "link-local", "RFC 4291, 2.5.6"},
	{{0xff}, 8, NO, YES, NO, "multicast", "RFC 4291, 2.7"},
};

const uint8_t hk_special_first4[256] = {
	[0] = 1, [127] = 1, [169] = 1, [192] = 1, [198] = 1, [203] = 1, [224 ... 255] = 1,
};

const uint8_t hk_special_first6[256] = {
	[0] = 1, [0x20] = 1, [0x3f] = 1, [0xfe] = 1, [0xff] = 1,
};

const struct hk_special *hk_special_table(unsigned family, size_t *n)
{
	*n = family == 4 ? HK_ARRAY_LEN(table4) : HK_ARRAY_LEN(table6);
	return family == 4 ? table4 : table6;
}

const struct hk_special *hk_special_find(unsigned family, const uint8_t *address)
{
	const struct hk_special *best = NULL;
	size_t n;
	const struct hk_special *all = hk_special_table(family, &n);

	for (size_t i = 0; i < n; i++)
		if ((!best || all[i].depth > best->depth) &&
		    hk_prefix_holds(all[i].address, all[i].depth, address))
			best = &all[i];
	return best;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/special.h: special-purpose addresses.
 *
 * The table follows IANA's registries (RFC 6890, RFC 8190). It has the addresses that may not be a
 * packet's source, may not be its destination, or that routers do not forward. Such packets are
 * *martians* (RFC 1812, 5.3.7). Addresses are in network order. Pure; any thread may call it.
 */
#ifndef HK_ROUTER_SPECIAL_H
#define HK_ROUTER_SPECIAL_H

#include "base/common.h"

struct hk_special {
	uint8_t address[16]; /* IPv4 uses the first four bytes */
	uint8_t depth;
	bool source, destination; /* whether it may be a packet's source or destination */
	bool forwardable;         /* whether a router may forward it */
	const char *name, *rfc;
};

/* Returns all entries of a family (4 or 6). */
const struct hk_special *hk_special_table(unsigned family, size_t *n);

/* Returns the entry with the longest prefix that holds this address; NULL: an ordinary address. */
const struct hk_special *hk_special_find(unsigned family, const uint8_t *address);

/* Whether a packet from this address may be forwarded. Few instructions for most addresses: the
 * first byte decides. */
extern const uint8_t hk_special_first4[256], hk_special_first6[256]; /* 1: search the table */

static inline bool hk_source_ok(unsigned family, const uint8_t *address)
{
	const uint8_t *first = family == 4 ? hk_special_first4 : hk_special_first6;

	if (HK_LIKELY(!first[address[0]]))
		return true;
	const struct hk_special *s = hk_special_find(family, address);
	return !s || (s->source && s->forwardable);
}

/* Whether @address is in the prefix. */
static inline bool hk_prefix_holds(const uint8_t *prefix, unsigned depth, const uint8_t *address)
{
	unsigned bytes = depth / 8, bits = depth % 8;

	for (unsigned i = 0; i < bytes; i++)
		if (prefix[i] != address[i])
			return false;
	return !bits || ((prefix[bytes] ^ address[bytes]) & (0xff00u >> bits) & 0xff) == 0;
}

#endif

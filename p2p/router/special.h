/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/special.h: addresses with a meaning of their own, which a router must know.
 *
 * The table is IANA's registries of special-purpose addresses (RFC 6890, RFC 8190), as far as they
 * say that an address may not be a packet's source, not its destination, or that routers do not
 * forward it. Such packets are *martians* (RFC 1812, 5.3.7). Addresses are in network order.
 * Pure, and for any thread.
 */
#ifndef HK_ROUTER_SPECIAL_H
#define HK_ROUTER_SPECIAL_H

#include "base/common.h"

struct hk_special {
	uint8_t address[16]; /* IPv4: the first four bytes */
	uint8_t depth;
	bool source, destination; /* may it be that? */
	bool forwardable;         /* may a router hand it on? */
	const char *name, *rfc;
};

/* All entries of a family (4 or 6). */
const struct hk_special *hk_special_table(unsigned family, size_t *n);

/* The entry of the longest prefix that holds this address; NULL: an ordinary one. */
const struct hk_special *hk_special_find(unsigned family, const uint8_t *address);

/* May a packet from this address be forwarded? Few instructions for most addresses: the first byte
 * tells. */
extern const uint8_t hk_special_first4[256], hk_special_first6[256]; /* 1: look at the table */

static inline bool hk_source_ok(unsigned family, const uint8_t *address)
{
	const uint8_t *first = family == 4 ? hk_special_first4 : hk_special_first6;

	if (HK_LIKELY(!first[address[0]]))
		return true;
	const struct hk_special *s = hk_special_find(family, address);
	return !s || (s->source && s->forwardable);
}

/* Does @address lie in the prefix? */
static inline bool hk_prefix_holds(const uint8_t *prefix, unsigned depth, const uint8_t *address)
{
	unsigned whole = depth / 8, rest = depth % 8;

	for (unsigned i = 0; i < whole; i++)
		if (prefix[i] != address[i])
			return false;
	return !rest || ((prefix[whole] ^ address[whole]) & (0xff00u >> rest) & 0xff) == 0;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/mrt.c: reads dumps of routing tables in MRT: RFC 6396, TABLE_DUMP_V2.
 *
 * Each prefix gets the NEXT_HOP (BGP, RFC 4271) or MP_REACH_NLRI (RFC 4760) of its first entry that
 * has one. The reader skips multicast and other tables that are not unicast. It also skips prefixes
 * that no router forwards to, which real dumps contain. It checks every length against the part
 * that contains it. Numbers are in network order.
 */
#include "devmem/router/routes.h"

#include "devmem/router/special.h"

#include <errno.h>
#include <string.h>

#define HEAD          12 /* time, type, subtype, length */
#define TABLE_DUMP_V2 13

enum {
	PEER_INDEX_TABLE = 1,
	RIB_IPV4_UNICAST,
	RIB_IPV4_MULTICAST,
	RIB_IPV6_UNICAST,
	RIB_IPV6_MULTICAST,
	RIB_GENERIC
};

#define ATTR_EXTENDED 0x10 /* the length has two bytes */
#define ATTR_NEXT_HOP 3
#define ATTR_MP_REACH 14

/* The bytes that remain to be read. */
struct bytes {
	const uint8_t *at;
	size_t left;
};

static bool take(struct bytes *b, size_t n, const uint8_t **out)
{
	if (n > b->left)
		return false;
	*out = b->at;
	b->at += n;
	b->left -= n;
	return true;
}

static bool number(struct bytes *b, unsigned n, uint32_t *out)
{
	const uint8_t *p;

	if (!take(b, n, &p))
		return false;
	for (*out = 0; n; n--)
		*out = *out << 8 | *p++;
	return true;
}

/* Reads the next hop of MP_REACH_NLRI. RFC 6396, 4.3.4 omits family and prefixes. Some writers do
 * not, and begin with the family's 0. */
static bool mp_reach(struct bytes b, uint8_t address[16])
{
	const uint8_t *p;
	uint32_t n;

	if (b.left && b.at[0] == 0 && !take(&b, 3, &p))
		return false;
	if (!number(&b, 1, &n) || (n != 16 && n != 32) || !take(&b, n, &p))
		return false;
	memcpy(address, p, 16);
	return true;
}

/* Searches an entry's attributes for the next hop. False if they do not parse; *@found tells
 * whether it is there. */
static bool next_hop(struct bytes attrs, unsigned family, uint8_t address[16], bool *found)
{
	*found = false;
	while (attrs.left) {
		struct bytes value;
		uint32_t flags, type, len;
		if (!number(&attrs, 1, &flags) || !number(&attrs, 1, &type) ||
		    !number(&attrs, flags & ATTR_EXTENDED ? 2 : 1, &len) ||
		    !take(&attrs, len, &value.at))
			return false;
		value.left = len;
		if (*found)
			continue;
		if (type == ATTR_NEXT_HOP && family == 4) {
			if (len != 4)
				return false;
			memcpy(address, value.at, 4);
			*found = true;
		} else if (type == ATTR_MP_REACH && family == 6) {
			if (!mp_reach(value, address))
				return false;
			*found = true;
		}
	}
	return true;
}

static const char *rib(struct hk_routes *r, struct bytes b, unsigned family, uint32_t hop,
		       uint32_t record)
{
	uint8_t prefix[16] = {0}, address[16] = {0};
	uint32_t sequence, depth, entries, peer, time, len;
	unsigned most = family == 4 ? 32 : 128;
	struct bytes attrs;
	const uint8_t *p;
	bool found = false;

	if (!number(&b, 4, &sequence) || !number(&b, 1, &depth))
		return "ends early";
	if (depth > most)
		return "has a prefix longer than an address";
	if (!take(&b, (depth + 7) / 8, &p) || !number(&b, 2, &entries))
		return "ends early";
	memcpy(prefix, p, (depth + 7) / 8);
	if (depth % 8) /* "the value of trailing bits is irrelevant" */
		prefix[depth / 8] &= (uint8_t)(0xff00 >> depth % 8);
	for (uint32_t i = 0; i < entries; i++) {
		bool has;
		if (!number(&b, 2, &peer) || !number(&b, 4, &time) || !number(&b, 2, &len) ||
		    !take(&b, len, &attrs.at))
			return "ends early";
		attrs.left = len;
		uint8_t other[16] = {0};
		if (!next_hop(attrs, family, other, &has))
			return "has an attribute that does not parse";
		if (has && !found)
			memcpy(address, other, 16);
		found |= has;
	}
	if (b.left)
		return "is longer than its entries";
	const struct hk_special *s = hk_special_find(family, prefix);
	if (s && depth >= s->depth && !(s->destination && s->forwardable))
		return NULL;
	if (hop != UINT32_MAX && r->hop[hop].family != family)
		return "has another family than the table's next hop";
	if (hop == UINT32_MAX && !found)
		return "has no next hop";
	if (hop == UINT32_MAX)
		hop = hk_routes_hop(r, HK_HOP_UNRESOLVED, family, address, HK_PORT_NONE, record);
	if (hop == UINT32_MAX || !hk_routes_add(r, family, prefix, depth, hop, record))
		return "exceeds the limit of routes, or there is no memory";
	return NULL;
}

bool hk_routes_is_mrt(const uint8_t *data, size_t len)
{
	static const uint8_t begin[] = {0, TABLE_DUMP_V2, 0, PEER_INDEX_TABLE};

	return len >= HEAD && memcmp(data + 4, begin, sizeof(begin)) == 0;
}

int hk_routes_mrt(struct hk_routes *r, const uint8_t *data, size_t len, const char *name,
		  uint32_t hop, struct hk_error *err)
{
	struct bytes all = {data, len};

	for (uint32_t record = 1; all.left; record++) {
		uint32_t time, type, subtype, size;
		const char *why = NULL;
		struct bytes b;
		if (!number(&all, 4, &time) || !number(&all, 2, &type) ||
		    !number(&all, 2, &subtype) || !number(&all, 4, &size) ||
		    !take(&all, size, &b.at))
			why = "ends early";
		else if (type != TABLE_DUMP_V2 || subtype < PEER_INDEX_TABLE ||
			 subtype > RIB_GENERIC)
			why = "is not a TABLE_DUMP_V2 of RFC 6396";
		else if (subtype == RIB_IPV4_UNICAST || subtype == RIB_IPV6_UNICAST) {
			b.left = size;
			why = rib(r, b, subtype == RIB_IPV4_UNICAST ? 4 : 6, hop, record);
		}
		if (why)
			return hk_error_set(err, -EINVAL,
					    "%s: record %u %s; fix: give a complete, uncompressed "
					    "dump of a table",
					    name, record, why);
	}
	return 0;
}

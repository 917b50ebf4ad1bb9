/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/generate.h: makes tables as large as the Internet's, for tests and measurements.
 *
 * Prefix lengths are distributed as in the global IPv4 table of recent years: six of ten prefixes
 * are /24, then come /22 and /23. Addresses are drawn evenly from unicast space, except
 * special-purpose addresses and 198.18.0.0/15 (RFC 2544), which has the next hops. A seed gives the
 * same table everywhere.
 */
#ifndef HK_ROUTER_GENERATE_H
#define HK_ROUTER_GENERATE_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <stdio.h>

struct hk_table_prefix {
	uint32_t address; /* in host order */
	uint8_t depth;
	uint16_t hop; /* index of the next hop */
};

/* Makes @count different prefixes, at most 1 500 000, sorted by address and depth. The caller calls
 * free(). */
int hk_table_make(uint64_t seed, size_t count, unsigned hops, struct hk_table_prefix **out,
		  struct hk_error *err);

/* Returns the address of next hop @i in host order: 198.18.0.2 and so on, 250 in each of
 * 198.18.x.0/24. */
uint32_t hk_table_hop(unsigned i);

/* Writes the table as text, "PREFIX NEXT-HOP", or as MRT. False: see errno. */
bool hk_table_write(const struct hk_table_prefix *t, size_t count, bool mrt, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/fib.h: the forwarding table: DPDK's rte_fib (DIR24-8) and rte_fib6 (trie), and what they lack.
 *
 * A *generation* is made aside from a set of routes and never changes its shape: reloading makes the
 * next one, which is swapped in (forward.h), and the old one is freed once nobody looks into it
 * (RCU, rte_rcu_qsbr). What happens to a generation that is in use:
 *  - A next hop's *cell* is one 8-byte word: kind, port and MAC address. Any thread may replace it
 *    (hk_fib_cell_set); a reader sees the old or the new one.
 *  - A prefix is set or deleted by the thread that looks up, between two bursts: DPDK's tables
 *    take back and hand out groups of entries while they change, and a reader at that moment could
 *    get another prefix's next hop. Default routes are cells, and cost nothing to change.
 *
 * Memory, from DPDK's heap: 64 MB for each family's first level, 1 KB for each group of 256 entries beyond
 * 24 bits, about 400 bytes a route (rte_rib's nodes). A million IPv4 prefixes: 620 MB, and as much again while the
 * next generation is made.
 */
#ifndef HK_ROUTER_FIB_H
#define HK_ROUTER_FIB_H

#include "p2p/router/routes.h"

#include <string.h>

#include <rte_fib.h>
#include <rte_fib6.h>

#define HK_FIB_CELLS (2 * HK_ROUTE_HOPS)
#define HK_FIB_SHORT 8 /* a shorter prefix is no update: too many entries; reload instead */
#define HK_FIB_BURST 64

/* bits 0-47 the MAC address as it stands in memory, 48-55 port, 56-63 enum hk_hop_kind */
typedef uint64_t hk_cell;

static inline hk_cell hk_cell_make(enum hk_hop_kind kind, unsigned port, const uint8_t mac[6])
{
	hk_cell c = 0;

	if (mac)
		memcpy(&c, mac, 6);
	return c | (uint64_t)port << 48 | (uint64_t)kind << 56;
}

static inline unsigned hk_cell_port(hk_cell c)
{
	return c >> 48 & 0xff;
}

static inline enum hk_hop_kind hk_cell_kind(hk_cell c)
{
	return (enum hk_hop_kind)(c >> 56);
}

struct hk_fib {
	struct rte_fib *v4;
	struct rte_fib6 *v6;
	hk_cell *cell;  /* [HK_FIB_CELLS]; 0 and 1: the default routes of IPv4 and IPv6, or none */
	uint32_t cells; /* in use */
	uint16_t mtu[HK_ROUTER_PORTS]; /* 0: the port's own */
	struct hk_route_address address[4 * HK_ROUTER_PORTS];
	unsigned addresses;
	/* beside each cell, whose address it stands for; of the thread that sets them */
	struct hk_route_hop *hop;
	uint32_t default_of[2]; /* the cell that a default route copies; 0: there is none */
	size_t routes[2];       /* prefixes of IPv4 and IPv6 */
};

/* Makes a generation. Errors: no memory (how much is wanted is said), too many long prefixes. */
int hk_fib_make(const struct hk_routes *r, struct hk_fib **out, struct hk_error *err);
void hk_fib_free(struct hk_fib *f); /* NULL is allowed */

/* Next hops, as indices of cells, of @n addresses, at most HK_FIB_BURST. IPv4 in host order. */
static inline void hk_fib_lookup4(const struct hk_fib *f, uint32_t *address, uint64_t *hop,
				  unsigned n)
{
	(void)rte_fib_lookup_bulk(f->v4, address, hop, (int)n);
}

static inline void hk_fib_lookup6(const struct hk_fib *f, uint8_t (*address)[16], uint64_t *hop,
				  unsigned n)
{
	(void)rte_fib6_lookup_bulk(f->v6, address, hop, (int)n);
}

static inline hk_cell hk_fib_cell(const struct hk_fib *f, uint64_t hop)
{
	return __atomic_load_n(&f->cell[hop], __ATOMIC_RELAXED);
}

/* Replaces a cell, and the default routes that copy it. One thread at a time. */
void hk_fib_cell_set(struct hk_fib *f, uint32_t cell, hk_cell value);

/* The cell of this hop, made if it is new; 0: no room. One thread at a time. */
uint32_t hk_fib_cell_for(struct hk_fib *f, const struct hk_route_hop *hop);

/* By the thread that looks up, or before anybody does: sets a prefix's hop, or with @cell UINT32_MAX takes the prefix out.
 * 0, -ENOENT, -ENOSPC (no room), -EINVAL (too short a prefix). */
int hk_fib_update(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth,
		  uint32_t cell);

#endif

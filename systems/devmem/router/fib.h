/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/fib.h: the forwarding table: DPDK's rte_fib (DIR24-8) and rte_fib6 (trie), with
 * next hops that any thread can change.
 *
 * DESIGN NOTES
 *
 * Problem: rte_fib cannot change while another thread looks up. DPDK's tables free and reuse groups
 * of entries during an update, and a reader at that moment could get another prefix's next hop.
 *
 * Approach: a *generation* is made from a set of routes, apart from the table in use, and keeps its
 * shape. Reloading makes the next generation and swaps a pointer (forward.h). The old generation is
 * freed when no thread reads it any longer (RCU, rte_rcu_qsbr).
 *
 * Invariants for a generation in use:
 *  - A next hop's *cell* is one 8-byte word with kind, port and MAC address. Any thread may replace
 *    it (hk_fib_cell_set()); a reader sees the old or the new word.
 *  - Only the thread that looks up sets or deletes a prefix, between two bursts. Default routes are
 *    cells, and cost nothing to change.
 *
 * Memory, from DPDK's heap: 64 MB for each family's first level, and 1 KB for each group of 256
 * entries beyond 24 bits. A route takes about 400 bytes (rte_rib's nodes). A million IPv4 prefixes
 * take 620 MB, and as much again while the next generation is made.
 */
#ifndef HK_ROUTER_FIB_H
#define HK_ROUTER_FIB_H

#include "devmem/router/routes.h"

#include <string.h>

#include <rte_fib.h>
#include <rte_fib6.h>

#define HK_FIB_CELLS (2 * HK_ROUTE_HOPS)
#define HK_FIB_SHORT                                                                               \
	8 /* shortest prefix of an update; a shorter one has too many entries, so reload instead   \
	   */
#define HK_FIB_BURST 64

/* bits 0-47: the MAC address as in memory; 48-55: port; 56-63: enum hk_hop_kind */
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

/* DPDK 22.11 takes arrays of 16 bytes, and 24.11 a struct of them. */
#define HK_FIB6_ADDRESS(bytes) ((void *)(uintptr_t)(bytes))

struct hk_fib_prefix {
	uint8_t prefix[16];
	uint8_t depth, family;
};

struct hk_fib {
	struct rte_fib *v4;
	struct rte_fib6 *v6;
	hk_cell *cell;  /* [HK_FIB_CELLS]; cells 0 and 1 are the default routes of IPv4 and IPv6 */
	uint32_t cells; /* number of cells in use */
	uint16_t mtu[HK_ROUTER_PORTS]; /* bytes; 0: the port's own MTU */
	struct hk_route_address address[4 * HK_ROUTER_PORTS];
	unsigned addresses;
	/* the next hop of each cell; used only by the thread that sets cells */
	struct hk_route_hop *hop;
	uint32_t default_of[2]; /* the cell that each default route copies; 0: there is none */
	size_t routes[2];       /* prefixes of IPv4 and IPv6 */
	size_t implied[2];      /* of these, those that no line of the file and no command names */
	/* The implied prefixes of both, in any order. A prefix for which there is no space counts
	 * as named. */
	struct hk_fib_prefix *unnamed;
	size_t unnamed_size;
};

/* Makes a generation. Errors: no memory, with the amount that is needed; too many long prefixes. */
int hk_fib_make(const struct hk_routes *r, struct hk_fib **out, struct hk_error *err);
void hk_fib_free(struct hk_fib *f); /* NULL is allowed */

/* Looks up the next hops of @n addresses, at most HK_FIB_BURST, as indices of cells. IPv4 addresses
 * are in host order. */
static inline void hk_fib_lookup4(const struct hk_fib *f, uint32_t *address, uint64_t *hop,
				  unsigned n)
{
	(void)rte_fib_lookup_bulk(f->v4, address, hop, (int)n);
}

static inline void hk_fib_lookup6(const struct hk_fib *f, uint8_t (*address)[16], uint64_t *hop,
				  unsigned n)
{
	(void)rte_fib6_lookup_bulk(f->v6, HK_FIB6_ADDRESS(address), hop, (int)n);
}

static inline hk_cell hk_fib_cell(const struct hk_fib *f, uint64_t hop)
{
	return __atomic_load_n(&f->cell[hop], __ATOMIC_RELAXED);
}

/* Replaces a cell, and the default routes that copy it. One thread at a time. */
void hk_fib_cell_set(struct hk_fib *f, uint32_t cell, hk_cell value);

/* Returns the cell of this hop, and makes a new one if there is none; 0: no space. One thread at a
 * time. */
uint32_t hk_fib_cell_for(struct hk_fib *f, const struct hk_route_hop *hop);

/* Sets a prefix's hop, or deletes the prefix if @cell is UINT32_MAX. @implied: nobody names the
 * prefix, as that of a neighbour that the kernel has found. Called by the thread that looks up, or
 * before any thread does. 0, -ENOENT, -ENOSPC (no space), -EINVAL (the prefix is too short). */
int hk_fib_update(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth,
		  uint32_t cell, bool implied);

#endif

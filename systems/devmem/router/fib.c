/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/fib.c: generations of the forwarding table.
 */
#include "devmem/router/fib.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_rib.h>
#include <rte_rib6.h>

#define FIRST       2     /* cell of the routes' hop 0; cells 0 and 1 are the default routes */
#define SPARE       65536 /* extra entries for neighbours and routes that are added later */
#define TBL8_SPARE4 4096u /* extra groups for prefixes that are added later */
#define TBL8_SPARE6 16384u
#define TBL8_MAX    (1u << 20)

static uint32_t host_order(const uint8_t *a)
{
	return (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3];
}

static int add(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth,
	       uint32_t cell)
{
	return family == 4 ? rte_fib_add(f->v4, host_order(prefix), (uint8_t)depth, cell)
			   : rte_fib6_add(f->v6, HK_FIB6_ADDRESS(prefix), (uint8_t)depth, cell);
}

static void set_default(struct hk_fib *f, unsigned family, uint32_t of)
{
	unsigned i = family == 4 ? 0 : 1;

	f->default_of[i] = of;
	__atomic_store_n(&f->cell[i],
			 of ? f->cell[of] : hk_cell_make(HK_HOP_NO_ROUTE, HK_PORT_NONE, NULL),
			 __ATOMIC_RELAXED);
}

/* Counts an upper bound of the groups of 256 entries for long prefixes. IPv4 needs one for each /24
 * that has longer prefixes. IPv6 needs one for each 8 bits beyond 24 that a prefix does not share
 * with the one before it. */
static void count_groups(const struct hk_routes *r, uint32_t *v4, uint32_t *v6)
{
	const uint8_t *last4 = NULL, *last6 = NULL;

	*v4 = TBL8_SPARE4;
	*v6 = TBL8_SPARE6;
	for (size_t i = 0; i < r->routes; i++) {
		const struct hk_route *t = &r->route[i];
		if (t->depth <= 24)
			continue;
		if (t->family == 4) {
			*v4 += !last4 || memcmp(last4, t->prefix, 3) != 0;
			last4 = t->prefix;
			continue;
		}
		for (unsigned bytes = 3; bytes * 8 < t->depth; bytes++)
			*v6 += !last6 || memcmp(last6, t->prefix, bytes) != 0;
		last6 = t->prefix;
	}
	*v4 = HK_MIN(*v4, TBL8_MAX);
	*v6 = HK_MIN(*v6, TBL8_MAX);
}

static int make_tables(struct hk_fib *f, const struct hk_routes *r, struct hk_error *err)
{
	static unsigned serial; /* one thread makes generations */
	uint32_t groups4, groups6;
	char name[32];

	count_groups(r, &groups4, &groups6);
	struct rte_fib_conf c4 = {.type = RTE_FIB_DIR24_8,
				  .default_nh = 0,
				  .max_routes = (int)(f->routes[0] + SPARE),
				  .dir24_8 = {RTE_FIB_DIR24_8_4B, groups4}};
	struct rte_fib6_conf c6 = {.type = RTE_FIB6_TRIE,
				   .default_nh = 1,
				   .max_routes = (int)(f->routes[1] + SPARE),
				   .trie = {RTE_FIB6_TRIE_4B, groups6}};
	snprintf(name, sizeof(name), "hk4_%u", serial);
	f->v4 = rte_fib_create(name, SOCKET_ID_ANY, &c4);
	snprintf(name, sizeof(name), "hk6_%u", serial++);
	f->v6 = f->v4 ? rte_fib6_create(name, SOCKET_ID_ANY, &c6) : NULL;
	if (!f->v6)
		return hk_error_set(err, -ENOMEM,
				    "%s: no memory for the forwarding table (about %zu MB: %s); "
				    "fix: give the router more memory (--memory)",
				    r->file[0],
				    128 + (groups4 + groups6) / 1024 +
					    (f->routes[0] + f->routes[1] + 2 * SPARE) * 128 /
						    (1 << 20),
				    rte_strerror(rte_errno));
	/* the fastest lookup that this CPU and EAL allow; the default always exists */
	(void)rte_fib_select_lookup(f->v4, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
	(void)rte_fib6_select_lookup(f->v6, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512);
	return 0;
}

static int fill(struct hk_fib *f, const struct hk_routes *r, struct hk_error *err)
{
	char text[HK_ADDRESS_TEXT];

	for (uint32_t i = 0; i < r->hops; i++) {
		const struct hk_route_hop *h = &r->hop[i];
		f->hop[FIRST + i] = *h;
		f->cell[FIRST + i] = hk_cell_make(h->kind, h->port, h->has_mac ? h->mac : NULL);
	}
	f->cells = FIRST + r->hops;
	set_default(f, 4, 0);
	set_default(f, 6, 0);
	for (size_t i = 0; i < r->routes; i++) {
		const struct hk_route *t = &r->route[i];
		if (t->depth == 0) {
			set_default(f, t->family, FIRST + t->hop);
			continue;
		}
		uint32_t cell = t->hop == HK_HOP_NO_ROUTE ? t->family == 6 : FIRST + t->hop;
		int rc = add(f, t->family, t->prefix, t->depth, cell);
		if (rc)
			return hk_error_set(err, rc,
					    "%s:%u: there is no space in the table for the route "
					    "to %s: %s; fix: aggregate prefixes",
					    r->file[t->file], t->line,
					    hk_address_text(t->family, t->prefix, t->depth, text),
					    rte_strerror(-rc));
	}
	return 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static size_t all_implied(const struct hk_fib *f)
{
	return f->implied[0] + f->implied[1];
}

static void imply(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth)
{
	if (all_implied(f) == f->unnamed_size)
		return;
	struct hk_fib_prefix *one = &f->unnamed[all_implied(f)];
	*one = (struct hk_fib_prefix){.depth = (uint8_t)depth, .family = (uint8_t)family};
	memcpy(one->prefix, prefix, family == 4 ? 4 : 16);
	f->implied[family == 6]++;
}

/* The prefix is implied no longer, if it was. */
static void unimply(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth)
{
	size_t count = all_implied(f);

	for (size_t i = 0; i < count; i++) {
		struct hk_fib_prefix *one = &f->unnamed[i];
		if (one->family != family || one->depth != depth ||
		    memcmp(one->prefix, prefix, family == 4 ? 4 : 16) != 0)
			continue;
		*one = f->unnamed[count - 1];
		f->implied[family == 6]--;
		return;
	}
}

static bool has(const struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth)
{
	if (depth == 0)
		return f->default_of[family == 6] != 0;
	if (family == 4)
		return rte_rib_lookup_exact(rte_fib_get_rib(f->v4), host_order(prefix),
					    (uint8_t)depth) != NULL;
	return rte_rib6_lookup_exact(rte_fib6_get_rib(f->v6), HK_FIB6_ADDRESS(prefix),
				     (uint8_t)depth) != NULL;
}

/* ---- generations ----------------------------------------------------------------------------- */

int hk_fib_make(const struct hk_routes *r, struct hk_fib **out, struct hk_error *err)
{
	struct hk_fib *f = calloc(1, sizeof(*f));
	size_t implied = 0;
	int rc = 0;

	*out = NULL;
	for (size_t i = 0; i < r->routes; i++)
		implied += r->route[i].line == 0;
	if (f) {
		f->unnamed_size = implied + SPARE;
		f->unnamed = calloc(f->unnamed_size, sizeof(*f->unnamed));
		f->cell = aligned_alloc(64, HK_FIB_CELLS * sizeof(*f->cell));
		f->hop = calloc(HK_FIB_CELLS, sizeof(*f->hop));
	}
	if (!f || !f->cell || !f->hop || !f->unnamed) {
		hk_fib_free(f);
		return hk_error_set(err, -ENOMEM, "%s: no memory for next hops", r->file[0]);
	}
	memcpy(f->mtu, r->mtu, sizeof(f->mtu));
	memcpy(f->address, r->address, sizeof(f->address));
	f->addresses = r->addresses;
	for (size_t i = 0; i < r->routes; i++) {
		const struct hk_route *t = &r->route[i];
		f->routes[t->family == 6]++;
		if (t->line == 0)
			imply(f, t->family, t->prefix, t->depth);
	}
	rc = make_tables(f, r, err);
	if (rc == 0)
		rc = fill(f, r, err);
	if (rc) {
		hk_fib_free(f);
		return rc;
	}
	*out = f;
	return 0;
}

void hk_fib_free(struct hk_fib *f)
{
	if (!f)
		return;
	rte_fib_free(f->v4);
	rte_fib6_free(f->v6);
	free(f->cell);
	free(f->hop);
	free(f->unnamed);
	free(f);
}

void hk_fib_cell_set(struct hk_fib *f, uint32_t cell, hk_cell value)
{
	__atomic_store_n(&f->cell[cell], value, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		if (f->default_of[i] == cell)
			__atomic_store_n(&f->cell[i], value, __ATOMIC_RELAXED);
}

uint32_t hk_fib_cell_for(struct hk_fib *f, const struct hk_route_hop *hop)
{
	bool neighbour = hop->kind == HK_HOP_UNRESOLVED || hop->kind == HK_HOP_FORWARD;

	for (uint32_t i = FIRST; i < f->cells; i++) {
		const struct hk_route_hop *h = &f->hop[i];
		bool alike = h->kind == hop->kind || (neighbour && (h->kind == HK_HOP_UNRESOLVED ||
								    h->kind == HK_HOP_FORWARD));
		if (alike && h->family == hop->family && h->port == hop->port &&
		    memcmp(h->address, hop->address, 16) == 0)
			return i;
	}
	if (f->cells == HK_FIB_CELLS)
		return 0;
	f->hop[f->cells] = *hop;
	f->cell[f->cells] = hk_cell_make(hop->kind, hop->port, hop->has_mac ? hop->mac : NULL);
	return f->cells++;
}

static int update(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth,
		  uint32_t cell)
{
	bool out = cell == UINT32_MAX;

	if (depth == 0) {
		if (out && !f->default_of[family == 6])
			return -ENOENT;
		set_default(f, family, out ? 0 : cell);
		return 0;
	}
	if (depth < HK_FIB_SHORT)
		return -EINVAL;
	if (!out)
		return add(f, family, prefix, depth, cell);
	return family == 4 ? rte_fib_delete(f->v4, host_order(prefix), (uint8_t)depth)
			   : rte_fib6_delete(f->v6, HK_FIB6_ADDRESS(prefix), (uint8_t)depth);
}

int hk_fib_update(struct hk_fib *f, unsigned family, const uint8_t *prefix, unsigned depth,
		  uint32_t cell, bool implied)
{
	bool out = cell == UINT32_MAX, had = has(f, family, prefix, depth);
	int rc = update(f, family, prefix, depth, cell);

	if (rc)
		return rc;
	if (had && (out || !implied))
		unimply(f, family, prefix, depth);
	if (out)
		f->routes[family == 6]--;
	if (!had) {
		f->routes[family == 6]++;
		if (implied)
			imply(f, family, prefix, depth);
	}
	return 0;
}

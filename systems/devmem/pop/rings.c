/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/rings.c: descriptor rings in a pop. DPDK lets a program add memory as a heap, which
 * gets the number of a NUMA node ("socket"). Most drivers of NICs reserve their rings on the socket
 * that rte_eth_rx_queue_setup() gives (rte_eth_dma_zone_reserve()), so they take them from the
 * heap. DPDK maps a heap in VFIO's container itself.
 */
#include "devmem/pop/pop_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_memzone.h>

#define RINGS_OF_A_PORT 2 /* one to receive, one to send */

static int add_heap(struct hk_pop *pop, unsigned *socket, struct hk_error *err)
{
	static unsigned serial; /* pops are opened by one thread */
	struct hk_pop_pages pages;
	int rc = hk_pop_dma_pages(pop, 0, pop->rings, &pages, err), found = -1;

	if (rc)
		return rc;
	snprintf(pop->heap, sizeof(pop->heap), "hk_rings%u", serial++);
	rc = rte_malloc_heap_create(pop->heap);
	if (rc) {
		pop->heap[0] = '\0';
	} else {
		rc = rte_malloc_heap_memory_add(pop->heap, pop->memory.va, pop->rings, pages.iova,
						pages.count, pages.size);
		found = rte_malloc_heap_get_socket(pop->heap);
	}
	free(pages.iova);
	if (rc || found < 0)
		return hk_error_set(err, -EIO,
				    "DPDK cannot have a heap in %s: %s; fix: place the rings in "
				    "main memory",
				    pop->memory.info.spec, rte_strerror(rte_errno));
	*socket = (unsigned)found;
	return 0;
}

int hk_pop_rings(struct hk_pop *pop, unsigned *socket, struct hk_error *err)
{
	const struct hk_pop_info *i = &pop->memory.info;
	struct hk_pop_usage usage;

	hk_pop_usage(pop, &usage);
	if (usage.blocks || pop->mapped)
		return hk_error_set(err, -EBUSY,
				    "%s is in use; fix: place rings in it before anything else",
				    i->spec);
	/* The memory behind the heap is registered again, so it must not be empty. */
	if (i->size <= HK_POP_ALIGN || hk_pop_alloc(pop, HK_POP_ALIGN, HK_POP_ALIGN) != 0)
		return hk_error_set(err, -ENOMEM,
				    "%s has no space for rings (%" PRIu64
				    " bytes); fix: use a pop of at least 4 MB",
				    i->spec, HK_POP_ALIGN);
	hk_pop_dma_unregister(pop);
	pop->rings = HK_POP_ALIGN;
	int rc = hk_pop_dma_init(pop, err);
	return rc ? rc : add_heap(pop, socket, err);
}

struct count {
	const unsigned char *from, *to;
	struct hk_pop_rings_use *use;
};

static void count_zone(const struct rte_memzone *zone, void *arg)
{
	struct count *c = arg;
	const unsigned char *at = zone->addr;

	if (at < c->from || at >= c->to)
		return;
	c->use->zones++;
	c->use->bytes += zone->len;
}

void hk_pop_rings_use(const struct hk_pop *pop, struct hk_pop_rings_use *out)
{
	struct count c = {pop->memory.va, pop->memory.va + pop->rings, out};
	struct rte_malloc_socket_stats stats;

	*out = (struct hk_pop_rings_use){0};
	if (!pop->heap[0])
		return;
	rte_memzone_walk(count_zone, &c);
	if (rte_malloc_get_socket_stats(rte_malloc_heap_get_socket(pop->heap), &stats) == 0)
		out->other = stats.heap_allocsz_bytes -
			     HK_MIN(stats.heap_allocsz_bytes, out->bytes);
}

int hk_pop_rings_check(const struct hk_pop *pop, uint16_t port, struct hk_error *err)
{
	struct rte_eth_dev_info dev;
	struct hk_pop_rings_use use = {0};

	hk_pop_rings_use(pop, &use);
	if (use.zones >= RINGS_OF_A_PORT)
		return 0;
	return hk_error_set(
		err, -ENOTSUP,
		"the driver %s has %u of its %d rings in %s: it reserves them before it "
		"is told where, or elsewhere; fix: use a NIC with another driver, such "
		"as e1000e or vmxnet3, or leave the rings in main memory",
		rte_eth_dev_info_get(port, &dev) == 0 ? dev.driver_name : "of the port", use.zones,
		RINGS_OF_A_PORT, pop->memory.info.spec);
}

bool hk_pop_rings_end(struct hk_pop *pop)
{
	if (!pop->heap[0])
		return true;
	if (rte_malloc_heap_memory_remove(pop->heap, pop->memory.va, pop->rings) != 0)
		return false;
	(void)rte_malloc_heap_destroy(pop->heap);
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pool_shared.c: named pools of buffers that several processes use, and that the process which
 * created them can reset.
 *
 * DESIGN NOTES
 *
 * Problem: a pool lies in shared memory: its description, a ring of free buffers, and a cache for
 * each logical core. When a user dies, the buffers that it held are lost, and its cache keeps
 * others. If it died while it changed the ring, the next process waits there for ever.
 *
 * Approach: the creating process has a private copy of the description and the ring, and a list of
 * all buffers. hk_pool_reset() restores everything from these, and so does not depend on anything
 * that the dead process could have damaged.
 */
#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#define POOL_CACHE    256
#define POOL_NAME_MAX 20
#define POOL_OPS      "ring_mp_mc" /* the kind of ring that hk_pool_reset() can restore */
#define PUT_BURST     64u

/* The private copy of a pool, in the process that created it. */
struct own_pool {
	struct own_pool *next;
	struct rte_mempool *mp;
	struct rte_mempool description;
	struct rte_pktmbuf_pool_private private;
	struct rte_ring ring;
	uint32_t cache_size, cache_flush;
	unsigned count;
	void *buffer[];
};

static struct own_pool *own_pools; /* only one thread creates and frees pools */

static int bad_name(const char *name, struct hk_error *err)
{
	if (name && *name && strlen(name) <= POOL_NAME_MAX)
		return 0;
	return hk_error_set(err, -EINVAL,
			    "'%.40s' is not a name for a pool; fix: give 1 to %d characters",
			    name ? name : "", POOL_NAME_MAX);
}

/* rte_mempool_obj_iter()'s callback. */
static void record_buffer(struct rte_mempool *mp, void *arg, void *buffer, unsigned i)
{
	struct own_pool *own = arg;
	(void)mp;
	own->buffer[i] = buffer;
	*hk_pool_number(buffer) = i;
}

static unsigned frame_data_room(unsigned frame_max)
{
	return RTE_PKTMBUF_HEADROOM + ((frame_max + 63u) & ~63u);
}

/* Returns the size of the private bytes, rounded so that the buffer begins on a cache line. */
static uint16_t private_size(unsigned private)
{
	return (uint16_t)RTE_ALIGN(private + HK_POOL_NUMBER, RTE_CACHE_LINE_SIZE);
}

size_t hk_pool_sized_bytes(unsigned count, unsigned private, unsigned data_room)
{
	struct rte_mempool_objsz sz;
	unsigned element = (unsigned)sizeof(struct rte_mbuf) + private_size(private) + data_room;
	size_t buffers = (size_t)count * rte_mempool_calc_obj_size(element, 0, &sz);
	ssize_t ring = rte_ring_get_memsize(rte_align32pow2(count + 1));
	size_t caches = RTE_MAX_LCORE * sizeof(struct rte_mempool_cache);

	/* no buffer crosses a page border, so the end of each page is unused */
	size_t pages = buffers / RTE_PGSIZE_2M + 2;

	return buffers + pages * sz.total_size + (size_t)HK_MAX(ring, 0) + caches +
	       RTE_PGSIZE_2M / 4;
}

size_t hk_pool_bytes(unsigned count, unsigned frame_max)
{
	return hk_pool_sized_bytes(count, 0, frame_data_room(frame_max));
}

int hk_pool_create(const char *name, unsigned count, unsigned frame_max, struct rte_mempool **pool,
		   struct hk_error *err)
{
	return hk_pool_create_sized(name, count, 0, frame_data_room(frame_max), pool, err);
}

int hk_pool_create_sized(const char *name, unsigned count, unsigned private, unsigned data_room,
			 struct rte_mempool **pool, struct hk_error *err)
{
	struct own_pool *own;
	*pool = NULL;
	int rc = bad_name(name, err);
	if (rc)
		return rc;
	if (data_room > UINT16_MAX || count < 2 || count > UINT32_MAX / 1024)
		return hk_error_set(err, -EINVAL,
				    "pool %s: %u buffers of %u bytes are out of range; "
				    "fix: take at least 2, of at most 65535 bytes",
				    name, count, data_room);
	size_t bytes = sizeof(*own) + count * sizeof(own->buffer[0]);
	void *at = NULL; /* aligned like DPDK's structures */
	own = posix_memalign(&at, RTE_CACHE_LINE_SIZE, bytes) ? NULL : at;
	struct rte_mempool *mp = own ? hk_pool_new(
					       name, count, HK_MIN((unsigned)POOL_CACHE, count / 2),
					       private_size(private), (uint16_t)data_room, POOL_OPS)
				     : NULL;
	if (!mp) {
		rc = own && rte_errno == EEXIST ? -EEXIST : -ENOMEM;
		free(own);
		if (rc == -EEXIST)
			return hk_error_set(err, rc,
					    "there is a pool %s already; fix: use another "
					    "name",
					    name);
		return hk_error_set(
			err, rc,
			"no memory for the pool %s of %u buffers of %u bytes (%u MB); "
			"fix: give DPDK more memory, or take fewer buffers",
			name, count, data_room,
			(unsigned)(hk_pool_sized_bytes(count, private, data_room) >> 20) + 1);
	}
	own->mp = mp;
	own->count = rte_mempool_obj_iter(mp, record_buffer, own);
	own->description = *mp;
	memcpy(&own->private, rte_mempool_get_priv(mp), sizeof(own->private));
	if (!hk_eal_bare()) {
		own->ring = *(struct rte_ring *)mp->pool_data;
		own->cache_size = mp->local_cache[0].size;
		own->cache_flush = mp->local_cache[0].flushthresh;
	}
	own->next = own_pools;
	own_pools = own;
	*pool = mp;
	return 0;
}

static struct own_pool **find_own(const struct rte_mempool *mp)
{
	struct own_pool **at = &own_pools;
	while (*at && (*at)->mp != mp)
		at = &(*at)->next;
	return at;
}

int hk_pool_find(const char *name, struct rte_mempool **pool, struct hk_error *err)
{
	*pool = NULL;
	int rc = bad_name(name, err);
	if (rc)
		return rc;
	struct rte_mempool *mp = rte_mempool_lookup(name);
	if (!mp)
		return hk_error_set(err, -ENOENT,
				    "the shared memory has no pool %s; fix: make it in the primary "
				    "process first",
				    name);
	/* The pool refers to its functions by an index into a table that each process fills itself,
	 * so check the index here. */
	if (mp->ops_index < 0 || (unsigned)mp->ops_index >= rte_mempool_ops_table.num_ops ||
	    strcmp(rte_mempool_get_ops(mp->ops_index)->name, POOL_OPS) != 0)
		return hk_error_set(
			err, -EPROTO,
			"the pool %s does not work in this process: DPDK's drivers were "
			"loaded in another order; fix: use the same DPDK in all processes",
			name);
	*pool = mp;
	return 0;
}

int hk_pool_reset(struct rte_mempool *pool, struct hk_error *err)
{
	struct own_pool *own = *find_own(pool);
	if (!own)
		return hk_error_set(err, -EPERM,
				    "a pool that another process made cannot be reset here; "
				    "fix: reset it where hk_pool_create() was called");
	if (hk_eal_bare())
		return hk_error_set(err, -EPERM,
				    "a pool without DPDK has one process, and no "
				    "need of a reset");
	struct rte_mempool *mp = own->mp;
	*mp = own->description;
	memcpy(rte_mempool_get_priv(mp), &own->private, sizeof(own->private));
	memcpy(mp->pool_data, &own->ring, sizeof(own->ring));
	rte_ring_reset(mp->pool_data);
	for (unsigned i = 0; i < RTE_MAX_LCORE; i++) {
		mp->local_cache[i].size = own->cache_size;
		mp->local_cache[i].flushthresh = own->cache_flush;
		mp->local_cache[i].len = 0;
	}

	for (unsigned i = 0; i < own->count; i++) {
		struct rte_mempool_objhdr *hdr =
			(struct rte_mempool_objhdr *)((uint8_t *)own->buffer[i] - sizeof(*hdr));
		hdr->mp = mp;
		STAILQ_NEXT(hdr, next) =
			i + 1 < own->count
				? (struct rte_mempool_objhdr *)((uint8_t *)own->buffer[i + 1] -
								sizeof(*hdr))
				: NULL;
		rte_pktmbuf_init(mp, NULL, own->buffer[i], i);
		*hk_pool_number(own->buffer[i]) = i;
	}
	for (unsigned i = 0; i < own->count; i += PUT_BURST) {
		unsigned n = HK_MIN(PUT_BURST, own->count - i);
		if (rte_mempool_ops_enqueue_bulk(mp, &own->buffer[i], n) != 0)
			return hk_error_set(
				err, -EPROTO,
				"the pool %s takes only %u of its %u buffers back, because "
				"somebody still uses it; fix: create another",
				mp->name, i, own->count);
	}
	return 0;
}

bool hk_pool_table(const struct rte_mempool *pool, struct hk_pool_table *table)
{
	const struct own_pool *own = *find_own(pool);

	if (!own)
		return false;
	*table = (struct hk_pool_table){
		.buffer = own->buffer,
		.count = own->count,
		.data_room_at = (unsigned)sizeof(struct rte_mbuf) + own->private.mbuf_priv_size,
		.data_room = own->private.mbuf_data_room_size,
	};
	return true;
}

void hk_pool_free(struct rte_mempool *pool)
{
	struct own_pool **at = find_own(pool), *own = *at;
	if (!pool || !own || hk_pools_left())
		return;
	*at = own->next;
	hk_pool_delete(pool);
	free(own);
}

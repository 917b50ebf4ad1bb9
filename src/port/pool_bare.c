/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pool_bare.c: pools in a process that has not started DPDK.
 *
 * DESIGN NOTES
 *
 * Problem: DPDK's start takes 135 ms, of which it sleeps 100 to measure the clock, and 27 MB. A
 * port on a UDP socket needs nothing of it but packet buffers. Their functions are inline and used
 * everywhere, but rte_mempool_create() needs DPDK's memory.
 *
 * Approach: struct rte_mempool and the header of its objects are public, since these functions read
 * them. So this file fills them itself. One piece of memory has the description, the objects and a
 * stack of free ones, and the operations on the stack are ours. There is no cache for each logical
 * core: without DPDK a thread has no number. The worker keeps free buffers at hand itself.
 */
#include "port/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_mempool.h>
#include <rte_spinlock.h>

#define OPS "hk_stack"

struct stack {
	rte_spinlock_t lock;
	unsigned free;
	size_t mapped; /* bytes of the whole pool */
	void *object[];
};

/* ---- operations ------------------------------------------------------------------------------ */

static int keep(struct rte_mempool *mp)
{
	return mp->pool_data ? 0 : -ENOTSUP; /* hk_pool_bare() has made it */
}

static void leave(struct rte_mempool *mp)
{
	mp->pool_data = NULL;
}

static int put(struct rte_mempool *mp, void *const *objects, unsigned n)
{
	struct stack *s = mp->pool_data;

	rte_spinlock_lock(&s->lock);
	if (HK_LIKELY(n == 1))
		s->object[s->free] = objects[0];
	else
		memcpy(&s->object[s->free], objects, n * sizeof(*objects));
	s->free += n;
	rte_spinlock_unlock(&s->lock);
	return 0;
}

static int get(struct rte_mempool *mp, void **objects, unsigned n)
{
	struct stack *s = mp->pool_data;
	int rc = -ENOBUFS;

	rte_spinlock_lock(&s->lock);
	if (HK_LIKELY(n <= s->free)) {
		s->free -= n;
		if (HK_LIKELY(n == 1))
			objects[0] = s->object[s->free];
		else
			memcpy(objects, &s->object[s->free], n * sizeof(*objects));
		rc = 0;
	}
	rte_spinlock_unlock(&s->lock);
	return rc;
}

static unsigned count(const struct rte_mempool *mp)
{
	return ((const struct stack *)mp->pool_data)->free;
}

static const struct rte_mempool_ops ops = {
	.name = OPS,
	.alloc = keep,
	.free = leave,
	.enqueue = put,
	.dequeue = get,
	.get_count = count,
};
RTE_MEMPOOL_REGISTER_OPS(ops);

/* ---- a pool ---------------------------------------------------------------------------------- */

struct rte_mempool *hk_pool_bare(const char *name, unsigned n, size_t element,
				 struct rte_pktmbuf_pool_private *priv)
{
	size_t head = RTE_ALIGN(sizeof(struct rte_mempool_objhdr), RTE_CACHE_LINE_SIZE);
	size_t each = RTE_ALIGN(element, RTE_CACHE_LINE_SIZE);
	size_t description = RTE_ALIGN(sizeof(struct rte_mempool) + sizeof(*priv),
				       RTE_CACHE_LINE_SIZE);
	size_t objects = n * (head + each);
	size_t bytes = description + objects + sizeof(struct stack) + n * sizeof(void *);
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (memory == MAP_FAILED)
		return NULL;
	(void)madvise(memory, bytes, MADV_HUGEPAGE); /* all of it is used at once */
	struct rte_mempool *mp = (void *)memory;
	struct stack *s = (void *)(memory + description + objects);

	snprintf(mp->name, sizeof(mp->name), "%s", name);
	mp->pool_data = s;
	mp->socket_id = SOCKET_ID_ANY;
	mp->size = n;
	mp->elt_size = (uint32_t)each;
	mp->header_size = (uint32_t)head;
	mp->private_data_size = sizeof(*priv);
	STAILQ_INIT(&mp->elt_list);
	STAILQ_INIT(&mp->mem_list);
	s->mapped = bytes;
	if (rte_mempool_set_ops_byname(mp, OPS, NULL) != 0) {
		munmap(memory, bytes);
		return NULL;
	}
	rte_pktmbuf_pool_init(mp, priv);
	for (unsigned i = n; i-- > 0;) {
		char *object = memory + description + i * (head + each) + head;
		struct rte_mempool_objhdr *h = (void *)(object - sizeof(*h));

		h->mp = mp;
		h->iova = (rte_iova_t)(uintptr_t)object; /* no device uses it */
		STAILQ_INSERT_HEAD(&mp->elt_list, h, next);
		s->object[s->free++] = object;
	}
	mp->populated_size = n;
	return mp;
}

bool hk_pool_bare_free(struct rte_mempool *mp)
{
	if (strcmp(rte_mempool_get_ops(mp->ops_index)->name, OPS) != 0)
		return false;
	munmap(mp, ((const struct stack *)mp->pool_data)->mapped);
	return true;
}

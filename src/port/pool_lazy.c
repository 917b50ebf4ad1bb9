/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pool_lazy.c: pools whose buffers take memory only once they are used.
 *
 * DESIGN NOTES
 *
 * Problem: DPDK puts the bytes of a buffer behind its mbuf. It writes each mbuf when it creates a
 * pool, and so each buffer takes a page before it is used. A rank has 8700 buffers of 9 KB, and
 * mostly uses a few hundred: 34 MB for nothing.
 *
 * Approach: the mbufs lie side by side. The bytes have memory of their own, which the kernel
 * supplies page by page when somebody writes to it. DPDK's cache of free buffers gives out the
 * latest first, so the same ones are used again. The kernel is asked for huge pages there. With
 * small ones, an mbuf and its bytes need two address translations in place of one: 3 % of the
 * message rate.
 *
 * DPDK puts a cache of free buffers for each of 128 logical cores behind the description of a pool,
 * 1 MB in all, and clears them. A rank has one logical core. So DPDK makes the pool without caches.
 * Its users get a copy of the description that has them, in memory of the same kind. Both lead to
 * the same free buffers.
 *
 * An mbuf finds its bytes by buf_addr alone. Only rte_pktmbuf_attach() and what undoes it compute
 * one address from the other. Pools are such ones only if the process promised not to use these
 * (hk_eal_config.lazy_buffers). Devices that read memory by themselves need pinned memory, so the
 * promise holds only without PCI devices and huge pages.
 */
#include "port/internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <rte_lcore.h>
#include <rte_mbuf_pool_ops.h>

struct lazy {
	struct lazy *next;
	struct rte_mempool *mp;   /* what the users have */
	struct rte_mempool *made; /* by hk_pool_populated(), the same or without caches */
	char *bytes;              /* of all buffers */
	size_t each, len;
};

static struct lazy *pools; /* only one thread creates and frees pools */

/* @arg, and not @made, is the pool to which a buffer returns. */
static void init(struct rte_mempool *made, void *arg, void *object, unsigned i)
{
	const struct lazy *l = arg;
	struct rte_mbuf *m = object;

	(void)made;
	rte_mempool_get_header(m)->mp = l->mp;
	rte_pktmbuf_init(l->mp, NULL, m, i);
	m->buf_addr = l->bytes + i * l->each;
	m->buf_iova = (rte_iova_t)(uintptr_t)m->buf_addr; /* no device uses it */
}

static void *map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static size_t copy_len(void)
{
	const struct rte_mempool *any = NULL;

	return RTE_MEMPOOL_HEADER_SIZE(any, 1) + sizeof(struct rte_pktmbuf_pool_private);
}

/* Returns a copy of @made with caches of @size for the process's logical cores. The cache of
 * another core has size 0, and passes each buffer on. */
static struct rte_mempool *copy_with_caches(const struct rte_mempool *made, unsigned size,
					    struct rte_pktmbuf_pool_private *priv)
{
	struct rte_mempool *mp = map(copy_len());
	unsigned lcore;

	if (!mp)
		return NULL;
	*mp = *made;
	mp->cache_size = size;
	mp->local_cache = (void *)(mp + 1);
	RTE_LCORE_FOREACH(lcore)
	{
		mp->local_cache[lcore].size = size;
		mp->local_cache[lcore].flushthresh = size + size / 2; /* as DPDK has it */
	}
	rte_pktmbuf_pool_init(mp, priv);
	return mp;
}

static void give_back(struct lazy *l)
{
	if (l->mp && l->mp != l->made)
		munmap(l->mp, copy_len());
	if (l->made && !hk_pool_bare_free(l->made))
		rte_mempool_free(l->made);
	if (l->bytes)
		munmap(l->bytes, l->len);
	free(l);
}

struct rte_mempool *hk_pool_new(const char *name, unsigned n, unsigned cache, uint16_t private,
				uint16_t data_room, const char *ops)
{
	if (!ops && !hk_eal_bare())
		ops = rte_mbuf_best_mempool_ops();
	if (!hk_eal_lazy_buffers())
		return rte_pktmbuf_pool_create_by_ops(name, n, cache, private, data_room,
						      SOCKET_ID_ANY, ops);
	struct rte_pktmbuf_pool_private priv = {.mbuf_data_room_size = data_room,
						.mbuf_priv_size = private};
	struct lazy *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->each = RTE_ALIGN(data_room, RTE_CACHE_LINE_SIZE);
	if (l->each % 4096 == 0) /* else all headers would share a few sets of the cache */
		l->each += RTE_CACHE_LINE_SIZE;
	l->len = n * l->each;
	l->bytes = map(l->len);
	if (l->bytes)
		l->made = hk_pool_populated(name, n, 0, sizeof(struct rte_mbuf) + private, &priv,
					    ops, 0);
	if (l->made)
		l->mp = hk_eal_bare() ? l->made : copy_with_caches(l->made, cache, &priv);
	if (!l->mp) {
		give_back(l);
		return NULL;
	}
	(void)madvise(l->bytes, l->len, MADV_HUGEPAGE); /* a kernel without them uses small ones */
	rte_mempool_obj_iter(l->made, init, l);
	l->next = pools;
	pools = l;
	return l->mp;
}

void hk_pool_delete(struct rte_mempool *mp)
{
	struct lazy **at = &pools, *l;

	while ((l = *at) && l->mp != mp)
		at = &l->next;
	if (l) {
		*at = l->next;
		give_back(l);
	} else if (mp) {
		rte_mempool_free(mp);
	}
}

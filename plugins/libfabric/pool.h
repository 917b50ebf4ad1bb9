/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/pool.h: structs of one type, which are kept while they are free.
 */
#ifndef HK_FI_POOL_H
#define HK_FI_POOL_H

#include <stdlib.h>

struct hk_fi_pool {
	struct hk_fi_pooled {
		struct hk_fi_pooled *next;
	} * free;
};

/* One of @size bytes, of any contents. NULL: no memory. */
static inline void *hk_fi_pool_take(struct hk_fi_pool *pool, size_t size)
{
	struct hk_fi_pooled *one = pool->free;

	if (!one)
		return malloc(size);
	pool->free = one->next;
	return one;
}

static inline void hk_fi_pool_give(struct hk_fi_pool *pool, void *one)
{
	((struct hk_fi_pooled *)one)->next = pool->free;
	pool->free = one;
}

static inline void hk_fi_pool_close(struct hk_fi_pool *pool)
{
	while (pool->free)
		free(hk_fi_pool_take(pool, 0));
}

#endif

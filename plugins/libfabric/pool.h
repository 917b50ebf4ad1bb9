/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/pool.h: structs of one type that are kept while they are free, and arrays that grow.
 */
#ifndef HK_FI_POOL_H
#define HK_FI_POOL_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Makes place for index @at in an array of *@room elements, of @size bytes each. The bytes of new
 * ones are @byte. Returns the array, or NULL if there is no memory; then the old one is left. */
static inline void *hk_fi_grow(void *array, uint32_t *room, uint32_t at, size_t size, int byte)
{
	uint64_t more = *room ? *room : 64;
	char *grown = array;

	if (at < *room)
		return array;
	while (more <= at)
		more *= 2;
	grown = more > UINT32_MAX / 2 ? NULL : realloc(array, more * size);
	if (!grown)
		return NULL;
	memset(grown + *room * size, byte, (more - *room) * size);
	*room = (uint32_t)more;
	return grown;
}

#endif

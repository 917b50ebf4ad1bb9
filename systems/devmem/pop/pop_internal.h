/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/pop_internal.h: struct hk_pop, for the files that use DPDK.
 */
#ifndef HK_POP_POP_INTERNAL_H
#define HK_POP_POP_INTERNAL_H

#include "devmem/pop/alloc.h"
#include "devmem/pop/internal.h"

#include <pthread.h>
#include <stdatomic.h>

#include <rte_dev.h>

struct hk_pop {
	struct hk_pop_memory memory;
	struct hk_alloc *blocks; /* under `lock` */
	pthread_mutex_t lock;
	atomic_uint_fast64_t slow_bytes;
	bool registered; /* whether rte_extmem_register() has been called */
	uint64_t rings;  /* bytes at the start that are a heap for rings; 0: no heap (rings.c) */
	char heap[32];   /* name of that heap; "": none */
	struct rte_device
		*mapped; /* the device whose driver mapped the memory in the IOMMU, or NULL */
};

/* The bus addresses of the pages of [at, at + len), for DPDK. The caller frees them. */
struct hk_pop_pages {
	rte_iova_t *iova;
	unsigned count;
	uint64_t size; /* bytes of a page */
};

int hk_pop_dma_pages(const struct hk_pop *pop, uint64_t at, uint64_t len, struct hk_pop_pages *out,
		     struct hk_error *err);

/* Register the memory behind the heap with DPDK for DMA and buffers, and undo it. */
int hk_pop_dma_init(struct hk_pop *pop, struct hk_error *err);
void hk_pop_dma_unregister(struct hk_pop *pop);

/* Undoes all of it together with the mappings. False: a driver still has memory of the heap, so the
 * pop must stay mapped. */
bool hk_pop_dma_end(struct hk_pop *pop);

/* Removes the heap. False: as above. */
bool hk_pop_rings_end(struct hk_pop *pop);

#endif

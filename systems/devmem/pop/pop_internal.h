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
	struct rte_device
		*mapped; /* the device whose driver mapped the memory in the IOMMU, or NULL */
};

/* Register the memory with DPDK for DMA and buffers, and undo it together with the mappings. */
int hk_pop_dma_init(struct hk_pop *pop, struct hk_error *err);
void hk_pop_dma_end(struct hk_pop *pop);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/pop_internal.h: a pop, for the files that use DPDK.
 */
#ifndef HK_POP_POP_INTERNAL_H
#define HK_POP_POP_INTERNAL_H

#include "p2p/pop/alloc.h"
#include "p2p/pop/internal.h"

#include <pthread.h>
#include <stdatomic.h>

#include <rte_dev.h>

#define HK_POP_DMA_PIECES 4096 /* of memory that is not contiguous */

struct hk_pop {
	struct hk_pop_memory memory;
	struct hk_alloc *blocks; /* under lock */
	pthread_mutex_t lock;
	atomic_uint_fast64_t slow_bytes;
	bool registered;           /* with rte_extmem_register() */
	struct rte_device *mapped; /* by whose driver the IOMMU was told; NULL: nobody's */
};

/* Tells DPDK of the memory, so that it may be used for DMA and buffers; and takes all back. */
int hk_pop_dma_init(struct hk_pop *pop, struct hk_error *err);
void hk_pop_dma_end(struct hk_pop *pop);

#endif

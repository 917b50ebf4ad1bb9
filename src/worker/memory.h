/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/memory.h: memory of a worker: private, or of cfg->memory, which the poller shares. */
#ifndef HK_WORKER_MEMORY_H
#define HK_WORKER_MEMORY_H

#include "hikyaku/worker.h"

/* The worker itself, zeroed, with a copy of @cfg; NULL: no memory. */
struct hk_worker *hk_mem_worker(const struct hk_worker_config *cfg);

/* NULL: there is not so much. */
void *hk_mem_alloc_dirty(struct hk_worker *w, size_t bytes);

/* The same, zeroed. */
void *hk_mem_alloc(struct hk_worker *w, size_t bytes);

/* Shared memory stays taken until its owner's end. */
void hk_mem_free(const struct hk_worker *w, void *p);

#endif

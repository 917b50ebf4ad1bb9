/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/memory.c: memory of a worker.
 *
 * A worker of one process takes ordinary memory. A worker that hikyakud's poller shares lies in one
 * piece of memory. Both processes map it at the same address, so that pointers into it hold in
 * both. Nothing of that piece is freed before its owner ends.
 */
#include "worker/memory.h"
#include "worker/internal.h"
#include "worker/protect.h"

#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>

#define ALIGN 64

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

void *hk_mem_alloc_dirty(struct hk_worker *w, size_t bytes)
{
	void *p;

	bytes = aligned(bytes);
	if (!w->cfg.memory)
		return aligned_alloc(ALIGN, bytes);
	p = bytes <= (size_t)(w->mem_end - w->mem_next) ? w->mem_next : NULL;
	w->mem_next += p ? bytes : 0;
	return p;
}

void *hk_mem_alloc(struct hk_worker *w, size_t bytes)
{
	void *p = hk_mem_alloc_dirty(w, bytes);

	return p ? memset(p, 0, bytes) : NULL;
}

void hk_mem_free(const struct hk_worker *w, void *p)
{
	if (!w->cfg.memory)
		free(p);
}

struct hk_worker *hk_mem_worker(const struct hk_worker_config *cfg)
{
	struct hk_worker *w;

	if (!cfg->memory) {
		w = calloc(1, sizeof(*w));
	} else {
		if (cfg->memory_len < sizeof(*w))
			return NULL;
		w = memset(cfg->memory, 0, sizeof(*w));
		w->mem_next = (char *)w + aligned(sizeof(*w));
		w->mem_end = (char *)w + cfg->memory_len;
	}
	if (w)
		w->cfg = *cfg;
	return w;
}

size_t hk_worker_size(const struct hk_worker_config *cfg, unsigned txqs)
{
	size_t engine = hk_engine_size(&cfg->engine);

	if (engine == 0)
		return 0;
	return aligned(sizeof(struct hk_worker)) + aligned(engine) +
	       aligned(hk_rx_backlog_size(cfg)) + aligned(hk_protect_size(cfg)) +
	       aligned(cfg->engine.max_peers * sizeof(struct hk_worker_peer)) +
	       txqs * aligned(sizeof(struct hk_txq));
}

#define TX_PRIVATE ((unsigned)sizeof(struct hk_buf_private))

/* Bytes of the headers and the largest payload, which lies where hk_buf_data() has it. */
static unsigned tx_data_room(unsigned frame_max)
{
	return RTE_ALIGN(HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD + frame_max, 64);
}

size_t hk_worker_tx_pool_bytes(unsigned tx_buffers, unsigned frame_max)
{
	return hk_pool_sized_bytes(tx_buffers + HK_WORKER_TX_SLACK, TX_PRIVATE,
				   tx_data_room(frame_max));
}

int hk_worker_tx_pool(const char *name, unsigned tx_buffers, unsigned frame_max,
		      struct rte_mempool **pool, struct hk_error *err)
{
	return hk_pool_create_sized(name, tx_buffers + HK_WORKER_TX_SLACK, TX_PRIVATE,
				    tx_data_room(frame_max), pool, err);
}

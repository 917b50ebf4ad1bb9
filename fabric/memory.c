/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/memory.c: where a fabric lies. Alone, it takes ordinary memory. With a polling process, all that
 * both drive lies in one piece of memory that both map at the same address, so that pointers into it
 * hold in both; nothing is ever given back of it, for it goes with its owner.
 */
#include "fabric/internal.h"

#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>

#define ALIGN 64

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* NULL if there is not so much. */
void *hk_mem_take_dirty(struct hk_fabric *f, size_t bytes)
{
	void *p;

	bytes = aligned(bytes);
	if (!f->cfg.memory)
		return aligned_alloc(ALIGN, bytes);
	p = bytes <= (size_t)(f->mem_end - f->mem_next) ? f->mem_next : NULL;
	f->mem_next += p ? bytes : 0;
	return p;
}

void *hk_mem_take(struct hk_fabric *f, size_t bytes)
{
	void *p = hk_mem_take_dirty(f, bytes);

	return p ? memset(p, 0, bytes) : NULL;
}

void hk_mem_give(const struct hk_fabric *f, void *p)
{
	if (!f->cfg.memory)
		free(p);
}

struct hk_fabric *hk_mem_fabric(const struct hk_fabric_config *cfg)
{
	struct hk_fabric *f;

	if (!cfg->memory) {
		f = calloc(1, sizeof(*f));
	} else {
		if (cfg->memory_len < sizeof(*f))
			return NULL;
		f = memset(cfg->memory, 0, sizeof(*f));
		f->mem_next = (char *)f + aligned(sizeof(*f));
		f->mem_end = (char *)f + cfg->memory_len;
	}
	if (f)
		f->cfg = *cfg;
	return f;
}

size_t hk_fabric_size(const struct hk_fabric_config *cfg, unsigned lanes)
{
	size_t engine = hk_engine_size(&cfg->engine);

	if (engine == 0)
		return 0;
	return aligned(sizeof(struct hk_fabric)) + aligned(engine) + aligned(hk_keep_size(cfg)) +
	       aligned(cfg->engine.max_peers * sizeof(struct hk_peer_tx)) +
	       lanes * aligned(sizeof(struct hk_lane));
}

#define TX_PRIVATE ((unsigned)sizeof(struct hk_buf_private))

/* The headers and the largest payload, where hk_buf_data() has it. */
static unsigned tx_room(unsigned frame_max)
{
	return RTE_ALIGN(HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD + frame_max, 64);
}

size_t hk_fabric_tx_pool_bytes(unsigned tx_buffers, unsigned frame_max)
{
	return hk_pool_room_bytes(tx_buffers + HK_FABRIC_TX_SLACK, TX_PRIVATE, tx_room(frame_max));
}

int hk_fabric_tx_pool(const char *name, unsigned tx_buffers, unsigned frame_max,
		      struct rte_mempool **pool, struct hk_error *err)
{
	return hk_pool_create_room(name, tx_buffers + HK_FABRIC_TX_SLACK, TX_PRIVATE,
				   tx_room(frame_max), pool, err);
}

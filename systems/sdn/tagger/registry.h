/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/registry.h: the ranks of the job that run on this node, by slot. Pure: no I/O.
 */
#ifndef HK_TAGGER_REGISTRY_H
#define HK_TAGGER_REGISTRY_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "sdn/tagger/shared.h"

struct hk_tagger_registry_rank {
	uint32_t pid; /* 0: the slot is free */
	uint16_t rank;
};

struct hk_tagger_registry {
	struct hk_tagger_registry_rank slot[HK_TAGGER_SLOTS];
	uint32_t ranks; /* ranks of the job; 0: not known yet */
};

/* Takes a slot for @rank of @ranks, which is process @pid. Returns the slot, or:
 *  - -ERANGE: the job has more ranks than a tag can name, or @rank is not one of them.
 *  - -EEXIST: @rank or @pid has a slot already.
 *  - -ENOSPC: all slots of the node are in use.
 *  - -EINVAL: another rank reported another number of ranks. */
int hk_tagger_registry_join(struct hk_tagger_registry *r, uint32_t rank, uint32_t ranks,
			    uint32_t pid, struct hk_error *err);

/* Frees a slot that is in use. */
void hk_tagger_registry_leave(struct hk_tagger_registry *r, uint32_t slot);

/* Returns the number of slots in use. */
unsigned hk_tagger_registry_count(const struct hk_tagger_registry *r);

#endif

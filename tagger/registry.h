/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/registry.h: which rank of the job is which process of this node. Pure: no I/O.
 */
#ifndef HK_TAGGER_REGISTRY_H
#define HK_TAGGER_REGISTRY_H

#include "base/common.h"
#include "base/error.h"
#include "tagger/shared.h"

struct hk_registry_rank {
	uint32_t pid; /* 0: the slot is free */
	uint16_t rank;
};

struct hk_registry {
	struct hk_registry_rank slot[HK_TAGGER_SLOTS];
	uint32_t ranks; /* of the job; 0: not told yet */
};

/* Takes a slot for @rank of @ranks, which is process @pid. Returns the slot. -ERANGE: the job has more
 * ranks than a tag can name, or @rank is none of it; -EEXIST: @rank or @pid has one already; -ENOSPC: all
 * slots of the node are taken; -EINVAL: another rank named another number of ranks. */
int hk_registry_join(struct hk_registry *r, uint32_t rank, uint32_t ranks, uint32_t pid,
		     struct hk_error *err);

/* Frees a slot that is taken. */
void hk_registry_leave(struct hk_registry *r, uint32_t slot);

/* How many slots are taken. */
unsigned hk_registry_count(const struct hk_registry *r);

#endif

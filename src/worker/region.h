/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/region.h: the table of regions, and the checks of what peers do to them.
 */
#ifndef HK_WORKER_REGION_H
#define HK_WORKER_REGION_H

#include "engine/engine.h"
#include "worker/procedure.h"

struct hk_notify_target;
struct hk_worker;

#define HK_REGION_PROCEDURE 4u /* the access of a procedure, beside HK_REGION_WRITE and _READ */

struct hk_region_slot {
	char *base;
	uint64_t len, arrived; /* bytes; `arrived` counts those of puts */
	hk_peer peer;          /* who may use it, or HK_PEER_NONE for all */
	uint16_t generation;
	uint8_t access;                  /* HK_REGION_*; 0: the slot is free */
	uint32_t get_replies;            /* gets of it that are being served */
	struct hk_op *get;               /* our get of which this is the destination, or NULL */
	struct hk_notify_target *notify; /* notify.c places the bytes; or NULL */
	hk_procedure_fn *procedure;      /* HK_REGION_PROCEDURE: `base` is its argument */
	uint32_t next_free;
};

/* The id of a region is the number of its slot and the slot's generation, so that an outdated id
 * finds nothing. */
struct hk_regions {
	struct hk_region_slot *slot; /* cfg.regions, and HK_GETS_MAX for gets alone */
	unsigned count, available;
	uint32_t free; /* first free slot */
};

int hk_regions_open(struct hk_worker *w);
void hk_regions_close(struct hk_worker *w);

/* The slot of @r, or NULL. */
static inline struct hk_region_slot *hk_region_find(const struct hk_regions *t, hk_region r)
{
	uint32_t i = r & 0xffff;

	if (HK_UNLIKELY(i >= t->count || !t->slot[i].access || t->slot[i].generation != r >> 16))
		return NULL;
	return &t->slot[i];
}

/* May @p access @len bytes at @offset of @s in all ways of @access? @s may be NULL. */
static inline bool hk_region_allows(const struct hk_region_slot *s, hk_peer p, unsigned access,
				    uint64_t offset, uint64_t len)
{
	return s && (s->access & access) == access && (s->peer == HK_PEER_NONE || s->peer == p) &&
	       offset <= s->len && len <= s->len - offset;
}

/* Makes a region; @get: for the destination of that get of ours. HK_REGION_NONE: the table is
 * full. */
hk_region hk_region_new(struct hk_worker *w, void *base, size_t len, unsigned access, hk_peer peer,
			struct hk_op *get);
void hk_region_end(struct hk_worker *w, hk_region r);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/region.c: the table of regions: memory that peers reach.
 */
#include "worker/region.h"

#include "worker/rma_internal.h"
#include "worker/tx.h"

#include <errno.h>
#include <stdlib.h>

#define SLOT_NONE UINT32_MAX

int hk_regions_open(struct hk_worker *w)
{
	struct hk_regions *t = &w->regions;
	unsigned n = w->cfg.regions + HK_GETS_MAX;

	if (w->cfg.regions == 0 || w->cfg.regions > HK_REGIONS_MAX)
		return -EINVAL;
	t->count = t->available = n;
	t->slot = calloc(n, sizeof(*t->slot));
	if (!t->slot)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		t->slot[i].next_free = i + 1 < n ? i + 1 : SLOT_NONE;
	return 0;
}

void hk_regions_close(struct hk_worker *w)
{
	free(w->regions.slot);
}

hk_region hk_region_new(struct hk_worker *w, void *base, size_t len, unsigned access, hk_peer peer,
			struct hk_op *get)
{
	struct hk_regions *t = &w->regions;
	uint32_t i = t->free;

	/* the last slots are reserved for gets, so that gets always proceed; access 0 marks a free
	 * slot */
	if (HK_UNLIKELY(i == SLOT_NONE || !access || (!get && t->available <= HK_GETS_MAX)))
		return HK_REGION_NONE;
	struct hk_region_slot *s = &t->slot[i];
	uint16_t generation = (uint16_t)(s->generation + 1);

	generation += generation == 0; /* an id is never 0 */
	t->free = s->next_free;
	t->available--;
	*s = (struct hk_region_slot){
		.base = base,
		.len = len,
		.peer = peer,
		.generation = generation,
		.access = (uint8_t)access,
		.get = get,
	};
	return (uint32_t)generation << 16 | i;
}

hk_region hk_worker_region_add(struct hk_worker *w, void *base, size_t len, unsigned access,
			       hk_peer peer)
{
	hk_biased_enter(&w->lock);
	hk_region r = hk_region_new(w, base, len, access, peer, NULL);

	hk_biased_leave(&w->lock);
	return r;
}

void hk_region_end(struct hk_worker *w, hk_region r)
{
	struct hk_region_slot *s = hk_region_find(&w->regions, r);

	if (!s)
		return;
	if (HK_UNLIKELY(s->get_replies)) {
		hk_tx_reap(w); /* mostly their frames are acknowledged by now */
		if (s->get_replies)
			hk_get_replies_cancel(w, r);
	}
	s->access = 0;
	s->get = NULL;
	s->notify = NULL;
	s->next_free = w->regions.free;
	w->regions.free = r & 0xffff;
	w->regions.available++;
}

void hk_worker_region_del(struct hk_worker *w, hk_region r)
{
	hk_biased_enter(&w->lock);
	hk_region_end(w, r);
	hk_biased_leave(&w->lock);
}

uint64_t hk_worker_region_arrived(const struct hk_worker *w, hk_region r)
{
	const struct hk_region_slot *s = hk_region_find(&w->regions, r);

	return s ? s->arrived : 0;
}

char *hk_worker_region_at(const struct hk_worker *w, hk_peer p, hk_region r, unsigned access,
			  uint64_t offset, uint64_t len)
{
	const struct hk_region_slot *s = hk_region_find(&w->regions, r);

	/* a notify target has no memory of its own: only hk_put_receive() knows where its bytes go
	 */
	return hk_region_allows(s, p, access, offset, len) && !s->notify ? s->base + offset : NULL;
}

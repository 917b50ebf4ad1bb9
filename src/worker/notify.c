/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/notify.c: notify targets: where the bytes of numbered puts go, and when one is complete.
 * put.c sends them, as it sends any put.
 */
#include "worker/rma_internal.h"

#include <string.h>

static struct hk_notify_slot *slot_of(struct hk_notify_target *t, uint32_t number)
{
	return &t->slot[number & t->mask];
}

static char *staging_of(struct hk_notify_target *t, uint32_t number)
{
	return t->staging + (number & t->mask) * t->to.len;
}

/* Notes that bytes lie in the staging buffer. They mostly arrive in order, so one piece grows. */
static void piece_add(struct hk_notify_slot *s, uint64_t at, uint64_t len)
{
	if (s->count && s->piece[s->count - 1].at + s->piece[s->count - 1].len == at) {
		s->piece[s->count - 1].len += len;
	} else if (HK_LIKELY(s->count < HK_NOTIFY_PIECES)) {
		s->piece[s->count].at = at;
		s->piece[s->count].len = len;
		s->count++;
	} else {
		s->scattered = true;
	}
}

bool hk_notify_place(struct hk_notify_target *t, const struct hk_wire_put *put, const void *bytes,
		     uint16_t len)
{
	uint32_t number = put->xfer, ahead = (number - t->taken - 1) & ~HK_NOTIFY_MARK;
	struct hk_notify_slot *s = slot_of(t, number);

	if (HK_UNLIKELY(!(number & HK_NOTIFY_MARK) || ahead > t->mask || s->complete ||
			len > t->to.len - s->arrived))
		return false;
	if (HK_LIKELY(s->open)) {
		hk_layout_scatter(&t->to, put->offset, len, bytes);
	} else {
		memcpy(staging_of(t, number) + put->offset, bytes, len);
		piece_add(s, put->offset, len);
	}
	s->arrived += len;
	if (s->arrived == t->to.len)
		atomic_store_explicit(&s->complete, 1, memory_order_release);
	return true;
}

hk_region hk_worker_notify_add(struct hk_worker *w, struct hk_notify_target *t, hk_peer peer,
			       const struct hk_layout *to, void *staging, unsigned depth)
{
	memset(t, 0, sizeof(*t));
	t->to = *to;
	t->staging = staging;
	t->mask = depth - 1;
	hk_biased_enter(&w->lock);
	t->region = hk_region_new(w, NULL, to->len, HK_REGION_WRITE, peer, NULL);
	if (t->region != HK_REGION_NONE)
		hk_region_find(&w->regions, t->region)->notify = t;
	hk_biased_leave(&w->lock);
	return t->region;
}

void hk_worker_notify_del(struct hk_worker *w, struct hk_notify_target *t)
{
	hk_worker_region_del(w, t->region);
	t->region = HK_REGION_NONE;
}

void hk_worker_notify_open(struct hk_worker *w, struct hk_notify_target *t)
{
	uint32_t number = t->taken + 1;
	struct hk_notify_slot *s = slot_of(t, number);

	hk_biased_enter(&w->lock);
	if (HK_LIKELY(!s->scattered)) {
		for (uint32_t i = 0; i < s->count; i++)
			hk_layout_scatter(&t->to, s->piece[i].at, s->piece[i].len,
					  staging_of(t, number) + s->piece[i].at);
		s->open = true;
	}
	hk_biased_leave(&w->lock);
}

void hk_worker_notify_take(struct hk_worker *w, struct hk_notify_target *t)
{
	uint32_t number = t->taken + 1;
	struct hk_notify_slot *s = slot_of(t, number);

	hk_biased_enter(&w->lock);
	if (HK_UNLIKELY(!s->open))
		hk_layout_scatter(&t->to, 0, t->to.len, staging_of(t, number));
	s->arrived = 0;
	s->open = s->scattered = false;
	s->count = 0;
	atomic_store_explicit(&s->complete, 0, memory_order_relaxed);
	t->taken = number;
	hk_biased_leave(&w->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/notify.c: inboxes: where the bytes of puts that come again and again go, and when one is whole.
 * What sends them is rma.c, as for any put.
 */
#include "fabric/internal.h"

#include <string.h>

static struct hk_inbox_slot *slot_of(struct hk_inbox *in, uint32_t number)
{
	return &in->slot[number & in->mask];
}

static char *early_of(struct hk_inbox *in, uint32_t number)
{
	return in->early + (number & in->mask) * in->to.len;
}

/* Notes that bytes lie in the early memory. They mostly come in order, so one piece grows. */
static void piece_add(struct hk_inbox_slot *s, uint64_t at, uint64_t len)
{
	if (s->count && s->piece[s->count - 1].at + s->piece[s->count - 1].len == at) {
		s->piece[s->count - 1].len += len;
	} else if (HK_LIKELY(s->count < HK_INBOX_PIECES)) {
		s->piece[s->count].at = at;
		s->piece[s->count].len = len;
		s->count++;
	} else {
		s->jumbled = true;
	}
}

/* A frame for @in: put->xfer is its number. False if it is refused. */
bool hk_inbox_in(struct hk_inbox *in, const struct hk_wire_put *put, const void *bytes,
		 uint16_t len)
{
	uint32_t number = put->xfer, ahead = (number - in->taken - 1) & ~HK_INBOX_MARK;
	struct hk_inbox_slot *s = slot_of(in, number);

	if (HK_UNLIKELY(!(number & HK_INBOX_MARK) || ahead > in->mask || s->whole ||
			len > in->to.len - s->arrived))
		return false;
	if (HK_LIKELY(s->open)) {
		hk_layout_scatter(&in->to, put->offset, len, bytes);
	} else {
		memcpy(early_of(in, number) + put->offset, bytes, len);
		piece_add(s, put->offset, len);
	}
	s->arrived += len;
	if (s->arrived == in->to.len)
		atomic_store_explicit(&s->whole, 1, memory_order_release);
	return true;
}

hk_region hk_fabric_inbox_add(struct hk_fabric *f, struct hk_inbox *in, hk_peer peer,
			      const struct hk_layout *to, void *early, unsigned places)
{
	memset(in, 0, sizeof(*in));
	in->to = *to;
	in->early = early;
	in->mask = places - 1;
	hk_biased_enter(&f->lock);
	in->region = hk_region_new(f, NULL, to->len, HK_REGION_WRITE, peer, NULL);
	if (in->region != HK_REGION_NONE)
		hk_region_find(f, in->region)->inbox = in;
	hk_biased_leave(&f->lock);
	return in->region;
}

void hk_fabric_inbox_del(struct hk_fabric *f, struct hk_inbox *in)
{
	hk_fabric_region_del(f, in->region);
	in->region = HK_REGION_NONE;
}

void hk_fabric_inbox_open(struct hk_fabric *f, struct hk_inbox *in)
{
	uint32_t number = in->taken + 1;
	struct hk_inbox_slot *s = slot_of(in, number);

	hk_biased_enter(&f->lock);
	if (HK_LIKELY(!s->jumbled)) {
		for (uint32_t i = 0; i < s->count; i++)
			hk_layout_scatter(&in->to, s->piece[i].at, s->piece[i].len,
					  early_of(in, number) + s->piece[i].at);
		s->open = true;
	}
	hk_biased_leave(&f->lock);
}

void hk_fabric_inbox_take(struct hk_fabric *f, struct hk_inbox *in)
{
	uint32_t number = in->taken + 1;
	struct hk_inbox_slot *s = slot_of(in, number);

	hk_biased_enter(&f->lock);
	if (HK_UNLIKELY(!s->open))
		hk_layout_scatter(&in->to, 0, in->to.len, early_of(in, number));
	s->arrived = 0;
	s->open = s->jumbled = false;
	s->count = 0;
	atomic_store_explicit(&s->whole, 0, memory_order_relaxed);
	in->taken = number;
	hk_biased_leave(&f->lock);
}

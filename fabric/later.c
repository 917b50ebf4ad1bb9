/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/later.c: what a peer asked for, and found no buffer for its answer.
 *
 * The request was acknowledged when it came, so nobody sends it again: it is copied, and looked at when there is a
 * buffer. With a hundred peers that all ask at once, and a rank that computes meanwhile, that happens. What one peer
 * asks stays in its order. An honest peer has a bounded number of requests under way; what goes beyond is dropped.
 *
 * Memory is allocated here, off the usual way.
 */
#include "fabric/internal.h"

#include <stdlib.h>
#include <string.h>

#define LATER_MAX (HK_ATOMS_MAX + HK_GETS_MAX) /* of a peer */

struct hk_later {
	struct hk_item item;
	hk_later_fn *fn;
	size_t len;
	char bytes[];
};

bool hk_later_add(struct hk_fabric *f, hk_peer p, hk_later_fn *fn, const void *bytes, size_t len)
{
	struct hk_peer_tx *t = &f->peer[p];
	/* a stand-in's memory is another process's; requests are kept for the application then */
	bool none = f->stand_in || t->later == LATER_MAX;
	struct hk_later *l = none ? NULL : malloc(sizeof(*l) + len);

	if (!l)
		return false;
	l->fn = fn;
	l->len = len;
	memcpy(l->bytes, bytes, len);
	hk_items_append(&t->later_head, &t->later_tail, &l->item);
	t->later++;
	hk_list_add(f, HK_LIST_LATER, p);
	return true;
}

static void drop_first(struct hk_peer_tx *t)
{
	struct hk_later *l = (struct hk_later *)t->later_head;

	t->later_head = l->item.next;
	t->later--;
	free(l);
}

void hk_later_go(struct hk_fabric *f)
{
	for (uint32_t *link = &f->list[HK_LIST_LATER]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;
		struct hk_peer_tx *t = &f->peer[p];

		while (t->later_head && !t->gone) {
			struct hk_later *l = (struct hk_later *)t->later_head;
			hk_buf *b = hk_tx_take_reserved(f);

			if (!b)
				return;
			l->fn(f, p, l->bytes, l->len, b);
			drop_first(t);
		}
		link = hk_list_step(f, HK_LIST_LATER, link, t->later_head != NULL);
	}
}

void hk_later_forget(struct hk_fabric *f, hk_peer p)
{
	while (f->peer[p].later_head)
		drop_first(&f->peer[p]);
}

void hk_later_close(struct hk_fabric *f)
{
	for (hk_peer p; (p = hk_list_pop(f, HK_LIST_LATER)) != HK_PEER_NONE;)
		hk_later_forget(f, p);
}

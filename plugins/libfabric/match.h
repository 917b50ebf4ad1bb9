/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/match.h: which posted receive takes which message, by the rules of fi_tagged(3). They
 * are also MPI's rules.
 *
 * There are two lists. The posted receives are in the order in which the application posted them;
 * the unexpected messages are in the order of their arrival. A message takes the first receive that
 * fits, and a receive takes the first message that fits. So of two messages from one source, the
 * first is received first.
 *
 * A receive fits a message on two conditions. The tags agree in all bits that the receive does not
 * ignore. The receive is for any source, or for this one.
 *
 * Pure: no allocation, no other state. An item is part of the caller's struct. Threads: one at a
 * time.
 */
#ifndef HK_FI_MATCH_H
#define HK_FI_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HK_MATCH_ANY UINT32_MAX /* a receive from any source */

/* A posted receive or an unexpected message. */
struct hk_match_item {
	struct hk_match_item *next, **link; /* `link` points to the pointer to this item */
	uint64_t tag;
	uint64_t ignore; /* of a receive: bits of the tag that do not matter; of a message: 0 */
	uint32_t source;
};

struct hk_match_list {
	struct hk_match_item *first, **last;
};

static inline void hk_match_init(struct hk_match_list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static inline void hk_match_append(struct hk_match_list *list, struct hk_match_item *item)
{
	item->next = NULL;
	item->link = list->last;
	*list->last = item;
	list->last = &item->next;
}

static inline void hk_match_remove(struct hk_match_list *list, struct hk_match_item *item)
{
	*item->link = item->next;
	if (item->next)
		item->next->link = item->link;
	else
		list->last = item->link;
}

static inline bool hk_match_fits(const struct hk_match_item *receive,
				 const struct hk_match_item *message)
{
	return ((receive->tag ^ message->tag) & ~receive->ignore) == 0 &&
	       (receive->source == HK_MATCH_ANY || receive->source == message->source);
}

/* The first receive of @posted that fits @message, or NULL. It stays in the list. */
static inline struct hk_match_item *hk_match_message(const struct hk_match_list *posted,
						     const struct hk_match_item *message)
{
	struct hk_match_item *r = posted->first;

	while (r && !hk_match_fits(r, message))
		r = r->next;
	return r;
}

/* The first message of @unexpected that fits @receive, or NULL. It stays in the list. */
static inline struct hk_match_item *hk_match_receive(const struct hk_match_list *unexpected,
						     const struct hk_match_item *receive)
{
	struct hk_match_item *m = unexpected->first;

	while (m && !hk_match_fits(receive, m))
		m = m->next;
	return m;
}

#endif

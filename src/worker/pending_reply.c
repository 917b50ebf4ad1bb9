/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/pending_reply.c: a peer's requests whose replies found no frame buffer.
 *
 * The request was acknowledged when it arrived, so its sender does not send it again. The worker
 * copies it, and replies when there is a buffer. That happens when a hundred peers ask at once
 * while a rank computes. Requests of one peer stay in their order. A peer that keeps to the
 * protocol has a limited number of requests in flight; more than that are dropped.
 *
 * Requests are copied to allocated memory, off the hot path.
 */
#include "worker/pending_reply.h"
#include "worker/rma_internal.h"

#include <stdlib.h>
#include <string.h>

#define PENDING_MAX (HK_ATOMIC_OPS_PER_PEER + HK_GETS_MAX) /* of one peer */

struct hk_pending_reply {
	struct hk_item item;
	hk_pending_reply_fn *fn;
	size_t len;
	char bytes[];
};

bool hk_pending_reply_add(struct hk_worker *w, hk_peer p, hk_pending_reply_fn *fn,
			  const void *bytes, size_t len)
{
	struct hk_worker_peer *peer = &w->peer[p];
	/* the poller's own memory is not the application's; it stores requests in the rx backlog */
	bool none = w->by_poller || peer->pending_replies_len == PENDING_MAX;
	struct hk_pending_reply *l = none ? NULL : malloc(sizeof(*l) + len);

	if (!l)
		return false;
	l->fn = fn;
	l->len = len;
	memcpy(l->bytes, bytes, len);
	hk_items_append(&peer->pending_replies, &l->item);
	peer->pending_replies_len++;
	hk_peer_list_add(w, HK_LIST_PENDING_REPLIES, p);
	return true;
}

static void drop_first(struct hk_worker_peer *peer)
{
	struct hk_pending_reply *l = (struct hk_pending_reply *)peer->pending_replies.head;

	peer->pending_replies.head = l->item.next;
	peer->pending_replies_len--;
	free(l);
}

void hk_pending_replies_run(struct hk_worker *w)
{
	for (uint32_t *link = &w->list[HK_LIST_PENDING_REPLIES]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;
		struct hk_worker_peer *peer = &w->peer[p];

		while (peer->pending_replies.head && !peer->ended_unseen) {
			struct hk_pending_reply *l =
				(struct hk_pending_reply *)peer->pending_replies.head;
			hk_buf *b = hk_buf_take_reserved(w);

			if (!b)
				return;
			l->fn(w, p, l->bytes, l->len, b);
			drop_first(peer);
		}
		link = hk_peer_list_step(w, HK_LIST_PENDING_REPLIES, link,
					 peer->pending_replies.head != NULL);
	}
}

void hk_pending_replies_forget(struct hk_worker *w, hk_peer p)
{
	while (w->peer[p].pending_replies.head)
		drop_first(&w->peer[p]);
}

void hk_pending_replies_close(struct hk_worker *w)
{
	for (hk_peer p; (p = hk_peer_list_pop(w, HK_LIST_PENDING_REPLIES)) != HK_PEER_NONE;)
		hk_pending_replies_forget(w, p);
}

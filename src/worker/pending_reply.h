/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/pending_reply.h: a peer's requests whose replies found no buffer. */
#ifndef HK_WORKER_PENDING_REPLY_H
#define HK_WORKER_PENDING_REPLY_H

#include "worker/tx.h"

/* Replies in @b, a buffer from the reserve, to the request of @len bytes. */
typedef void hk_pending_reply_fn(struct hk_worker *w, hk_peer p, const void *bytes, size_t len,
				 hk_buf *b);

/* Copies a request for @fn. False: the peer has as many as it may, or there is no memory. */
bool hk_pending_reply_add(struct hk_worker *w, hk_peer p, hk_pending_reply_fn *fn,
			  const void *bytes, size_t len);
void hk_pending_replies_run(struct hk_worker *w);
void hk_pending_replies_forget(struct hk_worker *w, hk_peer p);
void hk_pending_replies_close(struct hk_worker *w);

/* A buffer for a reply to @p. NULL: there is none, or earlier requests wait. */
static inline hk_buf *hk_pending_reply_buf(struct hk_worker *w, hk_peer p)
{
	return HK_LIKELY(!w->peer[p].pending_replies.head) ? hk_buf_take_reserved(w) : NULL;
}

#endif

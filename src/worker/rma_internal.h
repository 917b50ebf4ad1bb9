/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/rma_internal.h: puts and gets, ours and our peers': put.c, get.c, notify.c.
 */
#ifndef HK_WORKER_RMA_INTERNAL_H
#define HK_WORKER_RMA_INTERNAL_H

#include "hikyaku/notify.h"
#include "worker/internal.h"

#define HK_GETS_MAX    64          /* our gets in flight to one peer */
#define HK_GET_REPLIES 1024        /* gets served at once, beside one of each peer */
#define HK_NOTIFY_MARK (1u << 31)  /* set in a notifying put's number: on the wire none is 0 */
#define HK_STRIPE_MIN  (16u << 10) /* bytes; below, an eager message is as good as a put */

/* May something be sent to @p? */
bool hk_peer_connected(const struct hk_worker *w, hk_peer p);

/* An operation of ours has ended: `done` is called at the end of progress. */
static inline void hk_op_complete(struct hk_worker *w, struct hk_op *op)
{
	hk_items_append(&w->completions, &op->item);
}

static inline void hk_op_init(struct hk_op *op, hk_peer p, void *base, size_t len, hk_region remote,
			      uint64_t offset, hk_done_fn done_fn, void *arg)
{
	*op = (struct hk_op){
		.peer = p,
		.remote = remote,
		.base = base,
		.len = len,
		.offset = offset,
		.done = done_fn,
		.arg = arg,
	};
}

/* Calls `done` of the operations that have ended. */
void hk_rma_report(struct hk_worker *w);

/* ---- put.c ----------------------------------------------------------------------------------- */

/* The sum of `len` of the packets that @op has to send and that need a grant. */
uint64_t hk_put_bulk(const struct hk_worker *w, const struct hk_op *op);

/* Sends what there is space for, at most @most frames. True: nothing of @op is left to send. */
bool hk_put_run(struct hk_worker *w, struct hk_op *op, unsigned most, uint64_t now);

/* Sends what there is space for. The rest waits in the send queue. */
void hk_put_start(struct hk_worker *w, struct hk_op *op);

/* @op has left the send queue: all of it is sent, or the connection has ended. */
void hk_put_unqueued(struct hk_worker *w, struct hk_op *op);

/* Makes frames in flight of @op independent of its source. Walks all buffers: for rare cases. */
void hk_put_detach(struct hk_worker *w, const struct hk_op *op);

/* A frame of a put is acknowledged, or @lost with its peer. */
void hk_put_frame_end(struct hk_worker *w, hk_buf *b, bool lost);

/* Does that for the frames that a progress proxy reaped. */
void hk_puts_acked(struct hk_worker *w);

/* A frame of a peer's put has arrived. */
void hk_put_receive(struct hk_worker *w, hk_peer p, const struct hk_frame *frame);

/* ---- get.c ----------------------------------------------------------------------------------- */

int hk_gets_open(struct hk_worker *w);
void hk_gets_close(struct hk_worker *w);

/* Requests the gets that waited. */
void hk_gets_run(struct hk_worker *w, uint64_t now);
void hk_get_end(struct hk_worker *w, struct hk_op *op, int status);

/* The connection to @p has ended: so have our gets. Puts end with their frames and their place in
 * the send queue. */
void hk_gets_forget(struct hk_worker *w, hk_peer p);

/* All bytes of a reply are sent, or the connection has ended. */
void hk_get_reply_sent(struct hk_worker *w, const struct hk_op *op);

/* They are acknowledged, too. */
void hk_get_reply_end(struct hk_worker *w, struct hk_op *op);

/* The memory of @r is about to be taken away: refuses the gets that are being served from it. */
void hk_get_replies_cancel(struct hk_worker *w, hk_region r);

/* ---- notify.c -------------------------------------------------------------------------------- */

/* Places a frame of a put; put->xfer is its number. False: refused. */
bool hk_notify_place(struct hk_notify_target *t, const struct hk_wire_put *put, const void *bytes,
		     uint16_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/buf.h: what the worker writes beside the data of its packet buffers: notes in a frame
 * buffer's private area, and in a receive buffer's headroom.
 */
#ifndef HK_WORKER_BUF_H
#define HK_WORKER_BUF_H

#include "hikyaku/rma.h"
#include "wire/wire.h"

#include <rte_mbuf.h>

struct hk_worker;

#define HK_SPARES 64 /* free frame buffers that the worker keeps at hand */

/* The frame buffers that the worker has given out or keeps at hand. */
struct hk_bufs {
	struct rte_mempool *pool;
	unsigned in_use;
	hk_buf *spare[HK_SPARES]; /* free ones, the latest last because it is in the cache */
	unsigned spares;
};

/* ---- lists ----------------------------------------------------------------------------------- */

struct hk_item_list {
	struct hk_item *head, *tail; /* `tail` is valid while `head` is not NULL */
};

static inline void hk_items_append(struct hk_item_list *list, struct hk_item *item)
{
	item->next = NULL;
	if (list->head)
		list->tail->next = item;
	else
		list->head = item;
	list->tail = item;
}

/* A peer's send queue holds buffers and puts. The lowest bit of a link marks a put, because a put
 * lies in the application's memory, which a progress proxy must not even read. */
static inline struct hk_item *hk_put_link(struct hk_op *op)
{
	return (struct hk_item *)((uintptr_t)&op->item | 1);
}

static inline bool hk_link_is_put(const struct hk_item *link)
{
	return (uintptr_t)link & 1;
}

static inline struct hk_op *hk_put_of(struct hk_item *link)
{
	return (struct hk_op *)((uintptr_t)link & ~(uintptr_t)1);
}

static inline struct hk_item *hk_item_of(struct hk_item *link)
{
	return (struct hk_item *)((uintptr_t)link & ~(uintptr_t)1);
}

/* ---- frame buffers --------------------------------------------------------------------------- */

/* Valid from the send call until the frame is acknowledged. */
struct hk_buf_note {
	struct hk_item item; /* link in the peer's send queue */
	uint8_t am, frag, frags;
	bool refusal;          /* the refusal of a get, in the send queue */
	bool atomic_reply;     /* the reply to an atomic operation, in the send queue */
	bool lost;             /* not acknowledged before the peer's connection ended */
	bool bulk;             /* sent by the peer's bulk port */
	uint8_t function;      /* MPI function in the tag, for a peer with one */
	uint16_t len;          /* bytes of payload */
	uint8_t path;          /* path of the last transmission, for a peer with several */
	bool by_several_paths; /* an ack does not tell which path delivered it */
	uint32_t peer;
	struct hk_op *op; /* the put of which this is a frame, or NULL */
};

/* The engine knows a buffer by a token, which is its address. Tokens never come from outside. */
static inline struct rte_mbuf *hk_mbuf_of(uint64_t token)
{
	return (struct rte_mbuf *)(uintptr_t)token;
}

/* The private area of a frame buffer. */
struct hk_buf_private {
	/* The second mbuf of a zero-copy put's frame, which points to the put's source. It belongs
	 * to no pool: one reference to it is the worker's while it is in use. */
	struct rte_mbuf source;
	struct hk_buf_note note;
	/* The third mbuf of such a frame with a tag. It points into the frame buffer itself. */
	struct rte_mbuf trailer;
};

static inline struct rte_mbuf *hk_buf_source(hk_buf *b)
{
	return &((struct hk_buf_private *)rte_mbuf_to_priv(b))->source;
}

static inline struct rte_mbuf *hk_buf_trailer(hk_buf *b)
{
	return &((struct hk_buf_private *)rte_mbuf_to_priv(b))->trailer;
}

static inline struct hk_buf_note *hk_note(hk_buf *b)
{
	return &((struct hk_buf_private *)rte_mbuf_to_priv(b))->note;
}

static inline hk_buf *hk_buf_of(struct hk_item *item)
{
	return (hk_buf *)((char *)item - offsetof(struct hk_buf_private, note) -
			  offsetof(struct hk_buf_note, item) - sizeof(struct rte_mbuf));
}

/* ---- receive buffers ------------------------------------------------------------------------- */

/* A message that waits, in the reorder queue or in the rx backlog, is a list of its receive
 * buffers. The links lie in the buffers' headroom, so that waiting needs no memory. */
struct hk_rx_note {
	struct rte_mbuf *frag_next; /* next buffer of this message */
	struct rte_mbuf *msg_next;  /* in a message's first buffer: the next in the reorder queue */
	uint32_t peer;
	uint32_t last; /* packet number of the message's last buffer */
	uint8_t am, count;
	bool put; /* one frame of a put, not a message */
};
_Static_assert(sizeof(struct hk_rx_note) <= RTE_PKTMBUF_HEADROOM, "it lies in the headroom");

static inline struct hk_rx_note *hk_rx_note(struct rte_mbuf *m)
{
	return m->buf_addr;
}

/* Writes the buffers of the message that starts with @m to @bufs. Returns how many there are, at
 * most HK_WIRE_MAX_FRAGS. */
static inline unsigned hk_rx_message_bufs(struct rte_mbuf *m, struct rte_mbuf **bufs)
{
	unsigned n = 0;

	for (; m; m = hk_rx_note(m)->frag_next)
		bufs[n++] = m;
	return n;
}

static inline void hk_rx_bufs_free(struct rte_mbuf *const *bufs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free_seg(bufs[i]);
}

static inline void hk_rx_message_free(struct rte_mbuf *m)
{
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];

	hk_rx_bufs_free(bufs, hk_rx_message_bufs(m, bufs));
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/tx.h: frame buffers, transmit queues, send queues, messages, and what the engine resends.
 */
#ifndef HK_WORKER_TX_H
#define HK_WORKER_TX_H

#include "worker/internal.h"

#define HK_OUT_BURST 16 /* frames taken from the engine at once */

/* Writes the Ethernet header @eth to @frame, with @function in its tag. */
static inline void hk_tx_eth(char *frame, const uint8_t *eth, uint8_t function)
{
	memcpy(frame, eth, HK_ETH_HLEN);
	/* bits 25 to 22 of the tag; without one, function is 0 */
	frame[2] = (char)(frame[2] | function >> 2);
	frame[3] = (char)(frame[3] | function << 6);
}

/* A frame buffer; NULL: none, or the worker has given out cfg.tx_buffers. */
hk_buf *hk_buf_take(struct hk_worker *w);

/* The same without that limit, for the few frames that must not fail. */
hk_buf *hk_buf_take_reserved(struct hk_worker *w);
void hk_buf_release(struct hk_worker *w, hk_buf *b);

/* Protects the frame in @b, whose data begins with its Ethernet header and has no trailer yet.
 * Queues it, and transmits unless frames are being gathered. @b stays the worker's until it is
 * acknowledged. */
void hk_tx_frame(struct hk_worker *w, uint16_t txq, hk_peer p, hk_buf *b);

/* Sends the frame in @m as it is; @m passes to the call. */
void hk_tx_bare(struct hk_worker *w, uint16_t txq, struct rte_mbuf *m);

/* The same as hk_tx_frame() for a frame that nobody acknowledges; @m passes to the call. */
void hk_tx_once(struct hk_worker *w, uint16_t txq, hk_peer p, struct rte_mbuf *m);
void hk_txqs_flush(struct hk_worker *w);

/* Does the port take nothing? */
bool hk_txq_stuck(const struct hk_worker *w, uint16_t txq);

/* Sends the message or fragment in @b. False if it must wait. */
bool hk_tx_now(struct hk_worker *w, hk_peer p, hk_buf *b, uint64_t now);

/* Adds a buffer or a put (hk_put_link()) to the peer's send queue. */
void hk_send_queue_add(struct hk_worker *w, hk_peer p, struct hk_item *item);

/* Takes a reply to a get out of its peer's queue, sent or not. It may be free afterwards. */
void hk_send_queue_remove(struct hk_worker *w, struct hk_op *reply);

/* Sends from the send queues what the windows have space for. */
void hk_send_queues_run(struct hk_worker *w, uint64_t now);

/* Asks for the grants that the first of a send queue waits for. Call it when one was added. */
void hk_send_queue_ask(struct hk_worker *w, hk_peer p, uint64_t now);

/* The connection has ended: frees what waited. */
void hk_send_queue_drop(struct hk_worker *w, hk_peer p);

/* hk_worker_sendv() by a caller that holds the lock. */
int hk_tx_message(struct hk_worker *w, hk_peer p, uint8_t am, hk_buf *const *bufs,
		  const size_t *len, unsigned count, bool bulk);

/* Takes back the buffers that were acknowledged, or are lost with their peer. */
void hk_tx_reap(struct hk_worker *w);

/* Runs the engine's timers and sends what it wants sent. @received: the Ethernet header of the
 * frame that just arrived on @received_txq, for replies to unknown senders; or NULL. */
void hk_tx_poll(struct hk_worker *w, uint64_t now, const struct rte_ether_hdr *received,
		uint16_t received_txq);

#endif

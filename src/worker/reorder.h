/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/reorder.h: a peer's reorder queue: messages that arrived before an earlier one, in their
 * receive buffers, by packet number.
 */
#ifndef HK_WORKER_REORDER_H
#define HK_WORKER_REORDER_H

#include "engine/engine.h"
#include "worker/peer.h"

/* Adds a message where it belongs. */
void hk_reorder_add(struct hk_peer_rx *q, const struct hk_rx *rx);

/* Frees what is in the queue. */
void hk_reorder_drop(struct hk_peer_rx *q);

/* The first message, if the packets before @next include all of it; else NULL. */
static inline struct rte_mbuf *hk_reorder_due(const struct hk_peer_rx *q, uint32_t next)
{
	struct rte_mbuf *m = q->reorder_head;

	return m && hk_psn_before(hk_rx_note(m)->last, next) ? m : NULL;
}

/* Removes @m, which is the first. */
static inline void hk_reorder_remove(struct hk_peer_rx *q, struct rte_mbuf *m)
{
	q->reorder_head = hk_rx_note(m)->msg_next;
}

#endif

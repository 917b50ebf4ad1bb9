/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/reorder.c: a peer's reorder queue, sorted by packet number.
 */
#include "worker/reorder.h"

/* Links the buffers of a message. Returns its first buffer. */
static struct rte_mbuf *link_bufs(const struct hk_rx *rx)
{
	struct rte_mbuf *first = hk_mbuf_of(rx->tokens[0]);

	for (unsigned i = 0; i < rx->count; i++)
		*hk_rx_note(hk_mbuf_of(rx->tokens[i])) = (struct hk_rx_note){
			.frag_next = i + 1u < rx->count ? hk_mbuf_of(rx->tokens[i + 1]) : NULL,
			.peer = rx->peer,
			.last = rx->last,
			.am = rx->am,
			.count = rx->count,
		};
	return first;
}

void hk_reorder_add(struct hk_peer_rx *q, const struct hk_rx *rx)
{
	struct rte_mbuf **link = &q->reorder_head, *m = link_bufs(rx);

	/* mostly at the tail: when one frame of many is lost, the rest arrives in order */
	if (*link && hk_psn_before(hk_rx_note(q->reorder_tail)->last, rx->last))
		link = &hk_rx_note(q->reorder_tail)->msg_next;
	while (*link && hk_psn_before(hk_rx_note(*link)->last, rx->last))
		link = &hk_rx_note(*link)->msg_next;
	hk_rx_note(m)->msg_next = *link;
	*link = m;
	if (!hk_rx_note(m)->msg_next)
		q->reorder_tail = m;
}

void hk_reorder_drop(struct hk_peer_rx *q)
{
	while (q->reorder_head) {
		struct rte_mbuf *m = q->reorder_head;

		hk_reorder_remove(q, m);
		hk_rx_message_free(m);
	}
	q->next = 0;
}

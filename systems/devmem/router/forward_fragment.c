/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/forward_fragment.c: cuts a packet into fragments without touching its payload.
 *
 * DESIGN NOTES
 *
 * Problem: the payload may be in device memory, which the CPU should not read.
 *
 * Approach: a fragment is a chain of buffers. The first is in main memory and has both headers. The
 * others have no bytes of their own and refer to the packet's bytes. The packet's buffers return to
 * their pool after the port has sent the last fragment that refers to them. A pop's buffers are
 * pinned to their bytes, and DPDK's reference count of external buffers accounts for that. A port
 * that can send only from one buffer gets a copy, if packets are in main memory.
 *
 * Rejected: rte_ip_frag reads the header from the packet once more, where the CPU should not read.
 */
#include "devmem/router/forward.h"
#include "devmem/router/fragment.h"

/* Appends @len bytes at @at of packet @m to @head, by reference. */
static bool refer(struct hk_forward *f, struct rte_mbuf *head, struct rte_mbuf *m, unsigned at,
		  unsigned len)
{
	struct rte_mbuf *tail = head;

	for (; m && at >= m->data_len; m = m->next)
		at -= m->data_len;
	for (; len; m = m->next, at = 0) {
		struct rte_mbuf *piece = m ? rte_pktmbuf_alloc(f->pieces) : NULL;
		if (!piece)
			return false;
		unsigned n = HK_MIN(len, (unsigned)m->data_len - at);
		/* A driver that overwrites a received packet's flags forgets this one (e1000 does).
		 * A buffer that refers to the packet would then be freed as if the bytes were
		 * behind their mbuf. */
		if (rte_pktmbuf_priv_flags(m->pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF)
			m->ol_flags |= RTE_MBUF_F_EXTERNAL;
		rte_pktmbuf_attach(piece, m);
		piece->data_off = (uint16_t)(piece->data_off + at);
		piece->data_len = (uint16_t)n;
		tail->next = piece;
		tail = piece;
		head->nb_segs++;
		head->pkt_len += n;
		len -= n;
	}
	return true;
}

/* Pads the frame with zeroes to Ethernet's shortest length. */
static bool pad(struct hk_forward *f, struct rte_mbuf *head)
{
	if (head->pkt_len >= HK_FRAME_MIN)
		return true;
	struct rte_mbuf *zeroes = rte_pktmbuf_alloc(f->pieces);
	if (!zeroes)
		return false;
	rte_pktmbuf_lastseg(head)->next = zeroes;
	uint16_t n = (uint16_t)(HK_FRAME_MIN - head->pkt_len);
	memset(rte_pktmbuf_mtod(zeroes, void *), 0,
	       n); /* a buffer of this pool can hold a header */
	zeroes->data_len = n;
	head->nb_segs++;
	head->pkt_len += n;
	return true;
}

/* Copies the same bytes into the first buffer. */
static bool copy(struct rte_mbuf *head, const struct rte_mbuf *m, unsigned at, unsigned len)
{
	unsigned padding = HK_FRAME_MIN - HK_MIN(head->pkt_len + len, (unsigned)HK_FRAME_MIN);
	char *to = rte_pktmbuf_append(head, (uint16_t)(len + padding));
	const void *from = to ? rte_pktmbuf_read(m, at, len, to) : NULL;

	if (!from)
		return false;
	if (from != to)
		memcpy(to, from, len);
	memset(to + len, 0, padding);
	return true;
}

enum hk_router_result hk_forward_fragment(struct hk_forward *f, unsigned from, struct rte_mbuf *m,
					  const uint8_t *frame, const struct hk_ip *ip,
					  hk_cell cell, unsigned mtu)
{
	unsigned port = hk_cell_port(cell), at, len, header, n = 0;
	struct hk_forward_port *p = &f->port[port];
	struct hk_forward_counters *c = &f->port[from].count;
	uint8_t bytes[HK_IP4_HEADER_MAX];
	struct hk_fragments s;
	struct rte_mbuf *made[HK_FORWARD_QUEUE];
	bool gather = p->gathers, ok = true;

	if (!f->pieces || (!gather && f->mode != HK_ROUTER_BOUNCE))
		return HK_RESULT_TOO_BIG;
	if (!gather)
		mtu = HK_MIN(mtu, (unsigned)HK_FORWARD_OWN - HK_ETHER_LEN);
	enum hk_router_result v = hk_fragments_begin(&s, frame + HK_ETHER_LEN, ip, mtu);
	if (v != HK_RESULT_FORWARD)
		return v;
	if (hk_fragments_count(&s) > HK_FORWARD_QUEUE - p->queued)
		return HK_RESULT_TX_FULL; /* queue all fragments, or none */
	while (ok && (header = hk_fragments_next(&s, bytes, &at, &len))) {
		struct rte_mbuf *head = rte_pktmbuf_alloc(gather ? f->pieces : f->own);
		if (!head) {
			ok = false;
			break;
		}
		made[n++] = head;
		head->data_len = (uint16_t)(HK_ETHER_LEN + header);
		head->pkt_len = head->data_len;
		uint8_t *to = rte_pktmbuf_mtod(head, uint8_t *);
		memcpy(to, &cell, 6);
		memcpy(to + 6, p->mac, 6);
		memcpy(to + 12, frame + 12, 2);
		memcpy(to + HK_ETHER_LEN, bytes, header);
		if (gather)
			ok = refer(f, head, m, HK_ETHER_LEN + at, len) && pad(f, head);
		else
			ok = copy(head, m, HK_ETHER_LEN + at, len);
	}
	if (!ok) {
		rte_pktmbuf_free_bulk(made, n);
		return HK_RESULT_NO_BUFFER;
	}
	for (unsigned i = 0; i < n; i++)
		hk_forward_enqueue(f, port, made[i]);
	rte_pktmbuf_free(m); /* the fragments hold references to its bytes */
	c->fragmented++;
	c->fragments += n;
	return HK_RESULT_FORWARD;
}

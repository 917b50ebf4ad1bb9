/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/lend.c: frames whose payload lies in the caller's memory. See worker/lend.h.
 */
#include "worker/lend.h"

#include <string.h>

/* Makes @m a piece of a frame in @pool. */
static void point_to(struct rte_mbuf *m, struct rte_mempool *pool, char *from, uint16_t len)
{
	m->pool = pool;
	m->buf_addr = from;
	m->buf_len = len;
	m->data_off = 0;
	m->data_len = len;
	m->pkt_len = len;
	m->nb_segs = 1;
	m->next = NULL;
	m->ol_flags = 0;
	rte_mbuf_refcnt_set(m, 2); /* the driver's and ours */
}

void hk_buf_attach(hk_buf *b, char *from, uint16_t len)
{
	struct rte_mbuf *data = hk_buf_source(b);

	point_to(data, b->pool, from, len);
	b->next = data;
	b->nb_segs = 2;
}

void hk_buf_attach_trailer(hk_buf *b, uint16_t len)
{
	struct rte_mbuf *data = b->next, *trailer = hk_buf_trailer(b);
	size_t at = (size_t)b->data_len + data->data_len;

	point_to(trailer, b->pool, rte_pktmbuf_mtod_offset(b, char *, at), len);
	data->next = trailer;
	b->nb_segs = 3;
	b->pkt_len = (uint32_t)(at + len);
}

void hk_buf_detach(hk_buf *b)
{
	const struct rte_mbuf *data = b->next;
	struct hk_op *op = hk_note(b)->op;

	if (!data)
		return;
	memcpy(rte_pktmbuf_mtod_offset(b, char *, b->data_len), data->buf_addr, data->data_len);
	b->data_len = (uint16_t)(b->data_len + data->data_len);
	if (data->next) /* the trailer is in its place already */
		b->data_len = (uint16_t)(b->data_len + data->next->data_len);
	hk_buf_drop_source(b);
	if (op)
		op->zero_copy--;
}

void hk_worker_lend(struct hk_worker *w, hk_buf *b, size_t at, const void *data, size_t len)
{
	if (len < HK_LEND_MIN || !w->txq[0]->zero_copy) {
		memcpy((char *)hk_buf_data(b) + at, data, len);
		return;
	}
	b->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	b->data_len = (uint16_t)(HK_WIRE_DATA_OVERHEAD + at);
	hk_buf_attach(b, (char *)(uintptr_t)data, (uint16_t)len);
}

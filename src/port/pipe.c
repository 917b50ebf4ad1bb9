/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pipe.c: queue pairs in software. pipe.h has the contract, and whom each side trusts.
 */
#include "port/pipe.h"
#include "port/wakeup.h"
#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MASK (HK_PIPE_RING - 1u)
_Static_assert((HK_PIPE_RING & MASK) == 0, "indices are masked");

/* ---- user's side --------------------------------------------------------------------------- */

void hk_pipe_port(struct hk_pipe *pipe, const struct hk_port_info *info, struct hk_port *port)
{
	*port = (struct hk_port){.id = UINT16_MAX, .pipe = pipe, .wrapped = true, .info = *info};
	port->info.queues = 1;
	port->info.rx_ring = HK_PIPE_RING;
	port->info.tx_multi_seg = false; /* each frame must lie in one buffer of the pool */
}

/* Frees sent buffers and returns the index of the first unsent one. */
static uint32_t free_sent(struct hk_pipe *p)
{
	uint32_t tail = atomic_load_explicit(&p->tx_tail, memory_order_acquire);

	for (; p->tx_freed != tail; p->tx_freed++)
		rte_pktmbuf_free_seg(p->sending[p->tx_freed & MASK]);
	return tail;
}

uint16_t hk_pipe_rx(struct hk_port *port, struct rte_mbuf **m, uint16_t n)
{
	struct hk_pipe *p = port->pipe;
	uint32_t tail = atomic_load_explicit(&p->rx_tail, memory_order_relaxed);
	uint32_t there = atomic_load_explicit(&p->rx_head, memory_order_acquire) - tail;

	n = (uint16_t)HK_MIN(there, n);
	if (n == 0)
		(void)free_sent(p); /* a user that no longer sends gets its buffers back too */
	for (uint16_t i = 0; i < n; i++)
		m[i] = p->rx[(tail + i) & MASK];
	atomic_store_explicit(&p->rx_tail, tail + n, memory_order_release);
	return n;
}

uint16_t hk_pipe_tx(struct hk_port *port, struct rte_mbuf **m, uint16_t n)
{
	struct hk_pipe *p = port->pipe;
	uint32_t head = atomic_load_explicit(&p->tx_head, memory_order_relaxed);
	uint32_t tail = free_sent(p);

	n = (uint16_t)HK_MIN(HK_PIPE_RING - (head - tail), n);
	for (uint16_t i = 0; i < n; i++) {
		p->sending[(head + i) & MASK] = m[i];
		p->tx[(head + i) & MASK] = *hk_pool_number(m[i]);
	}
	atomic_store_explicit(&p->tx_head, head + n, memory_order_release);
	(void)hk_wakeup_signal(HK_WAKEUP_SWITCH);
	return n;
}

/* ---- switch's side -------------------------------------------------------------------------- */

/* A received buffer that the user holds, with a copy of its header from before it was given. */
struct given_buffer {
	struct rte_mbuf *m;
	struct rte_mempool *pool;
	void *bytes;
	rte_iova_t iova;
	uint16_t len, priv_size;
};

/* A ring of the buffers that the user holds. */
struct hk_pipe_share {
	unsigned buffers, first, held;
	struct given_buffer given[];
};

struct hk_pipe_share *hk_pipe_share_new(unsigned buffers)
{
	struct hk_pipe_share *s = calloc(1, sizeof(*s) + buffers * sizeof(s->given[0]));

	if (s)
		s->buffers = buffers;
	return s;
}

unsigned hk_pipe_share_held(const struct hk_pipe_share *s)
{
	return s->held;
}

static struct given_buffer *share_append(struct hk_pipe_share *s)
{
	unsigned at = s->first + s->held++;

	return &s->given[at < s->buffers ? at : at - s->buffers];
}

static void share_add(struct hk_pipe_share *s, struct rte_mbuf *m)
{
	*share_append(s) = (struct given_buffer){
		.m = m,
		.pool = m->pool,
		.bytes = m->buf_addr,
		.iova = rte_mbuf_iova_get(m),
		.len = m->buf_len,
		.priv_size = m->priv_size,
	};
}

static struct given_buffer share_first(struct hk_pipe_share *s)
{
	struct given_buffer h = s->given[s->first];

	s->first = s->first + 1 == s->buffers ? 0 : s->first + 1;
	s->held--;
	return h;
}

/* Returns a buffer to its pool without reading anything that the user could write. */
static void take_back(const struct given_buffer *h)
{
	struct rte_mbuf *m = h->m;

	m->pool = h->pool;
	m->buf_addr = h->bytes;
	rte_mbuf_iova_set(m, h->iova);
	m->buf_len = h->len;
	m->priv_size = h->priv_size;
	m->ol_flags = 0;
	m->next = NULL;
	m->nb_segs = 1;
	rte_mbuf_refcnt_set(m, 1);
	rte_pktmbuf_reset(m);
	rte_mempool_put(h->pool, m);
}

/* Reclaims buffers of which ours is the last reference, among the oldest 64. A buffer that the user
 * still holds moves to the end of the ring: messages that it keeps long must not block the others.
 */
void hk_pipe_share_reclaim(struct hk_pipe_share *s)
{
	for (unsigned left = HK_MIN(s->held, 64u); left > 0; left--) {
		struct given_buffer h = share_first(s);

		if (rte_mbuf_refcnt_read(h.m) <= 1)
			take_back(&h);
		else
			*share_append(s) = h;
	}
}

void hk_pipe_share_free(struct hk_pipe_share *s)
{
	while (s && s->held) {
		struct given_buffer h = share_first(s);

		take_back(&h);
	}
	free(s);
}

struct hk_pipe_end {
	struct hk_pipe *pipe;
	struct hk_pool_table pool; /* of the user's transmit pool */
	uint32_t rx_head, tx_tail; /* private copies of the switch's indices */
	uint32_t noted;            /* rx_head at the last hk_pipe_stalled() */
	struct hk_pipe_counters n;
	struct hk_pipe_share *share;
};

int hk_pipe_open(struct hk_pipe *pipe, struct rte_mempool *tx_pool, struct hk_pipe_share *share,
		 struct hk_pipe_end **end, struct hk_error *err)
{
	struct hk_pool_table pool;
	struct hk_pipe_end *e = calloc(1, sizeof(*e));

	*end = NULL;
	if (!hk_pool_table(tx_pool, &pool) || !e || !share || share->buffers == 0) {
		free(e);
		return hk_error_set(err, -EINVAL,
				    "a pipe needs a transmit pool of this process and a share of "
				    "receive buffers; fix: make the pool with "
				    "hk_pool_create_sized()");
	}
	memset(pipe, 0, sizeof(*pipe));
	e->pipe = pipe;
	e->pool = pool;
	e->share = share;
	*end = e;
	return 0;
}

void hk_pipe_close(struct hk_pipe_end *e)
{
	free(e);
}

static void drop(struct rte_mbuf *const *m, unsigned n, uint64_t *counter)
{
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free_seg(m[i]);
	*counter += n;
}

int hk_pipe_give(struct hk_pipe_end *e, struct rte_mbuf *const *m, unsigned n)
{
	struct hk_pipe *p = e->pipe;
	uint32_t used = e->rx_head - atomic_load_explicit(&p->rx_tail, memory_order_acquire);

	if (HK_UNLIKELY(used > HK_PIPE_RING)) {
		drop(m, n, &e->n.rx_dropped_full);
		return -EPROTO;
	}
	struct hk_pipe_share *share = e->share;

	if (HK_UNLIKELY(share->held + n > share->buffers))
		hk_pipe_share_reclaim(share);
	unsigned fit = HK_MIN(n, HK_PIPE_RING - used);
	unsigned mine = HK_MIN(fit, share->buffers - share->held);

	drop(m + fit, n - fit, &e->n.rx_dropped_full);
	drop(m + mine, fit - mine, &e->n.rx_dropped_quota);
	for (unsigned i = 0; i < mine; i++) {
		rte_mbuf_refcnt_set(m[i], 2); /* the user's and ours */
		p->rx[(e->rx_head + i) & MASK] = m[i];
		share_add(share, m[i]);
	}
	e->rx_head += mine;
	atomic_store_explicit(&p->rx_head, e->rx_head, memory_order_release);
	e->n.given += mine;
	return 0;
}

bool hk_pipe_stalled(struct hk_pipe_end *e)
{
	uint32_t tail = atomic_load_explicit(&e->pipe->rx_tail, memory_order_relaxed);
	bool waits = (int32_t)(e->noted - tail) > 0;

	e->noted = e->rx_head;
	return waits;
}

bool hk_pipe_empty(const struct hk_pipe_end *e)
{
	return atomic_load_explicit(&e->pipe->rx_tail, memory_order_relaxed) == e->rx_head;
}

int hk_pipe_take(struct hk_pipe_end *e, struct hk_pipe_frame *frames, unsigned n)
{
	struct hk_pipe *p = e->pipe;
	uint32_t there = atomic_load_explicit(&p->tx_head, memory_order_acquire) - e->tx_tail;

	if (HK_UNLIKELY(there > HK_PIPE_RING))
		return -EPROTO;
	n = HK_MIN(n, there);
	for (unsigned i = 0; i < n; i++) {
		uint32_t number = *(volatile uint32_t *)&p->tx[(e->tx_tail + i) & MASK];

		if (HK_UNLIKELY(number >= e->pool.count))
			return -EPROTO;
		char *buffer = e->pool.buffer[number];
		volatile struct rte_mbuf *m = (void *)buffer;
		uint16_t off = m->data_off, len = m->data_len;

		if (HK_UNLIKELY(off > e->pool.data_room || len > e->pool.data_room - off ||
				len == 0))
			return -EPROTO;
		frames[i] = (struct hk_pipe_frame){buffer + e->pool.data_room_at + off, len};
	}
	return (int)n;
}

void hk_pipe_sent(struct hk_pipe_end *e, unsigned n)
{
	e->tx_tail += n;
	e->n.taken += n;
	atomic_store_explicit(&e->pipe->tx_tail, e->tx_tail, memory_order_release);
}

const struct hk_pipe_counters *hk_pipe_counters(const struct hk_pipe_end *e)
{
	return &e->n;
}

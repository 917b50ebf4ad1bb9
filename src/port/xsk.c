/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/xsk.c: frames by an AF_XDP socket. See port/xsk.h.
 */
#include "port/xsk.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if_xdp.h>

/* System calls for one burst: each moves at most 32 frames (xsk_generic_xmit()). */
#define TRIES 8

static uint32_t load(const _Atomic uint32_t *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

#define HEAD(chunk_and_1, tag) ((uint64_t)(tag) << 32 | (chunk_and_1))

/* Takes up to @n chunks from the list. */
static unsigned take_chunks(struct hk_xsk *x, uint32_t *out, unsigned n)
{
	uint64_t head = atomic_load_explicit(&x->shared->free, memory_order_acquire), rest;
	unsigned got;

	do {
		uint32_t next = (uint32_t)head;

		for (got = 0; got < n && next && next <= x->chunks; got++) {
			out[got] = next - 1;
			next = atomic_load_explicit(&x->shared->next[next - 1],
						    memory_order_relaxed);
		}
		rest = HEAD(next, (head >> 32) + 1);
	} while (got && !atomic_compare_exchange_weak_explicit(&x->shared->free, &head, rest,
							       memory_order_acquire,
							       memory_order_acquire));
	return got;
}

static void give_chunks(struct hk_xsk *x, const uint32_t *chunk, unsigned n)
{
	uint64_t head = atomic_load_explicit(&x->shared->free, memory_order_relaxed), first;

	for (unsigned i = 0; i + 1 < n; i++)
		atomic_store_explicit(&x->shared->next[chunk[i]], chunk[i + 1] + 1,
				      memory_order_relaxed);
	do {
		atomic_store_explicit(&x->shared->next[chunk[n - 1]], (uint32_t)head,
				      memory_order_relaxed);
		first = HEAD(chunk[0] + 1, (head >> 32) + 1);
	} while (!atomic_compare_exchange_weak_explicit(
		&x->shared->free, &head, first, memory_order_release, memory_order_relaxed));
}

/* Makes sure that @n chunks are at hand, at most HK_XSK_BATCH. False: there are fewer. */
static bool have_chunks(struct hk_xsk *x, unsigned n)
{
	if (HK_LIKELY(x->hand_count >= n))
		return true;
	x->hand_count += take_chunks(x, x->hand + x->hand_count, HK_XSK_BATCH);
	return x->hand_count >= n;
}

/* Makes room for @n more chunks, at most HK_XSK_BATCH. */
static void have_room(struct hk_xsk *x, unsigned n)
{
	if (HK_LIKELY(x->hand_count + n <= HK_XSK_HAND))
		return;
	x->hand_count -= HK_XSK_BATCH;
	give_chunks(x, x->hand + x->hand_count, HK_XSK_BATCH);
}

void hk_xsk_return_chunks(struct hk_xsk *x)
{
	const struct xdp_desc *entry = x->rx.entry;
	uint32_t at = load(x->rx.consumer), end = load(x->rx.producer);

	for (; at != end; at++) {
		have_room(x, 1);
		x->hand[x->hand_count++] = (uint32_t)(entry[at & (x->rx.size - 1)].addr / HK_CHUNK);
	}
	atomic_store_explicit(x->rx.consumer, at, memory_order_release);
	if (x->hand_count)
		give_chunks(x, x->hand, x->hand_count);
	x->hand_count = 0;
}

/* ---- the queue's rings ----------------------------------------------------------------------- */

static bool lock(_Atomic uint32_t *by, uint32_t slot)
{
	uint32_t nobody = 0;

	return load(by) == 0 &&
	       atomic_compare_exchange_strong_explicit(by, &nobody, slot, memory_order_acquire,
						       memory_order_relaxed);
}

static void unlock(_Atomic uint32_t *by)
{
	atomic_store_explicit(by, 0, memory_order_release);
}

void hk_xsk_fill(struct hk_xsk *x)
{
	struct hk_xsk_ring *r = &x->fill;
	uint64_t *entry = r->entry;

	if (!lock(&x->shared->fill_lock, x->slot))
		return;
	uint32_t at = atomic_load_explicit(r->producer, memory_order_relaxed);
	uint32_t room = r->size - (at - load(r->consumer));

	while (room > 0 && room <= r->size && have_chunks(x, 1)) {
		unsigned n = HK_MIN(room, x->hand_count);

		for (unsigned i = 0; i < n; i++)
			entry[at++ & (r->size - 1)] = (uint64_t)x->hand[--x->hand_count] * HK_CHUNK;
		atomic_store_explicit(r->producer, at, memory_order_release);
		room -= n;
	}
	unlock(&x->shared->fill_lock);
}

/* The fill ring lacks so many chunks that it is worth while. */
static bool fill_is_low(const struct hk_xsk *x)
{
	const struct hk_xsk_ring *r = &x->fill;

	return load(r->producer) - load(r->consumer) <= r->size - HK_XSK_BATCH;
}

/* Takes chunks of frames that have been sent, ours or others'. */
static void complete(struct hk_xsk *x)
{
	struct hk_xsk_ring *r = &x->completion;
	const uint64_t *entry = r->entry;
	uint32_t at = atomic_load_explicit(r->consumer, memory_order_relaxed);

	if (load(r->producer) - at < HK_XSK_BATCH / 2 && x->hand_count >= HK_XSK_BATCH)
		return;
	if (!lock(&x->shared->completion_lock, x->slot))
		return;
	at = load(r->consumer);
	uint32_t n = HK_MIN(load(r->producer) - at, HK_XSK_BATCH);

	have_room(x, n);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t chunk = entry[at++ & (r->size - 1)] / HK_CHUNK;

		if (HK_LIKELY(chunk < x->chunks))
			x->hand[x->hand_count++] = (uint32_t)chunk;
	}
	atomic_store_explicit(r->consumer, at, memory_order_release);
	unlock(&x->shared->completion_lock);
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Copies a received frame to @m. Both of its lengths come from the kernel. */
static bool copy_in(void *arg, const char *frame, uint32_t len, struct rte_mbuf *m)
{
	(void)arg;
	len = HK_MIN(len, (uint32_t)rte_pktmbuf_tailroom(m));
	memcpy(rte_pktmbuf_mtod(m, char *), frame, len);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	return true;
}

/* For each form of frames there is a copy of this function, without calls. */
static inline __rte_always_inline uint16_t receive(struct hk_xsk *x, struct rte_mbuf **m,
						   uint16_t n, hk_xsk_read *read, void *arg)
{
	struct hk_xsk_ring *r = &x->rx;
	const struct xdp_desc *entry = r->entry;
	uint32_t at = atomic_load_explicit(r->consumer, memory_order_relaxed);
	uint32_t ready = load(r->producer) - at;

	if (HK_LIKELY(ready == 0)) {
		if (HK_UNLIKELY(x->unsent))
			(void)hk_xsk_tx(x, NULL, 0);
		if (HK_UNLIKELY(x->busy))
			(void)recvfrom(x->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
		return 0;
	}
	n = (uint16_t)HK_MIN(HK_MIN((uint32_t)n, ready), HK_XSK_BATCH);
	if (HK_UNLIKELY(rte_pktmbuf_alloc_bulk(x->pool, m, n) != 0))
		return 0; /* they wait in the ring */
	have_room(x, n);
	unsigned good = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct xdp_desc *d = &entry[at++ & (r->size - 1)];

		good += read(arg, x->memory + d->addr, d->len, m[good]);
		x->hand[x->hand_count++] = (uint32_t)(d->addr / HK_CHUNK);
	}
	atomic_store_explicit(r->consumer, at, memory_order_release);
	if (fill_is_low(x))
		hk_xsk_fill(x);
	if (HK_UNLIKELY(good < n))
		rte_pktmbuf_free_bulk(m + good, n - good);
	return (uint16_t)good;
}

uint16_t hk_xsk_rx(void *queue, struct rte_mbuf **m, uint16_t n)
{
	return receive(queue, m, n, copy_in, NULL);
}

uint16_t hk_xsk_receive(struct hk_xsk *x, struct rte_mbuf **m, uint16_t n, hk_xsk_read *read,
			void *arg)
{
	return receive(x, m, n, read, arg);
}

/* ---- out ------------------------------------------------------------------------------------- */

static uint32_t copy_out(void *arg, unsigned i, const struct rte_mbuf *m, char *to)
{
	uint32_t len = rte_pktmbuf_pkt_len(m);

	(void)arg;
	(void)i;
	if (HK_UNLIKELY(len > HK_CHUNK_DATA))
		return 0; /* larger than frame_max */
	for (; m; m = m->next) {
		memcpy(to, rte_pktmbuf_mtod(m, const char *), m->data_len);
		to += m->data_len;
	}
	return len;
}

/* Has the kernel send what is in the ring. In copy mode each call moves some frames, and reports
 * EAGAIN if that were not all. If it goes on refusing, as with a full queue, the next burst or poll
 * asks again. */
static void kick(struct hk_xsk *x)
{
	struct hk_xsk_ring *r = &x->tx;

	x->unsent = false;
	if (!(load(r->flags) & XDP_RING_NEED_WAKEUP))
		return;
	for (unsigned i = 0; i < TRIES; i++) {
		if (sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0)
			return;
		if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
			break;
		if (load(r->consumer) == atomic_load_explicit(r->producer, memory_order_relaxed))
			return;
		complete(x);
	}
	x->unsent = true;
}

static inline __rte_always_inline uint16_t send_frames(struct hk_xsk *x, struct rte_mbuf **m,
						       uint16_t n, hk_xsk_write *write, void *arg)
{
	struct hk_xsk_ring *r = &x->tx;
	struct xdp_desc *entry = r->entry;
	uint32_t at = atomic_load_explicit(r->producer, memory_order_relaxed);
	uint32_t room = r->size - (at - load(r->consumer));

	complete(x);
	n = (uint16_t)HK_MIN(HK_MIN((uint32_t)n, room), HK_XSK_BATCH);
	if (HK_UNLIKELY(!have_chunks(x, n)))
		n = (uint16_t)HK_MIN((unsigned)n, x->hand_count);
	for (unsigned i = 0; i < n; i++) {
		uint64_t chunk = (uint64_t)x->hand[x->hand_count - 1] * HK_CHUNK;
		uint32_t len = write(arg, i, m[i], x->memory + chunk);

		if (HK_UNLIKELY(len == 0))
			continue; /* lost, as on a wire */
		x->hand_count--;
		entry[at++ & (r->size - 1)] = (struct xdp_desc){.addr = chunk, .len = len};
	}
	atomic_store_explicit(r->producer, at, memory_order_release);
	kick(x);
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return n;
}

uint16_t hk_xsk_tx(void *queue, struct rte_mbuf **m, uint16_t n)
{
	return send_frames(queue, m, n, copy_out, NULL);
}

uint16_t hk_xsk_send(struct hk_xsk *x, struct rte_mbuf **m, uint16_t n, hk_xsk_write *write,
		     void *arg)
{
	return send_frames(x, m, n, write, arg);
}

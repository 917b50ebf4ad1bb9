/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/ring.h: a ring of messages with one writer and one reader. Internal to rtc/.
 *
 * Each side keeps what it last saw of the other's place, and looks again only when that is not enough: most
 * calls touch no cache line that the other core writes but the messages themselves.
 */
#ifndef HK_RTC_RING_H
#define HK_RTC_RING_H

#include "base/common.h"
#include "rtc/rtc.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HK_RING 512 /* a power of two */

struct hk_ring {
	_Alignas(64) _Atomic uint32_t head; /* writer's */
	uint32_t tail_seen;
	_Alignas(64) _Atomic uint32_t tail; /* reader's */
	uint32_t head_seen;
	_Alignas(64) struct hk_msg msg[HK_RING];
};

/* Takes as many of the @n as fit; how many. */
static inline unsigned hk_ring_put(struct hk_ring *r, const struct hk_msg *m, unsigned n)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (HK_RING - (head - r->tail_seen) < n)
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
	n = HK_MIN(n, HK_RING - (head - r->tail_seen));
	for (unsigned i = 0; i < n; i++)
		r->msg[(head + i) % HK_RING] = m[i];
	atomic_store_explicit(&r->head, head + n, memory_order_release);
	return n;
}

/* Up to @n messages that are there, all of the type of the first; how many. */
static inline unsigned hk_ring_get(struct hk_ring *r, struct hk_msg *m, unsigned n)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	unsigned got = 0;

	if (r->head_seen - tail < n)
		r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
	n = HK_MIN(n, r->head_seen - tail);
	while (got < n && r->msg[(tail + got) % HK_RING].type == r->msg[tail % HK_RING].type) {
		m[got] = r->msg[(tail + got) % HK_RING];
		got++;
	}
	atomic_store_explicit(&r->tail, tail + got, memory_order_release);
	return got;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/ring.h: a ring of messages with one writer and one reader. Internal to rtc/.
 *
 * Each side caches the other's index, and reads the shared one only when the cached value does not
 * suffice. So most calls touch no cache line that the other core writes, except the messages.
 */
#ifndef HK_RTC_RING_H
#define HK_RTC_RING_H

#include "base/common.h"
#include "hikyaku/rtc.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HK_RTC_RING_SIZE 512 /* a power of two */

struct hk_rtc_ring {
	_Alignas(64) _Atomic uint32_t head; /* written by the writer */
	uint32_t tail_seen;
	_Alignas(64) _Atomic uint32_t tail; /* written by the reader */
	uint32_t head_seen;
	_Alignas(64) struct hk_msg msg[HK_RTC_RING_SIZE];
};

/* Appends as many of the @n messages as fit; returns how many. */
static inline unsigned hk_rtc_ring_push(struct hk_rtc_ring *r, const struct hk_msg *m, unsigned n)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (HK_RTC_RING_SIZE - (head - r->tail_seen) < n)
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
	n = HK_MIN(n, HK_RTC_RING_SIZE - (head - r->tail_seen));
	for (unsigned i = 0; i < n; i++)
		r->msg[(head + i) % HK_RTC_RING_SIZE] = m[i];
	atomic_store_explicit(&r->head, head + n, memory_order_release);
	return n;
}

/* Removes up to @n messages, all of the type of the first; returns how many. */
static inline unsigned hk_rtc_ring_pop(struct hk_rtc_ring *r, struct hk_msg *m, unsigned n)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	unsigned got = 0;

	if (r->head_seen - tail < n)
		r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
	n = HK_MIN(n, r->head_seen - tail);
	while (got < n && r->msg[(tail + got) % HK_RTC_RING_SIZE].type ==
				  r->msg[tail % HK_RTC_RING_SIZE].type) {
		m[got] = r->msg[(tail + got) % HK_RTC_RING_SIZE];
		got++;
	}
	atomic_store_explicit(&r->tail, tail + got, memory_order_release);
	return got;
}

#endif

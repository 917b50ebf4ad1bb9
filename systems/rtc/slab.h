/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/slab.h: buffers of the backends that use the kernel (udp, tcp, raw). Internal to rtc/.
 *
 * All buffers lie in one block of memory. Free buffers are on a stack, so that the one used last,
 * which the cache still has, is the next one taken. Payloads start at a multiple of 64. Threads:
 * one.
 */
#ifndef HK_RTC_SLAB_H
#define HK_RTC_SLAB_H

#include "rtc/backend.h"

#include <string.h>

#define HK_RTC_BUFFERS 4096 /* default of the configuration */

struct hk_rtc_slab {
	struct hk_rtc_buf *bufs;   /* [count] */
	struct hk_rtc_buf **table; /* by number, for the core */
	struct hk_rtc_buf **stack; /* free buffers: stack[0 … free - 1] */
	unsigned count, free;
	size_t capacity; /* bytes of header, payload and trailer in a buffer */
	uint8_t *memory;
	size_t bytes;
};

/* Makes @cfg->buffers buffers and @extra ones for the backend itself. Sets the fields of @b that
 * describe them. */
int hk_rtc_slab_open(struct hk_rtc_slab *s, struct hk_rtc_backend *b,
		     const struct hk_rtc_config *cfg, unsigned extra, struct hk_error *err);
void hk_rtc_slab_close(struct hk_rtc_slab *s);

/* Takes a free buffer; NULL: there are none. */
static inline struct hk_rtc_buf *hk_rtc_slab_take(struct hk_rtc_slab *s)
{
	return HK_LIKELY(s->free) ? s->stack[--s->free] : NULL;
}

static inline void hk_rtc_slab_give(struct hk_rtc_slab *s, struct hk_rtc_buf **m, unsigned n)
{
	memcpy(s->stack + s->free, m, n * sizeof(*m));
	s->free += n;
}

/* The backend's alloc(). */
static inline unsigned hk_rtc_slab_alloc(struct hk_rtc_slab *s, struct hk_rtc_backend *b,
					 struct hk_rtc_buf **m, unsigned n)
{
	unsigned got = HK_MIN(n, s->free);

	s->free -= got;
	memcpy(m, s->stack + s->free, got * sizeof(*m));
	b->no_buffer += n - got;
	return got;
}

#endif

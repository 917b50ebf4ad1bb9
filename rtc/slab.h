/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/slab.h: the buffers of the backends that the kernel serves (udp, tcp, raw). Internal to rtc/.
 *
 * One block of memory; a free buffer's number lies on a stack, so that the one used last, which the
 * cache still has, is the next. Payloads start at a multiple of 64. One thread.
 */
#ifndef HK_RTC_SLAB_H
#define HK_RTC_SLAB_H

#include "rtc/backend.h"

#include <string.h>

#define HK_RTC_BUFFERS 4096 /* if the configuration does not say */

struct hk_rtc_slab {
	struct hk_rtc_buf *bufs;   /* [count] */
	struct hk_rtc_buf **table; /* what the core finds buffers by */
	struct hk_rtc_buf **stack; /* the free ones: stack[0 … free - 1] */
	unsigned count, free;
	size_t room; /* bytes of header and payload that a buffer takes */
	uint8_t *memory;
	size_t bytes;
};

/* @extra buffers more than @cfg->buffers are made: the backend's own. Fills in what the core sees of
 * them in @b. */
int hk_rtc_slab_open(struct hk_rtc_slab *s, struct hk_rtc_backend *b,
		     const struct hk_rtc_config *cfg, unsigned extra, struct hk_error *err);
void hk_rtc_slab_close(struct hk_rtc_slab *s);

/* NULL: none is free. */
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

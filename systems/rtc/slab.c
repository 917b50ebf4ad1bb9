/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/slab.c: see slab.h.
 */
#include "rtc/slab.h"

#include "rtc/protect.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LINE       64u
#define TOUCH_MAX  (64u << 20) /* bytes; a larger slab is not populated in advance */
#define HEADER_PAD (LINE - HK_MSG_HLEN)

int hk_rtc_slab_open(struct hk_rtc_slab *s, struct hk_rtc_backend *b,
		     const struct hk_rtc_config *cfg, unsigned extra, struct hk_error *err)
{
	*s = (struct hk_rtc_slab){0};
	s->count = (cfg->buffers ? cfg->buffers : HK_RTC_BUFFERS) + extra;
	s->capacity = HK_MSG_HLEN + hk_rtc_longest_payload(b) + b->trailer;
	size_t stride = (HEADER_PAD + s->capacity + LINE - 1) / LINE * LINE;
	s->bytes = stride * s->count;
	s->bufs = calloc(s->count, sizeof(*s->bufs));
	s->table = calloc(s->count, sizeof(*s->table));
	s->stack = calloc(s->count, sizeof(*s->stack));
	s->memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | (s->bytes <= TOUCH_MAX ? MAP_POPULATE : 0),
			 -1, 0);
	if (s->memory == MAP_FAILED)
		s->memory = NULL;
	if (!s->bufs || !s->table || !s->stack || !s->memory) {
		hk_rtc_slab_close(s);
		return hk_error_set(err, -ENOMEM,
				    "no memory for %u buffers of %zu bytes; fix: use fewer buffers "
				    "or a smaller payload_max",
				    s->count, stride);
	}
	for (unsigned i = 0; i < s->count; i++) {
		s->bufs[i].hdr = s->memory + i * stride + HEADER_PAD;
		s->bufs[i].index = i;
		s->table[i] = &s->bufs[i];
		/* the first buffer is on top */
		s->stack[s->count - 1 - i] = &s->bufs[i];
	}
	s->free = s->count;
	b->buf = s->table;
	b->buffers = s->count;
	return 0;
}

void hk_rtc_slab_close(struct hk_rtc_slab *s)
{
	if (s->memory)
		munmap(s->memory, s->bytes);
	free(s->bufs);
	free(s->table);
	free(s->stack);
	s->memory = NULL;
	s->bufs = NULL;
	s->table = s->stack = NULL;
}

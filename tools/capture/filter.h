/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/filter.h: selects frames. With conditions, only frames of Hikyaku that meet all of them
 * match.
 */
#ifndef HK_CAPTURE_FILTER_H
#define HK_CAPTURE_FILTER_H

#include "base/common.h"

#define HK_FILTER_BYTES 64 /* most bytes of a frame that a filter reads */

struct hk_filter {
	bool by_job, by_endpoint, by_rank;
	uint32_t job;
	uint32_t endpoint; /* source or destination of the frame */
	uint32_t rank;     /* the lower 20 bits of that endpoint, as the BTL sets them */
};

static inline bool hk_filter_any(const struct hk_filter *f)
{
	return f->by_job || f->by_endpoint || f->by_rank;
}

/* True if the @len bytes at @frame meet all conditions. */
bool hk_filter_match(const struct hk_filter *f, const void *frame, size_t len);

/* Describes the conditions; "" if there are none. */
void hk_filter_text(const struct hk_filter *f, char *out, size_t len);

#endif

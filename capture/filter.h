/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/filter.h: which frames are wanted. With a condition, only frames of Hikyaku that meet all of them.
 */
#ifndef HK_CAPTURE_FILTER_H
#define HK_CAPTURE_FILTER_H

#include "base/common.h"

#define HK_FILTER_BYTES 64 /* of a frame, that a filter looks at the most */

struct hk_filter {
	bool by_job, by_endpoint, by_rank;
	uint32_t job;
	uint32_t endpoint; /* that the frame is from or to */
	uint32_t rank;     /* of its endpoint's lower 20 bits, as the BTL makes them */
};

static inline bool hk_filter_any(const struct hk_filter *f)
{
	return f->by_job || f->by_endpoint || f->by_rank;
}

bool hk_filter_match(const struct hk_filter *f, const void *frame, size_t len);

/* In words; "" if everything is wanted. */
void hk_filter_text(const struct hk_filter *f, char *out, size_t len);

#endif

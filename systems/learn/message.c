/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/message.c: checks received messages (learn/message.h).
 */
#include "learn/message.h"

#include "learn/learn.h"

#include <string.h>

const char *hk_learn_stop_name(enum hk_learn_stop why)
{
	static const char *const names[HK_LEARN_STOPS] = {"none",   "target", "converged",
							  "epochs", "time",   "asked"};

	return (unsigned)why < HK_LEARN_STOPS ? names[why] : "?";
}

bool hk_learn_slice_parse(const void *bytes, size_t len, struct hk_learn_slice_hdr *h,
			  const void **values)
{
	if (len < sizeof(*h))
		return false;
	memcpy(h, bytes, sizeof(*h));
	if (h->version != HK_LEARN_VERSION || h->merge >= HK_LEARN_MERGES)
		return false;
	if (h->since_copy != 0 && h->since_copy >= h->number)
		return false;
	if (h->slices == 0 || h->slices > HK_LEARN_MAX_SLICES || h->slice >= h->slices)
		return false;
	if (h->count == 0 || len != sizeof(*h) + (size_t)h->count * sizeof(double) || h->run == 0)
		return false;
	*values = (const uint8_t *)bytes + sizeof(*h);
	return true;
}

bool hk_learn_status_parse(const void *bytes, size_t len, struct hk_learn_status_hdr *h,
			   const void **entries)
{
	if (len < sizeof(*h))
		return false;
	memcpy(h, bytes, sizeof(*h));
	if (h->version != HK_LEARN_VERSION || h->run == 0 || h->zero != 0 ||
	    (h->flags & ~(HK_LEARN_STATUS_F_HELLO | HK_LEARN_STATUS_F_STOP)))
		return false;
	bool stop = h->flags & HK_LEARN_STATUS_F_STOP;
	if (h->reason >= HK_LEARN_STOPS || stop != (h->reason != HK_LEARN_GO))
		return false;
	if (len != sizeof(*h) + (size_t)h->count * sizeof(struct hk_learn_status_entry))
		return false;
	*entries = (const uint8_t *)bytes + sizeof(*h);
	return true;
}

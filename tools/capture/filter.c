/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/filter.c: implements filter.h.
 */
#include "capture/filter.h"
#include "wire/wire.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define RANK_BITS 0xfffffu

static uint32_t word_at(const char *base, size_t offset)
{
	uint32_t v;

	memcpy(&v, base + offset, sizeof(v));
	return le32toh(v);
}

bool hk_filter_match(const struct hk_filter *f, const void *frame, size_t len)
{
	char copy[HK_FILTER_BYTES] = {0}; /* the process may change the bytes: use only this copy */
	uint32_t job, to;

	if (!hk_filter_any(f))
		return true;
	memcpy(copy, frame, HK_MIN(len, sizeof(copy)));
	if (!hk_wire_frame_address(copy, HK_MIN(len, sizeof(copy)), &job, &to))
		return false;
	uint32_t from = word_at(copy + HK_ETH_HLEN, offsetof(struct hk_wire_hdr, src));

	return (!f->by_job || job == f->job) &&
	       (!f->by_endpoint || from == f->endpoint || to == f->endpoint) &&
	       (!f->by_rank || (from & RANK_BITS) == f->rank || (to & RANK_BITS) == f->rank);
}

void hk_filter_text(const struct hk_filter *f, char *out, size_t len)
{
	char job[32] = "", endpoint[32] = "", rank[32] = "";

	if (f->by_job)
		snprintf(job, sizeof(job), "job %08x ", f->job);
	if (f->by_endpoint)
		snprintf(endpoint, sizeof(endpoint), "endpoint %u ", f->endpoint);
	if (f->by_rank)
		snprintf(rank, sizeof(rank), "rank %u ", f->rank);
	snprintf(out, len, "%s%s%s", job, endpoint, rank);
	if (out[0])
		out[strlen(out) - 1] = '\0';
}

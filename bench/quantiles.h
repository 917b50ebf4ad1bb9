/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/quantiles.h: quantiles of any number of durations, in little memory.
 *
 * Durations are counted in buckets. Each power of two has 32 buckets, so a quantile is at most 1/32
 * below the exact value.
 */
#ifndef HK_BENCH_QUANTILES_H
#define HK_BENCH_QUANTILES_H

#include "base/common.h"

#define HK_QUANTILES_BITS    5
#define HK_QUANTILES_EACH    (1u << HK_QUANTILES_BITS) /* buckets of a power of two */
#define HK_QUANTILES_BUCKETS ((64 - HK_QUANTILES_BITS + 1) * HK_QUANTILES_EACH)

struct hk_quantiles {
	uint64_t total;
	uint64_t count[HK_QUANTILES_BUCKETS];
};

static inline void hk_quantiles_add(struct hk_quantiles *q, uint64_t value)
{
	unsigned shift = 0;

	if (value >= HK_QUANTILES_EACH)
		shift = 63 - (unsigned)__builtin_clzll(value) - HK_QUANTILES_BITS;
	/* the first bucket above value >> shift that belongs to this shift */
	q->count[shift * HK_QUANTILES_EACH + (value >> shift)]++;
	q->total++;
}

/* The smallest value of bucket @i. */
static inline uint64_t hk_quantiles_value(unsigned i)
{
	unsigned shift = i < 2 * HK_QUANTILES_EACH ? 0 : i / HK_QUANTILES_EACH - 1;

	return (uint64_t)(i - shift * HK_QUANTILES_EACH) << shift;
}

/* The value that a share @of all durations does not exceed, @of from 0 to 1; 0 without durations.
 */
static inline uint64_t hk_quantiles_at(const struct hk_quantiles *q, double of)
{
	uint64_t before = 0;
	unsigned last = 0;

	for (unsigned i = 0; i < HK_QUANTILES_BUCKETS; i++) {
		if (!q->count[i])
			continue;
		before += q->count[i];
		last = i;
		if ((double)before >= of * (double)q->total)
			break;
	}
	return hk_quantiles_value(last);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/random.h: random numbers from a seed, equal on all machines (splitmix64: Steele, Lea,
 * Flood, 2014).
 */
#ifndef HK_LEARN_RANDOM_H
#define HK_LEARN_RANDOM_H

#include "base/common.h"

struct hk_learn_random {
	uint64_t state;
};

static inline uint64_t hk_learn_random_next(struct hk_learn_random *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A generator that is independent of those with another @which. */
static inline struct hk_learn_random hk_learn_random_of(uint64_t seed, uint64_t which)
{
	struct hk_learn_random r = {seed ^ UINT64_C(0xd1b54a32d192ed03) * (which + 1)};
	r.state = hk_learn_random_next(&r);
	return r;
}

/* 0 … n - 1. @n is not 0 and far below 2^64, so that the bias is negligible. */
static inline uint64_t hk_learn_random_below(struct hk_learn_random *r, uint64_t n)
{
	return hk_learn_random_next(r) % n;
}

/* 0 to less than 1 */
static inline double hk_learn_random_unit(struct hk_learn_random *r)
{
	return (double)(hk_learn_random_next(r) >> 11) * 0x1p-53;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/rng.h: repeatable random numbers from a seed, for tests and simulations: splitmix64.
 */
#ifndef HK_BASE_RNG_H
#define HK_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct hk_rng {
	uint64_t state; /* the seed, at first */
};

static inline uint64_t hk_rng_next(struct hk_rng *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A number below @n, which is not 0. Its bias is too small to matter for these uses. */
static inline uint64_t hk_rng_below(struct hk_rng *r, uint64_t n)
{
	return hk_rng_next(r) % n;
}

/* lo … hi, both included */
static inline uint64_t hk_rng_range(struct hk_rng *r, uint64_t lo, uint64_t hi)
{
	return lo + hk_rng_below(r, hi - lo + 1);
}

/* True in @ppm of a million cases. */
static inline bool hk_rng_chance(struct hk_rng *r, uint32_t ppm)
{
	return ppm != 0 && hk_rng_below(r, 1000000) < ppm;
}

#endif

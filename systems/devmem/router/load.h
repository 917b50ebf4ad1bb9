/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/load.h: frames that load a router, and the rates and delays that the load measures.
 * Pure. bench/router_load.c and the emulated NICs (devmem/nic) use it.
 */
#ifndef HK_ROUTER_LOAD_H
#define HK_ROUTER_LOAD_H

#include "devmem/router/generate.h"

#define HK_LOAD_FRAME  64   /* bytes of a frame, without FCS */
#define HK_LOAD_FRAMES 4096 /* different ones */
#define HK_LOAD_BATCH  8192 /* frames of one sample of a rate */

/* Makes frames for 02:00:00:00:00:01. Their destinations are in 10.0.0.0/16 and so on, in turn in
 * @networks networks. If @count is not 0, they are the first addresses of prefixes spread over
 * @t. */
void hk_load_frames(uint8_t frame[HK_LOAD_FRAMES][HK_LOAD_FRAME], unsigned networks,
		    const struct hk_table_prefix *t, size_t count);

/* The last bytes of a frame, its payload, can hold the time at which it was sent. */
void hk_load_stamp(uint8_t frame[HK_LOAD_FRAME], uint64_t ticks);
uint64_t hk_load_stamped(const uint8_t frame[HK_LOAD_FRAME]);

struct hk_load_rates {
	double *rate; /* million frames a second; one for each batch */
	unsigned batches, done;
	uint64_t got, since; /* frames of this batch; ns of hk_clock_ns() */
};

/* @batches: at least 1. False: no memory. */
bool hk_load_rates_begin(struct hk_load_rates *r, unsigned batches);
/* @n more frames have arrived. Samples beyond those of _begin() are not kept. */
void hk_load_rates_add(struct hk_load_rates *r, unsigned n);
/* Writes the best, the upper tenth's and the median rate as fields of a JSON object, and frees. */
void hk_load_rates_end(struct hk_load_rates *r, FILE *out);

struct hk_load_delays {
	uint64_t *ticks;
	size_t count, max;
};

bool hk_load_delays_begin(struct hk_load_delays *d, size_t max);
void hk_load_delays_add(struct hk_load_delays *d, uint64_t ticks);
/* Writes quantiles in µs as fields of a JSON object, and frees. @hz: ticks a second. */
void hk_load_delays_end(struct hk_load_delays *d, double hz, FILE *out);

/* The time that a stage of a router needs for a frame. It is the median over chunks of
 * HK_LOAD_BATCH frames. So chunks in which other work had the core do not count. */
struct hk_load_cost {
	struct hk_load_delays chunks;
	uint64_t ticks, frames; /* of this chunk */
};

bool hk_load_cost_begin(struct hk_load_cost *c);
void hk_load_cost_add(struct hk_load_cost *c, uint64_t ticks, uint64_t frames);
/* Writes ns for a frame as a field of a JSON object, null before the first chunk, and frees. */
void hk_load_cost_end(struct hk_load_cost *c, double hz, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/series.h: a value over time, of which only so much is stored as a plot shows.
 *
 * The time is divided into equal bins. When more are needed, two neighbours become one. So a series
 * needs the same memory for a run of any length.
 */
#ifndef HK_SIM_SERIES_H
#define HK_SIM_SERIES_H

#include "base/common.h"

#define SERIES_BINS 512

struct series_bin {
	double area;  /* value * ps */
	uint32_t max; /* value */
};

struct series {
	struct series_bin *bin; /* NULL until the first value */
	uint64_t start, width;  /* of all, of one bin, ps */
	uint64_t at;            /* the value is `value` since then, ps */
	uint32_t value;
	uint32_t used; /* bins */
	double area;   /* of all */
};

void series_free(struct series *s);

/* The value becomes @value at @now. */
void series_set(struct series *s, uint64_t now, uint32_t value);

/* The mean since @from, which is not after the first value but 0; the value has been valid until
 * @now. */
double series_mean(struct series *s, uint64_t from, uint64_t now);

#endif

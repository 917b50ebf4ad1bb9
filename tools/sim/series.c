/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/series.c: see series.h.
 */
#include "sim/series.h"
#include "sim/events.h"

#include <stdlib.h>

#define FIRST_WIDTH (1000 * SIM_NS)

void series_free(struct series *s)
{
	free(s->bin);
	s->bin = NULL;
}

static void halve(struct series *s)
{
	for (uint32_t i = 0; i < SERIES_BINS / 2; i++) {
		s->bin[i].area = s->bin[2 * i].area + s->bin[2 * i + 1].area;
		s->bin[i].max = HK_MAX(s->bin[2 * i].max, s->bin[2 * i + 1].max);
	}
	for (uint32_t i = SERIES_BINS / 2; i < SERIES_BINS; i++)
		s->bin[i] = (struct series_bin){0};
	s->width *= 2;
	s->used = (s->used + 1) / 2;
}

static void add(struct series *s, uint64_t from, uint64_t to, uint32_t value)
{
	while ((to - s->start) / s->width >= SERIES_BINS)
		halve(s);
	while (from < to) {
		uint32_t i = (uint32_t)((from - s->start) / s->width);
		uint64_t end = HK_MIN(to, s->start + (i + 1) * s->width);

		s->bin[i].area += (double)value * (double)(end - from);
		s->bin[i].max = HK_MAX(s->bin[i].max, value);
		s->used = HK_MAX(s->used, i + 1);
		from = end;
	}
}

void series_set(struct series *s, uint64_t now, uint32_t value)
{
	if (HK_UNLIKELY(!s->bin)) {
		s->bin = sim_alloc(SERIES_BINS * sizeof(*s->bin));
		s->start = s->at = now;
		s->width = FIRST_WIDTH;
	}
	if (now > s->at) {
		s->area += (double)s->value * (double)(now - s->at);
		add(s, s->at, now, s->value);
		s->at = now;
	}
	s->value = value;
}

double series_mean(struct series *s, uint64_t from, uint64_t now)
{
	if (!s->bin || now <= from)
		return 0;
	series_set(s, now, s->value);
	return s->area / (double)(now - from);
}

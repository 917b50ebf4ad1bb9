/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/load.c: frames, rates and delays of a load.
 */
#include "devmem/router/load.h"
#include "base/clock.h"
#include "devmem/router/header.h"

#include <stdlib.h>

#define STAMP  (HK_LOAD_FRAME - 8) /* offset of the time in a frame */
#define CHUNKS 4096                /* that a cost keeps */

static void make_frame(uint8_t f[HK_LOAD_FRAME], uint32_t destination)
{
	static const uint8_t ether[HK_ETHER_LEN] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x99, 8, 0};
	static const uint8_t ip[16] = {
		0x45, 0, 0, HK_LOAD_FRAME - HK_ETHER_LEN, 0, 0, 0, 0, 64, 17, 0, 0, 23, 9, 9, 9};
	uint8_t *h = f + HK_ETHER_LEN;

	memset(f, 0, HK_LOAD_FRAME);
	memcpy(f, ether, sizeof(ether));
	memcpy(h, ip, sizeof(ip));
	for (unsigned i = 0; i < 4; i++)
		h[16 + i] = (uint8_t)(destination >> (24 - 8 * i));
	uint16_t sum = (uint16_t)~hk_sum(h, HK_IP4_LEN, 0);
	memcpy(h + 10, &sum, 2);
}

void hk_load_frames(uint8_t frame[HK_LOAD_FRAMES][HK_LOAD_FRAME], unsigned networks,
		    const struct hk_table_prefix *t, size_t count)
{
	for (unsigned i = 0; i < HK_LOAD_FRAMES; i++)
		make_frame(frame[i], count ? t[i * count / HK_LOAD_FRAMES].address
					   : 10u << 24 | (i % networks) << 16 | (i * 13 & 0xffff));
}

void hk_load_stamp(uint8_t frame[HK_LOAD_FRAME], uint64_t ticks)
{
	memcpy(frame + STAMP, &ticks, sizeof(ticks));
}

uint64_t hk_load_stamped(const uint8_t frame[HK_LOAD_FRAME])
{
	uint64_t ticks;

	memcpy(&ticks, frame + STAMP, sizeof(ticks));
	return ticks;
}

bool hk_load_rates_begin(struct hk_load_rates *r, unsigned batches)
{
	*r = (struct hk_load_rates){.rate = calloc(batches, sizeof(*r->rate)),
				    .batches = batches,
				    .since = hk_clock_ns()};
	return r->rate != NULL;
}

void hk_load_rates_add(struct hk_load_rates *r, unsigned n)
{
	r->got += n;
	if (r->got < HK_LOAD_BATCH || r->done == r->batches)
		return;
	uint64_t t = hk_clock_ns();
	r->rate[r->done++] = (double)r->got * 1e3 / (double)(t - r->since);
	r->since = t;
	r->got = 0;
}

static int rate_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void hk_load_rates_end(struct hk_load_rates *r, FILE *out)
{
	unsigned n = r->done;

	qsort(r->rate, n, sizeof(*r->rate), rate_order);
	if (n)
		fprintf(out, "\"best\": %.3f, \"upper\": %.3f, \"median\": %.3f, ", r->rate[n - 1],
			r->rate[n - 1 - n / 10], r->rate[n / 2]);
	fprintf(out, "\"unit\": \"million/s\"");
	free(r->rate);
	r->rate = NULL;
}

bool hk_load_delays_begin(struct hk_load_delays *d, size_t max)
{
	*d = (struct hk_load_delays){.ticks = calloc(max, sizeof(*d->ticks)), .max = max};
	return d->ticks != NULL;
}

void hk_load_delays_add(struct hk_load_delays *d, uint64_t ticks)
{
	if (d->count < d->max)
		d->ticks[d->count++] = ticks;
}

static int tick_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

void hk_load_delays_end(struct hk_load_delays *d, double hz, FILE *out)
{
	size_t n = d->count;

	qsort(d->ticks, n, sizeof(*d->ticks), tick_order);
	if (n)
		fprintf(out, "\"p50_us\": %.3f, \"p99_us\": %.3f, ",
			(double)d->ticks[n / 2] * 1e6 / hz,
			(double)d->ticks[n * 99 / 100] * 1e6 / hz);
	fprintf(out, "\"samples\": %zu", n);
	free(d->ticks);
	d->ticks = NULL;
}

bool hk_load_cost_begin(struct hk_load_cost *c)
{
	*c = (struct hk_load_cost){.ticks = 0};
	return hk_load_delays_begin(&c->chunks, CHUNKS);
}

void hk_load_cost_add(struct hk_load_cost *c, uint64_t ticks, uint64_t frames)
{
	c->ticks += ticks;
	c->frames += frames;
	if (c->frames < HK_LOAD_BATCH)
		return;
	hk_load_delays_add(&c->chunks, c->ticks * HK_LOAD_BATCH / c->frames);
	c->ticks = c->frames = 0;
}

void hk_load_cost_end(struct hk_load_cost *c, double hz, FILE *out)
{
	size_t n = c->chunks.count;

	qsort(c->chunks.ticks, n, sizeof(*c->chunks.ticks), tick_order);
	if (n)
		fprintf(out, "\"busy_ns\": %.2f",
			(double)c->chunks.ticks[n / 2] * 1e9 / hz / HK_LOAD_BATCH);
	else
		fprintf(out, "\"busy_ns\": null");
	free(c->chunks.ticks);
	c->chunks.ticks = NULL;
}

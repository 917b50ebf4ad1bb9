/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/train.c: forward, backward and update of train.h's network. Compilers turn the inner
 * loops, over 64 floats, into vector instructions.
 */
#include "devmem/tool/train.h"

#include <math.h>
#include <string.h>

#define W        HK_TRAIN_WIDTH
#define RATE     0.003f
#define BETA1    0.9f /* and others: Adam's usual settings (Kingma and Ba, 2015) */
#define BETA2    0.999f
#define EPSILON  1e-8f
#define PARTS    8 /* partial sums of a product, one for each element of a vector */
#define IN_LAYER (4 * HK_TRAIN_BLOCK + 2 * HK_TRAIN_ROWS) /* floats of a layer */

static const uint64_t block = HK_TRAIN_BLOCK * sizeof(float), rows = HK_TRAIN_ROWS * sizeof(float);

unsigned hk_train_layers(size_t bytes)
{
	size_t floats = bytes / sizeof(float);

	return floats < HK_TRAIN_ROWS ? 0 : (unsigned)((floats - HK_TRAIN_ROWS) / IN_LAYER);
}

/* Returns a number from -1 to 1. */
static float draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(*state >> 8) / (float)(1u << 23) - 1;
}

bool hk_train_init(struct hk_train *t, void *memory, size_t bytes, uint32_t seed)
{
	float *at = memory;

	*t = (struct hk_train){.layers = hk_train_layers(bytes), .draw = seed};
	if (t->layers == 0)
		return false;
	size_t all = t->layers * HK_TRAIN_BLOCK;
	t->weights = at;
	t->gradients = at + all;
	t->mean = at + 2 * all;
	t->variance = at + 3 * all;
	t->in = at + 4 * all;
	t->out = t->in + (t->layers + 1) * HK_TRAIN_ROWS;
	for (size_t i = 0; i < all; i++)
		t->weights[i] = draw(&t->draw) * sqrtf(3.0f / W);
	return true;
}

void hk_train_draw(struct hk_train *t)
{
	for (size_t i = 0; i < HK_TRAIN_ROWS; i++)
		t->in[i] = draw(&t->draw);
}

/* The part of a layer in the sum; layers add and subtract in turn, because relu is never negative.
 */
static float share(const struct hk_train *t, unsigned layer)
{
	return (layer % 2 ? -1.0f : 1.0f) / (float)t->layers;
}

static void forward(const struct hk_train *t, unsigned layer)
{
	const float *w = t->weights + layer * HK_TRAIN_BLOCK, s = share(t, layer);
	const float *in = t->in + layer * HK_TRAIN_ROWS;
	float *out = t->out + layer * HK_TRAIN_ROWS, *next = t->in + (layer + 1) * HK_TRAIN_ROWS;

	for (unsigned b = 0; b < HK_TRAIN_BATCH; b++, in += W, out += W, next += W) {
		float sum[W] = {0};
		for (unsigned i = 0; i < W; i++) {
			for (unsigned j = 0; j < W; j++)
				sum[j] += in[i] * w[i * W + j];
		}
		for (unsigned j = 0; j < W; j++) {
			out[j] = sum[j] > 0 ? sum[j] : 0;
			next[j] = in[j] + s * out[j];
		}
	}
}

/* Sets the gradient by the output. The answer wanted of an example x is x[j] + x[j + 1] / 2. */
static float loss(struct hk_train *t)
{
	const float *x = t->in, *y = t->in + t->layers * HK_TRAIN_ROWS;
	float sum = 0;

	for (unsigned b = 0; b < HK_TRAIN_BATCH; b++) {
		for (unsigned j = 0; j < W; j++) {
			unsigned at = b * W + j;
			float error = y[at] - x[at] - x[b * W + (j + 1) % W] / 2;
			t->delta[at] = 2 * error / (float)HK_TRAIN_ROWS;
			sum += error * error;
		}
	}
	return sum / (float)HK_TRAIN_ROWS;
}

/* Adds to the layer's gradients, and turns the gradient by its output into the one by its input. */
static void backward(struct hk_train *t, unsigned layer)
{
	const float *w = t->weights + layer * HK_TRAIN_BLOCK, s = share(t, layer);
	const float *in = t->in + layer * HK_TRAIN_ROWS, *out = t->out + layer * HK_TRAIN_ROWS;
	float *g = t->gradients + layer * HK_TRAIN_BLOCK, *delta = t->delta;

	for (unsigned b = 0; b < HK_TRAIN_BATCH; b++, in += W, out += W, delta += W) {
		float by_sum[W];
		for (unsigned j = 0; j < W; j++)
			by_sum[j] = out[j] > 0 ? s * delta[j] : 0;
		for (unsigned i = 0; i < W; i++) {
			float part[PARTS] = {0};
			for (unsigned j = 0; j < W; j++)
				g[i * W + j] += in[i] * by_sum[j];
			for (unsigned j = 0; j < W; j += PARTS) {
				for (unsigned k = 0; k < PARTS; k++)
					part[k] += w[i * W + j + k] * by_sum[j + k];
			}
			for (unsigned k = 0; k < PARTS; k++)
				delta[i] += part[k];
		}
	}
}

static bool stopped(const atomic_bool *stop)
{
	return atomic_load_explicit(stop, memory_order_relaxed);
}

float hk_train_pass(struct hk_train *t, const atomic_bool *stop, struct hk_traffic *traffic)
{
	for (unsigned layer = 0; layer < t->layers && !stopped(stop); layer++) {
		forward(t, layer);
		traffic->read += block + rows;
		traffic->written += 2 * rows;
	}
	float found = loss(t);
	for (unsigned layer = t->layers; layer-- > 0 && !stopped(stop);) {
		backward(t, layer);
		traffic->read += 2 * block + 2 * rows;
		traffic->written += block;
	}
	return found;
}

static void update(struct hk_train *t, unsigned layer, float rate)
{
	size_t at = layer * HK_TRAIN_BLOCK;
	float *w = t->weights + at, *g = t->gradients + at, *m = t->mean + at;
	float *v = t->variance + at;

	for (size_t i = 0; i < HK_TRAIN_BLOCK; i++) {
		float mean = g[i] / HK_TRAIN_PASSES;
		m[i] = BETA1 * m[i] + (1 - BETA1) * mean;
		v[i] = BETA2 * v[i] + (1 - BETA2) * mean * mean;
		w[i] -= rate * m[i] / (sqrtf(v[i]) + EPSILON);
		g[i] = 0;
	}
}

float hk_train_step(struct hk_train *t, const atomic_bool *stop, struct hk_traffic *traffic)
{
	float sum = 0;

	for (unsigned pass = 0; pass < HK_TRAIN_PASSES; pass++) {
		hk_train_draw(t);
		sum += hk_train_pass(t, stop, traffic);
	}
	float n = (float)++t->steps;
	float rate = RATE * sqrtf(1 - powf(BETA2, n)) / (1 - powf(BETA1, n));
	for (unsigned layer = 0; layer < t->layers && !stopped(stop); layer++) {
		update(t, layer, rate);
		traffic->read += 4 * block;
		traffic->written += 4 * block;
	}
	return sum / HK_TRAIN_PASSES;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/data.h: random data for the tests of learn, and exact solvers for comparison.
 */
#ifndef HK_LEARN_DATA_H
#define HK_LEARN_DATA_H

#include "learn/learn.h"
#include "tests/support/hk_test.h"

#include <math.h>

/* Draws from a normal distribution, approximated by the sum of twelve numbers. */
HK_TEST_UNUSED static double test_normal(struct hk_rng *r)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += (double)(hk_rng_next(r) >> 11) * 0x1p-53;
	return sum;
}

struct test_data {
	struct hk_learn_data all;
	struct hk_learn_data shard[64]; /* consecutive rows */
	double *x, *y;
	size_t features;
};

/* Makes a linear target with noise; @classes > 0: the target is cut into classes of about equal
 * size. */
HK_TEST_UNUSED static struct test_data
test_data_make(size_t rows, size_t features, uint32_t classes, double noise, unsigned nodes)
{
	struct test_data d = {.features = features};
	double truth[64];

	CHECK(features <= 64 && nodes <= 64 && nodes > 0);
	d.x = calloc(rows * features, sizeof(double));
	d.y = calloc(rows, sizeof(double));
	CHECK(d.x && d.y);
	for (size_t j = 0; j < features; j++)
		truth[j] = test_normal(&hk_test_rng);
	for (size_t i = 0; i < rows; i++) {
		double sum = noise * test_normal(&hk_test_rng), norm = 0;
		for (size_t j = 0; j < features; j++) {
			double v = d.x[i * features + j] = test_normal(&hk_test_rng);
			sum += truth[j] * v;
			norm += truth[j] * truth[j];
		}
		if (classes) {
			double place = 0.5 + 0.5 * erf(sum / sqrt(2 * (norm + noise * noise)));
			sum = fmin(floor(place * classes), classes - 1);
		}
		d.y[i] = sum;
	}
	d.all = (struct hk_learn_data){d.x, d.y, rows};
	for (unsigned n = 0; n < nodes; n++) {
		size_t from = rows * n / nodes, to = rows * (n + 1) / nodes;
		d.shard[n] = (struct hk_learn_data){d.x + from * features, d.y + from, to - from};
	}
	return d;
}

HK_TEST_UNUSED static void test_data_free(struct test_data *d)
{
	free(d->x);
	free(d->y);
}

/* Solves a·v = b for the n × n matrix @a, by elimination with pivots. Overwrites @a and @b. */
HK_TEST_UNUSED static void test_solve(double *a, double *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t top = i;
		for (size_t r = i + 1; r < n; r++)
			if (fabs(a[r * n + i]) > fabs(a[top * n + i]))
				top = r;
		for (size_t c = 0; c < n; c++) {
			double t = a[i * n + c];
			a[i * n + c] = a[top * n + c];
			a[top * n + c] = t;
		}
		double t = b[i];
		b[i] = b[top];
		b[top] = t;
		for (size_t r = 0; r < n; r++) {
			double by = r == i ? 0 : a[r * n + i] / a[i * n + i];
			for (size_t c = i; c < n && by != 0; c++)
				a[r * n + c] -= by * a[i * n + c];
			b[r] -= by * b[i];
		}
	}
	for (size_t i = 0; i < n; i++)
		b[i] /= a[i * n + i];
}

/* Computes the best linear model by the normal equations. @w: [features + 1] */
HK_TEST_UNUSED static void test_least_squares(const struct hk_learn_data *d, size_t p, double l2,
					      double *w)
{
	size_t n = p + 1;
	double *a = calloc(n * n, sizeof(double));

	CHECK(a != NULL);
	memset(w, 0, n * sizeof(*w));
	for (size_t i = 0; i < d->rows; i++) {
		for (size_t j = 0; j < n; j++) {
			double xj = j < p ? d->x[i * p + j] : 1;
			w[j] += xj * d->y[i] / (double)d->rows;
			for (size_t k = 0; k < n; k++)
				a[j * n + k] += xj * (k < p ? d->x[i * p + k] : 1) /
						(double)d->rows;
		}
	}
	for (size_t j = 0; j < p; j++)
		a[j * n + j] += l2;
	test_solve(a, w, n);
	free(a);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/merge.c: see merge.h.
 */
#include "learn/merge.h"

#include "base/common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void hk_learn_merge_weighted(double *own, const double *other, double share, size_t n)
{
	for (size_t i = 0; i < n; i++)
		own[i] += share * (other[i] - own[i]);
}

double hk_learn_merge_age_share(uint64_t own, uint64_t other)
{
	double sum = (double)own + (double)other;

	return sum > 0 ? (double)other / sum : 0.5;
}

size_t hk_learn_merge_trimmed_off(size_t count, double trim)
{
	size_t off = (size_t)ceil(trim * (double)count);

	return count == 0 ? 0 : HK_MIN(off, (count - 1) / 2);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void hk_learn_sort(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
}

/* Insertion sort: faster for the few numbers of each coordinate. */
static void sort_few(double *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		double x = v[i];
		size_t j = i;
		for (; j > 0 && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

void hk_learn_merge_trimmed(double *own, const double *const *others, size_t count, double trim,
			    double *sorted, size_t n)
{
	size_t all = count + 1, off = hk_learn_merge_trimmed_off(all, trim), left = all - 2 * off;

	for (size_t i = 0; i < n; i++) {
		double sum = 0;
		sorted[0] = own[i];
		for (size_t o = 0; o < count; o++)
			sorted[o + 1] = others[o][i];
		sort_few(sorted, all);
		for (size_t o = off; o < off + left; o++)
			sum += sorted[o];
		own[i] = sum / (double)left;
	}
}

bool hk_learn_push_give(const double *z, double *weight, struct hk_learn_push *sum, size_t n)
{
	double part = *weight / 2;

	if (*weight < HK_LEARN_PUSH_LEAST)
		return false;
	for (size_t i = 0; i < n; i++)
		sum->values[i] += part * z[i];
	sum->weight += part;
	*weight -= part;
	return true;
}

double hk_learn_push_difference(const struct hk_learn_push *seen, double weight,
				const double *values, double *z, size_t n)
{
	double news = weight - seen->weight;

	if (!isfinite(news) || news <= 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		z[i] = (values[i] - seen->values[i]) / news;
	return news;
}

void hk_learn_push_take(double *z, double *weight, const double *z_news, double news,
			struct hk_learn_push *seen, double sent_weight, const double *sent_values,
			size_t n)
{
	hk_learn_merge_weighted(z, z_news, news / (*weight + news), n);
	*weight += news;
	memcpy(seen->values, sent_values, n * sizeof(*sent_values));
	seen->weight = sent_weight;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/guard.c: see guard.h.
 */
#include "learn/guard.h"

#include <math.h>

#define SMOOTH    0.125 /* weight of a new value */
#define RAISE_MAX 1e9

const char *hk_learn_reason_name(enum hk_learn_reason why)
{
	static const char *const names[HK_LEARN_REASONS] = {
		"taken", "bytes", "model", "not_finite", "far", "stale", "old", "run", "few"};

	return (unsigned)why < HK_LEARN_REASONS ? names[why] : "?";
}

bool hk_learn_guard_finite(const double *values, size_t n)
{
	double sum = 0;

	/* x - x is 0 only for finite x, so that one test serves all */
	for (size_t i = 0; i < n; i++)
		sum += values[i] - values[i];
	return sum == 0;
}

double hk_learn_guard_distance(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (a[i] - b[i]) * (a[i] - b[i]);
	return sqrt(sum);
}

static void smooth(double *to, double value, bool first)
{
	*to = first ? value : *to + SMOOTH * (value - *to);
}

void hk_learn_guard_moved(struct hk_learn_guard *g, double distance)
{
	smooth(&g->moved, distance, g->moved == 0);
}

bool hk_learn_guard_accepts(struct hk_learn_guard *g, double limit, double distance, double norm,
			    size_t n, bool most_far)
{
	double far = g->moved + g->accepted;

	/* the data is standardised, so a parameter is of the order of 1 */
	if (g->taken < HK_LEARN_GUARD_YOUNG)
		far = fmax(far, fmax(norm, sqrt((double)n)));
	if (limit > 0 && !(distance <= limit * far * (1 + g->raise))) {
		if (most_far)
			g->raise = fmin(2 * g->raise + 1, RAISE_MAX);
		return false;
	}
	/* a value accepted only by the raised limit does not count as usual */
	smooth(&g->accepted, limit > 0 ? fmin(distance, limit * far) : distance, g->taken == 0);
	g->raise /= 2;
	g->taken++;
	return true;
}

bool hk_learn_guard_compares(struct hk_learn_guard *g, double limit, double distance, double usual)
{
	if (limit > 0 && !(distance <= limit * (g->moved + fmax(g->accepted, usual))))
		return false;
	smooth(&g->accepted, fmin(distance, usual), g->taken == 0);
	g->taken++;
	return true;
}

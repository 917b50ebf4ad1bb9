/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/guard.c: the checks on what neighbours send (learn/guard.h).
 */
#include "learn/guard.h"

#include <math.h>

#define SMOOTH     0.125 /* weight of the newest */
#define RELIEF_MAX 1e9

const char *hk_learn_reason_name(enum hk_learn_reason why)
{
	static const char *const names[HK_LEARN_REASONS] = {"taken", "bytes", "model", "not_finite",
							    "far",   "stale", "old",   "run"};

	return (unsigned)why < HK_LEARN_REASONS ? names[why] : "?";
}

bool hk_guard_finite(const double *values, size_t n)
{
	double sum = 0;

	/* x - x is 0 but for what is not finite: one branch for all */
	for (size_t i = 0; i < n; i++)
		sum += values[i] - values[i];
	return sum == 0;
}

double hk_guard_distance(const double *a, const double *b, size_t n)
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

void hk_guard_moved(struct hk_guard *g, double distance)
{
	smooth(&g->moved, distance, g->moved == 0);
}

bool hk_guard_near(struct hk_guard *g, double limit, double distance, double norm, size_t n,
		   bool most_far)
{
	double far = g->moved + g->usual;

	/* Data is standardised, so parameters are of the order of 1 each. */
	if (g->taken < HK_GUARD_YOUNG)
		far = fmax(far, fmax(norm, sqrt((double)n)));
	if (limit > 0 && !(distance <= limit * far * (1 + g->relief))) {
		if (most_far)
			g->relief = fmin(2 * g->relief + 1, RELIEF_MAX);
		return false;
	}
	/* what passed only by relief says nothing about what is usual */
	smooth(&g->usual, limit > 0 ? fmin(distance, limit * far) : distance, g->taken == 0);
	g->relief /= 2;
	g->taken++;
	return true;
}

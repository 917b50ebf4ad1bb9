/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_merge.c: the arithmetic of merging, and what is believed.
 */
#include "learn/guard.h"
#include "learn/merge.h"
#include "tests/unit/learn/data.h"

static void weighted(void)
{
	double own[] = {1, 2, 3}, other[] = {3, 2, -1};

	hk_merge_weighted(own, other, 0.5, 3);
	CHECK(own[0] == 2 && own[1] == 2 && own[2] == 1);
	CHECK(hk_merge_age_share(100, 300) == 0.75);
	CHECK(hk_merge_age_share(0, 0) == 0.5);
	CHECK(hk_merge_age_share(UINT64_MAX, UINT64_MAX) == 0.5);
}

static void trimmed(void)
{
	const double a[] = {1, 1e300}, b[] = {2, 2}, c[] = {-1e300, 3}, d[] = {3, 4};
	const double *others[] = {a, b, c, d};
	double own[] = {0, 1}, sorted[5];

	hk_merge_trimmed(own, others, 4, 0.2, sorted, 2);
	CHECK(own[0] == 1 && own[1] == 3);
	/* whatever the share, one value stays */
	for (size_t n = 1; n < 20; n++)
		for (double trim = 0; trim < 0.5; trim += 0.07) {
			size_t off = hk_merge_trimmed_off(n, trim);
			CHECK(n > 2 * off && (n < 3 || trim == 0 || off >= 1));
		}
	CHECK_EQ(hk_merge_trimmed_off(0, 0.3), 0);
	/* of two, nothing can be dropped: a mean */
	own[0] = 0;
	hk_merge_trimmed(own, others, 1, 0.4, sorted, 1);
	CHECK(own[0] == 0.5);
}

/* With at most as many liars as are dropped, the result lies among the honest, whatever they say. */
static void trimmed_is_among_the_honest(void)
{
	for (int run = 0; run < 2000; run++) {
		size_t honest = hk_rng_range(&hk_test_rng, 3, 8);
		double value[16], sorted[17], own = test_normal(&hk_test_rng), low = own,
					      high = own;
		const double *others[16];
		size_t n = 0, liars = hk_merge_trimmed_off(honest + 2, 0.2);
		for (; n < honest - 1; n++) {
			value[n] = test_normal(&hk_test_rng);
			low = fmin(low, value[n]);
			high = fmax(high, value[n]);
		}
		for (size_t l = 0; l < HK_MIN(liars, 2); l++)
			value[n++] = ldexp(test_normal(&hk_test_rng),
					   (int)hk_rng_below(&hk_test_rng, 900));
		for (size_t i = 0; i < n; i++)
			others[i] = &value[i];
		if (hk_merge_trimmed_off(n + 1, 0.2) < HK_MIN(liars, 2))
			continue;
		hk_merge_trimmed(&own, others, n, 0.2, sorted, 1);
		CHECK_MSG(own >= low - 1e-12 && own <= high + 1e-12, "%g is not in %g … %g", own,
			  low, high);
	}
}

#define NODES 5

/* Any order of giving, losing, doubling and reordering keeps weight and sum of all. */
static void push_sum_keeps_the_mass(void)
{
	double z[NODES], weight[NODES], want = 0;
	double given_v[NODES][NODES] = {0}, taken_v[NODES][NODES] = {0};
	struct hk_push given[NODES][NODES], taken[NODES][NODES];

	for (int i = 0; i < NODES; i++) {
		z[i] = test_normal(&hk_test_rng);
		weight[i] = 1;
		want += z[i];
		for (int j = 0; j < NODES; j++) {
			given[i][j] = (struct hk_push){0, &given_v[i][j]};
			taken[i][j] = (struct hk_push){0, &taken_v[i][j]};
		}
	}
	for (int step = 0; step < 20000; step++) {
		unsigned from = (unsigned)hk_rng_below(&hk_test_rng, NODES);
		unsigned to = (unsigned)(from + 1 + hk_rng_below(&hk_test_rng, NODES - 1)) % NODES;
		struct hk_push *g = &given[from][to], *t = &taken[to][from];
		hk_push_give(&z[from], &weight[from], g, 1);
		if (hk_rng_chance(&hk_test_rng, 300000))
			continue; /* lost */
		double news_z, news = hk_push_news(t, g->weight, g->values, &news_z, 1);
		if (news > 0)
			hk_push_take(&z[to], &weight[to], &news_z, news, t, g->weight, g->values,
				     1);
		/* the same again brings nothing */
		CHECK(hk_push_news(t, g->weight, g->values, &news_z, 1) == 0);
	}
	double mass = 0, sum = 0;
	for (int i = 0; i < NODES; i++) {
		mass += weight[i];
		sum += weight[i] * z[i];
		CHECK(weight[i] > 0);
		for (int j = 0; j < NODES; j++) {
			mass += given[i][j].weight - taken[j][i].weight;
			sum += given_v[i][j] - taken_v[j][i];
		}
	}
	CHECK_MSG(fabs(mass - NODES) < 1e-9, "weight %.15g", mass);
	CHECK_MSG(fabs(sum - want) < 1e-8, "sum %.15g, was %.15g", sum, want);
	for (int i = 0; i < NODES; i++)
		CHECK_MSG(fabs(z[i] - want / NODES) < 1e-6, "node %d: %.12g, mean %.12g", i, z[i],
			  want / NODES);
}

static void push_sum_refuses(void)
{
	double v = 1, z = 0, weight = HK_PUSH_LEAST / 2, out;
	struct hk_push sum = {0, &(double){0}}, seen = {2, &v};

	CHECK(!hk_push_give(&z, &weight, &sum, 1));
	CHECK(sum.weight == 0 && weight == HK_PUSH_LEAST / 2);
	CHECK(hk_push_news(&seen, 1, &v, &out, 1) == 0);
	CHECK(hk_push_news(&seen, NAN, &v, &out, 1) == 0);
	CHECK(hk_push_news(&seen, INFINITY, &v, &out, 1) == 0);
}

static void not_finite(void)
{
	double v[9];

	for (size_t at = 0; at < 9; at++) {
		for (size_t i = 0; i < 9; i++)
			v[i] = 1e308;
		CHECK(hk_guard_finite(v, 9));
		v[at] = at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : -INFINITY;
		CHECK(!hk_guard_finite(v, 9));
	}
}

static void distances(void)
{
	struct hk_guard g = {0};

	/* young: as far as parameters are long */
	CHECK(!hk_guard_near(&g, 8, 1000, 1, 4, false));
	CHECK(!hk_guard_near(&g, 8, NAN, 1, 4, true));
	for (int i = 0; i < 100; i++) {
		hk_guard_moved(&g, 0.1);
		CHECK(hk_guard_near(&g, 8, 0.2, 1, 4, false));
	}
	CHECK(hk_guard_near(&g, 8, 1.5, 1, 4, false));
	CHECK(!hk_guard_near(&g, 8, 10, 1, 4, false));
	CHECK(hk_guard_near(&g, 0, 10, 1, 4, false)); /* no limit */
	/* if most are far it is we who are: one comes through, in the end */
	int tries = 0;
	while (!hk_guard_near(&g, 8, 1e6, 1, 4, true))
		CHECK_CMP(++tries, <, 40);
	CHECK_CMP(tries, >, 3);
	/* … and that has not made lies welcome */
	for (int i = 0; i < 64; i++)
		hk_guard_near(&g, 8, 0.2, 1, 4, false);
	CHECK(!hk_guard_near(&g, 8, 100, 1, 4, false));
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"weighted", weighted},
		{"trimmed", trimmed},
		{"trimmed_is_among_the_honest", trimmed_is_among_the_honest},
		{"push_sum_keeps_the_mass", push_sum_keeps_the_mass},
		{"push_sum_refuses", push_sum_refuses},
		{"not_finite", not_finite},
		{"distances", distances},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

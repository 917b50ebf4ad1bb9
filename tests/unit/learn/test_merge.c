/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_merge.c: the arithmetic of merging, and the guard.
 */
#include "learn/guard.h"
#include "learn/merge.h"
#include "tests/unit/learn/data.h"

TEST(weighted)
{
	double own[] = {1, 2, 3}, other[] = {3, 2, -1};

	hk_learn_merge_weighted(own, other, 0.5, 3);
	CHECK(own[0] == 2 && own[1] == 2 && own[2] == 1);
	CHECK(hk_learn_merge_age_share(100, 300) == 0.75);
	CHECK(hk_learn_merge_age_share(0, 0) == 0.5);
	CHECK(hk_learn_merge_age_share(UINT64_MAX, UINT64_MAX) == 0.5);
}

TEST(trimmed)
{
	const double a[] = {1, 1e300}, b[] = {2, 2}, c[] = {-1e300, 3}, d[] = {3, 4};
	const double *others[] = {a, b, c, d};
	double own[] = {0, 1}, sorted[5];

	hk_learn_merge_trimmed(own, others, 4, 0.2, sorted, 2);
	CHECK(own[0] == 1 && own[1] == 3);
	/* one value stays for any share */
	for (size_t n = 1; n < 20; n++)
		for (double trim = 0; trim < 0.5; trim += 0.07) {
			size_t off = hk_learn_merge_trimmed_off(n, trim);
			CHECK(n > 2 * off && (n < 3 || trim == 0 || off >= 1));
		}
	CHECK_EQ(hk_learn_merge_trimmed_off(0, 0.3), 0);
	/* two values: nothing can be dropped, so it is their mean */
	own[0] = 0;
	hk_learn_merge_trimmed(own, others, 1, 0.4, sorted, 1);
	CHECK(own[0] == 0.5);
}

/* If no more nodes are faulty than are dropped, the result lies in the range of the correct values.
 */
TEST(trimmed_is_among_the_honest)
{
	for (int run = 0; run < 2000; run++) {
		size_t honest = hk_rng_range(&hk_test_rng, 3, 8);
		double value[16], sorted[17], own = test_normal(&hk_test_rng), low = own,
					      high = own;
		const double *others[16];
		size_t n = 0, liars = hk_learn_merge_trimmed_off(honest + 2, 0.2);
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
		if (hk_learn_merge_trimmed_off(n + 1, 0.2) < HK_MIN(liars, 2))
			continue;
		hk_learn_merge_trimmed(&own, others, n, 0.2, sorted, 1);
		CHECK_MSG(own >= low - 1e-12 && own <= high + 1e-12, "%g is not in %g … %g", own,
			  low, high);
	}
}

#define NODES 5

/* Giving, loss, duplication and reordering keep the sums of weight and of mass. */
TEST(push_sum_keeps_the_mass)
{
	double z[NODES], weight[NODES], want = 0;
	double given_v[NODES][NODES] = {0}, taken_v[NODES][NODES] = {0};
	struct hk_learn_push given[NODES][NODES], taken[NODES][NODES];

	for (int i = 0; i < NODES; i++) {
		z[i] = test_normal(&hk_test_rng);
		weight[i] = 1;
		want += z[i];
		for (int j = 0; j < NODES; j++) {
			given[i][j] = (struct hk_learn_push){0, &given_v[i][j]};
			taken[i][j] = (struct hk_learn_push){0, &taken_v[i][j]};
		}
	}
	for (int step = 0; step < 20000; step++) {
		unsigned from = (unsigned)hk_rng_below(&hk_test_rng, NODES);
		unsigned to = (unsigned)(from + 1 + hk_rng_below(&hk_test_rng, NODES - 1)) % NODES;
		struct hk_learn_push *g = &given[from][to], *t = &taken[to][from];
		hk_learn_push_give(&z[from], &weight[from], g, 1);
		if (hk_rng_chance(&hk_test_rng, 300000))
			continue; /* lost */
		double news_z, news = hk_learn_push_difference(t, g->weight, g->values, &news_z, 1);
		if (news > 0)
			hk_learn_push_take(&z[to], &weight[to], &news_z, news, t, g->weight,
					   g->values, 1);
		/* a repetition gives nothing */
		CHECK(hk_learn_push_difference(t, g->weight, g->values, &news_z, 1) == 0);
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

TEST(push_sum_refuses)
{
	double v = 1, z = 0, weight = HK_LEARN_PUSH_LEAST / 2, out;
	struct hk_learn_push sum = {0, &(double){0}}, seen = {2, &v};

	CHECK(!hk_learn_push_give(&z, &weight, &sum, 1));
	CHECK(sum.weight == 0 && weight == HK_LEARN_PUSH_LEAST / 2);
	CHECK(hk_learn_push_difference(&seen, 1, &v, &out, 1) == 0);
	CHECK(hk_learn_push_difference(&seen, NAN, &v, &out, 1) == 0);
	CHECK(hk_learn_push_difference(&seen, INFINITY, &v, &out, 1) == 0);
}

TEST(not_finite)
{
	double v[9];

	for (size_t at = 0; at < 9; at++) {
		for (size_t i = 0; i < 9; i++)
			v[i] = 1e308;
		CHECK(hk_learn_guard_finite(v, 9));
		v[at] = at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : -INFINITY;
		CHECK(!hk_learn_guard_finite(v, 9));
	}
}

TEST(distances)
{
	struct hk_learn_guard g = {0};

	/* at first the limit follows the length of the parameters */
	CHECK(!hk_learn_guard_accepts(&g, 8, 1000, 1, 4, false));
	CHECK(!hk_learn_guard_accepts(&g, 8, NAN, 1, 4, true));
	for (int i = 0; i < 100; i++) {
		hk_learn_guard_moved(&g, 0.1);
		CHECK(hk_learn_guard_accepts(&g, 8, 0.2, 1, 4, false));
	}
	CHECK(hk_learn_guard_accepts(&g, 8, 1.5, 1, 4, false));
	CHECK(!hk_learn_guard_accepts(&g, 8, 10, 1, 4, false));
	CHECK(hk_learn_guard_accepts(&g, 0, 10, 1, 4, false)); /* no limit */
	/* if most neighbours are too far, the limit rises until one is accepted */
	int tries = 0;
	while (!hk_learn_guard_accepts(&g, 8, 1e6, 1, 4, true))
		CHECK_CMP(++tries, <, 40);
	CHECK_CMP(tries, >, 3);
	/* the raised limit falls again */
	for (int i = 0; i < 64; i++)
		hk_learn_guard_accepts(&g, 8, 0.2, 1, 4, false);
	CHECK(!hk_learn_guard_accepts(&g, 8, 100, 1, 4, false));
}

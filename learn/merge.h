/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/merge.h: how parameters meet. Pure arithmetic on vectors of @n; what may be believed is decided
 * before (learn/guard.h).
 */
#ifndef HK_LEARN_MERGE_H
#define HK_LEARN_MERGE_H

#include "learn/learn.h"

/* own = (1 - share) own + share other */
void hk_merge_weighted(double *own, const double *other, double share, size_t n);

/* The share of the other: by how many rows stand behind each. Both 0: a half. */
double hk_merge_age_share(uint64_t own, uint64_t other);

/* How many of @count values hk_merge_trimmed() drops at either end: the share @trim of them, rounded up,
 * but at least one value stays. */
size_t hk_merge_trimmed_off(size_t count, double trim);

/* own = for each coordinate the mean of what is left of @own and the @others when the smallest and the
 * largest are dropped (Yin, Chen, Ramchandran, Bartlett, 2018). With at most that many neighbours that
 * lie, each coordinate stays within the range of the honest. @sorted: room for others + 1 numbers. */
void hk_merge_trimmed(double *own, const double *const *others, size_t count, double trim,
		      double *sorted, size_t n);

/* ---- push-sum ------------------------------------------------------------------------------------
 *
 * A node holds parameters z with a weight w, and gives parts of both away: the sum of w over all nodes,
 * and with it that of w·z, does not change by gossip, so that all z go to the mean even where messages
 * go one way only and not equally often (Kempe, Dobra, Gehrke, 2003).
 *
 * A lost message would take its mass with it. So what is sent is not the part but the sum of all parts
 * ever given to this neighbour; the receiver takes the difference to the sum that it saw last. Then a
 * message that arrives brings what lost ones before it should have brought: exact under loss, doubling
 * and reorder, as long as neither end begins anew (Hadjicostis, Vaidya, Domínguez-García, 2016). When
 * one does, what was under way between the two is lost, or dies with it, and until the death is noticed
 * others give to the dead. Then weights begin anew (hk_gossip_left()): the mean that the living find is one
 * with other weights, but still one of models that were trained.
 */
struct hk_push {
	double weight;  /* of z: what the sums below hold of it */
	double *values; /* [n] of w·z */
};

/* Gives half of (z, *weight) to @sum. Does nothing, and says false, while less than HK_PUSH_LEAST is
 * held: who gets nothing gives nothing. */
#define HK_PUSH_LEAST (1.0 / 64)
bool hk_push_give(const double *z, double *weight, struct hk_push *sum, size_t n);

/* What has come since @seen: fills @z with the mean of it and returns its weight. Changes nothing else.
 * 0 or less, or not finite: nothing to take. */
double hk_push_news(const struct hk_push *seen, double weight, const double *values, double *z,
		    size_t n);

/* Takes it: own (z, *weight) and (@z_news, @news) become one; @seen is now what was sent. */
void hk_push_take(double *z, double *weight, const double *z_news, double news,
		  struct hk_push *seen, double sent_weight, const double *sent_values, size_t n);

#endif

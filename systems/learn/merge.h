/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/merge.h: merging of parameters. Pure arithmetic on vectors of @n elements. learn/guard.h
 * has decided before which parameters are accepted.
 */
#ifndef HK_LEARN_MERGE_H
#define HK_LEARN_MERGE_H

#include "learn/learn.h"

/* own = (1 - share) · own + share · other */
void hk_learn_merge_weighted(double *own, const double *other, double share, size_t n);

/* The share of the other node by rows behind its parameters. Both 0: a half. */
double hk_learn_merge_age_share(uint64_t own, uint64_t other);

/* Number of values that hk_learn_merge_trimmed() drops at each end: the share @trim of @count,
 * rounded up. At least one value stays. */
size_t hk_learn_merge_trimmed_off(size_t count, double trim);

/* Sorts @n numbers in ascending order. */
void hk_learn_sort(double *v, size_t n);

/* Sets each coordinate of @own to the mean of @own and @others without the smallest and the largest
 * values (Yin, Chen, Ramchandran, Bartlett, 2018). If no more neighbours are faulty than are
 * dropped at an end, each coordinate stays within the range of the correct ones. @sorted: scratch
 * for count + 1 numbers. */
void hk_learn_merge_trimmed(double *own, const double *const *others, size_t count, double trim,
			    double *sorted, size_t n);

/* ---- push-sum
 * -------------------------------------------------------------------------------------
 *
 * DESIGN NOTES
 *
 * Problem: where messages go one way only, or not equally often, pairwise means do not lead to the
 * mean of all. And every message may be lost, duplicated or reordered.
 *
 * Approach: a node holds parameters z with a weight w, and gives parts of both away. Gossip does
 * not change the sum of w over all nodes, nor that of w·z. So all z converge to the mean (Kempe,
 * Dobra, Gehrke, 2003).
 *
 * A lost message must not take its mass with it. So a node sends not the part, but the sum of all
 * parts that it ever gave to this neighbour. The receiver takes the difference to the last sum that
 * it saw. So a message also brings the mass of lost ones before it. This is exact under loss,
 * duplication and reordering while neither end restarts (Hadjicostis, Vaidya, Domínguez-García,
 * 2016).
 *
 * A receiver may refuse parameters (learn/guard.h). Then it takes the weight of that part with its
 * own parameters in place of the refused ones. The weight must not stay in the sum instead. A node
 * that is refused would collect the weight of all there, until no node has enough to give. And a
 * message that is accepted much later would bring the old parameters with all that weight.
 *
 * When a node ends, its mass is lost, and so is the mass under way to it until the others notice.
 * Then they reset their weights (hk_learn_gossip_peer_left()). The mean that they find has other
 * weights, but is still a mean of trained models.
 *
 * A node that returns has a new run and weight 1. Both ends count the sums of a new run from 0, so
 * nothing is taken twice. Parts that the node gives before it copies a neighbour's parameters are
 * refused. If messages are lost, such parts arrive in one difference with later parts. So a slice
 * says when its sender copied. The receiver refuses a difference that spans that round. */
struct hk_learn_push {
	double weight;  /* sum of weights */
	double *values; /* [n] sum of w·z */
};

/* Gives half of (z, *weight) to @sum. Returns false, and does nothing, if the weight is less than
 * HK_LEARN_PUSH_LEAST: a node that receives nothing also gives nothing. */
#define HK_LEARN_PUSH_LEAST (1.0 / 64)
bool hk_learn_push_give(const double *z, double *weight, struct hk_learn_push *sum, size_t n);

/* Writes the mean of what was given since @seen to @z, and returns its weight. It changes nothing
 * else. 0: nothing to take. */
double hk_learn_push_difference(const struct hk_learn_push *seen, double weight,
				const double *values, double *z, size_t n);

/* Merges (@z_news, @news) into (z, *weight), and sets @seen to the sums that were sent. */
void hk_learn_push_take(double *z, double *weight, const double *z_news, double news,
			struct hk_learn_push *seen, double sent_weight, const double *sent_values,
			size_t n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/guard.h: decides which parameters of a neighbour are accepted.
 *
 * DESIGN NOTES
 *
 * Problem: Ormándi, Hegedűs and Jelasity (2013, "P5") leave message loss and outliers to the
 * application. A faulty node must not spoil the models of the others.
 *
 * Approach: numbers that are not finite are refused. So are numbers too far from
 * ours. The limit is a multiple of two smoothed distances: our own movement between two messages,
 * and the distance of accepted numbers. Both
 * shrink while training converges, so a fault must be smaller the later it comes. The trimmed mean
 * (learn/merge.h) defends against many small faults that pass.
 *
 * If most live neighbours are too far, this node is the one that is elsewhere: it was cut off or
 * came late. Those that have sent nothing yet are not far, since a faulty one may be the first.
 * Then each refusal doubles the limit, until most neighbours are near again. With one or two
 * neighbours nobody can tell which side is right.
 *
 * With the trimmed mean a node has more to go by. It compares the distances of all neighbours from
 * it: the median is the usual one, and a minority of faulty nodes cannot raise it. So they do not
 * teach the guard a distance of their own, and it needs no limit that doubles.
 */
#ifndef HK_LEARN_GUARD_H
#define HK_LEARN_GUARD_H

#include "base/common.h"

/* Reasons to refuse a message. */
enum hk_learn_reason {
	HK_LEARN_TAKEN = 0,
	HK_LEARN_R_BYTES,      /* not a message of learn/message.h */
	HK_LEARN_R_MODEL,      /* another model, merge or version than ours */
	HK_LEARN_R_NOT_FINITE, /* contains NaN or infinity */
	HK_LEARN_R_FAR,        /* too far from ours */
	HK_LEARN_R_STALE,      /* trained with far fewer rows; gossip_take.c */
	HK_LEARN_R_OLD,        /* older than a message that came before, or a duplicate */
	HK_LEARN_R_RUN,        /* push-sum: for an earlier incarnation of ours, or first contact */
	HK_LEARN_R_FEW,        /* trimmed: too few other neighbours to compare it with */
	HK_LEARN_REASONS
};

const char *hk_learn_reason_name(enum hk_learn_reason why);

#define HK_LEARN_GUARD_YOUNG 8 /* messages until the usual distance is known */

/* State of one slice of the parameters. Starts as zeros. */
struct hk_learn_guard {
	double moved;    /* own distance between two messages, smoothed */
	double accepted; /* distance of accepted slices, smoothed */
	double raise;    /* factor of the limit, less 1 */
	uint64_t taken;
};

bool hk_learn_guard_finite(const double *values, size_t n);
double hk_learn_guard_distance(const double *a, const double *b, size_t n);

/* Notes that our parameters moved by @distance since we last sent. */
void hk_learn_guard_moved(struct hk_learn_guard *g, double distance);

/* Decides on values at @distance from ours, which have length @norm and @n elements. @limit:
 * norm_limit of struct hk_learn_settings; 0 accepts all. @most_far: the last slices of most
 * neighbours were too far. */
bool hk_learn_guard_accepts(struct hk_learn_guard *g, double limit, double distance, double norm,
			    size_t n, bool most_far);

/* The same for a node that knows @usual, the median distance of its neighbours. */
bool hk_learn_guard_compares(struct hk_learn_guard *g, double limit, double distance, double usual);

#endif

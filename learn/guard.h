/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/guard.h: which parameters of a neighbour are believed.
 *
 * Paper P5 leaves loss and outliers to the application, and says no more. Here a neighbour's numbers are
 * refused if one of them is not finite, and if they are further from ours than honest ones are: many
 * times as far as we moved ourselves between two messages, and as accepted ones lay, lately. Both
 * shrink while training converges, so the later a lie, the smaller it must be. Against many small lies
 * that pass there is the trimmed mean (learn/merge.h).
 *
 * If most neighbours are refused for distance, it is we who are elsewhere (we were cut off, or come late):
 * then the limit is doubled with each, until they are no more the most. With one or two neighbours this
 * cannot tell who is right; the trimmed mean needs three, too.
 */
#ifndef HK_LEARN_GUARD_H
#define HK_LEARN_GUARD_H

#include "base/common.h"

/* Why a message was not taken. */
enum hk_learn_reason {
	HK_LEARN_TAKEN = 0,
	HK_LEARN_R_BYTES,      /* is no message of learn/message.h */
	HK_LEARN_R_MODEL,      /* another model, merge or version than ours */
	HK_LEARN_R_NOT_FINITE, /* NaN or infinite */
	HK_LEARN_R_FAR,        /* too far from ours */
	HK_LEARN_R_STALE,      /* trained with far fewer rows than ours */
	HK_LEARN_R_OLD,        /* came after a later one, or twice */
	HK_LEARN_R_RUN, /* push-sum: meant for what we were before we began anew, or first contact */
	HK_LEARN_REASONS
};

const char *hk_learn_reason_name(enum hk_learn_reason why);

#define HK_GUARD_YOUNG 8 /* messages until it is known what distance is usual */

/* Of one slice of the parameters. Begins as zeros. */
struct hk_guard {
	double moved;  /* own way between two messages, smoothed */
	double usual;  /* distance of what was taken, smoothed */
	double relief; /* by how much the limit is raised, less 1 */
	uint64_t taken;
};

bool hk_guard_finite(const double *values, size_t n);
double hk_guard_distance(const double *a, const double *b, size_t n);

/* Our parameters moved by @distance since we last sent. */
void hk_guard_moved(struct hk_guard *g, double distance);

/* May values at @distance from ours, which have length @norm, be taken? @limit as norm_limit of struct
 * hk_learn_settings; 0: always. @most_far: most neighbours were refused for this at last. */
bool hk_guard_near(struct hk_guard *g, double limit, double distance, double norm, size_t n,
		   bool most_far);

#endif

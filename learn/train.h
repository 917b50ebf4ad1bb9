/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/train.h: minibatch SGD on one node's rows, a batch a call.
 *
 * Rows come in an order drawn anew each epoch. The step starts at what the data's curvature allows and
 * follows a schedule. The parameters `w` may be changed between calls (merged): that is the point.
 */
#ifndef HK_LEARN_TRAIN_H
#define HK_LEARN_TRAIN_H

#include "learn/learn.h"
#include "learn/random.h"

struct hk_learn_train {
	const struct hk_learn_model *model;
	const struct hk_learn_data *data;
	const struct hk_learn_settings *set;
	size_t parameters;
	double *w, *grad, *speed, *scratch; /* speed: NULL without momentum */
	uint32_t *order;                    /* of the epoch's rows */
	size_t next;                        /* place in it */
	struct hk_random random;
	uint64_t steps, epochs;
	double own_step;   /* what suits our rows; smaller after each divergence */
	double first_step; /* what all agreed on, before halvings */
	unsigned halvings; /* of the step, till now */
	/* of the schedule that waits for progress */
	double best, start_loss;
	unsigned waited;
	uint64_t diverged; /* how often it began again with a smaller step */
};

/* Allocates; @model, @data and @set must outlive it. @node tells apart the orders of nodes with one
 * seed. -ENOMEM. */
int hk_learn_train_open(struct hk_learn_train *t, const struct hk_learn_model *model,
			const struct hk_learn_data *data, const struct hk_learn_settings *set,
			uint32_t node);
void hk_learn_train_close(struct hk_learn_train *t);

/* One batch. Returns how many rows it was; the batch that ends an epoch may be smaller. */
size_t hk_learn_train_batch(struct hk_learn_train *t);

/* Once an epoch: what the objective is now, of all nodes as far as known. Halves the step where there
 * was no progress, and begins anew with a smaller one where it is not finite. */
void hk_learn_train_progress(struct hk_learn_train *t, double loss);

/* What all nodes agreed on (hk_agree_step()). */
void hk_learn_train_follow(struct hk_learn_train *t, double step, unsigned halvings);

/* All halvings done: more training changes nothing worth it. */
bool hk_learn_train_converged(const struct hk_learn_train *t);

double hk_learn_train_step(const struct hk_learn_train *t); /* the step now */

#endif

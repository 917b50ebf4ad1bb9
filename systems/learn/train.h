/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/train.h: minibatch SGD on one node's rows, one batch a call.
 *
 * Each epoch draws a new order of the rows. The first step follows from the data's curvature, the
 * next ones from a schedule. Between calls the parameters `w` may be changed, as merging does.
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
	double *w, *grad, *velocity, *scratch; /* velocity: NULL without momentum */
	uint32_t *order;                       /* order of rows in this epoch */
	size_t next;                           /* next index in it */
	struct hk_learn_random random;
	uint64_t steps, epochs;
	double own_step;   /* step for our rows; reduced after each divergence */
	double first_step; /* step on which all nodes agreed, before halvings */
	unsigned halvings; /* halvings of the step so far */
	/* state of HK_LEARN_PLATEAU */
	double best, start_loss;
	unsigned stalled;
	uint64_t diverged; /* restarts with a smaller step */
};

/* Allocates. @model, @data and @set must outlive @t. @node makes the orders of nodes with one seed
 * differ. -ENOMEM. */
int hk_learn_train_open(struct hk_learn_train *t, const struct hk_learn_model *model,
			const struct hk_learn_data *data, const struct hk_learn_settings *set,
			uint32_t node);
void hk_learn_train_close(struct hk_learn_train *t);

/* Trains one batch; returns its number of rows. The last batch of an epoch may be smaller. */
size_t hk_learn_train_batch(struct hk_learn_train *t);

/* Takes the loss on our own rows and that of all nodes, as far as known, once an epoch. Halves the
 * step if the loss of all does not fall. Restarts with a smaller one if our own loss is not finite
 * or far too large: other nodes may report any loss. */
void hk_learn_train_progress(struct hk_learn_train *t, double own, double all);

/* Sets the step on which all nodes agreed (hk_learn_agree_step()). With HK_LEARN_INVERSE training
 * goes on as after so many steps that the schedule has halved the step @halvings times. */
void hk_learn_train_follow(struct hk_learn_train *t, double step, unsigned halvings);

/* Whether all halvings are done, so that further training would not help. */
bool hk_learn_train_converged(const struct hk_learn_train *t);

double hk_learn_train_step(const struct hk_learn_train *t); /* current step */

/* Returns how often the schedule has halved the step so far, rounded down. */
unsigned hk_learn_train_halvings(const struct hk_learn_train *t);

#endif

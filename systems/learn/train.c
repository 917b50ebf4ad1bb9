/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/train.c: minibatch SGD (learn/train.h).
 *
 * DESIGN NOTES
 *
 * Problem: users should not have to guess a step, and nodes must agree at the end.
 *
 * Approach: the first step is ½ / (c (λ + R² / batch) + l2). c is the loss's largest second
 * derivative. λ is the largest eigenvalue of the rows' second moments. R² = Σ|x|⁴ / Σ|x|² bounds by
 * how much the curvature of a batch exceeds the mean's (Bach and Moulines, 2013).
 *
 * With a constant step the loss falls until the noise of batches balances it; only a smaller step
 * reduces it further. So the step is halved whenever the loss stops falling. That needs to know
 * neither noise nor condition number. At the end nodes hardly move between two merges, so they
 * agree.
 */
#include "learn/train.h"

#include "learn/link.h"

#include "hikyaku/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE   2048 /* rows for the estimate of the curvature */
#define ROUNDS   16   /* rounds of the power method */
#define MLP_STEP 0.05
#define MOMENTUM 0.9
#define DIVERGED 4 /* limit of the loss, relative to the loss at the start */

void hk_learn_defaults(struct hk_learn_settings *set)
{
	*set = (struct hk_learn_settings){
		.seed = 1,
		.schedule = HK_LEARN_PLATEAU,
		.merge = HK_LEARN_MEAN,
		.batch = 16,
		.max_epochs = 10000,
		.momentum = -1,
		.tolerance = 1e-4,
		.epochs_no_change = 10,
		.halvings = 15,
		.gossip_every = 1,
		.trim = 0.2,
		.norm_limit = 8,
		.target_loss = NAN,
		.settle = 32,
	};
}

int hk_learn_check_settings(const struct hk_learn_settings *s, struct hk_error *err)
{
	if ((unsigned)s->schedule >= HK_LEARN_SCHEDULES || (unsigned)s->merge >= HK_LEARN_MERGES)
		return hk_error_set(
			err, -EINVAL,
			"schedule %d or merge %d does not exist; fix: use one of the enum",
			(int)s->schedule, (int)s->merge);
	if (s->batch == 0 || s->max_epochs == 0 || s->epochs_no_change == 0)
		return hk_error_set(err, -EINVAL,
				    "a batch of %u rows, %u epochs, or %u epochs without progress "
				    "is invalid; fix: use at least 1",
				    s->batch, s->max_epochs, s->epochs_no_change);
	if (!isfinite(s->step) || s->step < 0 || !isfinite(s->decay) || s->decay < 0)
		return hk_error_set(err, -EINVAL,
				    "step %g or decay %g is invalid; fix: use at least 0", s->step,
				    s->decay);
	if (!(s->momentum < 1) || !(s->tolerance >= 0 && s->tolerance < 1))
		return hk_error_set(err, -EINVAL,
				    "momentum %g or tolerance %g is invalid; fix: use less than 1",
				    s->momentum, s->tolerance);
	if (!(s->trim >= 0 && s->trim < 0.5))
		return hk_error_set(err, -EINVAL, "trim cannot be %g; fix: use 0 to less than 0.5",
				    s->trim);
	if (!(s->norm_limit >= 0))
		return hk_error_set(err, -EINVAL,
				    "the norm limit cannot be %g; fix: use at least 0",
				    s->norm_limit);
	if (isinf(s->target_loss))
		return hk_error_set(
			err, -EINVAL,
			"the target loss is infinite; fix: use a number, or nan for none");
	return 0;
}

/* ---- the first step -------------------------------------------------------------------------- */

/* One round of the power method on (1/n) Σ x xᵀ, with x extended by a 1 for the bias. @v has length
 * 1. Returns its estimate of the eigenvalue, and replaces @v by the next vector. */
static double power_round(const struct hk_learn_train *t, size_t rows, double *v, double *next)
{
	size_t p = t->model->features;
	double norm = 0;

	memset(next, 0, (p + 1) * sizeof(*next));
	for (size_t i = 0; i < rows; i++) {
		const double *x = t->data->x + (size_t)t->order[i] * p;
		double along = v[p];
		for (size_t j = 0; j < p; j++)
			along += x[j] * v[j];
		for (size_t j = 0; j < p; j++)
			next[j] += along * x[j];
		next[p] += along;
	}
	for (size_t j = 0; j <= p; j++)
		norm += next[j] * next[j];
	norm = sqrt(norm);
	for (size_t j = 0; j <= p; j++)
		v[j] = next[j] / norm;
	return norm / (double)rows;
}

static int estimate_step(struct hk_learn_train *t)
{
	size_t p = t->model->features, rows = HK_MIN(t->data->rows, SAMPLE);
	double *v = calloc(2 * (p + 1), sizeof(*v));
	double top = 0, squares = 0, fourths = 0;

	if (!v)
		return -ENOMEM;
	for (size_t j = 0; j <= p; j++)
		v[j] = 1 / sqrt((double)(p + 1));
	for (unsigned i = 0; i < ROUNDS; i++)
		top = power_round(t, rows, v, v + p + 1);
	free(v);
	for (size_t i = 0; i < rows; i++) {
		const double *x = t->data->x + (size_t)t->order[i] * p;
		double square = 1;
		for (size_t j = 0; j < p; j++)
			square += x[j] * x[j];
		squares += square;
		fourths += square * square;
	}
	double batch = (double)HK_MIN(t->set->batch, t->data->rows);
	double curvature = hk_learn_link_curvature(t->model) * (top + fourths / squares / batch);
	/* half of it, because momentum prolongs the effect of a batch's noise */
	t->own_step = 0.5 / (curvature + t->model->l2);
	return 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void shuffle(struct hk_learn_train *t)
{
	for (size_t i = t->data->rows; i > 1; i--) {
		size_t j = hk_learn_random_below(&t->random, i);
		uint32_t other = t->order[j];
		t->order[j] = t->order[i - 1];
		t->order[i - 1] = other;
	}
	t->next = 0;
}

static double momentum_of(const struct hk_learn_settings *set)
{
	return set->momentum >= 0 ? set->momentum : MOMENTUM;
}

int hk_learn_train_open(struct hk_learn_train *t, const struct hk_learn_model *model,
			const struct hk_learn_data *data, const struct hk_learn_settings *set,
			uint32_t node)
{
	bool mlp = model->kind == HK_LEARN_MLP;
	double momentum = momentum_of(set);
	size_t n = hk_learn_parameters(model);

	*t = (struct hk_learn_train){
		.model = model,
		.data = data,
		.set = set,
		.parameters = n,
		.w = calloc(n, sizeof(double)),
		.grad = calloc(n, sizeof(double)),
		.velocity = momentum > 0 ? calloc(n, sizeof(double)) : NULL,
		.scratch = calloc(hk_learn_scratch(model), sizeof(double)),
		.order = calloc(data->rows, sizeof(uint32_t)),
		.random = hk_learn_random_of(set->seed, node),
		.best = INFINITY,
		.own_step = set->step > 0 ? set->step : MLP_STEP,
	};
	bool whole = t->w && t->grad && t->scratch && t->order && (momentum <= 0 || t->velocity);
	if (whole) {
		for (size_t i = 0; i < data->rows; i++)
			t->order[i] = (uint32_t)i;
		shuffle(t);
		hk_learn_start(model, set->seed, t->w);
		whole = set->step > 0 || mlp || estimate_step(t) == 0;
		t->first_step = t->own_step;
		t->start_loss = hk_learn_loss(model, t->w, data, t->scratch);
	}
	if (!whole) {
		hk_learn_train_close(t);
		return -ENOMEM;
	}
	return 0;
}

void hk_learn_train_close(struct hk_learn_train *t)
{
	free(t->w);
	free(t->grad);
	free(t->velocity);
	free(t->scratch);
	free(t->order);
	*t = (struct hk_learn_train){0};
}

/* ---- training -------------------------------------------------------------------------------- */

static double decay_of(const struct hk_learn_train *t)
{
	const struct hk_learn_settings *set = t->set;

	return set->decay > 0 ? set->decay : ceil((double)t->data->rows / set->batch);
}

double hk_learn_train_step(const struct hk_learn_train *t)
{
	double step = ldexp(t->first_step, -(int)t->halvings);

	if (t->set->schedule != HK_LEARN_INVERSE)
		return step;
	return step / (1 + (double)t->steps / decay_of(t));
}

unsigned hk_learn_train_halvings(const struct hk_learn_train *t)
{
	if (t->set->schedule != HK_LEARN_INVERSE)
		return t->halvings;
	return (unsigned)log2(1 + (double)t->steps / decay_of(t));
}

size_t hk_learn_train_batch(struct hk_learn_train *t)
{
	size_t n = HK_MIN((size_t)t->set->batch, t->data->rows - t->next);
	double step = hk_learn_train_step(t);
	double momentum = momentum_of(t->set);

	hk_learn_gradient(t->model, t->w, t->data, t->order + t->next, n, t->grad, t->scratch);
	/* the last batch of an epoch may be short; each of its rows counts like others */
	step *= (double)n / (double)HK_MIN((size_t)t->set->batch, t->data->rows);
	if (t->velocity) {
		for (size_t i = 0; i < t->parameters; i++) {
			t->velocity[i] = momentum * t->velocity[i] - step * t->grad[i];
			t->w[i] += t->velocity[i];
		}
	} else {
		for (size_t i = 0; i < t->parameters; i++)
			t->w[i] -= step * t->grad[i];
	}
	t->steps++;
	t->next += n;
	if (t->next == t->data->rows) {
		t->epochs++;
		shuffle(t);
	}
	return n;
}

static void halve(struct hk_learn_train *t)
{
	t->halvings++;
	t->stalled = 0;
}

/* The step is too large for this model: restart from the beginning with a smaller one. */
static void restart(struct hk_learn_train *t)
{
	hk_learn_start(t->model, t->set->seed, t->w);
	if (t->velocity)
		memset(t->velocity, 0, t->parameters * sizeof(*t->velocity));
	t->own_step /= 4;
	t->first_step = fmin(t->first_step, t->own_step);
	t->stalled = 0;
	t->best = INFINITY;
	t->diverged++;
}

void hk_learn_train_progress(struct hk_learn_train *t, double own, double all)
{
	if (!(own <= DIVERGED * t->start_loss)) {
		restart(t);
		return;
	}
	bool better = isinf(t->best) || all < t->best - t->set->tolerance * fabs(t->best);
	t->best = fmin(t->best, all);
	if (t->set->schedule != HK_LEARN_PLATEAU)
		return;
	if (better)
		t->stalled = 0;
	else if (++t->stalled >= t->set->epochs_no_change)
		halve(t);
}

void hk_learn_train_follow(struct hk_learn_train *t, double step, unsigned halvings)
{
	t->first_step = step;
	if (t->set->schedule == HK_LEARN_CONSTANT || halvings <= hk_learn_train_halvings(t))
		return;
	if (t->set->schedule == HK_LEARN_INVERSE) {
		/* limited, because a faulty node may report any number of halvings */
		t->steps = (uint64_t)fmin((ldexp(1, (int)halvings) - 1) * decay_of(t), 0x1p53);
		return;
	}
	t->halvings = HK_MIN(halvings, t->set->halvings);
	t->stalled = 0;
}

bool hk_learn_train_converged(const struct hk_learn_train *t)
{
	return t->set->schedule == HK_LEARN_PLATEAU && t->halvings >= t->set->halvings;
}

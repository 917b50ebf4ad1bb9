/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/link.c: the loss of one row, and its gradient by the scores.
 *
 * The formulas do not overflow for large scores where the true loss is finite.
 */
#include "learn/link.h"

#include <math.h>

/* log(1 + exp(v)) */
static double softplus(double v)
{
	return v > 0 ? v + log1p(exp(-v)) : log1p(exp(v));
}

static double sigmoid(double v)
{
	double e;

	if (v >= 0)
		return 1 / (1 + exp(-v));
	e = exp(v);
	return e / (1 + e);
}

static double log_loss(double z, double y, double *grad)
{
	double loss = softplus(z) - y * z;

	if (grad)
		*grad = sigmoid(z) - y;
	return loss;
}

static double softmax_loss(const double *z, size_t k, size_t class, double *grad)
{
	double top = z[0], sum = 0, of_class = z[class];

	for (size_t i = 1; i < k; i++)
		top = fmax(top, z[i]);
	for (size_t i = 0; i < k; i++)
		sum += exp(z[i] - top);
	if (grad)
		for (size_t i = 0; i < k; i++)
			grad[i] = exp(z[i] - top) / sum - (i == class ? 1 : 0);
	return log(sum) + top - of_class;
}

/* @sign: 1 if the row has the class, else -1. */
static double hinge_loss(double z, double sign, bool plain, double *grad)
{
	double gap = 1 - sign * z;

	/* this form keeps a NaN */
	if (gap <= 0) {
		if (grad)
			*grad = 0;
		return 0;
	}
	if (grad)
		*grad = plain ? -sign : -2 * sign * gap;
	return plain ? gap : gap * gap;
}

double hk_learn_link(const struct hk_learn_model *m, const double *z, double y, double *grad)
{
	size_t k = hk_learn_outputs(m);
	double loss = 0;

	if (m->kind == HK_LEARN_SVM) {
		for (size_t i = 0; i < k; i++) {
			bool in = k == 1 ? y > 0.5 : (size_t)y == i;
			loss += hinge_loss(z[i], in ? 1 : -1, m->hinge, grad ? &grad[i] : NULL);
		}
		return loss;
	}
	if (m->classes == 0) {
		double off = z[0] - y;
		if (grad)
			*grad = off;
		return off * off / 2;
	}
	return k == 1 ? log_loss(z[0], y, grad) : softmax_loss(z, k, (size_t)y, grad);
}

double hk_learn_link_curvature(const struct hk_learn_model *m)
{
	if (m->kind == HK_LEARN_SVM)
		return 2;
	if (m->classes == 0)
		return 1;
	return m->classes == 2 ? 0.25 : 0.5;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/model.c: objective and gradient of each model; learn/learn.h has the formulas and the
 * layout of the parameters.
 *
 * A model consists of layers: scores = M·in + bias. An mlp has two, the others have one.
 */
#include "learn/link.h"
#include "learn/random.h"

#include "hikyaku/error.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int hk_learn_check(const struct hk_learn_model *m, struct hk_error *err)
{
	if ((unsigned)m->kind >= HK_LEARN_KINDS)
		return hk_error_set(
			err, -EINVAL,
			"model kind %d does not exist; fix: use one of enum hk_learn_kind",
			(int)m->kind);
	if (m->features == 0 || m->features > HK_LEARN_MAX_FEATURES)
		return hk_error_set(
			err, -EINVAL,
			"a model has 1 to %u features, not %u; fix: check the columns of the data",
			HK_LEARN_MAX_FEATURES, m->features);
	if (m->classes == 1 || m->classes > HK_LEARN_MAX_CLASSES)
		return hk_error_set(err, -EINVAL,
				    "a classifier has 2 to %u classes, not %u; fix: check the "
				    "column of the target",
				    HK_LEARN_MAX_CLASSES, m->classes);
	if (m->kind == HK_LEARN_LINEAR && m->classes != 0)
		return hk_error_set(err, -EINVAL,
				    "a linear model has no classes; fix: use logistic, svm or mlp");
	if ((m->kind == HK_LEARN_LOGISTIC || m->kind == HK_LEARN_SVM) && m->classes == 0)
		return hk_error_set(
			err, -EINVAL,
			"this model needs classes, but the data has none; fix: use linear or mlp");
	if (m->kind == HK_LEARN_MLP ? m->hidden == 0 || m->hidden > HK_LEARN_MAX_HIDDEN
				    : m->hidden != 0)
		return hk_error_set(err, -EINVAL,
				    "this model cannot have %u hidden units; fix: use 1 to %u for "
				    "an mlp, 0 for others",
				    m->hidden, HK_LEARN_MAX_HIDDEN);
	if (m->hinge && m->kind != HK_LEARN_SVM)
		return hk_error_set(err, -EINVAL,
				    "only an svm has the hinge loss; fix: use model svm");
	if (!isfinite(m->l2) || m->l2 < 0)
		return hk_error_set(err, -EINVAL, "l2 cannot be %g; fix: use at least 0", m->l2);
	return 0;
}

size_t hk_learn_outputs(const struct hk_learn_model *m)
{
	return m->classes <= 2 ? 1 : m->classes;
}

size_t hk_learn_parameters(const struct hk_learn_model *m)
{
	size_t k = hk_learn_outputs(m), p = m->features, h = m->hidden;

	return m->kind == HK_LEARN_MLP ? h * (p + 1) + k * (h + 1) : k * (p + 1);
}

size_t hk_learn_scratch(const struct hk_learn_model *m)
{
	return hk_learn_outputs(m) + 2 * (size_t)m->hidden;
}

uint32_t hk_learn_fingerprint(const struct hk_learn_model *m)
{
	uint64_t bits;
	struct hk_learn_random r = {0};

	memcpy(&bits, &m->l2, sizeof(bits));
	const uint64_t parts[] = {m->kind, m->features, m->classes, m->hidden, m->hinge, bits};
	for (size_t i = 0; i < HK_ARRAY_LEN(parts); i++) {
		r.state ^= parts[i];
		r.state = hk_learn_random_next(&r);
	}
	return (uint32_t)(r.state >> 32);
}

void hk_learn_start(const struct hk_learn_model *m, uint64_t seed, double *w)
{
	struct hk_learn_random r = hk_learn_random_of(seed, 0x57a7);
	size_t k = hk_learn_outputs(m), p = m->features, h = m->hidden;

	memset(w, 0, hk_learn_parameters(m) * sizeof(*w));
	if (m->kind != HK_LEARN_MLP)
		return;
	/* Glorot and Bengio, 2010: tanh neither saturates nor stays near 0 */
	double first = sqrt(6.0 / (double)(p + h)), second = sqrt(6.0 / (double)(h + k));
	for (size_t i = 0; i < h * (p + 1); i++)
		w[i] = first * (2 * hk_learn_random_unit(&r) - 1);
	for (size_t i = 0; i < k * h; i++)
		w[h * (p + 1) + i] = second * (2 * hk_learn_random_unit(&r) - 1);
}

/* ---- one layer ------------------------------------------------------------------------------- */

/* Four sums, so that an addition does not wait for the one before it. */
static double dot(const double *a, const double *b, size_t n)
{
	double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		s0 += a[i] * b[i];
		s1 += a[i + 1] * b[i + 1];
		s2 += a[i + 2] * b[i + 2];
		s3 += a[i + 3] * b[i + 3];
	}
	for (; i < n; i++)
		s0 += a[i] * b[i];
	return (s0 + s1) + (s2 + s3);
}

static void add_scaled(double *restrict to, const double *restrict from, double by, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += by * from[i];
}

/* @w: matrix [outs][ins], then bias [outs] */
static void layer(const double *w, const double *in, size_t ins, double *out, size_t outs)
{
	const double *bias = w + outs * ins;

	for (size_t k = 0; k < outs; k++)
		out[k] = bias[k] + dot(w + k * ins, in, ins);
}

static void layer_gradient(double *grad, const double *in, size_t ins, const double *by,
			   size_t outs)
{
	double *bias = grad + outs * ins;

	for (size_t k = 0; k < outs; k++) {
		add_scaled(grad + k * ins, in, by[k], ins);
		bias[k] += by[k];
	}
}

/* The penalty of one layer's matrix. */
static double layer_penalty(double l2, const double *w, size_t ins, size_t outs, double *grad)
{
	if (grad)
		add_scaled(grad, w, l2, ins * outs);
	return l2 / 2 * dot(w, w, ins * outs);
}

static double penalty(const struct hk_learn_model *m, const double *w, double *grad)
{
	size_t k = hk_learn_outputs(m), p = m->features, h = m->hidden;

	if (m->l2 == 0)
		return 0;
	if (m->kind != HK_LEARN_MLP)
		return layer_penalty(m->l2, w, p, k, grad);
	size_t second = h * (p + 1);
	return layer_penalty(m->l2, w, p, h, grad) +
	       layer_penalty(m->l2, w + second, h, k, grad ? grad + second : NULL);
}

/* ---- the whole model ------------------------------------------------------------------------- */

void hk_learn_scores(const struct hk_learn_model *m, const double *w, const double *x, double *out,
		     double *scratch)
{
	size_t k = hk_learn_outputs(m), p = m->features, h = m->hidden;

	if (m->kind != HK_LEARN_MLP) {
		layer(w, x, p, out, k);
		return;
	}
	double *unit = scratch + k;
	layer(w, x, p, unit, h);
	for (size_t i = 0; i < h; i++)
		unit[i] = tanh(unit[i]);
	layer(w + h * (p + 1), unit, h, out, k);
}

/* Adds the gradient of one row. @by: the derivatives by the scores. The hidden units are in
 * @scratch. */
static void backward(const struct hk_learn_model *m, const double *w, const double *x,
		     const double *by, double *grad, double *scratch)
{
	size_t k = hk_learn_outputs(m), p = m->features, h = m->hidden;

	if (m->kind != HK_LEARN_MLP) {
		layer_gradient(grad, x, p, by, k);
		return;
	}
	const double *unit = scratch + k, *second = w + h * (p + 1);
	double *back = scratch + k + h;
	layer_gradient(grad + h * (p + 1), unit, h, by, k);
	memset(back, 0, h * sizeof(*back));
	for (size_t i = 0; i < k; i++)
		add_scaled(back, second + i * h, by[i], h);
	for (size_t i = 0; i < h; i++)
		back[i] *= 1 - unit[i] * unit[i];
	layer_gradient(grad, x, p, back, h);
}

double hk_learn_loss(const struct hk_learn_model *m, const double *w, const struct hk_learn_data *d,
		     double *scratch)
{
	double sum = 0;

	for (size_t i = 0; i < d->rows; i++) {
		hk_learn_scores(m, w, d->x + i * m->features, scratch, scratch);
		sum += hk_learn_link(m, scratch, d->y[i], NULL);
	}
	return sum / (double)d->rows + penalty(m, w, NULL);
}

double hk_learn_gradient(const struct hk_learn_model *m, const double *w,
			 const struct hk_learn_data *d, const uint32_t *rows, size_t n,
			 double *grad, double *scratch)
{
	size_t k = hk_learn_outputs(m), all = hk_learn_parameters(m);
	double sum = 0, share = 1 / (double)n;

	memset(grad, 0, all * sizeof(*grad));
	for (size_t i = 0; i < n; i++) {
		const double *x = d->x + (size_t)rows[i] * m->features;
		hk_learn_scores(m, w, x, scratch, scratch);
		sum += hk_learn_link(m, scratch, d->y[rows[i]], scratch);
		for (size_t o = 0; o < k; o++)
			scratch[o] *= share;
		backward(m, w, x, scratch, grad, scratch);
	}
	return sum * share + penalty(m, w, grad);
}

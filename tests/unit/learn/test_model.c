/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_model.c: objectives, gradients and SGD of one node.
 */
#include "hikyaku/error.h"
#include <errno.h>
#include "learn/train.h"
#include "tests/unit/learn/data.h"

static const struct hk_learn_model models[] = {
	{HK_LEARN_LINEAR, 5, 0, 0, false, 0.1}, {HK_LEARN_LOGISTIC, 5, 2, 0, false, 0.1},
	{HK_LEARN_LOGISTIC, 5, 3, 0, false, 0}, {HK_LEARN_SVM, 5, 2, 0, false, 0.1},
	{HK_LEARN_SVM, 5, 4, 0, false, 0.1},    {HK_LEARN_SVM, 5, 2, 0, true, 0.1},
	{HK_LEARN_MLP, 5, 0, 7, false, 0.1},    {HK_LEARN_MLP, 5, 2, 4, false, 0.1},
	{HK_LEARN_MLP, 5, 3, 6, false, 0.01},
};

TEST(sizes)
{
	const size_t want[] = {6, 6, 18, 6, 24, 6, 7 * 6 + 8, 4 * 6 + 5, 6 * 6 + 3 * 7};

	for (size_t i = 0; i < HK_ARRAY_LEN(models); i++) {
		CHECK(hk_learn_check(&models[i], NULL) == 0);
		CHECK_EQ(hk_learn_parameters(&models[i]), want[i]);
		for (size_t j = 0; j < i; j++)
			CHECK(hk_learn_fingerprint(&models[i]) != hk_learn_fingerprint(&models[j]));
	}
}

TEST(refused)
{
	const struct hk_learn_model bad[] = {
		{HK_LEARN_KINDS, 5, 0, 0, false, 0},    {HK_LEARN_LINEAR, 0, 0, 0, false, 0},
		{HK_LEARN_LINEAR, 5, 2, 0, false, 0},   {HK_LEARN_LOGISTIC, 5, 0, 0, false, 0},
		{HK_LEARN_LOGISTIC, 5, 1, 0, false, 0}, {HK_LEARN_MLP, 5, 0, 0, false, 0},
		{HK_LEARN_LINEAR, 5, 0, 3, false, 0},   {HK_LEARN_LINEAR, 5, 0, 0, true, 0},
		{HK_LEARN_LINEAR, 5, 0, 0, false, -1},  {HK_LEARN_LINEAR, 5, 0, 0, false, NAN},
		{HK_LEARN_SVM, 70000, 2, 0, false, 0},  {HK_LEARN_SVM, 5, 2000, 0, false, 0},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++) {
		CHECK_MSG(hk_learn_check(&bad[i], ERR) == -EINVAL, "model %zu is accepted", i);
		CHECK(hk_test_err.text[0] != '\0');
	}
}

/* Compares each partial derivative with a difference of losses. */
TEST(gradients)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(models); i++) {
		const struct hk_learn_model *m = &models[i];
		struct test_data d = test_data_make(12, 5, m->classes, 0.5, 1);
		const uint32_t rows[] = {3, 0, 7, 11, 7};
		double w[64], grad[64], scratch[64], x[25], y[5];
		struct hk_learn_data some = {x, y, 5};
		size_t n = hk_learn_parameters(m);

		CHECK(n <= 64 && hk_learn_scratch(m) <= 64);
		for (size_t j = 0; j < n; j++)
			w[j] = test_normal(&hk_test_rng);
		for (size_t r = 0; r < 5; r++) {
			memcpy(x + 5 * r, d.x + 5 * rows[r], 5 * sizeof(double));
			y[r] = d.y[rows[r]];
		}
		double loss = hk_learn_gradient(m, w, &d.all, rows, 5, grad, scratch);
		double same = hk_learn_loss(m, w, &some, scratch);
		CHECK_MSG(fabs(loss - same) < 1e-12 * (1 + same), "model %zu: %g, %g", i, loss,
			  same);
		for (size_t j = 0; j < n; j++) {
			double was = w[j], h = 1e-6, up, down;
			w[j] = was + h;
			up = hk_learn_loss(m, w, &some, scratch);
			w[j] = was - h;
			down = hk_learn_loss(m, w, &some, scratch);
			w[j] = was;
			double want = (up - down) / (2 * h);
			CHECK_MSG(fabs(grad[j] - want) < 1e-6 * (1 + fabs(want)),
				  "model %zu, parameter %zu: %g, by difference %g", i, j, grad[j],
				  want);
		}
		test_data_free(&d);
	}
}

/* Scores of 1000 must not overflow where the loss is finite. */
TEST(large_scores)
{
	const double x[] = {1000, -1000}, y[] = {0, 1};
	double w[9] = {0}, scratch[8];

	struct hk_learn_model m = {HK_LEARN_LOGISTIC, 1, 2, 0, false, 0};
	struct hk_learn_data d = {x, y, 2};

	w[0] = 1;
	CHECK(fabs(hk_learn_loss(&m, w, &d, scratch) - 1000) < 1e-9);
	w[0] = -1;
	CHECK(hk_learn_loss(&m, w, &d, scratch) < 1e-9);
	m.classes = 3;
	CHECK(fabs(hk_learn_loss(&m, w, &d, scratch) - 1000 - log(2) / 2) < 1e-9);
	w[0] = 1;
	CHECK(fabs(hk_learn_loss(&m, w, &d, scratch) - log(2) / 2) < 1e-9);
}

/* Measures the loss, as a node without neighbours does. */
static void progress(struct hk_learn_train *t)
{
	double loss = hk_learn_loss(t->model, t->w, t->data, t->scratch);

	hk_learn_train_progress(t, loss, loss);
}

/* A single node finds the solution of the normal equations. */
TEST(closed_form)
{
	struct test_data d = test_data_make(1000, 8, 0, 1, 1);
	struct hk_learn_model m = {HK_LEARN_LINEAR, 8, 0, 0, false, 0.01};
	struct hk_learn_settings set;
	struct hk_learn_train t;
	double best[9];

	hk_learn_defaults(&set);
	test_least_squares(&d.all, 8, m.l2, best);
	CHECK(hk_learn_train_open(&t, &m, &d.all, &set, 0) == 0);
	while (!hk_learn_train_converged(&t) && t.epochs < set.max_epochs) {
		uint64_t epoch = t.epochs;
		while (t.epochs == epoch)
			hk_learn_train_batch(&t);
		progress(&t);
	}
	CHECK(hk_learn_train_converged(&t));
	double loss = hk_learn_loss(&m, t.w, &d.all, t.scratch);
	double want = hk_learn_loss(&m, best, &d.all, t.scratch);
	CHECK_MSG(loss >= want - 1e-12 && loss < want * 1.0005, "%.9g, at best %.9g", loss, want);
	hk_learn_train_close(&t);
	test_data_free(&d);
}

/* A first step that is far too large is detected. */
TEST(diverges_and_begins_anew)
{
	struct test_data d = test_data_make(200, 4, 0, 0.1, 1);
	struct hk_learn_model m = {HK_LEARN_LINEAR, 4, 0, 0, false, 0.01};
	struct hk_learn_settings set;
	struct hk_learn_train t;

	hk_learn_defaults(&set);
	set.step = 100;
	CHECK(hk_learn_train_open(&t, &m, &d.all, &set, 0) == 0);
	for (int i = 0; i < 20000; i++) {
		hk_learn_train_batch(&t);
		if (i % 20 == 0)
			progress(&t);
	}
	CHECK_CMP(t.diverged, >=, 1);
	CHECK(hk_learn_loss(&m, t.w, &d.all, t.scratch) < 0.05);
	hk_learn_train_close(&t);
	test_data_free(&d);
}

/* With a decreasing step a node that begins late takes the step of the others. */
TEST(inverse_follows)
{
	struct test_data d = test_data_make(320, 4, 0, 1, 1);
	struct hk_learn_model m = {HK_LEARN_LINEAR, 4, 0, 0, false, 0.01};
	struct hk_learn_settings set;
	struct hk_learn_train t;

	hk_learn_defaults(&set);
	set.schedule = HK_LEARN_INVERSE;
	CHECK(hk_learn_train_open(&t, &m, &d.all, &set, 0) == 0);
	double first = hk_learn_train_step(&t);
	CHECK_EQ(hk_learn_train_halvings(&t), 0);
	for (int i = 0; i < 100; i++) /* 5 epochs: a sixth of the step */
		hk_learn_train_batch(&t);
	CHECK_EQ(hk_learn_train_halvings(&t), 2);
	hk_learn_train_follow(&t, first, 1); /* of a node behind us */
	CHECK_EQ(t.steps, 100);
	hk_learn_train_follow(&t, first, 10);
	CHECK_EQ(hk_learn_train_halvings(&t), 10);
	CHECK(fabs(hk_learn_train_step(&t) - first / 1024) < 1e-12);
	hk_learn_train_follow(&t, first, UINT8_MAX); /* of a faulty node */
	CHECK(hk_learn_train_step(&t) > 0);
	hk_learn_train_close(&t);
	test_data_free(&d);
}

TEST(settings_refused)
{
	struct hk_learn_settings good, bad;

	hk_learn_defaults(&good);
	CHECK(hk_learn_check_settings(&good, NULL) == 0);
#define BAD(field, value)                                                                          \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = value;                                                                 \
		CHECK_MSG(hk_learn_check_settings(&bad, NULL) == -EINVAL, #field " " #value);      \
	} while (0)
	BAD(schedule, HK_LEARN_SCHEDULES);
	BAD(merge, HK_LEARN_MERGES);
	BAD(batch, 0);
	BAD(max_epochs, 0);
	BAD(epochs_no_change, 0);
	BAD(step, -1);
	BAD(step, NAN);
	BAD(decay, -1);
	BAD(momentum, 1);
	BAD(tolerance, 1);
	BAD(trim, 0.5);
	BAD(trim, -0.1);
	BAD(norm_limit, -1);
	BAD(target_loss, INFINITY);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/learn.h: gossip learning. Nodes train one model, each on its own share of the data, and from
 * time to time merge their parameters with those of a neighbour (Ormándi, Hegedűs,
 * Jelasity, "Gossip learning with linear models on fully distributed data", 2013). There is no server,
 * and no message that must arrive.
 *
 * This header is what a program needs: models, the objective, files of shards, and many nodes in one
 * process. The parts below it have headers of their own:
 *
 *   model.c link.c     objective and gradient            guard.c    which messages are believed
 *   train.c            SGD and its step                  agree.c    losses of all, and when to stop
 *   merge.c            how parameters meet               message.c  the bytes
 *   shard.c            the file that holds a node's rows gossip.c   a node, without a network
 *   local.c            nodes in one process              node.c     a node on rtc/rtc.h: hk_learn
 *
 * All but node.c is pure: no clock, no I/O (shard.c reads and writes one file), no global state; the
 * same seed gives the same bits on the same machine and compiler.
 *
 * Parameters are one flat vector of float64. float32 would halve the frames, but push-sum sends sums
 * that grow as long as training goes on, and differences of such sums must keep the digits of a
 * parameter; and the result is compared with solvers that work in float64.
 *
 * Errors: 0 or a negative errno, where an hk_error is given with a sentence.
 * Threads: none is shared; one object, one thread.
 */
#ifndef HK_LEARN_H
#define HK_LEARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hk_error; /* base/error.h */

/* ---- models ---------------------------------------------------------------------------------- */

enum hk_learn_kind {
	HK_LEARN_LINEAR,   /* half the squared error */
	HK_LEARN_LOGISTIC, /* log loss; more than two classes: softmax */
	HK_LEARN_SVM, /* squared hinge, or hinge; more than two classes: one against the rest */
	HK_LEARN_MLP, /* one hidden layer of tanh; half the squared error, or log loss with classes */
	HK_LEARN_KINDS
};

#define HK_LEARN_MAX_FEATURES 65536u
#define HK_LEARN_MAX_CLASSES  1024u
#define HK_LEARN_MAX_HIDDEN   4096u

/* The objective of n rows is (1/n) Σ loss(row) + l2/2 × Σ weight², biases not penalised. That is
 * scikit-learn's, with l2 =
 *   Ridge(alpha = l2·n), LogisticRegression(C = 1/(l2·n)), LinearSVC(C = 1/(l2·n)) but for its
 *   penalty on the bias, MLPRegressor and MLPClassifier(alpha = l2·n, activation="tanh").
 *
 * Layout, K outputs (1 for regression and two classes, else one a class), p features, h hidden:
 *   linear, logistic, svm:  W[K][p], b[K]
 *   mlp:                    U[h][p], c[h], W[K][h], b[K] */
struct hk_learn_model {
	enum hk_learn_kind kind;
	uint32_t features;
	uint32_t classes; /* 0: regression */
	uint32_t hidden;  /* of the mlp */
	bool hinge;       /* svm: the plain hinge */
	double l2;
};

/* Rows of features, and of each the target: a number, or a class from 0 on. Not owned. */
struct hk_learn_data {
	const double *x; /* [rows][features] */
	const double *y; /* [rows] */
	size_t rows;
};

/* -EINVAL: not a model (a linear one with classes, an svm without, too many, l2 negative …). */
int hk_learn_check(const struct hk_learn_model *m, struct hk_error *err);

/* Of a model that hk_learn_check() accepts: */
size_t hk_learn_outputs(const struct hk_learn_model *m);
size_t hk_learn_parameters(const struct hk_learn_model *m);
size_t hk_learn_scratch(const struct hk_learn_model *m); /* doubles that the calls below work in */

/* A number that two nodes share if and only if (but for 2^-32) they train the same thing. */
uint32_t hk_learn_fingerprint(const struct hk_learn_model *m);

/* Where training starts: 0, or of the mlp random by @seed, the same on every node. */
void hk_learn_start(const struct hk_learn_model *m, uint64_t seed, double *w);

/* The objective over all of @d. */
double hk_learn_loss(const struct hk_learn_model *m, const double *w, const struct hk_learn_data *d,
		     double *scratch);

/* Objective and gradient over @n rows of @d whose numbers are in @rows; @grad is overwritten. */
double hk_learn_gradient(const struct hk_learn_model *m, const double *w,
			 const struct hk_learn_data *d, const uint32_t *rows, size_t n,
			 double *grad, double *scratch);

/* What the model says of one row: hk_learn_outputs() numbers. */
void hk_learn_scores(const struct hk_learn_model *m, const double *w, const double *x, double *out,
		     double *scratch);

/* ---- how to train and to gossip ------------------------------------------------------------------ */

enum hk_learn_schedule {
	HK_LEARN_PLATEAU, /* a constant step, halved whenever the loss stands still */
	HK_LEARN_INVERSE, /* step / (1 + steps / decay): Robbins and Monro, 1951 */
	HK_LEARN_CONSTANT,
	HK_LEARN_SCHEDULES
};

enum hk_learn_merge {
	HK_LEARN_MEAN, /* half mine, half the neighbour's */
	HK_LEARN_AGE,  /* by how many rows stand behind each */
	HK_LEARN_TRIMMED, /* of all neighbours' latest and mine, coordinate by coordinate, without extremes */
	HK_LEARN_PUSH_SUM, /* by weights whose sum over all nodes stays (Kempe, Dobra, Gehrke, 2003) */
	HK_LEARN_MERGES
};

struct hk_learn_settings {
	uint64_t seed;
	enum hk_learn_schedule schedule;
	enum hk_learn_merge merge;
	uint32_t batch;        /* rows */
	uint32_t max_epochs;   /* of each node's own rows */
	double step;           /* first step; 0: from the curvature of the data */
	double decay;          /* HK_LEARN_INVERSE: steps; 0: an epoch */
	double momentum;       /* 0 ≤ … < 1 (Polyak, 1964); negative: 0, of the mlp 0.9 */
	double tolerance;      /* HK_LEARN_PLATEAU: progress is a loss lower by this share */
	uint32_t patience;     /* epochs without progress before the step is halved */
	uint32_t halvings;     /* after so many, training has converged */
	uint32_t gossip_every; /* batches between two messages to a neighbour; 0: never gossip */
	double trim;           /* HK_LEARN_TRIMMED: share dropped at either end, rounded up */
	double norm_limit; /* how many times the usual distance a neighbour may be off; 0: any */
	double target_loss; /* stop when the loss of all is no more, twice in a row; NaN: when converged */
	uint32_t settle; /* messages with which nodes still meet after training has stopped */
};

/* What is usual. Always begin with it. */
void hk_learn_defaults(struct hk_learn_settings *set);

/* -EINVAL: a number out of range. */
int hk_learn_check_settings(const struct hk_learn_settings *set, struct hk_error *err);

/* ---- many nodes in one process --------------------------------------------------------------------
 *
 * A network that loses, delays and doubles by a seed, and nodes that lie, crash and come back by a plan.
 * For tests, and to train where there is no network: the Python estimators do. Deterministic. */

struct hk_learn_event {
	uint32_t round; /* of the network */
	uint16_t node;
	uint16_t up; /* 0: it crashes; 1: it starts, anew if it has run before */
};

struct hk_learn_local {
	uint16_t nodes;
	uint16_t degree;      /* of the random topology */
	int topology;         /* enum hk_rtc_topology, not of a file (rtc/rtc.h) */
	uint32_t payload_max; /* bytes of a message */
	uint32_t max_rounds;  /* 0: 4 × what the epochs take */
	uint32_t delay;       /* 0 … so many rounds later a message comes */
	double drop, twice;   /* share of messages */
	const uint8_t *fault; /* [nodes] enum hk_gossip_fault, or NULL */
	double fault_scale;   /* length of outliers */
	const struct hk_learn_event
		*event; /* in order of rounds; nodes with "up" first start late */
	size_t events;
	uint32_t progress_every; /* rounds between two calls of on_progress; 0: none */
	uint32_t turn; /* rounds for which one node runs alone, as on one core; 0: all run */
};

struct hk_learn_progress {
	uint32_t round;
	uint16_t living;
	uint64_t rows;  /* trained with, by all */
	uint64_t bytes; /* sent by all */
	double loss;    /* mean over living nodes of the objective over all rows */
	double consensus; /* root mean square distance of living nodes from their mean, relative to it */
	double push_weight; /* push-sum: weight of all, with what is under way; else 0 */
};

struct hk_learn_result {
	uint32_t rounds;
	int stop; /* enum hk_learn_stop, or 0: max_rounds */
	uint64_t rows, bytes, messages, dropped, merged, copied;
	uint64_t refused[8]; /* by enum hk_learn_reason (learn/guard.h) */
	uint32_t epochs;     /* the most of a node */
};

/* Trains @nodes of @how, node i with the rows @shard[i] (not copied), until all are done. @w: [nodes]
 * [parameters], what each node ends with; NaN of those that are down. @on_progress: true goes on.
 * -ECANCELED: it said false. */
int hk_learn_local(const struct hk_learn_model *m, const struct hk_learn_settings *set,
		   const struct hk_learn_local *how, const struct hk_learn_data *shard, double *w,
		   bool (*on_progress)(void *arg, const struct hk_learn_progress *p), void *arg,
		   struct hk_learn_result *out, struct hk_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/learn.h: gossip learning. Nodes train one model, each on its own share of the data. From
 * time to time a node merges its parameters with a neighbour's (Ormándi, Hegedűs, Jelasity, "Gossip
 * learning with linear models on fully distributed data", 2013). There is no server, and any
 * message may be lost.
 *
 * This header is for programs: models, the objective, files of shards, and many nodes in one
 * process. The parts below it have headers of their own:
 *
 *   model.c link.c     objective and gradient         guard.c    decides which messages to accept
 *   train.c            SGD and its step               agree.c    loss of all, and the end
 *   merge.c            merging of parameters          message.c  the message format
 *   shard.c            the file of a node's rows      gossip*.c a node without a network
 *   local.c            nodes in one process           node.c     hk_learn, a node on rtc
 *
 * All files except node.c are pure: no clock, no global state, and no I/O (only shard.c reads a
 * file). The same seed gives the same bits on the same machine and compiler.
 *
 * Parameters are one flat vector of float64. float32 would halve the frames. But push-sum sends
 * sums that grow as long as training goes on, and differences of such sums must keep the digits of
 * a parameter. Also, tests compare the result with solvers that use float64.
 *
 * Errors: functions return 0 or a negative errno. A struct hk_error receives a sentence. Threads:
 * an object belongs to one thread.
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

struct hk_error; /* hikyaku/error.h */

/* ---- models ---------------------------------------------------------------------------------- */

enum hk_learn_kind {
	HK_LEARN_LINEAR,   /* half the squared error */
	HK_LEARN_LOGISTIC, /* log loss; more than two classes: softmax */
	HK_LEARN_SVM,      /* squared hinge, or hinge; more classes: one against the rest */
	HK_LEARN_MLP,      /* one tanh layer; half the squared error, or log loss */
	HK_LEARN_KINDS
};

#define HK_LEARN_MAX_FEATURES 65536u
#define HK_LEARN_MAX_CLASSES  1024u
#define HK_LEARN_MAX_HIDDEN   4096u

/* The objective of n rows is (1/n) Σ loss(row) + l2/2 × Σ weight², without a penalty on biases. It
 * is scikit-learn's objective with these parameters:
 *
 *   Ridge(alpha = l2·n)
 *   LogisticRegression(C = 1/(l2·n))
 *   LinearSVC(C = 1/(l2·n)), which also has a penalty on the bias
 *   MLPRegressor and MLPClassifier(alpha = l2·n, activation="tanh")
 *
 * Layout with K outputs, p features and h hidden units. K is the number of classes, and 1 for
 * regression and for two classes.
 *
 *   linear, logistic, svm:  W[K][p], b[K]
 *   mlp:                    U[h][p], c[h], W[K][h], b[K]
 */
struct hk_learn_model {
	enum hk_learn_kind kind;
	uint32_t features;
	uint32_t classes; /* number of classes; 0: regression */
	uint32_t hidden;  /* mlp: number of hidden units */
	bool hinge;       /* svm: hinge loss instead of its square */
	double l2;
};

/* Rows of features, each with a target: a number, or a class from 0 on. Not owned. */
struct hk_learn_data {
	const double *x; /* [rows][features] */
	const double *y; /* [rows] */
	size_t rows;
};

/* Checks a model. -EINVAL: impossible, such as a linear model with classes, or a negative l2. */
int hk_learn_check(const struct hk_learn_model *m, struct hk_error *err);

/* Sizes of a model that hk_learn_check() accepts: */
size_t hk_learn_outputs(const struct hk_learn_model *m);
size_t hk_learn_parameters(const struct hk_learn_model *m);
size_t hk_learn_scratch(const struct hk_learn_model *m); /* doubles of scratch memory */

/* A number that two nodes share only if they train the same model, except with probability 2^-32.
 */
uint32_t hk_learn_fingerprint(const struct hk_learn_model *m);

/* Sets the first parameters: 0, or for an mlp random by @seed, the same on every node. */
void hk_learn_start(const struct hk_learn_model *m, uint64_t seed, double *w);

/* The objective over all rows of @d. */
double hk_learn_loss(const struct hk_learn_model *m, const double *w, const struct hk_learn_data *d,
		     double *scratch);

/* Objective and gradient over the @n rows of @d with the indices @rows. Overwrites @grad. */
double hk_learn_gradient(const struct hk_learn_model *m, const double *w,
			 const struct hk_learn_data *d, const uint32_t *rows, size_t n,
			 double *grad, double *scratch);

/* Writes the hk_learn_outputs() scores of one row to @out. */
void hk_learn_scores(const struct hk_learn_model *m, const double *w, const double *x, double *out,
		     double *scratch);

/* ---- settings -------------------------------------------------------------------------------- */

enum hk_learn_schedule {
	HK_LEARN_PLATEAU, /* constant step, halved whenever the loss stops falling */
	HK_LEARN_INVERSE, /* step / (1 + steps / decay): Robbins and Monro, 1951 */
	HK_LEARN_CONSTANT,
	HK_LEARN_SCHEDULES
};

enum hk_learn_merge {
	HK_LEARN_MEAN,    /* half ours, half the neighbour's */
	HK_LEARN_AGE,     /* weighted by the rows behind each */
	HK_LEARN_TRIMMED, /* trimmed mean of ours and the neighbours' latest, for each coordinate */
	/* weights with a constant sum over all nodes (Kempe, Dobra, Gehrke, 2003) */
	HK_LEARN_PUSH_SUM,
	HK_LEARN_MERGES
};

struct hk_learn_settings {
	uint64_t seed;
	enum hk_learn_schedule schedule;
	enum hk_learn_merge merge;
	uint32_t batch;      /* rows in a batch */
	uint32_t max_epochs; /* limit in epochs of each node's own rows */
	double step;         /* first step; 0: from the curvature of the data */
	double decay;        /* HK_LEARN_INVERSE: decay in steps; 0: an epoch */
	double momentum;     /* 0 to less than 1 (Polyak, 1964); negative: 0.9 */
	double tolerance;    /* HK_LEARN_PLATEAU: relative fall of the loss that is progress */
	uint32_t epochs_no_change; /* epochs without progress before the step is halved */
	uint32_t halvings;         /* halvings after which training has converged */
	uint32_t gossip_every; /* batches between two messages to a neighbour; 0: never gossip */
	double trim;           /* HK_LEARN_TRIMMED: share dropped at each end, rounded up */
	double norm_limit; /* limit of a neighbour's distance, relative to the usual one; 0: none */
	/* stop when the loss of all is at most this in two successive measurements; NaN: when
	 * converged */
	double target_loss;
	uint32_t settle; /* least rounds of gossip after the end of training */
};

/* Fills @set with defaults. Call it first. */
void hk_learn_defaults(struct hk_learn_settings *set);

/* Checks settings. -EINVAL: a number is out of range. */
int hk_learn_check_settings(const struct hk_learn_settings *set, struct hk_error *err);

/* ---- many nodes in one process
 * --------------------------------------------------------------------
 *
 * A network that loses, delays and duplicates messages by a seed, and nodes with faults that crash
 * and come back by a plan. It serves tests, and programs without a network, such as the Python
 * estimators. Deterministic. */

struct hk_learn_event {
	uint32_t round; /* round of the network */
	uint16_t node;
	uint16_t up; /* 0: it crashes; 1: it starts or restarts */
};

struct hk_learn_local {
	uint16_t nodes;
	uint16_t degree;        /* degree of the random topology */
	int topology;           /* enum hk_rtc_topology except HK_RTC_FILE (hikyaku/rtc.h) */
	uint32_t payload_max;   /* largest message in bytes */
	uint32_t max_rounds;    /* limit; 0: 4 × the rounds of all epochs */
	uint32_t delay;         /* most rounds by which a message is late */
	double drop, duplicate; /* share of messages that are lost, and that are duplicated */
	const uint8_t *fault;   /* [nodes] enum hk_learn_gossip_fault, or NULL */
	double fault_scale;     /* length of parameters with HK_LEARN_FAULT_OUTLIER */
	/* [events] in order of rounds; a node whose first event has up = 1 starts late */
	const struct hk_learn_event *event;
	size_t events;
	uint32_t progress_every; /* rounds between calls of on_progress; 0: no calls */
	uint32_t turn; /* rounds for which one node runs alone, as on one core; 0: all run */
};

struct hk_learn_progress {
	uint32_t round;
	uint16_t living;
	uint64_t rows;  /* rows trained with, by all nodes */
	uint64_t bytes; /* bytes sent by all nodes */
	double loss;    /* mean over live nodes of the objective over all rows */
	/* root mean square distance of live nodes from their mean, relative to it */
	double consensus;
	double push_weight; /* push-sum: weight of all nodes and of messages under way; else 0 */
};

struct hk_learn_result {
	uint32_t rounds;
	int stop; /* enum hk_learn_stop; 0: max_rounds was reached */
	uint64_t rows, bytes, messages, dropped, merged, copied;
	uint64_t refused[9]; /* messages by enum hk_learn_reason (learn/guard.h) */
	uint32_t epochs;     /* most epochs of any node */
};

/* Trains @cfg->nodes nodes until all are done; node i has the rows @shard[i], which are not copied.
 * @w: [nodes] [parameters] receives each node's parameters, NaN for a node that is down.
 * @on_progress returns whether to go on. -ECANCELED: it returned false. */
int hk_learn_local(const struct hk_learn_model *m, const struct hk_learn_settings *set,
		   const struct hk_learn_local *cfg, const struct hk_learn_data *shard, double *w,
		   bool (*on_progress)(void *arg, const struct hk_learn_progress *p), void *arg,
		   struct hk_learn_result *out, struct hk_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

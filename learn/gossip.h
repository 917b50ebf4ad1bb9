/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip.h: a node that trains and gossips, without a network and without a clock.
 *
 * Who drives it calls hk_gossip_round() again and again, and hk_gossip_message() with what came in
 * between; what it has to say it hands to struct hk_gossip_net. learn/node.c drives it over
 * rtc/rtc.h, learn/local.c many of them in one process.
 *
 *   TRAINING  batches, then parameters to a neighbour
 *   WAITING   its own training is over (converged, or no epochs left); merges on, until all are
 *   SETTLING  all stop: `settle` more rounds without training, so that models meet
 *   DONE      its model is what it is
 *
 * A node that comes late, or again, starts like the others, from the same parameters and with age 0. The
 * first neighbour whose age is far above its own is not merged but copied, slice by slice, and what it
 * sends meanwhile the others refuse as stale: it catches up and drags nobody back.
 */
#ifndef HK_LEARN_GOSSIP_H
#define HK_LEARN_GOSSIP_H

#include "learn/agree.h"
#include "learn/guard.h"
#include "learn/merge.h"
#include "learn/train.h"

enum hk_gossip_state {
	HK_GOSSIP_TRAINING,
	HK_GOSSIP_WAITING,
	HK_GOSSIP_SETTLING,
	HK_GOSSIP_DONE,
};

/* Calls of the node to the outside. None may call back. */
struct hk_gossip_net {
	void *arg;
	/* Neighbours that live, in a row that lasts until the next call. */
	unsigned (*neighbours)(void *arg, const uint16_t **list);
	int (*pick)(void *arg); /* one of them at random, or -1 */
	bool (*alive)(void *arg, uint16_t node);
	/* Sends now or drops: nothing is told of it. */
	void (*send)(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len);
};

/* What a node does to its messages on purpose, for tests and demonstrations. */
enum hk_gossip_fault {
	HK_FAULT_NONE,
	HK_FAULT_NAN,     /* its parameters are NaN */
	HK_FAULT_OUTLIER, /* … random, of the length fault_scale */
	HK_FAULTS
};

struct hk_gossip_stats {
	uint64_t rounds, batches, rows;
	uint64_t waited; /* rounds without training, for neighbours that were not heard */
	uint64_t slices_sent, slices_heard, bytes_sent, bytes_heard;
	uint64_t statuses_sent, statuses_heard;
	uint64_t merged, copied; /* slices; of a neighbour far ahead */
	uint64_t refused[HK_LEARN_REASONS];
	uint64_t resets; /* push-sum: a neighbour began anew */
	double loss;     /* on own rows, see measure() in gossip.c; NaN: not yet measured */
	double loss_all; /* of all, as far as known here */
	/* Root mean square over slices of the distance to what neighbours sent last, relative to the length
	 * of our parameters: how much nodes agree. NaN: nothing heard. */
	double consensus;
};

struct hk_gossip_peer; /* gossip_peer.h */

struct hk_gossip {
	struct hk_learn_train train;
	struct hk_agree agree;
	struct hk_gossip_net net;
	const struct hk_learn_model *model;
	const struct hk_learn_settings *set;
	struct hk_learn_data data;
	uint16_t node, nodes;
	uint32_t run, fingerprint;
	enum hk_gossip_state state;
	enum hk_gossip_fault fault;
	double fault_scale;
	struct hk_random random; /* of faults */
	uint64_t round;
	uint32_t settled;   /* rounds since SETTLING */
	uint32_t on_target; /* looks in a row at which the loss of all was low enough */

	size_t parameters, per_slice;
	unsigned slices;
	struct hk_gossip_slice *slice;
	struct hk_gossip_peer **peer; /* [nodes], made at first contact */
	double *work;  /* [parameters]: where they were at the last round, for hk_guard_moved() */
	double *heard; /* [parameters]: what neighbours sent last and was taken */
	double *mix;   /* [parameters]: measure() */
	uint64_t looked, look_every;  /* batches at the last look back, and between two */
	uint64_t heard_at, slices_at; /* batches, and slices heard, when the last one came */
	uint64_t judged_at;           /* slices heard at the last look that was judged */
	double *values, *news;        /* [per_slice] */
	const double **several;       /* [nodes] */
	double *sorted;               /* [nodes + 1] */
	void *frame;                  /* payload_max bytes */
	size_t frame_room;
	struct hk_gossip_stats stats;
};

/* Of each slice of the parameters. */
struct hk_gossip_slice {
	size_t first, count;
	uint64_t age;  /* rows behind it */
	double weight; /* push-sum; 1 at the start */
	bool heard;    /* something was taken */
	struct hk_guard guard;
};

struct hk_gossip_config {
	const struct hk_learn_model *model;
	const struct hk_learn_settings *set;
	struct hk_learn_data data; /* its rows; kept, not copied */
	uint16_t node, nodes;
	uint32_t run; /* of this life of the node: not 0, later than in any life before */
	size_t payload_max;
	struct hk_gossip_net net;
	enum hk_gossip_fault fault;
	double fault_scale;
};

/* -EMSGSIZE: the parameters take more than HK_LEARN_MAX_SLICES frames; -ENOMEM; -EINVAL. */
int hk_gossip_open(const struct hk_gossip_config *cfg, struct hk_gossip **g, struct hk_error *err);
void hk_gossip_close(struct hk_gossip *g); /* NULL is allowed */

/* One round: up to gossip_every batches, then a message to a neighbour. Once an epoch it measures the
 * loss. False: DONE. */
bool hk_gossip_round(struct hk_gossip *g);

/* A message from @src. Returns why it was not taken, or HK_LEARN_TAKEN. */
enum hk_learn_reason hk_gossip_message(struct hk_gossip *g, uint16_t src, uint8_t type,
				       const void *data, size_t len);

/* @node is no neighbour any more: it left, or fell silent. Push-sum's weights then begin anew. */
void hk_gossip_left(struct hk_gossip *g, uint16_t node);

/* Ends training everywhere. */
void hk_gossip_stop(struct hk_gossip *g, enum hk_learn_stop why);

/* Message types that it uses: HK_LEARN_T_STATUS and so many from HK_LEARN_T_SLICE. */
unsigned hk_gossip_slices(size_t parameters, size_t payload_max);

/* The sums of push-sum under way between us and @node, slice @i: what we gave, and what we took.
 * For tests of mass. 0: never met. */
double hk_gossip_given(const struct hk_gossip *g, uint16_t node, unsigned i);
double hk_gossip_taken(const struct hk_gossip *g, uint16_t node, unsigned i);

#endif

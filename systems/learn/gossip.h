/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip.h: a node that trains and gossips, without network and clock.
 *
 * The program that uses it calls hk_learn_gossip_round() in a loop, and hk_learn_gossip_message()
 * for each received message. The node sends through struct hk_learn_gossip_net. learn/node.c runs
 * one node on hikyaku/rtc.h; learn/local.c runs many in one process.
 *
 *   TRAINING  trains batches, then sends its parameters to a neighbour
 *   WAITING   its own training is over (converged, or no epochs left); it merges until all are
 *   SETTLING  all stop: it gossips at least `settle` more rounds without training, so that models
 *             meet, and until each live neighbour has told that it stops too
 *   DONE      its model is final
 *
 * A node that starts late or restarts begins like the others, from the same parameters and with age
 * 0. It copies the first neighbour whose age is far above its own, slice by slice, instead of
 * merging. Meanwhile the others refuse its slices as stale. Its step becomes as short as theirs
 * (learn/agree.h). So it catches up and does not pull the others back.
 */
#ifndef HK_LEARN_GOSSIP_H
#define HK_LEARN_GOSSIP_H

#include "learn/agree.h"
#include "learn/guard.h"
#include "learn/merge.h"
#include "learn/train.h"

enum hk_learn_gossip_state {
	HK_LEARN_GOSSIP_TRAINING,
	HK_LEARN_GOSSIP_WAITING,
	HK_LEARN_GOSSIP_SETTLING,
	HK_LEARN_GOSSIP_DONE,
};

/* The node's calls to the network. They must not call the node. */
struct hk_learn_gossip_net {
	void *arg;
	/* Returns the live neighbours in *@list, which is valid until the next call. */
	unsigned (*neighbours)(void *arg, const uint16_t **list);
	int (*pick)(void *arg); /* a random neighbour, or -1 */
	bool (*alive)(void *arg, uint16_t node);
	/* Sends the message or drops it, without a report. */
	void (*send)(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len);
};

/* Faults that a node adds to its messages on purpose, for tests and demonstrations. */
enum hk_learn_gossip_fault {
	HK_LEARN_FAULT_NONE,
	HK_LEARN_FAULT_NAN,     /* parameters of NaN */
	HK_LEARN_FAULT_OUTLIER, /* random parameters of length fault_scale */
	HK_LEARN_FAULTS
};

struct hk_learn_gossip_stats {
	uint64_t rounds, batches, rows;
	uint64_t waited; /* rounds without training, for lack of received slices */
	uint64_t slices_sent, slices_received, bytes_sent, bytes_received;
	uint64_t statuses_sent, statuses_received;
	uint64_t merged, copied; /* slices merged; slices copied from a neighbour far ahead */
	uint64_t refused[HK_LEARN_REASONS];
	uint64_t resets; /* push-sum: neighbours that restarted */
	double loss;     /* on own rows, by hk_learn_gossip_measure(); NaN: not measured yet */
	double loss_all; /* loss of all, as far as known */
	/* Disagreement: root mean square, over slices, of the distance to the neighbours' last
	 * slices, relative to the length of our parameters. NaN: nothing received. */
	double consensus;
};

struct hk_learn_gossip_peer; /* gossip_peer.h */

struct hk_learn_gossip {
	struct hk_learn_train train;
	struct hk_learn_agree agree;
	struct hk_learn_gossip_net net;
	const struct hk_learn_model *model;
	const struct hk_learn_settings *set;
	struct hk_learn_data data;
	uint16_t node, nodes;
	unsigned neighbours; /* in the topology, if all nodes are there */
	uint32_t run, fingerprint;
	enum hk_learn_gossip_state state;
	enum hk_learn_gossip_fault fault;
	double fault_scale;
	struct hk_learn_random random; /* for faults */
	uint64_t round;
	uint32_t settled;   /* rounds since the state became SETTLING */
	uint32_t on_target; /* successive measurements with a sufficiently low loss of all */

	size_t parameters, per_slice;
	unsigned slices;
	struct hk_learn_gossip_slice *slice;
	struct hk_learn_gossip_peer **peer; /* [nodes], made at first contact */
	double *previous; /* [parameters] at the last round, for hk_learn_guard_moved() */
	/* [parameters] last accepted from neighbours; trimmed: last merged */
	double *received;
	double *mix; /* [parameters] scratch of hk_learn_gossip_measure() */
	/* batches: at the last measurement; between two of them */
	uint64_t measured_at, measure_every;
	/* slices received from neighbours that may be right: with the trimmed mean no others */
	uint64_t contacts;
	/* batches trained, and contacts, when the last one came */
	uint64_t received_at, contacts_seen;
	uint64_t contacts_judged;    /* contacts when progress was last judged */
	double *values, *difference; /* [per_slice] */
	const double **others;       /* [nodes] */
	double *sorted;              /* [nodes + 1] scratch */
	void *frame;                 /* [payload_max bytes] */
	size_t frame_capacity;
	struct hk_learn_gossip_stats stats;
};

/* A part of the parameters that fits a message. */
struct hk_learn_gossip_slice {
	size_t first, count;
	uint64_t age;       /* number of rows that its parameters were trained with */
	double weight;      /* push-sum; 1 at the start */
	uint64_t copied_at; /* round in which it was last copied from a neighbour; 0: never */
	bool received;      /* whether a neighbour's was accepted */
	struct hk_learn_guard guard;
};

struct hk_learn_gossip_config {
	const struct hk_learn_model *model;
	const struct hk_learn_settings *set;
	struct hk_learn_data data; /* the node's rows; not copied */
	uint16_t node, nodes;
	unsigned neighbours; /* in the topology, if all nodes are there; 0: all other nodes */
	uint32_t run;        /* number of this incarnation: not 0, and later than earlier ones */
	size_t payload_max;
	struct hk_learn_gossip_net net;
	enum hk_learn_gossip_fault fault;
	double fault_scale;
};

/* Opens a node. -EMSGSIZE: the parameters need more than HK_LEARN_MAX_SLICES frames; -ENOMEM;
 * -EINVAL. */
int hk_learn_gossip_open(const struct hk_learn_gossip_config *cfg, struct hk_learn_gossip **g,
			 struct hk_error *err);
void hk_learn_gossip_close(struct hk_learn_gossip *g); /* @g may be NULL */

/* One round: trains up to gossip_every batches, then sends to a neighbour. Measures the loss once
 * an epoch. False: DONE. */
bool hk_learn_gossip_round(struct hk_learn_gossip *g);

/* Takes a message from @src. Returns HK_LEARN_TAKEN, or why it was refused. */
enum hk_learn_reason hk_learn_gossip_message(struct hk_learn_gossip *g, uint16_t src, uint8_t type,
					     const void *data, size_t len);

/* @node is no longer a neighbour: it left or was lost. Resets the weights of push-sum. */
void hk_learn_gossip_peer_left(struct hk_learn_gossip *g, uint16_t node);

/* Ends training on all nodes. */
void hk_learn_gossip_stop(struct hk_learn_gossip *g, enum hk_learn_stop why);

/* Returns a live neighbour that has not told that it stops too, or -1. A node in SETTLING waits for
 * it. The program that uses the node limits that time. */
int hk_learn_gossip_unaware(const struct hk_learn_gossip *g);

/* Number of slices. The node uses HK_LEARN_T_STATUS and so many message types from HK_LEARN_T_SLICE
 * on. */
unsigned hk_learn_gossip_slices(size_t parameters, size_t payload_max);

/* The weights of push-sum that were given to @node, and taken from it, for slice @i; 0: no contact.
 * For tests of mass conservation. */
double hk_learn_gossip_given(const struct hk_learn_gossip *g, uint16_t node, unsigned i);
double hk_learn_gossip_taken(const struct hk_learn_gossip *g, uint16_t node, unsigned i);

#endif

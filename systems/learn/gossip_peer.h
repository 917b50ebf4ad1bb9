/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip_peer.h: state that a node keeps for each peer. Internal to learn/gossip*.c.
 */
#ifndef HK_LEARN_GOSSIP_PEER_H
#define HK_LEARN_GOSSIP_PEER_H

#include "learn/gossip.h"

struct hk_learn_gossip_peer {
	uint32_t run;        /* its incarnation; 0: not known */
	bool far;            /* whether its last slice was refused as too far */
	bool active;         /* whether it has sent a valid slice */
	bool stopped;        /* whether it told us that training has ended */
	uint64_t greeted_at; /* round + 1 of the last status sent to it for its wrong run */
	/* one element for each slice: */
	uint64_t *number; /* number of the last message; 0: none */
	uint64_t *jump;   /* number far from `number`, not believed yet; or 0 */
	uint64_t *claim;  /* age in its last message */
	double *distance; /* distance of its last accepted slice from ours */
	double *heard;    /* that of its last slice, accepted or not; NaN: none */
	bool *fresh;      /* trimmed: `latest` is not merged yet */
	bool *came;       /* trimmed: a slice came since the last merge */
	uint64_t *age;    /* trimmed: age of `latest` */
	double *latest;   /* trimmed: [parameters], last slices */
	struct hk_learn_push *given, *taken; /* push-sum: sums given to it, and taken from it */
	double *sums;                        /* memory of the two: [2 × parameters] */
};

/* Returns the state of @node, and makes it if needed. NULL: no memory, or not a node. */
struct hk_learn_gossip_peer *hk_learn_gossip_peer(struct hk_learn_gossip *g, uint16_t node);
void hk_learn_gossip_peer_free(struct hk_learn_gossip_peer *p);

/* Notes the run that @p reports. False: that run has ended. */
bool hk_learn_gossip_peer_run(struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p,
			      uint32_t run);

/* Resets weights after the end of a peer, which took its weight with it. A node that gave most of
 * its weight to ended peers has too little left to count. Only proportions count, so weights
 * below 1 become 1 again. */
void hk_learn_gossip_reset_weights(struct hk_learn_gossip *g);

/* Merges complete sets of slices (trimmed). In gossip_take.c. */
void hk_learn_gossip_merge_trimmed(struct hk_learn_gossip *g);

/* Measures the loss on our own rows, and enters it into the table of losses. */
void hk_learn_gossip_measure(struct hk_learn_gossip *g);

/* Takes over the step on which all nodes agreed. */
void hk_learn_gossip_follow(struct hk_learn_gossip *g);

/* Returns whether a single neighbour can send nothing that counts: the trimmed mean, and more than
 * one neighbour in the topology. */
bool hk_learn_gossip_compares(const struct hk_learn_gossip *g);

void hk_learn_gossip_send_status(struct hk_learn_gossip *g, uint16_t dst, uint8_t flags);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip_peer.h: what a node remembers of another. Internal to learn/gossip*.c.
 */
#ifndef HK_LEARN_GOSSIP_PEER_H
#define HK_LEARN_GOSSIP_PEER_H

#include "learn/gossip.h"

struct hk_gossip_peer {
	uint32_t run;     /* 0: not known */
	bool far;         /* refused for distance at last */
	bool heard;       /* sent slices */
	uint64_t greeted; /* round + 1 in which it was last told our run unasked */
	/* by slice: */
	uint64_t *number;              /* of the latest message, 0: none */
	double *off;                   /* distance of the latest */
	bool *fresh;                   /* trimmed: `latest` waits to be merged */
	uint64_t *age;                 /* trimmed: of `latest` */
	double *latest;                /* trimmed: [parameters] */
	struct hk_push *given, *taken; /* push-sum */
	double *sums;                  /* theirs: [2 × parameters] */
};

/* The record of @node, made if need be; NULL: no memory, or not a node. */
struct hk_gossip_peer *hk_gossip_peer(struct hk_gossip *g, uint16_t node);
void hk_gossip_peer_free(struct hk_gossip_peer *p);

/* @p says that its run is @run. False: it is one that has ended. */
bool hk_gossip_peer_run(struct hk_gossip *g, struct hk_gossip_peer *p, uint32_t run);

/* Somebody died, and weights with it: who has given most of its own away to the dead has too little left
 * to be heard. Only proportions count, so who has less than 1 has 1 again. */
void hk_gossip_weigh_anew(struct hk_gossip *g);

/* gossip_take.c: what waits to be merged. */
void hk_gossip_merge_several(struct hk_gossip *g);

/* Takes over the step that all agreed on. */
void hk_gossip_follow(struct hk_gossip *g);

void hk_gossip_send_status(struct hk_gossip *g, uint16_t dst, uint8_t flags);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/loop.h: nodes of rtc in one process, on a simulated network and clock.
 *
 * The network loses, duplicates and delays messages by a seed, and can be partitioned.
 */
#ifndef HK_RTC_LOOP_H
#define HK_RTC_LOOP_H

#include "rtc/internal.h"
#include "tests/support/hk_test.h"

#define LOOP_NODES   16
#define LOOP_PAYLOAD 256
#define LOOP_FRAME   (HK_MSG_HLEN + LOOP_PAYLOAD + HK_MSG_TRAILER_LEN)

struct loop_packet {
	struct loop_packet *next;
	uint64_t at; /* arrival time in ns */
	uint32_t len;
	uint8_t bytes[LOOP_FRAME];
};

struct loop_net {
	uint64_t now, step; /* step: ns by which each reading advances the clock */
	struct hk_rng rng;
	uint32_t drop, dup, late; /* probabilities in millionths */
	uint64_t delay;           /* delay in ns; late messages take up to 20 times as long */
	bool cut[LOOP_NODES];     /* nodes without any messages */
	bool mute[LOOP_NODES];    /* nodes that cannot send */
	struct loop_packet *to[LOOP_NODES];
	uint64_t sent, lost;
	/* makes what protects a node's messages; NULL: nothing does */
	struct hk_rtc_protect *(*protect)(const struct hk_rtc_config *cfg);
	/* sees each frame that a node sends; NULL: nobody does */
	void (*tap)(uint16_t from, uint16_t to, const uint8_t *bytes, uint32_t len);
};

extern const struct hk_rtc_backend_ops loop_ops;

void loop_init(struct loop_net *net, uint64_t seed);
void loop_done(struct loop_net *net); /* frees undelivered messages */

/* Opens a node; @cfg as for hk_rtc_open(). Fails the test on an error. */
struct hk_rtc *loop_open(struct loop_net *net, const struct hk_rtc_config *cfg, uint16_t epoch);

/* The same, but returns the error. */
int loop_try(struct loop_net *net, const struct hk_rtc_config *cfg, uint16_t epoch,
	     struct hk_rtc **rtc, struct hk_error *err);

/* Closes a node and checks its buffers. @crash: without a leave message. */
void loop_close(struct loop_net *net, struct hk_rtc *rtc, bool crash);

/* Delivers @len bytes to @node, as if the network had brought them. */
void loop_inject(struct loop_net *net, uint16_t node, const void *bytes, size_t len);

/* @rounds times, advances time by @step ns and polls the nodes (NULL: not open). */
void loop_run(struct loop_net *net, struct hk_rtc **node, unsigned n, unsigned rounds,
	      uint64_t step);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/loop.h: nodes of rtc/ in one process, on a network and a clock that tests hold in their
 * hands: seeded loss, doubling, lateness (so reorder), partitions.
 */
#ifndef HK_TEST_LOOP_H
#define HK_TEST_LOOP_H

#include "rtc/internal.h"
#include "tests/unit/hk_test.h"

#define LOOP_NODES   16
#define LOOP_PAYLOAD 256

struct loop_packet {
	struct loop_packet *next;
	uint64_t at; /* when it arrives */
	uint32_t len;
	uint8_t bytes[HK_MSG_HLEN + LOOP_PAYLOAD];
};

struct loop_net {
	uint64_t now, step; /* step: what passes with each look at the clock */
	struct hk_rng rng;
	uint32_t drop, dup, late; /* of a million */
	uint64_t delay;           /* ns; late ones: up to twenty times that */
	bool cut[LOOP_NODES];     /* nothing to or from it */
	bool mute[LOOP_NODES];    /* nothing from it */
	struct loop_packet *to[LOOP_NODES];
	uint64_t sent, lost;
};

extern const struct hk_rtc_backend_ops loop_ops;

void loop_init(struct loop_net *net, uint64_t seed);
void loop_done(struct loop_net *net); /* frees what is still on its way */

/* Opens a node; @cfg as hk_rtc_open() takes it. Fails the test if it cannot be. */
struct hk_rtc *loop_open(struct loop_net *net, const struct hk_rtc_config *cfg, uint16_t epoch);

/* The same, and the error is the test's. */
int loop_try(struct loop_net *net, const struct hk_rtc_config *cfg, uint16_t epoch,
	     struct hk_rtc **rtc, struct hk_error *err);

/* Closes it; all buffers must have come back. @crash: nobody hears the farewell. */
void loop_close(struct loop_net *net, struct hk_rtc *rtc, bool crash);

/* Puts @len bytes before @node, as if the network had brought them. */
void loop_inject(struct loop_net *net, uint16_t node, const void *bytes, size_t len);

/* Moves time on by @step ns, @rounds times, and polls the nodes each time (NULL: none). */
void loop_run(struct loop_net *net, struct hk_rtc **node, unsigned n, unsigned rounds,
	      uint64_t step);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/node_rig.h: up to four nodes of rtc on the network of loop.h, and handlers that
 * record messages.
 */
#ifndef HK_RTC_NODE_RIG_H
#define HK_RTC_NODE_RIG_H

#include "tests/unit/rtc/loop.h"

#define KEY 0x1234u

extern struct loop_net net;
extern struct hk_rtc *node[4]; /* NULL: not open */

/* The default configuration of node @self of @nodes. */
struct hk_rtc_config config(uint16_t self, uint16_t nodes);

/* Opens nodes 0 to @n - 1, on a network with the test's seed. */
void open_all(unsigned n);

/* Lets the nodes become members of each other. */
void meet(unsigned n);

/* Opens two nodes that are members of each other. Node 0 has type @type as @server, and node 1 as
 * @client. */
void open_two(uint8_t type, const struct hk_rtc_type *server, const struct hk_rtc_type *client);

/* Closes the open nodes and their network. */
void close_all(unsigned n);

void add_type(struct hk_rtc *r, uint8_t type, const struct hk_rtc_type *t);
void send_value(struct hk_rtc *r, uint16_t dst, uint8_t type, uint32_t v);
struct hk_rtc_type_stats stats_of(struct hk_rtc *r, uint8_t type);

/* ---- handlers -------------------------------------------------------------------------------- */

struct seen {
	unsigned calls, messages, largest;
	uint32_t values[1024];
	uint32_t numbers[1024];
	uint8_t types[1024];
};

/* A handler that records messages; @arg is a struct seen. */
void note(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n);

/* A handler that answers a value with the next higher one; it also records, if @arg is not NULL. */
void add_one(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n);

#endif

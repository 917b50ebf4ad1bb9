/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/backend_rig.h: several nodes of one backend in one process, without the core.
 *
 * A message has a number. Its payload follows from its number and length, so that the receiver can
 * check that it is complete.
 */
#ifndef HK_RTC_BACKEND_RIG_H
#define HK_RTC_BACKEND_RIG_H

#include "rtc/protect.h"
#include "tests/support/await.h"

#define RIG_NODES 8
#define RIG_KEY   0xfeed5eedu
#define RIG_MS    10000 /* limit for anything that must happen */

struct rig {
	const struct hk_rtc_backend_ops *ops;
	const char *option;
	unsigned nodes;
	struct hk_rtc_config cfg[RIG_NODES];
	char address[RIG_NODES][HK_RTC_ADDRESS_MAX];
	struct hk_rtc_backend *b[RIG_NODES];
};

/* Makes what protects a node's messages, of nodes opened from then on; NULL: nothing does. */
extern struct hk_rtc_protect *(*rig_protect)(const struct hk_rtc_config *cfg);

/* Opens @nodes nodes at addresses[i], sets their peers, and connects them. The last address serves
 * all further nodes. @change, if not NULL, may change each configuration first. */
void rig_up(struct rig *r, const struct hk_rtc_backend_ops *ops, const char *option, unsigned nodes,
	    const char *const *addresses, void (*change)(struct hk_rtc_config *cfg));
void rig_down(struct rig *r);

/* Close one node; open it again at its old address. */
void rig_close(struct rig *r, unsigned node);
void rig_reopen(struct rig *r, unsigned node);

/* Sends a message of @len payload bytes. False: no free buffer. The backend may still drop it. */
bool rig_send(struct rig *r, unsigned from, unsigned to, uint32_t number, unsigned len);

/* Fills @buf with such a message. */
void rig_fill(struct hk_rtc_buf *buf, unsigned from, unsigned to, uint32_t number, unsigned len);

/* Fails unless @buf, received at @node, is a correct message. Returns its number, and sets source
 * and payload length. */
uint32_t rig_check(unsigned node, const struct hk_rtc_buf *buf, unsigned *from, unsigned *len);

/* Receives once at @node, checks and frees the messages. @number, if not NULL, receives the
 * numbers. */
unsigned rig_rx(struct rig *r, unsigned node, uint32_t *number);

/* Sends and receives between all nodes of @mask until each has received from each. */
void rig_meet(struct rig *r, unsigned mask);

/* Fails unless all buffers of @node are free, except at most @kept that it keeps for reception. */
void rig_all_free(struct rig *r, unsigned node, unsigned kept);

#endif

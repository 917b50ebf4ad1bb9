/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/backend_rig.h: some nodes of one backend in one process, without the core.
 *
 * A message is numbered; its payload follows from its number and length, so that whoever receives it
 * can tell whether it came whole.
 */
#ifndef HK_BACKEND_RIG_H
#define HK_BACKEND_RIG_H

#include "rtc/backend.h"
#include "tests/unit/hk_test.h"

#define RIG_NODES 8
#define RIG_KEY   0xfeed5eedu
#define RIG_MS    10000 /* for anything that must happen */

struct rig {
	const struct hk_rtc_backend_ops *ops;
	const char *option;
	unsigned nodes;
	struct hk_rtc_config cfg[RIG_NODES];
	char address[RIG_NODES][HK_RTC_ADDRESS_MAX];
	struct hk_rtc_backend *b[RIG_NODES];
};

int64_t rig_ms(void);

/* Opens @nodes nodes at addresses[i] (of which the last goes for all further ones), tells them of each
 * other, and connects them. @change, if any, may change each configuration first. */
void rig_up(struct rig *r, const struct hk_rtc_backend_ops *ops, const char *option, unsigned nodes,
	    const char *const *addresses, void (*change)(struct hk_rtc_config *cfg));
void rig_down(struct rig *r);

/* One node closed, or opened again at its old address, told of the others. */
void rig_close(struct rig *r, unsigned node);
void rig_reopen(struct rig *r, unsigned node);

/* Sends a message of @len payload bytes; false: no buffer for it. Whether it leaves is another matter. */
bool rig_send(struct rig *r, unsigned from, unsigned to, uint32_t number, unsigned len);

/* Fills @buf with such a message. */
void rig_fill(struct hk_rtc_buf *buf, unsigned from, unsigned to, uint32_t number, unsigned len);

/* Fails unless @buf, received at @node, is one; gives its number, source, and length of payload. */
uint32_t rig_check(unsigned node, const struct hk_rtc_buf *buf, unsigned *from, unsigned *len);

/* Receives once at @node, checks each and frees them; numbers go to @number, if not NULL. */
unsigned rig_rx(struct rig *r, unsigned node, uint32_t *number);

/* Sends and receives both ways between all of @mask until each has heard from each. */
void rig_meet(struct rig *r, unsigned mask);

/* Fails if not all buffers of @node are there but those that it keeps ready itself, at most @kept. */
void rig_all_free(struct rig *r, unsigned node, unsigned kept);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/frames.h: frames in the simulated network.
 *
 * A frame stores its headers only: payloads are zeros. Frames come from one pool and are named by
 * their index, because the pool may move when it grows.
 */
#ifndef HK_SIM_FRAMES_H
#define HK_SIM_FRAMES_H

#include "base/common.h"
#include "wire/wire.h"

/* Bytes of the longest headers: an acknowledgement's or a put's. */
#define FRAME_HEAD (HK_ETH_HLEN + HK_WIRE_HLEN + HK_WIRE_GRANT_LEN + HK_WIRE_SACK_LEN)
_Static_assert(FRAME_HEAD >= HK_WIRE_PUT_OVERHEAD, "every header fits");

#define FRAME_NONE UINT32_MAX

struct frame {
	uint32_t next; /* in a queue, or in the list of free frames */
	uint32_t from, to;
	uint32_t msg;     /* DATA, PUT: its message */
	uint32_t last;    /* in a reorder queue: the message's last packet */
	uint32_t frag;    /* in a reorder queue: the next buffer of the message */
	uint32_t flow;    /* what network switches hash to choose among equal paths */
	uint16_t len;     /* bytes without frame check sequence */
	uint16_t payload; /* PUT: bytes of it */
	uint8_t path;     /* port of the sender, and of the receiver */
	uint8_t class;    /* 802.1p: 0 is served last */
	bool bulk;        /* a piece of a put */
	bool marked;      /* a network switch saw congestion (ECN) */
	uint8_t bytes[FRAME_HEAD];
};

struct frames {
	struct frame *frame;
	uint32_t count, cap;
	uint32_t free;
	uint32_t in_use;
};

void frames_init(struct frames *p);
void frames_free(struct frames *p);

/* A new frame, without contents. Pointers to other frames may become invalid. */
uint32_t frame_new(struct frames *p);
void frame_free(struct frames *p, uint32_t f);

#endif

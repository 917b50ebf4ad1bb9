/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/mcast.h: multicast: one frame for a group of receivers, which the network copies
 * (wire/tag.h, docs/tag.md).
 *
 * Unreliable: frames may be lost, doubled or reordered, without a report. Sender and receivers
 * agree by other means on what is sent. They ask what arrived, and repair it
 * (plugins/openmpi/coll).
 *
 * A *multicast transfer* is a number of pieces, sent on a *channel*. A receiver listens for one
 * transfer of one sender. All other pieces are dropped.
 *
 * Threads: as hikyaku/worker.h, except the handler. The progress thread calls it as well, while the
 * application's thread is outside the worker. The handler must not call the worker, or anything
 * that is not safe beside the application.
 */
#ifndef HIKYAKU_MCAST_H
#define HIKYAKU_MCAST_H

#include "hikyaku/worker.h"

#pragma GCC visibility push(default)

struct hk_mcast;
struct hk_seal_group;

/* Piece @piece of the transfer has arrived, maybe not for the first time. @bytes lies in a receive
 * buffer and is valid until the return. The handler checks @piece and @len. */
typedef void (*hk_mcast_fn)(struct hk_mcast *m, uint32_t piece, const void *bytes, size_t len);

/* A listener. The caller provides the memory, and does not move it from open to close. */
struct hk_mcast {
	uint32_t channel;  /* channel of the transfer */
	uint32_t number;   /* number of the transfer, not 0 */
	uint32_t endpoint; /* endpoint of its sender */
	uint32_t epoch;    /* epoch of its sender */
	/* HK_KEY_LEN bytes that the members of the channel have told each other in messages. Needed
	 * with a protection that has keys, and unused else. */
	const uint8_t *key;
	hk_mcast_fn fn;
	struct hk_mcast *next;       /* the worker's */
	struct hk_seal_group *group; /* the worker's */
};

void hk_worker_mcast_open(struct hk_worker *w, struct hk_mcast *m);

/* When it returns, no handler runs for @m and none will. */
void hk_worker_mcast_close(struct hk_worker *w, struct hk_mcast *m);

/* The destination of pieces. */
struct hk_mcast_to {
	uint64_t tag; /* tag of the group: the destination address */
	uint32_t channel, number;
	const uint8_t *key; /* as a listener's */
};

/* Sends @len bytes by the first port, as pieces @first, @first + 1 and so on. Each piece has @each
 * bytes, at most hk_worker_frame_payload(); the last may be shorter. The bytes are copied. Returns
 * how many pieces were sent. If that is fewer, the port has no space: call hk_worker_progress(),
 * then send the rest. */
uint32_t hk_worker_mcast(struct hk_worker *w, const struct hk_mcast_to *to, uint32_t first,
			 const void *bytes, size_t len, size_t each);

/* Broadcasts a frame with the port's own source address, so that network switches learn where the
 * port is. Every receiver drops it. */
void hk_worker_announce(struct hk_worker *w);

#pragma GCC visibility pop

#endif

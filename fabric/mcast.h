/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/mcast.h: one frame for a group of receivers, which the network copies (wire/tag.h, docs/tag.md).
 *
 * Unreliable: frames may be lost, doubled, or come out of order, and nobody is told. Whoever sends them agrees with
 * the receivers by other means on what is sent, asks what arrived, and repairs it (mpi/coll).
 *
 * A *transfer* is so many pieces, sent on a *channel*. A receiver gets the pieces of a transfer that it listens for,
 * of the sender that it names; all else is dropped.
 *
 * Threads: as in fabric.h, but for the handler: the helper thread calls it as well, while the application's thread is
 * outside the fabric. It must not call the fabric or anything that is not safe beside the application.
 */
#ifndef HK_MCAST_H
#define HK_MCAST_H

#include "fabric/fabric.h"

struct hk_mcast;

/* Piece @piece of the transfer has come, maybe not for the first time. @bytes lies in a receive buffer and is valid
 * until the return. Whether @piece and @len can be, the handler checks. */
typedef void (*hk_mcast_fn)(struct hk_mcast *m, uint32_t piece, const void *bytes, size_t len);

/* Who listens. The caller's, in whose own struct it may lie; kept in place from open to close. */
struct hk_mcast {
	uint32_t channel, number; /* of the transfer; the number is not 0 */
	uint32_t endpoint, epoch; /* of its sender */
	hk_mcast_fn fn;
	struct hk_mcast *next; /* the fabric's */
};

void hk_fabric_mcast_open(struct hk_fabric *f, struct hk_mcast *m);
/* When it returns, no handler runs for @m and none will. */
void hk_fabric_mcast_close(struct hk_fabric *f, struct hk_mcast *m);

/* Where pieces go. */
struct hk_mcast_to {
	uint64_t tag; /* of the group: the destination address */
	uint32_t channel, number;
};

/* Sends @len bytes as pieces @first, @first + 1, … of @each bytes (hk_fabric_frame_payload() at the most); the last one
 * may be shorter. They are copied. Returns how many pieces were sent: fewer when the port has no room, then
 * progress and go on with the rest. By the fabric's first port. */
uint32_t hk_fabric_mcast(struct hk_fabric *f, const struct hk_mcast_to *to, uint32_t first,
			 const void *bytes, size_t len, size_t each);

/* Sends a frame that nobody takes to all, under the port's own address, so that switches learn where it is. */
void hk_fabric_announce(struct hk_fabric *f);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/rma.h: one-sided writes and reads (remote memory access) of an endpoint's memory.
 *
 * Whoever owns memory makes it a *region* and tells others its id, by a message of its own. They then
 * put into it or get from it, and the owner's application takes no part: the bytes are placed by
 * whoever polls (its progress, or its helper thread).
 *
 *   owner:  r = hk_fabric_region_add(f, base, len, HK_REGION_WRITE, peer);   … tells the peer r
 *   peer:   hk_fabric_put(f, owner, &op, src, len, r, offset, done, arg);
 *   owner:  hk_fabric_region_arrived(f, r) counts the bytes that came
 *
 * Nothing on the wire is an address: an id names a slot and its generation, and every access is
 * checked against the region's length, its access rights and the peer it was given to. What fails
 * a check is dropped and counted (put), or refused (get).
 *
 * Order. Puts and messages to one peer arrive in the order they were issued: a message that is sent
 * after a put tells that its bytes are there. Bytes of a put come in any order.
 *
 * Copies. On ports that copy at transmit (memif, af_packet) a put sends from the source itself;
 * otherwise through a transmit buffer. At the other end the bytes go from the receive buffer to their
 * place. A polling process (hk_fabric_serve()) sends nothing from a source, not even again: that waits
 * for the application.
 *
 * Memory. The struct hk_op of an operation and its source or destination are the fabric's from the
 * call to `done`. `done` runs in hk_fabric_progress(), on the application's thread, and may issue
 * operations; status 0 means: a put's bytes lie at the target (they were acknowledged), a get's
 * here. -ENOTCONN: the peer is lost. -EACCES: a get was refused, the region is gone or too small. A region's memory
 * stays its owner's, and must be there until hk_fabric_region_del().
 * Threads: as fabric.h.
 */
#ifndef HK_FABRIC_RMA_H
#define HK_FABRIC_RMA_H

#include "fabric/fabric.h"
#include "fabric/layout.h"

typedef uint32_t hk_region; /* never 0 */

#define HK_REGION_NONE  0
#define HK_REGIONS_MAX  65472u /* that hk_fabric_config.regions can say */
#define HK_REGION_WRITE 1u     /* peers may put */
#define HK_REGION_READ  2u     /* peers may get */

typedef void (*hk_done_fn)(void *arg, int status);

/* A link of the fabric's lists. */
struct hk_item {
	struct hk_item *next;
};

/* One operation under way. Made by the caller, unread by it. */
struct hk_op {
	struct hk_item item; /* in the peer's backlog, the gets that wait, or those done */
	hk_peer peer;
	hk_region remote, local; /* local: of a get, or the one that a peer gets from */
	int status;
	uint32_t flying; /* frames sent and not acknowledged */
	uint32_t lent;   /* … of these, that point into the source */
	uint32_t number; /* of a put to an inbox (notify.h), marked; 0: it is none */
	bool queued;     /* waits for room */
	bool begun;      /* a frame has left: of a put without bytes there is one */
	bool asked;      /* a get: the owner has been asked, and not said that it is busy */
	bool serves;     /* the peer's get: nobody to tell */
	char *base;      /* source, or destination … */
	const struct hk_layout *from; /* … or a source in several pieces */
	uint64_t len, sent, offset;
	hk_done_fn done;
	void *arg;
};

/* Makes @len bytes at @base a region for @peer (HK_PEER_NONE: for all). HK_REGION_NONE if the table is
 * full (hk_fabric_config.regions) or @access is 0. */
hk_region hk_fabric_region_add(struct hk_fabric *f, void *base, size_t len, unsigned access,
			       hk_peer peer);

/* Ends it. From here on nothing of it is read or written; gets of it that are under way are refused. Nothing happens if
 * there is no such region. */
void hk_fabric_region_del(struct hk_fabric *f, hk_region r);

/* Bytes that puts have brought to it so far, each counted once. 0 if there is no such region. */
uint64_t hk_fabric_region_arrived(const struct hk_fabric *f, hk_region r);

/* Writes @len (not 0) bytes from @src to @offset of @peer's region @remote. Returns 0, or -ENOTCONN if the
 * peer is dead or gone (@done is not called then). */
int hk_fabric_put(struct hk_fabric *f, hk_peer peer, struct hk_op *op, const void *src, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done, void *arg);

/* Reads @len (not 0) bytes at @offset of @peer's region @remote to @dst. Returns 0 or -ENOTCONN. As many as the caller
 * likes: few of each peer are under way at once, and the others wait their turn. */
int hk_fabric_get(struct hk_fabric *f, hk_peer peer, struct hk_op *op, void *dst, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done, void *arg);

#endif

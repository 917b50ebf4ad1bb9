/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/rma.h: one-sided writes and reads (remote memory access) of an endpoint's memory.
 *
 * An owner makes memory a *region* and tells others its id, by a message of its own. They put into
 * it or get from it, and the owner's application takes no part. The owner's worker places the
 * bytes when it polls: in progress, in its progress thread, or in its RMA proxy.
 *
 *   owner:  r = hk_worker_region_add(w, base, len, HK_REGION_WRITE, peer);    and tells the peer r
 *   peer:   hk_worker_put(w, owner, &op, src, len, r, offset, done, arg);
 *   owner:  hk_worker_region_arrived(w, r) counts the bytes that have arrived
 *
 * Checks. Nothing on the wire is an address: an id names a slot and its generation. Every access is
 * checked against the region's length, its access rights and its peer. A frame of a put that fails
 * a check is dropped and counted. So a put that begins in a region and ends beyond it writes a
 * part. A get that fails a check is refused.
 *
 * Order. Puts and messages to one peer arrive in the order of their calls. So a message that is
 * sent after a put tells that its bytes have arrived. Bytes of one put arrive in any order.
 *
 * Copies. On ports that copy at transmit (memif, af_packet) a put sends from the source itself;
 * otherwise through a frame buffer. The receiver copies the bytes from the receive buffer to their
 * place. hikyakud's poller never sends from a source, not even again: that waits for the
 * application.
 *
 * Memory. The struct hk_op of an operation and its source or destination belong to the worker from
 * the call to `done`. A region's memory stays its owner's, and must last until
 * hk_worker_region_del().
 *
 * Completion. `done` runs in hk_worker_progress(), on the application's thread, and may issue
 * operations. Its status is one of these:
 *
 *   0          the bytes of a put are acknowledged; those of a get are here
 *   -ENOTCONN  the connection to the peer has ended
 *   -EACCES    a get was refused: the region is gone, too short, or not for us
 *
 * Threads: as hikyaku/worker.h.
 */
#ifndef HIKYAKU_RMA_H
#define HIKYAKU_RMA_H

#include "hikyaku/layout.h"
#include "hikyaku/worker.h"

#pragma GCC visibility push(default)

typedef uint32_t hk_region; /* never 0 */

#define HK_REGION_NONE  0
#define HK_REGIONS_MAX  65472u /* hk_worker_config.regions, at most */
#define HK_REGION_WRITE 1u     /* peers may put */
#define HK_REGION_READ  2u     /* peers may get */

typedef void (*hk_done_fn)(void *arg, int status);

/* A link of the worker's lists. */
struct hk_item {
	struct hk_item *next;
};

/* One operation. The caller provides the memory; the fields are the worker's. */
struct hk_op {
	struct hk_item item; /* link in a send queue, among waiting gets, or among completions */
	hk_peer peer;
	hk_region remote;
	hk_region local; /* destination of our get, or source of a peer's */
	int status;
	uint32_t in_flight;           /* frames */
	uint32_t zero_copy;           /* frames in flight that point to the source */
	uint32_t number;              /* of a put with notify, marked; 0: a plain put */
	bool queued;                  /* in the peer's send queue */
	bool begun;                   /* a frame has left; a put without bytes has one, too */
	bool asked;                   /* a get: requested from its owner, which has not said busy */
	bool is_get_reply;            /* a put that serves a peer's get: its end is not reported */
	char *base;                   /* source or destination */
	const struct hk_layout *from; /* source in several pieces, or NULL */
	uint64_t len, sent, offset;   /* bytes */
	hk_done_fn done;
	void *arg;
};

/* Makes @len bytes at @base a region for @peer, or for all with HK_PEER_NONE. Returns
 * HK_REGION_NONE if the table is full (hk_worker_config.regions) or @access is 0. */
hk_region hk_worker_region_add(struct hk_worker *w, void *base, size_t len, unsigned access,
			       hk_peer peer);

/* Ends it. From here on nothing of it is read or written, and gets in progress are refused. Does
 * nothing if there is no such region. */
void hk_worker_region_del(struct hk_worker *w, hk_region r);

/* Bytes of puts that have arrived so far, each counted once. 0 if there is no such region. */
uint64_t hk_worker_region_arrived(const struct hk_worker *w, hk_region r);

/* Writes @len bytes from @src to @offset of @peer's region @remote. Returns 0, or without a call of
 * @done -ENOTCONN if the peer is not connected, and -EINVAL if @len is 0. */
int hk_worker_put(struct hk_worker *w, hk_peer peer, struct hk_op *op, const void *src, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done, void *arg);

/* Reads @len bytes at @offset of @peer's region @remote to @dst. Returns as hk_worker_put(). Of
 * each peer's gets few are in flight at once; the others wait, and their number has no limit. */
int hk_worker_get(struct hk_worker *w, hk_peer peer, struct hk_op *op, void *dst, size_t len,
		  hk_region remote, uint64_t offset, hk_done_fn done, void *arg);

#pragma GCC visibility pop

#endif

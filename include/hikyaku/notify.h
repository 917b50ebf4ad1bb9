/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/notify.h: put with notify: repeated writes to memory whose owner learns from a counter
 * when one is complete. The owner never looks at the data to find out.
 *
 * The owner makes a *notify target* for one peer and a length, and tells the peer its region
 * (hikyaku/rma.h). The peer's put number 1 brings that many bytes, put number 2 the next, and so
 * on. Each frame names the number of its put. The worker copies the bytes from the receive buffer
 * to their place:
 *
 *   owner:  r = hk_worker_notify_add(w, &t, peer, to, staging, depth)    and tells the peer r
 *           hk_worker_notify_open(w, &t)       the memory of @to may be written from here on
 *           hk_worker_progress(w) until hk_notify_complete(&t)
 *           hk_worker_notify_take(w, &t)       the memory belongs to the application again
 *   peer:   hk_worker_put_notify(w, owner, &op, &from, r, number, done, arg)
 *
 * Staging. Bytes that arrive before the owner has opened the target go to the *staging buffer*, and
 * move when it opens. The staging buffer holds @depth puts (2, 4 or 8). So a peer that is depth - 1
 * puts ahead overwrites nothing.
 *
 * Flow control is the callers'. The peer may send put n + depth when the owner has taken put n. A
 * frame of any other number is refused and counted, never placed. With depth 2, two workers that
 * put to each other can keep to that. Each of them waits for the other's put n + 1 before it
 * sends its own n + 2. The other sends n + 1 after it has taken n.
 *
 * Loss. Frames of a put arrive in any order, and again after a loss. Each byte is counted once,
 * because the engine delivers each packet once. A put is complete when as many bytes have arrived
 * as the target has. So its counter never runs ahead of a frame that is being resent. Puts n and
 * n + 1 may become complete in the wrong order; the owner takes them in the right one.
 *
 * Memory. Target, blocks of the layout and staging buffer belong to the caller. They must last from
 * hk_worker_notify_add() to hk_worker_notify_del(). Threads: as hikyaku/worker.h.
 */
#ifndef HIKYAKU_NOTIFY_H
#define HIKYAKU_NOTIFY_H

#include "hikyaku/layout.h"
#include "hikyaku/rma.h"

#include <stdatomic.h>

#pragma GCC visibility push(default)

#define HK_NOTIFY_PIECES 32 /* staged stretches that a slot notes */
#define HK_NOTIFY_DEPTH  8  /* puts in the staging buffer, at most */

/* One of the next puts. */
struct hk_notify_slot {
	uint64_t arrived;          /* bytes */
	_Atomic uint32_t complete; /* 1: all bytes have arrived */
	bool open;                 /* bytes go to their place, not to the staging buffer */
	bool scattered; /* more than HK_NOTIFY_PIECES stretches: all stay staged until complete */
	uint32_t count; /* of `piece` */
	struct {
		uint64_t at, len;
	} piece[HK_NOTIFY_PIECES]; /* stretches of bytes in the staging buffer */
};

/* The caller provides the memory; the fields are the worker's. */
struct hk_notify_target {
	struct hk_layout to;
	char *staging;  /* depth * to.len bytes */
	uint32_t taken; /* number of the last put that was taken */
	uint32_t mask;  /* depth - 1 */
	hk_region region;
	struct hk_notify_slot slot[HK_NOTIFY_DEPTH]; /* by number % depth */
};

/* Makes @t a target for puts of @peer. Each put has to->len bytes; with 0 it is a number alone.
 * @depth is 2, 4 or 8, and @staging has depth * to->len bytes. @to is copied, its blocks are not.
 * Returns HK_REGION_NONE if the table of regions is full. */
hk_region hk_worker_notify_add(struct hk_worker *w, struct hk_notify_target *t, hk_peer peer,
			       const struct hk_layout *to, void *staging, unsigned depth);

/* Ends it. From here on nothing of it is written. */
void hk_worker_notify_del(struct hk_worker *w, struct hk_notify_target *t);

/* Allows the worker to write the next put to its place, until the put is taken. */
void hk_worker_notify_open(struct hk_worker *w, struct hk_notify_target *t);

/* Is the next put complete? */
static inline bool hk_notify_complete(const struct hk_notify_target *t)
{
	return atomic_load_explicit(&t->slot[(t->taken + 1) & t->mask].complete,
				    memory_order_acquire);
}

/* Takes the next put, which must be complete. Its bytes lie in their place then. */
void hk_worker_notify_take(struct hk_worker *w, struct hk_notify_target *t);

/* Sends the bytes of @from as put @number of the target @remote. @from is as long as the target;
 * numbers start with 1 and wrap at 2^31. @op and what @from points to belong to the worker until
 * @done, but the bytes are free as soon as hk_op_source_free() returns true. Returns 0, or
 * -ENOTCONN if the peer is not connected; then @done is not called. */
int hk_worker_put_notify(struct hk_worker *w, hk_peer peer, struct hk_op *op,
			 const struct hk_layout *from, hk_region remote, uint32_t number,
			 hk_done_fn done, void *arg);

/* May the source of a put be changed? True once all bytes are copied or acknowledged. */
static inline bool hk_op_source_free(const struct hk_op *op)
{
	return !op->queued && op->zero_copy == 0;
}

#pragma GCC visibility pop

#endif

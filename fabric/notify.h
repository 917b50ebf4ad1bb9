/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/notify.h: put and notify: writes that come again and again, to memory whose owner learns by a
 * counter that one is whole. It never looks at the data to find out.
 *
 * The owner makes an *inbox* for one peer and a length, and tells the peer its region (rma.h). The peer's
 * put number 1 brings that many bytes, put number 2 the next, and so on; a frame says of which put it is.
 * Bytes are placed by whoever polls, straight from the receive buffer:
 *
 *   owner:  r = hk_fabric_inbox_add(f, &in, peer, to, early)            … tells the peer r
 *           hk_fabric_inbox_open(f, &in)      the memory of @to may be written: bytes go there
 *           hk_fabric_progress(f) until hk_inbox_whole(&in)
 *           hk_fabric_inbox_take(f, &in)      the memory is the application's again
 *   peer:   hk_fabric_put_notify(f, owner, &op, &from, r, number, done, arg)
 *
 * What comes before the owner has opened the inbox goes to the *early* memory, and is moved when it opens.
 * There are 2, 4 or 8 places of it, so a peer that is so many puts less one ahead overwrites nothing.
 *
 * Flow control is the callers': with p places put n + p may be sent when the owner has taken n. (With two, where each of two puts to
 * the other, and waits for the other's put n + 1 before it sends its own n + 2, that is so: the other sends
 * n + 1 after it has taken n.) A frame of any other number is refused and counted, never placed.
 *
 * Loss. Frames of a put come in any order, and again after a loss; each of its bytes is counted once, since the
 * engine delivers each packet once. A put is whole when its bytes are as many as its inbox has,
 * so its counter never runs ahead of a frame that is being resent, and puts n and n + 1 may become whole
 * in the wrong order: they are taken in the right one.
 *
 * Memory. Inbox, layout and early memory are the caller's, from add to del. Threads: as fabric.h.
 */
#ifndef HK_FABRIC_NOTIFY_H
#define HK_FABRIC_NOTIFY_H

#include "fabric/layout.h"
#include "fabric/rma.h"

#include <stdatomic.h>

#define HK_INBOX_PIECES 32 /* stretches that came early; more are moved when all have come */
#define HK_INBOX_PLACES 8  /* at most */

struct hk_inbox_slot { /* one of the next puts */
	uint64_t arrived;
	_Atomic uint32_t whole;
	bool open;    /* bytes go to their place */
	bool jumbled; /* more stretches than pieces: all of it stays early until it is whole */
	uint32_t count;
	struct {
		uint64_t at, len;
	} piece[HK_INBOX_PIECES]; /* what lies in the early memory */
};

/* Made by the caller; to it, all of it is unread. */
struct hk_inbox {
	struct hk_layout to;
	char *early;    /* places * to.len bytes */
	uint32_t taken; /* puts taken: the number of the last */
	uint32_t mask;  /* places - 1 */
	hk_region region;
	struct hk_inbox_slot slot[HK_INBOX_PLACES]; /* by number % places */
};

/* Makes @in an inbox for puts of @peer, of to->len bytes each (0 is a number alone), with 2, 4 or 8 @places; @early has as many
 * times these bytes. @to is copied, its pieces are not. HK_REGION_NONE if the table of regions is full. */
hk_region hk_fabric_inbox_add(struct hk_fabric *f, struct hk_inbox *in, hk_peer peer,
			      const struct hk_layout *to, void *early, unsigned places);

/* Ends it. From here on nothing of it is written. */
void hk_fabric_inbox_del(struct hk_fabric *f, struct hk_inbox *in);

/* The place of the next put may be written from here on, until it is taken. */
void hk_fabric_inbox_open(struct hk_fabric *f, struct hk_inbox *in);

/* Has all of the next put come? */
static inline bool hk_inbox_whole(const struct hk_inbox *in)
{
	return atomic_load_explicit(&in->slot[(in->taken + 1) & in->mask].whole,
				    memory_order_acquire);
}

/* Takes the next put, which is whole and open: its bytes lie in their place. */
void hk_fabric_inbox_take(struct hk_fabric *f, struct hk_inbox *in);

/* Puts the bytes of @from (whose length is that of the inbox) as put @number (from 1 on, modulo 2^31) of the inbox
 * @remote. @op and what @from
 * points to are the fabric's until @done, but the bytes are free as soon as hk_op_source_free(). Returns 0, or
 * -ENOTCONN if the peer is dead or gone (@done is not called then). */
int hk_fabric_put_notify(struct hk_fabric *f, hk_peer peer, struct hk_op *op,
			 const struct hk_layout *from, hk_region remote, uint32_t number,
			 hk_done_fn done, void *arg);

/* May the source of a put be changed? It may once all bytes are copied or acknowledged. */
static inline bool hk_op_source_free(const struct hk_op *op)
{
	return !op->queued && op->lent == 0;
}

#endif

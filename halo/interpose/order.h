/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/order.h: which messages to a rank were sent before which, for a receiver that takes from any tag where
 * puts have overtaken others.
 *
 * The sender keeps a *log*: all messages to the rank are numbered, and of the last ones it is known which tag each
 * had. A put remembers its number alone. When its channel ends, the receiver is told the numbers of the puts that it may
 * not have taken; and, once for all channels that end then, how many messages each tag had by then, and the log since the first
 * of the puts: a *past*, from which it finds how many each tag had before a put. Pure: no MPI.
 */
#ifndef HK_HALO_ORDER_H
#define HK_HALO_ORDER_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_PAIR_TAGS   4096 /* tags from one rank to another, if any is to go by puts */
#define HK_LOG_MOST    (16 * HK_PAIR_TAGS) /* messages of a log; a power of two */
#define HK_ORDERS_MOST 128                 /* puts of a channel that were not taken */

struct hk_log {
	uint16_t *slot; /* of message k, [k & mask]; NULL: there is one tag alone */
	uint32_t mask;
	uint64_t sent; /* messages */
	uint64_t from; /* the first that is in it, if its place was not used again */
	uint64_t
		turn; /* when puts that the log soon forgets have to be looked for: each quarter of it */
};

struct hk_order {       /* a put */
	uint64_t index; /* in its channel */
	uint64_t at;    /* messages of all tags before it */
};

void hk_log_init(struct hk_log *l);
/* There are @tags now. False: no memory. */
bool hk_log_fit(struct hk_log *l, int tags);
void hk_log_free(struct hk_log *l);

static inline void hk_log_note(struct hk_log *l, int slot)
{
	if (l->slot)
		l->slot[l->sent & l->mask] = (uint16_t)slot;
	l->sent++;
}

/* It is time to look (log.sent >= log.turn): puts before the result must not be asked for any more after as many messages
 * as this one and the next turn are apart; at the next turn those before *@soon. (With tags used alike, eight of each were sent
 * since.) */
uint64_t hk_log_turn(struct hk_log *l, uint64_t *soon);

/* ---- a past: one piece of memory, as it is sent */

struct hk_past_tag {
	int32_t tag, unused;
	uint64_t sent; /* messages of this tag, until the past was made */
};

struct hk_past {
	uint32_t tags, logged;
	uint32_t holders, counted; /* of the receiver's copy */
	uint64_t now;              /* messages of all tags; the log has the last @logged of them */
	char rest[];               /* tags, slots */
};

#define HK_PAST_MOST                                                                               \
	(sizeof(struct hk_past) + HK_PAIR_TAGS * sizeof(struct hk_past_tag) +                      \
	 HK_LOG_MOST * sizeof(uint16_t))

size_t hk_past_bytes(uint32_t tags, uint32_t logged);

/* Writes the log since message @first; the caller fills in the tags. @p has room for HK_PAST_MOST. Returns its bytes; 0: the log
 * does not reach back to that message. */
size_t hk_past_make(struct hk_past *p, const struct hk_log *l, uint64_t first, uint32_t tags);

/* Is it one, of @bytes? */
bool hk_past_valid(const struct hk_past *p, size_t bytes);

struct hk_past_tag *hk_past_tags(struct hk_past *p);

/* How many messages of each tag were sent before message @at, which is not older than the log: @before[tag's place]. */
void hk_past_before(const struct hk_past *p, uint64_t at, uint64_t *before);

#endif

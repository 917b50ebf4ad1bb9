/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * * halo/promote/send_log.h: the order in which messages to a rank were sent. A receiver that
 * receives any tag needs it if puts have overtaken messages of other tags.
 *
 * DESIGN NOTES
 *
 * The sender numbers all messages to the rank, over all tags: the number is a message's *position*.
 * It keeps a *log* of the tags of the last messages. A put remembers only its position. When its
 * channel ends, the sender tells the receiver the positions of the puts that may not be taken. It
 * also sends a *send order*, once for all channels that end at that time. It has the number of
 * messages of each tag so far, and the log since the first of these puts. From that the receiver
 * finds the number of messages of each tag before a put. Pure: no MPI.
 */
#ifndef HK_HALO_SEND_LOG_H
#define HK_HALO_SEND_LOG_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_PAIR_TAGS    4096 /* tags from one rank to another, if any is to go by puts */
#define HK_SEND_LOG_MAX (16 * HK_PAIR_TAGS) /* messages of a log; a power of two */
#define HK_UNTAKEN_MAX  128                 /* puts of a channel that may not be taken */

struct hk_send_log {
	uint16_t *tag_index; /* [k & mask]: the tag of message k; NULL: there is only one tag */
	uint32_t mask;
	uint64_t sent;     /* messages sent */
	uint64_t first;    /* the first message in the log, unless it was overwritten */
	uint64_t check_at; /* hk_send_log_check() is due when `sent` reaches this */
};

/* The place of a put in the order of sending. */
struct hk_put_position {
	uint64_t index;    /* number of the message in its channel */
	uint64_t position; /* number of messages of all tags before it */
};

void hk_send_log_init(struct hk_send_log *l);
/* Extends the log to @tags tags. False: out of memory. */
bool hk_send_log_resize(struct hk_send_log *l, int tags);
void hk_send_log_free(struct hk_send_log *l);

static inline void hk_send_log_append(struct hk_send_log *l, int tag_index)
{
	if (l->tag_index)
		l->tag_index[l->sent & l->mask] = (uint16_t)tag_index;
	l->sent++;
}

/* Call it when log.sent >= log.check_at, which happens each quarter of the log. The log may
 * overwrite puts before the result until the next check, so the caller ends their channels. The
 * same will hold for puts before *@soon at the next check. (If all tags are used equally often,
 * eight messages of each were sent since *@soon.) */
uint64_t hk_send_log_check(struct hk_send_log *l, uint64_t *soon);

/* ---- a send order: one piece of memory, as it is sent */

struct hk_send_order_tag {
	int32_t tag, padding;
	uint64_t sent; /* messages of this tag so far */
};

struct hk_send_order {
	uint32_t tags;       /* hk_send_order_tag in `data` */
	uint32_t logged;     /* messages of the log, which follows them */
	uint32_t references; /* of the receiver's copy */
	uint32_t counted;    /* of the receiver's copy: hk_send_order_count() is done */
	uint64_t sent;       /* messages of all tags; the log has the last ones */
	char data[];
};

#define HK_SEND_ORDER_MAX                                                                          \
	(sizeof(struct hk_send_order) + HK_PAIR_TAGS * sizeof(struct hk_send_order_tag) +          \
	 HK_SEND_LOG_MAX * sizeof(uint16_t))

size_t hk_send_order_bytes(uint32_t tags, uint32_t logged);

/* Writes the log since message @first to @p, which has HK_SEND_ORDER_MAX bytes. The caller fills in
 * the tags. Returns the length in bytes; 0: the log does not reach back to that message. */
size_t hk_send_order_encode(struct hk_send_order *p, const struct hk_send_log *l, uint64_t first,
			    uint32_t tags);

/* Is @p well formed, with @bytes bytes? */
bool hk_send_order_valid(const struct hk_send_order *p, size_t bytes);

struct hk_send_order_tag *hk_send_order_tags(struct hk_send_order *p);

/* before[k] becomes the number of messages of the k-th tag that were sent before @position, which
 * is not older than the log. */
void hk_send_order_before(const struct hk_send_order *p, uint64_t position, uint64_t *before);

#endif

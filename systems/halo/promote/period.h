/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/period.h: finds message sizes of a channel that repeat, and makes from them the
 * schedule on which both ends agree. Pure: no MPI, and only the caller's memory.
 */
#ifndef HK_HALO_PERIOD_H
#define HK_HALO_PERIOD_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_PERIOD_MAX  64 /* messages of a period */
#define HK_SEEN        (2 * HK_PERIOD_MAX)
#define HK_STREAMS_MAX 16          /* sizes of a period */
#define HK_SIZE_MAX    (64U << 20) /* bytes of a promoted message */
#define HK_SIZE_NONE   UINT32_MAX  /* in place of a size: the message cannot be promoted */

/* Message k has bytes[at[k % period]] bytes. */
struct hk_schedule {
	uint8_t period; /* messages */
	uint8_t sizes;  /* elements of `bytes` */
	uint8_t at[HK_PERIOD_MAX];
	uint32_t bytes[HK_STREAMS_MAX];
};

struct hk_watch {
	uint32_t seen[HK_SEEN]; /* sizes in bytes, the latest first */
	/* run[p - 1]: the latest messages in a row whose size equals that of the p-th before */
	uint32_t run[HK_PERIOD_MAX];
	uint64_t from;  /* earlier messages are ignored */
	uint32_t need;  /* messages that a period must explain */
	uint32_t pause; /* messages ignored the last time */
};

/* Starts with message @index, with nothing learnt. */
void hk_watch_init(struct hk_watch *w, uint64_t index);

/* Adds message @index. Returns the length of a period if the last two periods were alike, else 0.
 * Of several lengths it is the one that explains the most messages. */
int hk_watch_add(struct hk_watch *w, uint64_t index, uint32_t bytes);

/* Are the last two periods of this length still alike? */
bool hk_watch_holds(const struct hk_watch *w, int period);

/* Makes the schedule that continues after the last message, @index. False: too many sizes, or one
 * that cannot be promoted. */
bool hk_watch_schedule(const struct hk_watch *w, uint64_t index, int period, struct hk_schedule *s);

/* A schedule ended before both ends had agreed on it. */
void hk_watch_back_off(struct hk_watch *w);

/* Message @index, which was not added yet, has ended schedule @s, which began at message @start. */
void hk_watch_ended(struct hk_watch *w, uint64_t index, const struct hk_schedule *s,
		    uint64_t start);

bool hk_schedule_valid(const struct hk_schedule *s);

static inline int hk_schedule_at(const struct hk_schedule *s, uint64_t index)
{
	return s->at[index % s->period];
}

#endif

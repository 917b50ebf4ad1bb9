/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/watch.h: sizes of a channel's messages that repeat, and what both ends agree on then. Pure: no
 * MPI, no memory but the caller's.
 */
#ifndef HK_HALO_WATCH_H
#define HK_HALO_WATCH_H

#include "base/common.h"

#include <stdbool.h>
#include <stdint.h>

#define HK_PERIOD_MOST 64 /* messages of a period */
#define HK_SEEN        (2 * HK_PERIOD_MOST)
#define HK_STREAMS     16          /* sizes of a period */
#define HK_SIZE_MOST   (64U << 20) /* bytes of a promoted message */
#define HK_SIZE_NONE   UINT32_MAX  /* … of one that cannot be promoted */

struct hk_schedule { /* message k has bytes[at[k % period]] */
	uint8_t period, sizes;
	uint8_t at[HK_PERIOD_MOST];
	uint32_t bytes[HK_STREAMS];
};

struct hk_watch {
	uint32_t seen[HK_SEEN]; /* sizes, the last first */
	uint32_t run
		[HK_PERIOD_MOST]; /* [p - 1]: how many, up to the last, were as the p-th before */
	uint64_t from;            /* messages before are not looked at */
	uint32_t need;            /* how many messages alike are believed */
	uint32_t asleep;          /* messages that were not looked at, the last time */
};

/* Looks at messages from @index on, and has learnt nothing. */
void hk_watch_init(struct hk_watch *w, uint64_t index);

/* Notes message @index. Returns the length of a period if the last two were alike, of several that which has lasted for
 * the most messages, else 0. */
int hk_watch_note(struct hk_watch *w, uint64_t index, uint32_t bytes);

/* Are the last two periods of this length still alike? */
bool hk_watch_holds(const struct hk_watch *w, int period);

/* The schedule that goes on after the last message, @index. False: too many sizes, or one that cannot be promoted. */
bool hk_watch_schedule(const struct hk_watch *w, uint64_t index, int period, struct hk_schedule *s);

/* A schedule did not hold until both ends had agreed. */
void hk_watch_doubt(struct hk_watch *w);

/* Message @index, not noted yet, ended schedule @s, which had held from @start on. */
void hk_watch_strange(struct hk_watch *w, uint64_t index, const struct hk_schedule *s,
		      uint64_t start);

bool hk_schedule_valid(const struct hk_schedule *s);

static inline int hk_schedule_at(const struct hk_schedule *s, uint64_t index)
{
	return s->at[index % s->period];
}

#endif

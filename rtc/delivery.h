/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/delivery.h: how much delivery a type of message gets. Internal to rtc/; pure.
 *
 * Numbers. A sender counts its messages for each destination and type upwards (0 is left out), from a number
 * that its incarnation has to itself, so that a late answer to an earlier one does not fit. A receiver so knows
 * what is older (latest wins), and what it has had already (retry).
 *
 * Latest wins: hk_latest, at the receiver.
 *
 * Retry until answered, three parts:
 *   hk_asker   at the sender: a bounded table of open questions, each with its buffer, asked again after a
 *              timeout that doubles. Of one destination and type the open numbers lie within HK_WINDOW of each
 *              other; a question that would leave that span has to wait.
 *   hk_once    at the receiver: which of the last HK_WINDOW numbers were handled. By the bound above an older one
 *              is not open any more.
 *   hk_answers at the receiver: the last answers, to be repeated. A question whose answer is not kept any more is not
 *              handled again: its sender gives up in the end.
 */
#ifndef HK_RTC_DELIVERY_H
#define HK_RTC_DELIVERY_H

#include "base/common.h"
#include "rtc/rtc.h"

#define HK_WINDOW  256 /* numbers; a power of two */
#define HK_NO_BUF  UINT32_MAX
#define HK_NO_SLOT UINT16_MAX
#define HK_KEPT    1024 /* open questions, and answers kept, at the most */

static inline uint32_t hk_number_first(uint16_t epoch)
{
	return (uint32_t)epoch << 16 | 1;
}

static inline uint32_t hk_number_after(uint32_t n)
{
	return n + 1 ? n + 1 : 1;
}

static inline bool hk_number_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* ---- latest wins ----------------------------------------------------------------------------- */

struct hk_latest {
	uint32_t *number; /* [nodes]; 0: none yet */
};

bool hk_latest_init(struct hk_latest *l, uint16_t nodes);

static inline bool hk_latest_fresh(struct hk_latest *l, uint16_t src, uint32_t number)
{
	uint32_t last = l->number[src];
	if (last && !hk_number_before(last, number))
		return false;
	l->number[src] = number;
	return true;
}

/* ---- questions ------------------------------------------------------------------------------- */

struct hk_question {
	uint64_t due, timeout;
	uint32_t number, buf;
	uint16_t dst, next; /* next: of the free ones */
	uint8_t type;
	bool open;
	unsigned tries; /* that are left */
};

struct hk_asker {
	uint64_t due; /* nothing is due before */
	struct hk_question *q;
	unsigned places, open, cursor;
	uint16_t free;
	uint16_t nodes;
	uint16_t *slot
		[HK_RTC_MAX_TYPES]; /* [nodes * HK_WINDOW] of each such type: place of a number */
};

bool hk_asker_init(struct hk_asker *a, uint16_t nodes, unsigned places);
bool hk_asker_add_type(struct hk_asker *a, uint8_t type);
void hk_asker_free(struct hk_asker *a);

/* Is there room for this question? */
bool hk_asker_room(const struct hk_asker *a, uint16_t dst, uint8_t type, uint32_t number);

/* It was asked for the first time. There must be room. */
void hk_asker_ask(struct hk_asker *a, uint16_t dst, uint8_t type, uint32_t number, uint32_t buf,
		  uint64_t now, uint64_t timeout, unsigned tries);

/* An answer has come: the question's buffer, which is the caller's again; or HK_NO_BUF: it is not open. */
uint32_t hk_asker_answered(struct hk_asker *a, uint16_t src, uint8_t type, uint32_t number);

enum hk_asker_task { HK_ASKER_NOTHING, HK_ASKER_AGAIN, HK_ASKER_GIVEN_UP };

/* What is due at @now: a question to be sent again (the buffer stays here), or one given up (the buffer is the
 * caller's). Call until NOTHING, or go on at another time. */
enum hk_asker_task hk_asker_poll(struct hk_asker *a, uint64_t now, struct hk_question *out);

/* @dst has gone: one of the questions that it will not answer; false: no more. */
bool hk_asker_gone(struct hk_asker *a, uint16_t dst, struct hk_question *out);

/* ---- handled once ---------------------------------------------------------------------------- */

struct hk_once_peer {
	uint32_t high; /* the highest number seen; 0: none */
	uint64_t seen[HK_WINDOW / 64];
};

struct hk_once {
	struct hk_once_peer *peer; /* [nodes] */
};

bool hk_once_init(struct hk_once *o, uint16_t nodes);
void hk_once_forget(struct hk_once *o, uint16_t src);

/* Has it not been handled yet? */
bool hk_once_is_new(const struct hk_once *o, uint16_t src, uint32_t number);

/* It will be; it could not be. */
void hk_once_mark(struct hk_once *o, uint16_t src, uint32_t number);
void hk_once_unmark(struct hk_once *o, uint16_t src, uint32_t number);

/* ---- answers to be repeated -------------------------------------------------------------------- */

struct hk_answer {
	uint32_t number, buf;
	uint16_t src;
	uint8_t type;
};

struct hk_answers {
	struct hk_answer *ring;
	unsigned places, next;
	uint16_t nodes;
	uint16_t *slot[HK_RTC_MAX_TYPES]; /* [nodes * HK_WINDOW] */
};

bool hk_answers_init(struct hk_answers *a, uint16_t nodes, unsigned places);
bool hk_answers_add_type(struct hk_answers *a, uint8_t type);
void hk_answers_free(struct hk_answers *a);

/* Keeps an answer; returns the buffer of the oldest, which had to make room, or HK_NO_BUF. */
uint32_t hk_answers_keep(struct hk_answers *a, uint16_t src, uint8_t type, uint32_t number,
			 uint32_t buf);

/* The buffer of an answer that is kept, or HK_NO_BUF. It stays here. */
uint32_t hk_answers_find(const struct hk_answers *a, uint16_t src, uint8_t type, uint32_t number);

/* @src began anew: its numbers mean other questions. The buffers are given back as they get old. */
void hk_answers_forget(struct hk_answers *a, uint16_t src);

#endif

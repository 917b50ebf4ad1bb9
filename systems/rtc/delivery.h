/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/delivery.h: the delivery classes of message types. Internal to rtc/; pure.
 *
 * DESIGN NOTES
 *
 * Numbers: for each destination and type a sender counts its messages upwards and omits 0. Each
 * incarnation starts from a range of its own, so that a late reply to an earlier incarnation does
 * not match. From the number a receiver knows which messages are older (latest) and which ones it
 * has had (retry).
 *
 * Latest: the receiver stores the last number of each sender in struct hk_rtc_latest.
 *
 * Retry until answered has three parts:
 *
 *   hk_rtc_requests   sender: a bounded table of open requests with their buffers. Each request
 *                      is resent after a timeout that doubles. The open numbers of a destination
 *                      and type lie within HK_RTC_WINDOW; a request outside has to wait.
 *   hk_rtc_once        receiver: which of the last HK_RTC_WINDOW numbers were handled. By the
 *                      bound above an older request is not open any more.
 *   hk_rtc_replies     receiver: the last replies, to be repeated. A request whose reply is
 *                      not stored any more is not handled again; its sender gives up in the end.
 */
#ifndef HK_RTC_DELIVERY_H
#define HK_RTC_DELIVERY_H

#include "base/common.h"
#include "hikyaku/rtc.h"

#define HK_RTC_WINDOW       256 /* span of open numbers; a power of two */
#define HK_RTC_NO_BUF       UINT32_MAX
#define HK_RTC_NO_INDEX     UINT16_MAX
#define HK_RTC_REQUESTS_MAX 1024 /* most open requests, and most stored replies */

static inline uint32_t hk_rtc_number_first(uint16_t epoch)
{
	return (uint32_t)epoch << 16 | 1;
}

static inline uint32_t hk_rtc_number_after(uint32_t n)
{
	return n + 1 ? n + 1 : 1;
}

static inline bool hk_rtc_number_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* ---- latest ---------------------------------------------------------------------------------- */

struct hk_rtc_latest {
	uint32_t *number; /* [nodes] last number; 0: none yet */
};

bool hk_rtc_latest_init(struct hk_rtc_latest *l, uint16_t nodes);

static inline bool hk_rtc_latest_fresh(struct hk_rtc_latest *l, uint16_t src, uint32_t number)
{
	uint32_t last = l->number[src];
	if (last && !hk_rtc_number_before(last, number))
		return false;
	l->number[src] = number;
	return true;
}

/* ---- requests ------------------------------------------------------------------------------- */

struct hk_rtc_request {
	uint64_t due, timeout;
	uint32_t number, buf;
	uint16_t dst, next; /* next: next free entry */
	uint8_t type;
	bool open;
	unsigned tries; /* transmissions left */
};

struct hk_rtc_requests {
	uint64_t due; /* earliest time of anything to do */
	struct hk_rtc_request *q;
	unsigned capacity, open, cursor;
	uint16_t free;
	uint16_t nodes;
	/* [nodes * HK_RTC_WINDOW] for each retry type: entry of a number */
	uint16_t *index[HK_RTC_MAX_TYPES];
};

bool hk_rtc_requests_init(struct hk_rtc_requests *a, uint16_t nodes, unsigned capacity);
bool hk_rtc_requests_add_type(struct hk_rtc_requests *a, uint8_t type);
void hk_rtc_requests_free(struct hk_rtc_requests *a);

/* Returns whether a request with this number can be added. */
bool hk_rtc_requests_available(const struct hk_rtc_requests *a, uint16_t dst, uint8_t type,
			       uint32_t number);

/* Adds a request that was sent now. hk_rtc_requests_available() must have returned true. */
void hk_rtc_requests_add(struct hk_rtc_requests *a, uint16_t dst, uint8_t type, uint32_t number,
			 uint32_t buf, uint64_t now, uint64_t timeout, unsigned tries);

/* Closes the request that was answered. Returns its buffer, which the caller now owns, or
 * HK_RTC_NO_BUF if no such request is open. */
uint32_t hk_rtc_requests_answered(struct hk_rtc_requests *a, uint16_t src, uint8_t type,
				  uint32_t number);

enum hk_rtc_requests_task {
	HK_RTC_REQUESTS_NOTHING,
	HK_RTC_REQUESTS_RESEND,
	HK_RTC_REQUESTS_GIVEN_UP
};

/* Returns one thing that is due at @now. RESEND: the caller sends the buffer, which stays here.
 * GIVEN_UP: the caller owns the buffer. The caller repeats the call until NOTHING, or continues
 * later. */
enum hk_rtc_requests_task hk_rtc_requests_poll(struct hk_rtc_requests *a, uint64_t now,
					       struct hk_rtc_request *out);

/* Closes one open request to @dst, which left; the caller owns its buffer. False: none is left. */
bool hk_rtc_requests_drop_peer(struct hk_rtc_requests *a, uint16_t dst, struct hk_rtc_request *out);

/* ---- handled once ---------------------------------------------------------------------------- */

struct hk_rtc_once_peer {
	uint32_t high; /* highest number so far; 0: none */
	uint64_t seen[HK_RTC_WINDOW / 64];
};

struct hk_rtc_once {
	struct hk_rtc_once_peer *peer; /* [nodes] */
};

bool hk_rtc_once_init(struct hk_rtc_once *o, uint16_t nodes);
void hk_rtc_once_forget(struct hk_rtc_once *o, uint16_t src);

/* Returns whether the message was not handled yet. */
bool hk_rtc_once_is_new(const struct hk_rtc_once *o, uint16_t src, uint32_t number);

/* Mark: the message will be handled. Unmark: it could not be handled. */
void hk_rtc_once_mark(struct hk_rtc_once *o, uint16_t src, uint32_t number);
void hk_rtc_once_unmark(struct hk_rtc_once *o, uint16_t src, uint32_t number);

/* ---- stored replies -------------------------------------------------------------------------- */

struct hk_rtc_reply {
	uint32_t number, buf;
	uint16_t src;
	uint8_t type;
};

struct hk_rtc_replies {
	struct hk_rtc_reply *ring;
	unsigned capacity, next;
	uint16_t nodes;
	uint16_t *index[HK_RTC_MAX_TYPES]; /* [nodes * HK_RTC_WINDOW] entry of a number */
};

bool hk_rtc_replies_init(struct hk_rtc_replies *a, uint16_t nodes, unsigned capacity);
bool hk_rtc_replies_add_type(struct hk_rtc_replies *a, uint8_t type);
void hk_rtc_replies_free(struct hk_rtc_replies *a);

/* Stores a reply. Returns the buffer of the oldest one, which it replaces, or HK_RTC_NO_BUF. */
uint32_t hk_rtc_replies_store(struct hk_rtc_replies *a, uint16_t src, uint8_t type, uint32_t number,
			      uint32_t buf);

/* Returns the buffer of a stored reply, or HK_RTC_NO_BUF. The buffer stays here. */
uint32_t hk_rtc_replies_find(const struct hk_rtc_replies *a, uint16_t src, uint8_t type,
			     uint32_t number);

/* Forgets the numbers of @src, which restarted. The buffers remain until newer replies replace
 * them. */
void hk_rtc_replies_forget(struct hk_rtc_replies *a, uint16_t src);

#endif

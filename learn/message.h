/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/message.h: what nodes that learn tell each other, byte for byte. They are payloads of rtc/rtc.h,
 * which checks job, sender and length.
 *
 * Parameters travel in *slices*: consecutive parts of the vector that fit one frame each. Slice i is a
 * message type of its own (HK_LEARN_T_SLICE + i), so that "latest wins" holds for each by itself, and
 * each is merged by itself: nothing is put together again, and a lost frame delays its slice alone.
 *
 *   slice                                    0       2       4       6       8
 *     version, merge | slice | slices | n   +-------+-------+-------+-------+
 *     fingerprint | run of the sender       |               |               |
 *     run of the receiver, or 0 | zero      |               |               |
 *     number: one more for each round       |                               |
 *     age: rows behind these parameters     |                               |
 *     weight: push-sum, else 0              |            float64            |
 *     n parameters, or sums of push-sum     |          n × float64          |
 *
 *   status
 *     version, flags | reason | decider | n | which loss
 *     fingerprint | run of the sender
 *     loss: of the stop                     |            float64            |
 *     n entries: node | flags | halvings | run | number | loss | step
 *
 * Little-endian. A *run* is one life of a node: later ones compare greater by distance, and 0 is none.
 */
#ifndef HK_LEARN_MESSAGE_H
#define HK_LEARN_MESSAGE_H

#include "base/common.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "parameters are sent as they lie in memory: little-endian"
#endif

#define HK_LEARN_VERSION    1
#define HK_LEARN_T_STATUS   0
#define HK_LEARN_T_SLICE    1
#define HK_LEARN_MAX_SLICES 200u

struct __attribute__((packed, may_alias)) hk_slice_hdr {
	uint8_t version, merge;
	uint16_t slice, slices;
	uint16_t count;
	uint32_t fingerprint;
	uint32_t run, to_run;
	uint32_t zero;
	uint64_t number;
	uint64_t age;
	double weight;
};
_Static_assert(sizeof(struct hk_slice_hdr) == 48, "48 bytes on the wire");

#define HK_STATUS_F_HELLO 0x01u /* tell me your run */
#define HK_STATUS_F_STOP  0x02u /* training has ended; reason, decider and loss say why */

enum hk_learn_stop {
	HK_LEARN_GO = 0,
	HK_LEARN_STOP_TARGET,    /* the loss of all is the target or less */
	HK_LEARN_STOP_CONVERGED, /* more training changes nothing */
	HK_LEARN_STOP_EPOCHS,    /* as many epochs as were allowed */
	HK_LEARN_STOP_TIME,      /* as much time */
	HK_LEARN_STOP_ASKED,     /* a signal */
	HK_LEARN_STOPS
};

const char *hk_learn_stop_name(enum hk_learn_stop why);

struct __attribute__((packed, may_alias)) hk_status_hdr {
	uint8_t version, flags;
	uint8_t reason;
	uint8_t zero;
	uint16_t decider;
	uint16_t count;
	uint32_t fingerprint;
	uint32_t run;
	double loss;
};
_Static_assert(sizeof(struct hk_status_hdr) == 24, "24 bytes on the wire");

#define HK_ENTRY_F_FINISHED 0x01u /* trains no more */
#define HK_ENTRY_F_EPOCHS   0x02u /* … because its epochs are used up */

struct __attribute__((packed, may_alias)) hk_status_entry {
	uint16_t node;
	uint8_t flags;
	uint8_t halvings; /* of its step */
	uint32_t run;
	uint64_t number;
	double loss;
	double step; /* the first one that suits its rows */
};
_Static_assert(sizeof(struct hk_status_entry) == 32, "32 bytes on the wire");

/* Is it one, whole, with nothing in it that does not exist? Numbers may still be NaN. On success @values
 * points into @bytes, unaligned. */
bool hk_slice_parse(const void *bytes, size_t len, struct hk_slice_hdr *h, const void **values);
bool hk_status_parse(const void *bytes, size_t len, struct hk_status_hdr *h, const void **entries);

/* Is run @a later than @b? */
static inline bool hk_run_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

#endif

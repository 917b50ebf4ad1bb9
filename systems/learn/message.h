/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/message.h: the messages of nodes that learn, byte for byte. They are payloads of
 * hikyaku/rtc.h, which checks job, sender and length.
 *
 * Parameters travel in *slices*: consecutive parts of the vector that each fit a frame. Slice i has
 * a message type of its own (HK_LEARN_T_SLICE + i), so that delivery class HK_RTC_LATEST applies to
 * each slice. Each slice is merged by itself, without reassembly. So a lost frame delays only its
 * own slice.
 *
 *   slice                                    0       2       4       6       8
 *     version, merge | slice | slices | n   +-------+-------+-------+-------+
 *     fingerprint | run of the sender       |               |               |
 *     run of the receiver, or 0 | since_copy|               |               |
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
 * Little-endian. A *run* is the number of an incarnation of a node. Later runs compare greater by
 * distance, and no run is 0.
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

struct __attribute__((packed, may_alias)) hk_learn_slice_hdr {
	uint8_t version, merge;
	uint16_t slice, slices;
	uint16_t count;
	uint32_t fingerprint;
	uint32_t run, to_run;
	uint32_t since_copy; /* push-sum: rounds since the sender copied a neighbour's; 0: never */
	uint64_t number;
	uint64_t age;
	double weight;
};
_Static_assert(sizeof(struct hk_learn_slice_hdr) == 48, "48 bytes on the wire");

#define HK_LEARN_STATUS_F_HELLO 0x01u /* asks for the receiver's status */
#define HK_LEARN_STATUS_F_STOP  0x02u /* training has ended; see reason, decider and loss */

enum hk_learn_stop {
	HK_LEARN_GO = 0,
	HK_LEARN_STOP_TARGET,    /* the loss of all is at most the target */
	HK_LEARN_STOP_CONVERGED, /* further training does not improve the model */
	HK_LEARN_STOP_EPOCHS,    /* the limit of epochs is reached */
	HK_LEARN_STOP_TIME,      /* the time limit is reached */
	HK_LEARN_STOP_ASKED,     /* a signal arrived */
	HK_LEARN_STOPS
};

const char *hk_learn_stop_name(enum hk_learn_stop why);

struct __attribute__((packed, may_alias)) hk_learn_status_hdr {
	uint8_t version, flags;
	uint8_t reason;
	uint8_t zero;
	uint16_t decider;
	uint16_t count;
	uint32_t fingerprint;
	uint32_t run;
	double loss;
};
_Static_assert(sizeof(struct hk_learn_status_hdr) == 24, "24 bytes on the wire");

#define HK_LEARN_ENTRY_F_FINISHED 0x01u /* has stopped training */
#define HK_LEARN_ENTRY_F_EPOCHS   0x02u /* because its epochs are used up */

struct __attribute__((packed, may_alias)) hk_learn_status_entry {
	uint16_t node;
	uint8_t flags;
	uint8_t halvings; /* halvings of its step */
	uint32_t run;
	uint64_t number;
	double loss;
	double step; /* first step that suits its rows */
};
_Static_assert(sizeof(struct hk_learn_status_entry) == 32, "32 bytes on the wire");

/* Parse a message, and refuse it if its length or any field is invalid. Numbers may still be NaN.
 * On success @values or @entries points into @bytes, unaligned. */
bool hk_learn_slice_parse(const void *bytes, size_t len, struct hk_learn_slice_hdr *h,
			  const void **values);
bool hk_learn_status_parse(const void *bytes, size_t len, struct hk_learn_status_hdr *h,
			   const void **entries);

/* Returns whether run @a is later than @b. */
static inline bool hk_learn_run_later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

#endif

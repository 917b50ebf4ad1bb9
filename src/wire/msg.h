/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/msg.h: the frame of run-to-completion messages (hikyaku/rtc.h).
 *
 * A message is one frame, without acknowledgements, fragments or credit. Its header has 18 bytes:
 * after Ethernet's 14 the payload starts at a multiple of 32, so vector code may load it aligned.
 * Over UDP and TCP the same bytes follow the kernel's headers. Over TCP `len` also marks where the
 * next message begins.
 *
 *   0       1       2       3       4       5       6       7       8
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |ver|flg| type  |      len      |      src      |      dst      |
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |            job key            |            number             |
 *  +-------+-------+---------------+-------------------------------+
 *  |     epoch     |  payload …
 *  +-------+-------+
 *
 * With keys (HK_MSG_F_TAG) the payload is followed by a counter of 8 bytes and a tag of 16, struct
 * hk_msg_trailer.
 *
 * Integers are little-endian. docs/wire.md shows this frame with the others;
 * tools/wireshark/hikyaku.lua dissects it.
 */
#ifndef HK_WIRE_MSG_H
#define HK_WIRE_MSG_H

#include "base/common.h"

#include <string.h>

#pragma GCC visibility push(default)

#define HK_MSG_ETHERTYPE 0x88B6 /* IEEE 802 local experimental 2 */
#define HK_MSG_VERSION   1

/* Flags: the upper half of the first byte. */
#define HK_MSG_F_REPLY       0x10u /* a reply; `number` is the request's */
#define HK_MSG_F_WANTS_REPLY 0x20u /* the sender wants a reply and resends until it gets one */
#define HK_MSG_F_RESENT      0x40u /* the message has been sent before */
#define HK_MSG_F_TAG         0x80u /* a struct hk_msg_trailer follows the payload */
#define HK_MSG_VER_MASK      0x0fu

struct __attribute__((packed, may_alias)) hk_msg_hdr {
	uint8_t ver_flags; /* HK_MSG_VERSION | HK_MSG_F_* */
	uint8_t type;      /* message type; the library uses HK_MSG_T_* itself */
	uint16_t len;      /* bytes of payload, explicit because Ethernet pads frames */
	uint16_t src, dst; /* numbers of the nodes */
	uint32_t key;      /* job key; receivers drop and count messages of other jobs */
	uint32_t number;   /* sender's rising number for (destination, type); see rtc/delivery.h */
	uint16_t epoch;    /* incarnation of the sender; wraps, compared by distance; never 0 */
};

#define HK_MSG_HLEN 18
_Static_assert(sizeof(struct hk_msg_hdr) == HK_MSG_HLEN, "18 bytes on the wire");

struct __attribute__((packed, may_alias)) hk_msg_trailer {
	uint64_t counter; /* no two frames of a sender to one receiver have the same */
	uint8_t tag[16];  /* of header, payload and counter */
};

#define HK_MSG_TRAILER_LEN 24
_Static_assert(sizeof(struct hk_msg_trailer) == HK_MSG_TRAILER_LEN, "24 bytes on the wire");

/* The library uses types from HK_MSG_T_OWN on. */
#define HK_MSG_T_OWN   0xf0u
#define HK_MSG_T_ALIVE 0xf0u /* membership: rtc/members.h */
#define HK_MSG_T_LEAVE 0xf1u
#define HK_MSG_T_GREET 0xf2u /* a new incarnation's nonce: rtc/keys.h */

enum hk_msg_status {
	HK_MSG_OK = 0,
	HK_MSG_E_SHORT,   /* shorter than the header, or than `len` and the trailer */
	HK_MSG_E_VERSION, /* another version */
	HK_MSG_E_FIELD,   /* epoch 0, or src equals dst */
	HK_MSG_STATUS_MAX
};

/* Returns one word for the status, for counters and messages: a constant string. */
const char *hk_msg_status_name(enum hk_msg_status s);

/* Returns the first rule that a header breaks. hk_msg_parse() calls it for headers that it does not
 * accept. */
enum hk_msg_status hk_msg_classify(const struct hk_msg_hdr *h, size_t len);

/* Converts between wire order and host order, in either direction. */
static inline void hk_msg_swap(struct hk_msg_hdr *h)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	h->len = __builtin_bswap16(h->len);
	h->src = __builtin_bswap16(h->src);
	h->dst = __builtin_bswap16(h->dst);
	h->key = __builtin_bswap32(h->key);
	h->number = __builtin_bswap32(h->number);
	h->epoch = __builtin_bswap16(h->epoch);
#else
	(void)h;
#endif
}

/* Bytes of the trailer of a message with these flags. */
static inline size_t hk_msg_trailer_len(uint8_t ver_flags)
{
	return (ver_flags & HK_MSG_F_TAG) ? HK_MSG_TRAILER_LEN : 0;
}

/* Checks the message of @len bytes at @bytes and writes its header to @out in host order. It checks
 * every field except key, src, dst, type and trailer, which the caller compares. Pure; any thread
 * may call it. It is inline because it runs for every message; a valid message meets only two
 * branches. */
static inline enum hk_msg_status hk_msg_parse(const void *bytes, size_t len, struct hk_msg_hdr *out)
{
	if (HK_UNLIKELY(len < HK_MSG_HLEN))
		return HK_MSG_E_SHORT;
	memcpy(out, bytes, HK_MSG_HLEN);
	hk_msg_swap(out);
	if (HK_LIKELY(((out->ver_flags & HK_MSG_VER_MASK) == HK_MSG_VERSION) &
		      (out->len + hk_msg_trailer_len(out->ver_flags) <= len - HK_MSG_HLEN) &
		      (out->epoch != 0) & (out->src != out->dst)))
		return HK_MSG_OK;
	return hk_msg_classify(out, len);
}

/* Writes @h in wire order to @dst: HK_MSG_HLEN bytes, any alignment. */
static inline void hk_msg_encode(void *dst, const struct hk_msg_hdr *h)
{
	struct hk_msg_hdr w = *h;
	hk_msg_swap(&w);
	memcpy(dst, &w, HK_MSG_HLEN);
}

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/msg.h: the frame of run-to-completion messages (rtc/rtc.h).
 *
 * A message is one frame: no packet numbers to acknowledge, no fragments, no credit. What it needs
 * of the rest it carries itself, in 18 bytes, so that the payload of an Ethernet frame starts at a
 * multiple of 32 and vector code may load it aligned. Over UDP and TCP the same bytes follow the
 * kernel's headers; over TCP `len` also says where the next message begins.
 *
 *   0       1       2       3       4       5       6       7       8
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |ver|flg| type  |      len      |    source     |  destination  |
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |            job key            |            number             |
 *  +-------+-------+---------------+-------------------------------+
 *  |  incarnation  |  payload …
 *  +-------+-------+
 *
 * Little-endian. docs/wire.md draws it among the others; tools/wireshark/hikyaku.lua dissects it.
 */
#ifndef HK_WIRE_MSG_H
#define HK_WIRE_MSG_H

#include "base/common.h"

#include <string.h>

#define HK_MSG_ETHERTYPE 0x88B6 /* IEEE 802 local experimental 2 */
#define HK_MSG_VERSION   1

/* flags, in the upper half of the first byte; the fourth bit must be zero */
#define HK_MSG_F_REPLY  0x10u /* an answer: number is that of what is answered */
#define HK_MSG_F_ASKS   0x20u /* an answer is awaited, and will be asked for again */
#define HK_MSG_F_AGAIN  0x40u /* has been sent before */
#define HK_MSG_VER_MASK 0x8fu /* version, and the bit that must be zero */

struct __attribute__((packed, may_alias)) hk_msg_hdr {
	uint8_t ver_flags; /* HK_MSG_VERSION | HK_MSG_F_* */
	uint8_t type;      /* of the message; HK_MSG_T_* are the library's own */
	uint16_t len;      /* bytes of payload; Ethernet pads, so it is explicit */
	uint16_t src, dst; /* nodes */
	uint32_t key;      /* of the job: others' messages are dropped and counted */
	uint32_t number;   /* of the sender, by destination and type, upwards; see rtc/delivery.h */
	uint16_t epoch;    /* incarnation of the sender; wraps, compared by distance; never 0 */
};

#define HK_MSG_HLEN 18
_Static_assert(sizeof(struct hk_msg_hdr) == HK_MSG_HLEN, "18 bytes on the wire");

/* Types from here on are the library's. */
#define HK_MSG_T_OWN   0xf0u
#define HK_MSG_T_ALIVE 0xf0u /* membership: rtc/members.h */
#define HK_MSG_T_LEAVE 0xf1u

enum hk_msg_status {
	HK_MSG_OK = 0,
	HK_MSG_E_SHORT,   /* shorter than its header, or than len says */
	HK_MSG_E_VERSION, /* of another version, or flags that do not exist */
	HK_MSG_E_FIELD,   /* epoch 0, source is destination */
	HK_MSG_STATUS_MAX
};

/* One word for the status, for counters and messages. */
const char *hk_msg_status_name(enum hk_msg_status s);

/* Which rule did a header break that hk_msg_parse() does not accept? */
enum hk_msg_status hk_msg_classify(const struct hk_msg_hdr *h, size_t len);

/* Between wire order and host order; its own inverse. */
static inline void hk_msg_order(struct hk_msg_hdr *h)
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

/* Checks the @len bytes at @bytes (the header and what follows) and gives the header in host order.
 * Nothing is believed that is not checked here, but key, src, dst and type, which are the caller's to
 * compare. Pure; any thread. Here, because it is done for each message: a good one meets one branch
 * beside that on its length. */
static inline enum hk_msg_status hk_msg_parse(const void *bytes, size_t len, struct hk_msg_hdr *out)
{
	if (HK_UNLIKELY(len < HK_MSG_HLEN))
		return HK_MSG_E_SHORT;
	memcpy(out, bytes, HK_MSG_HLEN);
	hk_msg_order(out);
	if (HK_LIKELY(((out->ver_flags & HK_MSG_VER_MASK) == HK_MSG_VERSION) &
		      (out->len <= len - HK_MSG_HLEN) & (out->epoch != 0) & (out->src != out->dst)))
		return HK_MSG_OK;
	return hk_msg_classify(out, len);
}

/* Writes @h in wire order to @dst (HK_MSG_HLEN bytes, any alignment). */
static inline void hk_msg_put(void *dst, const struct hk_msg_hdr *h)
{
	struct hk_msg_hdr w = *h;
	hk_msg_order(&w);
	memcpy(dst, &w, HK_MSG_HLEN);
}

#endif

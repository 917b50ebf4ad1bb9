/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/protect.h: what a node and its backend call to protect their frames. Internal to rtc/.
 *
 * rtc/keys.h implements it, with OpenSSL. Node and backends use it through these functions, so they
 * can be built and tested where OpenSSL is missing. A node without protection has none of this.
 */
#ifndef HK_RTC_PROTECT_H
#define HK_RTC_PROTECT_H

#include "rtc/backend.h"

#define HK_RTC_NONCE_LEN 32
#define HK_RTC_PROOF_LEN 16

enum hk_rtc_belief {
	HK_RTC_GENUINE,
	HK_RTC_FORGED,   /* the sender that it names did not make it for this incarnation */
	HK_RTC_REPLAYED, /* it came before, or is too old to tell */
};

struct hk_rtc_protect {
	/* Writes the trailers of @n messages, whose `len` counts them. With seal it encrypts their
	 * payloads as well, so that they can be sent only once. */
	void (*apply)(struct hk_rtc_protect *p, struct hk_rtc_buf **m, unsigned n);

	/* Makes @to the encrypted copy of @m, which stays as it is. NULL: payloads are not
	 * encrypted, so apply() serves messages that are kept as well. */
	void (*apply_copy)(struct hk_rtc_protect *p, const struct hk_rtc_buf *m,
			   struct hk_rtc_buf *to);

	/* Judges a received message, which hk_msg_parse() accepted as @h. With seal it decrypts a
	 * genuine one in its place; the payload of another one is of no use then. */
	enum hk_rtc_belief (*judge)(struct hk_rtc_protect *p, uint8_t *frame,
				    const struct hk_msg_hdr *h);

	/* Whether there is a key for messages to @node. */
	bool (*ready)(const struct hk_rtc_protect *p, uint16_t node);

	/* Completes the greeting of HK_RTC_NONCE_LEN bytes, whose header is at @frame, for @node.
	 * NULL: nodes know each other's incarnation without greetings. False: no greeting. */
	bool (*greet)(struct hk_rtc_protect *p, uint16_t node, uint8_t *frame);

	/* Takes a greeting from a node that is not a member. False: it was forged, or comes too
	 * soon after a forged one. */
	bool (*greeted)(struct hk_rtc_protect *p, const uint8_t *frame, const struct hk_msg_hdr *h,
			uint64_t now);

	/* Computes the proof of @len bytes between this node and @node, at most
	 * HK_RTC_PROVABLE_MAX. False: OpenSSL failed. */
	bool (*prove)(struct hk_rtc_protect *p, uint16_t node, const void *bytes, size_t len,
		      uint8_t proof[HK_RTC_PROOF_LEN]);

	void (*close)(struct hk_rtc_protect *p); /* overwrites all keys */
};

#define HK_RTC_PROVABLE_MAX 128

/* Bytes of the longest payload. A greeting may be longer than all messages of the application. */
static inline unsigned hk_rtc_longest_payload(const struct hk_rtc_backend *b)
{
	return b->trailer ? HK_MAX(b->payload_max, (unsigned)HK_RTC_NONCE_LEN) : b->payload_max;
}

/* Draws bytes that nobody can guess. */
void hk_rtc_nonce_draw(uint8_t nonce[HK_RTC_NONCE_LEN]);

/* Whether two proofs are equal, without a branch that depends on how many bytes are. */
static inline bool hk_rtc_proof_equal(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (unsigned i = 0; i < HK_RTC_PROOF_LEN; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

#endif

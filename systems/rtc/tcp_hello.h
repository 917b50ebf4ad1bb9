/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp_hello.h: the greeting of the tcp backend, and its checks. Internal to it; pure.
 *
 * Without protection each end sends one struct hk_rtc_tcp_hello. With it a greeting has a nonce and
 * a proof too, and there are three:
 *
 *   1. The connecting node sends its nonce. The other one does not answer a wrong proof.
 *   2. The other node answers with its own nonce, and repeats the first.
 *   3. The connecting node repeats the second.
 *
 * A proof covers everything before it. Each end draws its nonce for this connection, and believes
 * the other when that repeats it. So a recorded greeting opens no connection.
 */
#ifndef HK_RTC_TCP_HELLO_H
#define HK_RTC_TCP_HELLO_H

#include "base/common.h"
#include "rtc/protect.h"

/* Little-endian. */
struct __attribute__((packed)) hk_rtc_tcp_hello {
	uint8_t magic[4]; /* "HKrt" */
	uint16_t version; /* HK_RTC_TCP_VERSION, or HK_RTC_TCP_VERSION_PROVED */
	uint16_t src, dst;
	uint16_t zero;
	uint32_t key;
	uint64_t incarnation; /* start time of the sending backend; later ones are larger */
	uint32_t message_max; /* longest message in bytes, with its header and trailer */
	uint32_t zero2;
};
_Static_assert(sizeof(struct hk_rtc_tcp_hello) == 32, "32 bytes on the wire");
#define HK_RTC_TCP_VERSION        1
#define HK_RTC_TCP_VERSION_PROVED 2

struct __attribute__((packed)) hk_rtc_tcp_greeting {
	struct hk_rtc_tcp_hello hello;
	/* the rest only with protection */
	uint8_t nonce[HK_RTC_NONCE_LEN];
	uint8_t echo[HK_RTC_NONCE_LEN]; /* the receiver's nonce; zeros: it is not known yet */
	uint8_t proof[HK_RTC_PROOF_LEN];
};
_Static_assert(sizeof(struct hk_rtc_tcp_greeting) == 112, "112 bytes on the wire");
#define HK_RTC_TCP_PROVED offsetof(struct hk_rtc_tcp_greeting, proof) /* bytes under the proof */
_Static_assert(HK_RTC_TCP_PROVED <= HK_RTC_PROVABLE_MAX, "a proof covers them");

/* The fields that a node expects in greetings. */
struct hk_rtc_tcp_expected {
	uint16_t node, nodes;
	uint32_t key;
	bool proved;
};

/* Bytes of a greeting. */
static inline size_t hk_rtc_tcp_greeting_len(bool proved)
{
	return proved ? sizeof(struct hk_rtc_tcp_greeting) : sizeof(struct hk_rtc_tcp_hello);
}

/* Checks the @len bytes of a greeting, except its source, nonces and proof. Returns NULL or the
 * fault. */
const char *hk_rtc_tcp_hello_check(const struct hk_rtc_tcp_expected *e, const void *bytes,
				   size_t len);

/* Writes a hello of node e->node to @dst. */
void hk_rtc_tcp_hello_write(const struct hk_rtc_tcp_expected *e, uint16_t dst, uint64_t incarnation,
			    uint32_t message_max, struct hk_rtc_tcp_hello *h);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp_hello.c: see tcp_hello.h.
 */
#include "rtc/tcp_hello.h"

#include <endian.h>
#include <string.h>

static const uint8_t magic[4] = {'H', 'K', 'r', 't'};

static uint16_t version_of(const struct hk_rtc_tcp_expected *e)
{
	return e->proved ? HK_RTC_TCP_VERSION_PROVED : HK_RTC_TCP_VERSION;
}

const char *hk_rtc_tcp_hello_check(const struct hk_rtc_tcp_expected *e, const void *bytes,
				   size_t len)
{
	struct hk_rtc_tcp_hello h;

	if (len != hk_rtc_tcp_greeting_len(e->proved))
		return "its greeting is incomplete";
	memcpy(&h, bytes, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.zero || h.zero2)
		return "it is not a node";
	if (le16toh(h.version) != version_of(e))
		return "it has another version or protection";
	if (le32toh(h.key) != e->key)
		return "it belongs to another job";
	if (le16toh(h.dst) != e->node)
		return "it expects another node";
	if (le16toh(h.src) >= e->nodes || le32toh(h.message_max) < HK_MSG_HLEN)
		return "it is not one of this job's nodes";
	return NULL;
}

void hk_rtc_tcp_hello_write(const struct hk_rtc_tcp_expected *e, uint16_t dst, uint64_t incarnation,
			    uint32_t message_max, struct hk_rtc_tcp_hello *h)
{
	*h = (struct hk_rtc_tcp_hello){
		.version = htole16(version_of(e)),
		.src = htole16(e->node),
		.dst = htole16(dst),
		.key = htole32(e->key),
		.incarnation = htole64(incarnation),
		.message_max = htole32(message_max),
	};
	memcpy(h->magic, magic, sizeof(magic));
}

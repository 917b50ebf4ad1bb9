/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/msg.c: the functions of wire/msg.h that are not on the hot path.
 */
#include "wire/msg.h"

/* Checks in the order of docs/wire.md and returns the first rule that the message breaks. */
enum hk_msg_status hk_msg_classify(const struct hk_msg_hdr *h, size_t len)
{
	if ((h->ver_flags & HK_MSG_VER_MASK) != HK_MSG_VERSION)
		return HK_MSG_E_VERSION;
	if (len < HK_MSG_HLEN || h->len + hk_msg_trailer_len(h->ver_flags) > len - HK_MSG_HLEN)
		return HK_MSG_E_SHORT;
	return HK_MSG_E_FIELD;
}

const char *hk_msg_status_name(enum hk_msg_status s)
{
	static const char *const names[HK_MSG_STATUS_MAX] = {
		[HK_MSG_OK] = "ok",
		[HK_MSG_E_SHORT] = "short",
		[HK_MSG_E_VERSION] = "version",
		[HK_MSG_E_FIELD] = "field",
	};
	return (unsigned)s < HK_MSG_STATUS_MAX ? names[s] : "unknown";
}

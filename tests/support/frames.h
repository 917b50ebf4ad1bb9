/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/frames.h: frames that no engine of ours has made.
 *
 * A test starts from a header that every check accepts, changes what it wants, and encodes the
 * frame. So hostile input differs from good input in one place.
 */
#ifndef HK_TEST_FRAMES_H
#define HK_TEST_FRAMES_H

#include "wire/wire.h"

#include <string.h>

/* Bytes of a frame whose header has @len bytes behind it, with space for any trailer. */
#define FRAME_BYTES(len) (HK_ETH_HLEN + HK_WIRE_HLEN + (len) + HK_WIRE_SEAL_LEN)

/* The counter of the next frame with a tag. */
static uint64_t frame_counter = 1;

/* A header without payload from @src to @dst. Both are in their first epoch. */
static inline struct hk_wire_hdr frame_hdr(enum hk_wire_type type, uint32_t key, uint32_t src,
					   uint32_t dst)
{
	return (struct hk_wire_hdr){
		.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE),
		.type = (uint8_t)type,
		.len = type == HK_WIRE_PUT ? HK_WIRE_PUT_LEN : 0,
		.job = key,
		.src = src,
		.dst = dst,
		.src_epoch = 1,
		.dst_epoch = 1,
		.tsval = 1,
		.frags = type == HK_WIRE_DATA,
	};
}

/* Encodes a frame with header @h and h->len bytes of @body (NULL: zeros), and the trailer of
 * @protection. A tag is zero: a frame with one is for those that do not check it. Returns the
 * length; @frame has FRAME_BYTES(h->len) bytes. */
static inline size_t frame_encode(void *frame, const struct hk_wire_hdr *h, const void *body,
				  unsigned protection)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
	char *base = (char *)frame + HK_ETH_HLEN;

	hk_wire_eth_encode(frame, mac, mac);
	hk_wire_hdr_encode(base, h);
	if (body)
		memcpy(base + HK_WIRE_HLEN, body, h->len);
	else
		memset(base + HK_WIRE_HLEN, 0, h->len);
	size_t covered = HK_WIRE_HLEN + (size_t)h->len;

	if (protection == HK_WIRE_CRC) {
		hk_wire_frame_checksum(base);
	} else if (protection >= HK_WIRE_AUTH) {
		memset(base + covered, 0, HK_WIRE_SEAL_LEN);
		hk_wire_seal_encode(base, protection, 0, frame_counter++, base + covered);
	}
	return HK_ETH_HLEN + covered + hk_wire_trailer_len(protection);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/bundle.h: several small messages in one frame.
 *
 * A bundle is the payload of a one-frame DATA message for handler HK_WIRE_AM_BUNDLE. It is a
 * sequence of messages in the order in which they were sent. Each follows a record of 4 bytes, and
 * the next record begins at a multiple of 4. A message never spans frames.
 *
 * The functions are pure, as those of wire.h.
 */
#ifndef HK_WIRE_BUNDLE_H
#define HK_WIRE_BUNDLE_H

#include "wire/wire.h"

#pragma GCC visibility push(default)

struct hk_wire_record {
	uint16_t len; /* bytes of the message */
	uint8_t am;   /* number of its handler, below HK_WIRE_AM_BUNDLE */
	uint8_t zero; /* must be 0 */
};

#define HK_WIRE_AM_BUNDLE  253
#define HK_WIRE_RECORD_LEN 4
_Static_assert(sizeof(struct hk_wire_record) == HK_WIRE_RECORD_LEN, "record is 4 bytes");

/* Returns the bytes of a bundle of @used bytes after a message of @len bytes was added. */
static inline size_t hk_wire_bundle_after(size_t used, size_t len)
{
	return ((used + 3) & ~(size_t)3) + HK_WIRE_RECORD_LEN + len;
}

/* Adds a record to the bundle of *@used bytes at @bundle: of a message of @len bytes for handler
 * @am. Returns where the caller writes the message. *@used then includes both. */
void *hk_wire_bundle_add(void *bundle, size_t *used, uint8_t am, uint16_t len);

/* Checks and decodes the record at *@at of a bundle of @len bytes, which is 0 at first, and moves
 * *@at behind its message. Returns the message, or NULL at the end and where a record breaks a
 * rule: *@at is then below @len. */
const uint8_t *hk_wire_bundle_next(const void *bundle, size_t len, size_t *at,
				   struct hk_wire_record *out);

#pragma GCC visibility pop

#endif

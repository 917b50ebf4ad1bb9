/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/specimens.h: one frame of every kind, as fields and as bytes.
 *
 * A program that uses nothing of src/wire made the bytes from docs/wire.md. So the tests compare
 * the codec with the description, not with itself. The same frames are the examples of
 * docs/wire.md, the fuzzers' first corpus, and the capture by which the Wireshark dissector is
 * tested. A new frame type gets an entry here.
 */
#ifndef HK_SPECIMENS_H
#define HK_SPECIMENS_H

#include "wire/msg.h"
#include "wire/wire.h"

#define HK_SPECIMEN_MAX 256 /* bytes; no frame is longer */

struct hk_specimen {
	const char *name;
	struct hk_wire_hdr h;
	struct hk_wire_grant grant;
	struct hk_wire_put put;
	struct hk_wire_sack sack;
	const char *payload;
	size_t payload_len; /* 0: that of the string */
	const char *hex;    /* the frame from the Ethernet header on, without padding */
};

extern const struct hk_specimen hk_specimens[];
extern const size_t hk_specimens_len;

/* Returns the specimen of that name, or NULL. */
const struct hk_specimen *hk_specimen_named(const char *name);

/* Returns the bytes of the payload. */
size_t hk_specimen_payload(const struct hk_specimen *s);

/* Encodes the fields by our codec into @frame (HK_SPECIMEN_MAX bytes); returns the length. */
size_t hk_specimen_encode(const struct hk_specimen *s, uint8_t *frame);

/* Writes the bytes of `hex` to @frame; returns the length. */
size_t hk_specimen_bytes(const struct hk_specimen *s, uint8_t *frame);

/* The same for messages of rtc nodes (wire/msg.h). */
struct hk_msg_specimen {
	const char *name;
	struct hk_msg_hdr h;
	const char *payload;
	const char *trailer; /* HK_MSG_TRAILER_LEN bytes; NULL: none */
	const char *hex;
};

extern const struct hk_msg_specimen hk_msg_specimens[];
extern const size_t hk_msg_specimens_len;

size_t hk_msg_specimen_encode(const struct hk_msg_specimen *s, uint8_t *frame);

/* Writes the bytes of the hex digits @hex to @frame; returns how many there are. */
size_t hk_specimen_unhex(const char *hex, uint8_t *frame);

#endif

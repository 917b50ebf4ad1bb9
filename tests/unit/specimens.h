/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/specimens.h: one frame of every kind, as fields and as bytes.
 *
 * The bytes were written down from docs/wire.md by a program that knows nothing of wire/, so that
 * the codec is compared with the description and not with itself. The same frames are the worked
 * examples of docs/wire.md, the fuzzers' first corpus and the capture that the Wireshark
 * dissector is tested on. A new frame type gets a row here.
 */
#ifndef HK_SPECIMENS_H
#define HK_SPECIMENS_H

#include "wire/msg.h"
#include "wire/wire.h"

#define HK_SPECIMEN_MAX 256 /* bytes of the longest, generously */

struct hk_specimen {
	const char *name;
	struct hk_wire_hdr h;
	struct hk_wire_put put;
	struct hk_wire_sack sack;
	const char *payload;
	const char *hex; /* the whole frame, Ethernet header first, no padding */
};

extern const struct hk_specimen hk_specimens[];
extern const size_t hk_specimens_len;

/* Encodes the fields with our codec to @frame (HK_SPECIMEN_MAX bytes); returns the length. */
size_t hk_specimen_encode(const struct hk_specimen *s, uint8_t *frame);

/* Decodes the written-down bytes to @frame; returns the length. */
size_t hk_specimen_bytes(const struct hk_specimen *s, uint8_t *frame);

/* The same for messages of rtc/. */
struct hk_msg_specimen {
	const char *name;
	struct hk_msg_hdr h;
	const char *payload;
	const char *hex;
};

extern const struct hk_msg_specimen hk_msg_specimens[];
extern const size_t hk_msg_specimens_len;

size_t hk_msg_specimen_encode(const struct hk_msg_specimen *s, uint8_t *frame);

/* Decodes hex digits to @frame; returns how many bytes. */
size_t hk_specimen_unhex(const char *hex, uint8_t *frame);

#endif

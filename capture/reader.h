/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/reader.h: reads the ring that a captured process writes (port/tap_ring.h).
 *
 * The process may write anything there, at any time. So each word is read once, lengths are checked
 * against what is there and what is asked for, and what makes no sense ends the reading. What a frame
 * holds is nobody's promise: its bytes are given out as they lie.
 *
 * Threads: one.
 */
#ifndef HK_CAPTURE_READER_H
#define HK_CAPTURE_READER_H

#include "port/tap_ring.h"

struct hk_reader {
	struct hk_tap_ring *ring;
	const char *bytes;
	uint64_t size, tail, head; /* head: as far as it was seen */
	uint32_t snaplen;
	unsigned ports; /* that it has told of: their numbers come in order */
};

struct hk_captured {
	struct hk_tap_record r;  /* .kind: HK_TAP_FRAME or HK_TAP_PORT */
	const char *bytes;       /* of a frame: r.cap of them, until hk_reader_take() */
	struct hk_tap_port port; /* of a port: texts are printable and end */
};

/* @ring is zeroed, with @size bytes behind it. */
void hk_reader_init(struct hk_reader *r, struct hk_tap_ring *ring, uint64_t size, uint32_t snaplen);

/* The next record: 1; 0 if there is none yet; -EPROTO if the ring holds garbage. */
int hk_reader_peek(struct hk_reader *r, struct hk_captured *c);

/* The record that was looked at is not needed any more. */
void hk_reader_take(struct hk_reader *r, const struct hk_captured *c);

/* What the process has counted for @port since the capture began. */
void hk_reader_counters(const struct hk_reader *r, unsigned port, uint64_t *seen,
			uint64_t *dropped);

/* Frames that it could not copy, of all ports and of none that is known. */
uint64_t hk_reader_dropped(const struct hk_reader *r);

/* Copies a text of @size bytes from another process: printable ASCII, ended. */
void hk_text_copy(char *to, const char *from, size_t size);

#endif

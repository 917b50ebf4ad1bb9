/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/reader.h: reads the ring that a captured process writes (port/tap_ring.h).
 *
 * The process may write anything to the ring, at any time. So the reader reads each word once,
 * checks lengths against the available bytes and the snaplen, and stops at the first wrong record.
 * It does not check the bytes of a frame.
 *
 * Threads: one.
 */
#ifndef HK_CAPTURE_READER_H
#define HK_CAPTURE_READER_H

#include "port/tap_ring.h"

struct hk_reader {
	struct hk_tap_ring *ring;
	const char *bytes;
	uint64_t size, tail, head; /* read up to tail; known to be written up to head */
	uint32_t snaplen;
	unsigned ports; /* ports so far; their numbers are consecutive */
};

struct hk_captured {
	struct hk_tap_record r;  /* r.kind: HK_TAP_FRAME or HK_TAP_PORT */
	const char *bytes;       /* r.cap bytes of a frame, valid until hk_reader_take() */
	struct hk_tap_port port; /* of a port; its texts are printable and end with a zero */
};

/* @ring is zeroed and has @size bytes after its header. The caller owns it. */
void hk_reader_init(struct hk_reader *r, struct hk_tap_ring *ring, uint64_t size, uint32_t snaplen);

/* Reads the next record. Returns 1; 0 if there is none yet; -EPROTO if the ring contains garbage.
 */
int hk_reader_peek(struct hk_reader *r, struct hk_captured *c);

/* Releases the record of the last hk_reader_peek(). */
void hk_reader_take(struct hk_reader *r, const struct hk_captured *c);

/* The process's counters of @port since the capture began. */
void hk_reader_counters(const struct hk_reader *r, unsigned port, uint64_t *seen,
			uint64_t *dropped);

/* Frames that the process could not copy, of all ports and of unknown ports. */
uint64_t hk_reader_dropped(const struct hk_reader *r);

/* Copies a text of @size bytes from another process: makes it printable ASCII and ends it. */
void hk_text_copy(char *to, const char *from, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_capture.c: arbitrary bytes as the ring that a captured process has written.
 *
 * The first 8 bytes are the ring's head, and the first record is that of a port if bit 0 of the
 * next byte says so. A reader must not read outside of the ring, and it must come to an end.
 */
#include "capture/reader.h"
#include "tests/support/hk_test.h"

#include <stdlib.h>
#include <string.h>

#define RING    8192u
#define SNAPLEN 2048u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_port(char *bytes)
{
	const struct hk_tap_record r = {.size = sizeof(r) + sizeof(struct hk_tap_port),
					.kind = HK_TAP_PORT};

	memcpy(bytes, &r, sizeof(r));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile unsigned sink;
	struct hk_captured c;
	struct hk_reader r;
	uint64_t head;

	if (size < sizeof(head) + 1)
		return 0;
	struct hk_tap_ring *ring = aligned_alloc(64, sizeof(*ring) + RING);

	CHECK(ring != NULL);
	memset(ring, 0, sizeof(*ring) + RING);
	char *bytes = (char *)(ring + 1);

	memcpy(&head, data, sizeof(head));
	memcpy(bytes, data + sizeof(head) + 1, HK_MIN(size - sizeof(head) - 1, (size_t)RING));
	if (data[sizeof(head)] & 1) {
		put_port(bytes);
		head = head % (RING + 1) / HK_TAP_ALIGN * HK_TAP_ALIGN;
	}
	hk_reader_init(&r, ring, RING, SNAPLEN);
	atomic_store(&ring->head, head);
	for (unsigned records = 0; hk_reader_peek(&r, &c) == 1; records++) {
		CHECK(records <= RING / HK_TAP_ALIGN);
		if (c.r.kind == HK_TAP_PORT) {
			CHECK(memchr(c.port.name, '\0', sizeof(c.port.name)) != NULL);
		} else {
			CHECK(c.r.kind == HK_TAP_FRAME && c.r.cap <= SNAPLEN);
			for (uint32_t i = 0; i < c.r.cap; i++)
				sink = sink + (unsigned char)c.bytes[i];
		}
		hk_reader_take(&r, &c);
	}
	(void)hk_reader_dropped(&r);
	free(ring);
	return 0;
}

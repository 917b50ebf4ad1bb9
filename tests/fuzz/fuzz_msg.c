/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_msg.c: arbitrary bytes as a message of rtc, in memory of exactly their size.
 */
#include "tests/support/hk_test.h"
#include "wire/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hk_msg_hdr h;
	uint8_t *m = malloc(size ? size : 1), again[HK_MSG_HLEN];

	CHECK(m != NULL);
	memcpy(m, data, size);
	enum hk_msg_status s = hk_msg_parse(m, size, &h);
	if (s == HK_MSG_OK) {
		/* the rules of docs/wire.md */
		CHECK((h.ver_flags & 0x0f) == 1 && h.epoch != 0 && h.src != h.dst);
		CHECK(HK_MSG_HLEN + (size_t)h.len + (h.ver_flags & 0x80 ? 24 : 0) <= size);
		hk_msg_encode(again, &h);
		CHECK(memcmp(again, m, sizeof(again)) == 0);
	} else {
		CHECK(s < HK_MSG_STATUS_MAX);
	}
	free(m);
	return 0;
}

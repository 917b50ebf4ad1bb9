/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_msg.c: any bytes at all as a message of rtc/, in memory of their own size.
 */
#include "tests/unit/hk_test.h"
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
		/* what docs/wire.md promises */
		CHECK((h.ver_flags & 0x8f) == 1 && h.epoch != 0 && h.src != h.dst);
		CHECK(HK_MSG_HLEN + (size_t)h.len <= size);
		hk_msg_put(again, &h);
		CHECK(memcmp(again, m, sizeof(again)) == 0);
	} else {
		CHECK(s < HK_MSG_STATUS_MAX);
	}
	free(m);
	return 0;
}

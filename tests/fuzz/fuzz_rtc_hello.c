/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_rtc_hello.c: arbitrary bytes as a greeting of rtc's tcp backend, in memory of
 * exactly their size. The first byte says what the node expects.
 */
#include "rtc/tcp_hello.h"
#include "tests/support/hk_test.h"

#include <endian.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	const struct hk_rtc_tcp_expected e = {.node = *data >> 1 & 3,
					      .nodes = 4,
					      .key = UINT32_C(0x4b454b48),
					      .proved = *data & 1};
	size_t len = size - 1;
	uint8_t *bytes = malloc(len ? len : 1);
	struct hk_rtc_tcp_hello h, again;

	CHECK(bytes != NULL);
	memcpy(bytes, data + 1, len);
	if (!hk_rtc_tcp_hello_check(&e, bytes, len)) {
		CHECK(len == (e.proved ? 112 : 32));
		memcpy(&h, bytes, sizeof(h));
		CHECK(le16toh(h.src) < e.nodes && le16toh(h.dst) == e.node);
		CHECK(le32toh(h.message_max) >= HK_MSG_HLEN);
		/* a node that writes the same fields writes the same bytes */
		const struct hk_rtc_tcp_expected sender = {
			.node = le16toh(h.src), .nodes = e.nodes, .key = e.key, .proved = e.proved};
		hk_rtc_tcp_hello_write(&sender, e.node, le64toh(h.incarnation),
				       le32toh(h.message_max), &again);
		CHECK(memcmp(&again, &h, sizeof(h)) == 0);
	}
	free(bytes);
	return 0;
}

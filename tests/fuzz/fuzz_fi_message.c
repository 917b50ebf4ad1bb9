/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_fi_message.c: arbitrary bytes as a message of a peer to the libfabric provider.
 * The target writes again what it has read, as the same bytes.
 */
#include "libfabric/message.h"
#include "tests/support/hk_test.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int is_long = 0; is_long < 2; is_long++) {
		struct hk_fi_prefix p;
		char again[HK_FI_PREFIX_MAX];
		size_t len = hk_fi_prefix_read(data, size, is_long, &p);

		CHECK(len <= size);
		if (!len)
			continue;
		CHECK_EQ(hk_fi_prefix_write(&p, is_long, again), len);
		CHECK(memcmp(again, data, len) == 0);
	}
	return 0;
}

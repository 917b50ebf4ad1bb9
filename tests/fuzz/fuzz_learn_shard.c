/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_learn_shard.c: arbitrary bytes as a file of rows.
 *
 * The target reads them unchanged, and then with corrected magic and sum, so that the fuzzer gets
 * past these.
 */
#include "learn/shard.h"
#include "tests/support/hk_test.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void seal(uint8_t *bytes, size_t len)
{
	uint64_t sum = 0, word;

	memcpy(bytes, "HKSHARD1", 8);
	for (size_t at = HK_LEARN_SHARD_HLEN; at + sizeof(word) <= len; at += sizeof(word)) {
		memcpy(&word, bytes + at, sizeof(word));
		sum += word;
	}
	memcpy(bytes + HK_LEARN_SHARD_HLEN - sizeof(sum), &sum, sizeof(sum));
}

static void check(const uint8_t *bytes, size_t len)
{
	struct hk_learn_shard s;

	if (hk_learn_shard_parse(&s, bytes, len, "input", NULL) != 0)
		return;
	CHECK(s.features > 0 && s.data.rows > 0 && s.node < s.nodes);
	CHECK((const uint8_t *)(s.data.y + s.data.rows) == bytes + len);
	for (size_t i = 0; i < s.data.rows; i++) {
		CHECK(isfinite(s.data.y[i]) && (s.classes == 0 || s.data.y[i] < s.classes));
		for (size_t j = 0; j < s.features; j++)
			CHECK(isfinite(s.data.x[i * s.features + j]));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);

	CHECK(bytes != NULL);
	memcpy(bytes, data, size);
	check(bytes, size);
	if (size >= HK_LEARN_SHARD_HLEN) {
		seal(bytes, size);
		check(bytes, size);
	}
	free(bytes);
	return 0;
}

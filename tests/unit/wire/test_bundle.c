/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_bundle.c: messages that share a frame. The specimen "bundle" has the bytes
 * of docs/wire.md; these tests have the lengths and the rules.
 */
#include "tests/support/hk_test.h"
#include "wire/bundle.h"

TEST(messages_come_out_as_they_went_in)
{
	struct hk_rng *rng = &hk_test_rng;

	for (unsigned round = 0; round < 20000; round++) {
		uint8_t bundle[600];
		unsigned count = 1 + (unsigned)hk_rng_below(rng, 20);
		uint16_t len[20];
		size_t used = 0, at = 0;

		for (unsigned i = 0; i < count; i++) {
			len[i] = (uint16_t)hk_rng_below(rng, 24);
			size_t after = hk_wire_bundle_after(used, len[i]);

			memset(hk_wire_bundle_add(bundle, &used, (uint8_t)(i + 1), len[i]),
			       (int)(100 + i), len[i]);
			CHECK_EQ(used, after);
		}
		for (unsigned i = 0; i < count; i++) {
			struct hk_wire_record r;
			const uint8_t *m = hk_wire_bundle_next(bundle, used, &at, &r);

			CHECK(m != NULL);
			CHECK_EQ(r.am, i + 1);
			CHECK_EQ(r.len, len[i]);
			for (unsigned b = 0; b < len[i]; b++)
				CHECK_EQ(m[b], 100 + i);
		}
		struct hk_wire_record r;

		CHECK(hk_wire_bundle_next(bundle, used, &at, &r) == NULL);
		CHECK_EQ(at, used);
	}
}

/* The length has its low byte first, and bytes of padding are 0 whatever the memory held. */
TEST(a_record_byte_by_byte)
{
	static const uint8_t record[] = {0x03, 0x02, 7, 0};
	static const uint8_t next[] = {0, 0x01, 0x00, 9, 0};
	uint8_t bundle[600];
	size_t used = 0, at = 0;
	struct hk_wire_record r;

	memset(bundle, 0xee, sizeof(bundle));
	hk_wire_bundle_add(bundle, &used, 7, 0x0203);
	CHECK_EQ(memcmp(bundle, record, sizeof(record)), 0);
	hk_wire_bundle_add(bundle, &used, 9, 1);
	CHECK_EQ(memcmp(bundle + 4 + 0x0203, next, sizeof(next)), 0);
	CHECK(hk_wire_bundle_next(bundle, used, &at, &r) != NULL);
	CHECK_EQ(r.len, 0x0203);
	CHECK(hk_wire_bundle_next(bundle, used, &at, &r) != NULL);
	CHECK_EQ(r.am, 9);
	CHECK_EQ(at, used);
}

/* The parser accepts nothing of @bytes behind a message of 5 bytes. */
static void check_refused(const uint8_t *bytes, size_t len)
{
	uint8_t bundle[64];
	size_t used = 0, at = 0;
	struct hk_wire_record r;

	memset(hk_wire_bundle_add(bundle, &used, 1, 5), 0xee, 5);
	memset(bundle + used, 0, 12 - used);
	memcpy(bundle + 12, bytes, len);
	/* in memory of exactly its size, so that a sanitizer sees each read beyond it */
	uint8_t *exact = malloc(12 + len);

	CHECK(exact != NULL);
	memcpy(exact, bundle, 12 + len);
	CHECK(hk_wire_bundle_next(exact, 12 + len, &at, &r) != NULL);
	CHECK_EQ(at, 12);
	CHECK(hk_wire_bundle_next(exact, 12 + len, &at, &r) == NULL);
	CHECK_CMP(at, <, 12 + len);
	free(exact);
}

TEST(a_broken_record_ends_the_bundle)
{
	static const struct {
		uint8_t bytes[8];
		size_t len;
	} bad[] = {
		{{1, 0, 7, 0}, 4},             /* its message is missing */
		{{5, 0, 7, 0, 1, 2, 3, 4}, 8}, /* longer than the frame */
		{{0, 1, 7, 0, 1, 2, 3, 4}, 8}, /* the same by the high byte */
		{{1, 0, 253, 0, 1}, 5},        /* a bundle in a bundle */
		{{1, 0, 255, 0, 1}, 5},        /* a message of the worker */
		{{1, 0, 7, 1, 1}, 5},          /* the last byte is not 0 */
		{{0, 0, 7}, 3},                /* less than a record */
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++)
		check_refused(bad[i].bytes, bad[i].len);
}

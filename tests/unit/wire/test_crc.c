/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_crc.c: CRC32C against published vectors, and the fast function against the
 * simple one.
 */
#include "tests/support/hk_test.h"
#include "wire/crc32c.h"

/* The examples of RFC 3720, appendix B.4, and the customary check value. */
TEST(published_vectors)
{
	static const uint8_t scsi_read[48] = {
		0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
		0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
		0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0,
	};
	uint8_t b[32];

	memset(b, 0, sizeof(b));
	CHECK_EQ(hk_crc32c(b, 32), 0x8a9136aau);
	memset(b, 0xff, sizeof(b));
	CHECK_EQ(hk_crc32c(b, 32), 0x62a8ab43u);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)i;
	CHECK_EQ(hk_crc32c(b, 32), 0x46dd794eu);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)(31 - i);
	CHECK_EQ(hk_crc32c(b, 32), 0x113fdb5cu);
	CHECK_EQ(hk_crc32c(scsi_read, sizeof(scsi_read)), 0xd9963a56u);
	CHECK_EQ(hk_crc32c("123456789", 9), 0xe3069283u);
	CHECK_EQ(hk_crc32c("", 0), 0);
	CHECK_EQ(hk_crc32c_table("123456789", 9), 0xe3069283u);
}

/* Every length up to three rounds of the interleaved loop, at every alignment. */
TEST(fast_equals_table)
{
	static uint8_t b[5000];
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)hk_rng_next(&hk_test_rng);
	for (size_t len = 0; len < sizeof(b) - 8; len++) {
		size_t at = len % 8;
		CHECK_EQ(hk_crc32c(b + at, len), hk_crc32c_table(b + at, len));
	}
}

/* The checksum detects every set of one, two or three flipped bits. */
TEST(flips_are_seen)
{
	static uint8_t b[9000];
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)hk_rng_next(&hk_test_rng);
	for (int round = 0; round < 20000; round++) {
		size_t len = hk_rng_range(&hk_test_rng, 8, 300), at[3];
		uint32_t before = hk_crc32c(b, len);
		unsigned flips = (unsigned)hk_rng_range(&hk_test_rng, 1, 3);

		for (unsigned i = 0; i < flips; i++) {
			at[i] = hk_rng_below(&hk_test_rng, len * 8);
			for (unsigned k = 0; k < i; k++) {
				if (at[k] == at[i])
					at[i] = len * 8; /* the same bit twice is not an error */
			}
		}
		for (unsigned i = 0; i < flips; i++) {
			if (at[i] < len * 8)
				b[at[i] / 8] ^= (uint8_t)(1 << at[i] % 8);
		}
		CHECK(hk_crc32c(b, len) != before);
	}
}

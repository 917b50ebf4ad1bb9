/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/seal/test_agree.c: the agreement on keys against published examples.
 */
#include "seal/agree.h"
#include "tests/unit/seal/hex.h"

/* RFC 7748, section 6.1. */
TEST(two_endpoints_have_one_secret)
{
	uint8_t alice[HK_AGREE_LEN], bob[HK_AGREE_LEN], alice_public[HK_AGREE_LEN];
	uint8_t bob_public[HK_AGREE_LEN], want[HK_AGREE_LEN], secret[HK_AGREE_LEN];

	hex_read("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a", alice, 32);
	hex_read("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a", alice_public,
		 32);
	hex_read("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb", bob, 32);
	hex_read("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f", bob_public,
		 32);
	hex_read("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742", want, 32);
	CHECK(hk_agree_secret(alice, bob_public, secret));
	CHECK(memcmp(secret, want, sizeof(want)) == 0);
	CHECK(hk_agree_secret(bob, alice_public, secret));
	CHECK(memcmp(secret, want, sizeof(want)) == 0);
}

TEST(drawn_keys_differ_and_agree)
{
	uint8_t private_key[2][HK_AGREE_LEN], public_key[2][HK_AGREE_LEN], secret[2][HK_AGREE_LEN];
	struct hk_error err;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(hk_agree_keys(private_key[i], public_key[i], &err), 0);
	CHECK(memcmp(public_key[0], public_key[1], HK_AGREE_LEN) != 0);
	for (int i = 0; i < 2; i++)
		CHECK(hk_agree_secret(private_key[i], public_key[!i], secret[i]));
	CHECK(memcmp(secret[0], secret[1], HK_AGREE_LEN) == 0);
}

/* Points of small order: the secret would be 0 for every private key (RFC 7748, section 6.1). */
TEST(public_keys_that_fix_the_secret_are_refused)
{
	static const uint8_t zero[HK_AGREE_LEN], one[HK_AGREE_LEN] = {1};
	uint8_t private_key[HK_AGREE_LEN], public_key[HK_AGREE_LEN], secret[HK_AGREE_LEN];

	CHECK_EQ(hk_agree_keys(private_key, public_key, NULL), 0);
	CHECK(!hk_agree_secret(private_key, zero, secret));
	CHECK(!hk_agree_secret(private_key, one, secret));
}

/* Expected values: RFC 5869 by HMAC-SHA256 of Python's hmac, with and without a key of the job. */
TEST(keys_are_derived_by_hkdf)
{
	uint8_t secret[HK_AGREE_LEN], job_key[HK_AGREE_LEN], want[40], out[40];

	for (unsigned i = 0; i < HK_AGREE_LEN; i++) {
		secret[i] = (uint8_t)i;
		job_key[i] = (uint8_t)(100 + i);
	}
	hex_read("0eb2fd0fb69b40991a680d5264d3b057262698eee91c42cc159d785f7e135679c89c9840f278236c",
		 want, sizeof(want));
	CHECK(hk_agree_derive(secret, job_key, "hikyaku", 7, out, sizeof(out)));
	CHECK(memcmp(out, want, sizeof(want)) == 0);
	hex_read("a6a3914b34efc8d3110bd2c8396d956fee7a853700e0f4bab744d2e6904748bc2be965b629a83067",
		 want, sizeof(want));
	CHECK(hk_agree_derive(secret, NULL, "hikyaku", 7, out, sizeof(out)));
	CHECK(memcmp(out, want, sizeof(want)) == 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/seal/test_gcm.c: AES-128-GCM against the test cases of its authors (McGrew and Viega,
 * "The Galois/Counter Mode of Operation", appendix B), for each library that src/seal knows.
 */
#include "seal/gcm.h"
#include "tests/support/hk_test.h"
#include "tests/unit/seal/hex.h"

#define TEXT_LEN 60 /* of test case 4 */

struct fixture {
	struct hk_gcm_key key;
	uint8_t nonce[HK_GCM_NONCE_LEN], clear[20], text[TEXT_LEN], cipher[TEXT_LEN];
	uint8_t tag[HK_GCM_TAG_LEN];
};

static void start(void)
{
	CHECK_EQ(hk_gcm_start(NULL), 0);
#ifdef LIBRARY
	hk_gcm = &LIBRARY;
#endif
}

static struct fixture case_4(void)
{
	uint8_t key[HK_GCM_KEY_LEN];
	struct fixture f;

	start();
	hex_read("feffe9928665731c6d6a8f9467308308", key, sizeof(key));
	hex_read("cafebabefacedbaddecaf888", f.nonce, sizeof(f.nonce));
	hex_read("feedfacedeadbeeffeedfacedeadbeefabaddad2", f.clear, sizeof(f.clear));
	hex_read("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
		 "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
		 f.text, sizeof(f.text));
	hex_read("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
		 "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
		 f.cipher, sizeof(f.cipher));
	hex_read("5bc94fbc3221a5db94fae95ae7121a47", f.tag, sizeof(f.tag));
	hk_gcm_expand(&f.key, key);
	return f;
}

TEST(encrypts_as_published_whatever_the_pieces)
{
	struct fixture f = case_4();

	for (unsigned a = 0; a <= TEXT_LEN; a++) {
		unsigned b = a + (TEXT_LEN - a) / 2;
		const struct hk_gcm_piece piece[] = {
			{f.text, a}, {f.text + a, b - a}, {f.text + b, TEXT_LEN - b}};
		uint8_t to[TEXT_LEN], tag[HK_GCM_TAG_LEN];

		hk_gcm_encrypt(&f.key, f.nonce, f.clear, sizeof(f.clear), piece, 3, to, tag);
		CHECK(memcmp(to, f.cipher, TEXT_LEN) == 0 && memcmp(tag, f.tag, sizeof(tag)) == 0);
	}
	const struct hk_gcm_piece whole = {f.text, TEXT_LEN};
	uint8_t to[TEXT_LEN], tag[HK_GCM_TAG_LEN];

	hk_gcm_encrypt(&f.key, f.nonce, f.clear, sizeof(f.clear), &whole, 1, to, tag);
	CHECK(memcmp(to, f.cipher, TEXT_LEN) == 0 && memcmp(tag, f.tag, sizeof(tag)) == 0);
}

TEST(opens_what_is_right_and_nothing_else)
{
	struct fixture f = case_4();
	uint8_t data[TEXT_LEN];

	memcpy(data, f.cipher, sizeof(data));
	CHECK(hk_gcm_open(&f.key, f.nonce, f.clear, sizeof(f.clear), data, TEXT_LEN, f.tag));
	CHECK(memcmp(data, f.text, TEXT_LEN) == 0);

	/* one wrong bit anywhere: nonce, clear part, ciphertext, tag */
	uint8_t *part[] = {f.nonce, f.clear, f.cipher, f.tag};
	const size_t len[] = {sizeof(f.nonce), sizeof(f.clear), TEXT_LEN, sizeof(f.tag)};

	for (size_t i = 0; i < HK_ARRAY_LEN(part); i++)
		for (size_t bit = 0; bit < 8 * len[i]; bit++) {
			part[i][bit / 8] ^= (uint8_t)(1 << bit % 8);
			memcpy(data, f.cipher, sizeof(data));
			CHECK_MSG(!hk_gcm_open(&f.key, f.nonce, f.clear, sizeof(f.clear), data,
					       TEXT_LEN, f.tag),
				  "part %zu, bit %zu", i, bit);
			part[i][bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
}

/* Test case 1 has neither text nor clear part. */
TEST(the_tag_of_nothing_is_as_published)
{
	static const uint8_t key[HK_GCM_KEY_LEN], nonce[HK_GCM_NONCE_LEN];
	uint8_t want[HK_GCM_TAG_LEN], tag[HK_GCM_TAG_LEN];
	struct hk_gcm_key k;

	start();
	hk_gcm_expand(&k, key);
	hex_read("58e2fccefa7e3061367f1d57a4e7455a", want, sizeof(want));
	hk_gcm_sign(&k, nonce, &(struct hk_gcm_piece){"", 0}, 1, tag);
	CHECK(memcmp(tag, want, sizeof(tag)) == 0);
}

TEST(signs_what_it_opens_at_every_length)
{
	struct fixture f = case_4();
	uint8_t data[1600], tag[HK_GCM_TAG_LEN], nothing;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t len = 0; len < sizeof(data); len += len < 300 ? 1 : 61) {
		hk_gcm_sign(&f.key, f.nonce, &(struct hk_gcm_piece){data, len}, 1, tag);
		CHECK(hk_gcm_open(&f.key, f.nonce, data, len, &nothing, 0, tag));
		for (size_t at = 0; at < len; at += 1 + len / 5) {
			data[at] ^= 0x40;
			CHECK(!hk_gcm_open(&f.key, f.nonce, data, len, &nothing, 0, tag));
			data[at] ^= 0x40;
		}
	}
}

/* Headers and payload of a frame may lie apart. */
TEST(the_tag_of_two_pieces_is_that_of_their_bytes)
{
	struct fixture f = case_4();
	uint8_t data[600], elsewhere[600], tag[HK_GCM_TAG_LEN], want[HK_GCM_TAG_LEN];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 11);
	for (size_t len = 0; len < sizeof(data); len += len < 100 ? 1 : 61)
		for (size_t first = 0; first <= len; first += first < 40 ? 1 : 17) {
			const struct hk_gcm_piece whole = {data, len};
			const struct hk_gcm_piece piece[] = {{data, first},
							     {elsewhere, len - first}};

			memcpy(elsewhere, data + first, len - first);
			hk_gcm_sign(&f.key, f.nonce, &whole, 1, want);
			hk_gcm_sign(&f.key, f.nonce, piece, 2, tag);
			CHECK_MSG(memcmp(tag, want, sizeof(tag)) == 0, "%zu of %zu", first, len);
		}
}

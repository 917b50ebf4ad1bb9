/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/gcm_openssl.c: AES-128-GCM by OpenSSL, for CPUs that intel-ipsec-mb does not serve.
 *
 * OpenSSL keeps an expanded key in an object of its own process. A struct hk_gcm_key may lie in
 * memory that two processes share, so it has the 16 bytes alone. Each thread keeps one object and
 * gives it the key for every frame, which takes longer than intel-ipsec-mb.
 */
#include "seal/gcm.h"

#include <openssl/evp.h>
#include <string.h>

static _Thread_local EVP_CIPHER_CTX *ctx; /* lives as long as its thread's process */

static EVP_CIPHER_CTX *context(void)
{
	if (!ctx)
		ctx = EVP_CIPHER_CTX_new();
	return ctx;
}

static bool start(void)
{
	return context() != NULL;
}

static void expand(struct hk_gcm_key *key, const uint8_t bytes[HK_GCM_KEY_LEN])
{
	memcpy(key->bytes, bytes, HK_GCM_KEY_LEN);
}

static bool begin(const struct hk_gcm_key *key, const uint8_t *nonce, const void *clear,
		  size_t clear_len, bool encrypt)
{
	int n;

	return context() &&
	       EVP_CipherInit_ex(ctx, EVP_aes_128_gcm(), NULL, key->bytes, nonce, encrypt) &&
	       EVP_CipherUpdate(ctx, NULL, &n, clear, (int)clear_len);
}

/* Without a tag the receiver drops the frame, as if it were lost. */
static void end(bool done, uint8_t *tag)
{
	uint8_t nothing[HK_GCM_TAG_LEN];
	int n;

	if (!done || !EVP_CipherFinal_ex(ctx, nothing, &n) ||
	    !EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, HK_GCM_TAG_LEN, tag))
		memset(tag, 0, HK_GCM_TAG_LEN);
}

static void sign(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
		 const struct hk_gcm_piece *piece, unsigned count, uint8_t tag[HK_GCM_TAG_LEN])
{
	bool done = begin(key, nonce, piece->base, piece->len, true);
	int n;

	for (unsigned i = 1; i < count; i++)
		done = done && EVP_CipherUpdate(ctx, NULL, &n, piece[i].base, (int)piece[i].len);
	end(done, tag);
}

static void encrypt(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
		    const void *clear, size_t clear_len, const struct hk_gcm_piece *piece,
		    unsigned count, void *to, uint8_t tag[HK_GCM_TAG_LEN])
{
	bool done = begin(key, nonce, clear, clear_len, true);
	uint8_t *at = to;
	int n;

	for (unsigned i = 0; i < count; at += piece[i].len, i++)
		done = done && EVP_CipherUpdate(ctx, at, &n, piece[i].base, (int)piece[i].len);
	end(done, tag);
}

static bool open_frame(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
		       const void *clear, size_t clear_len, void *data, size_t len,
		       const uint8_t tag[HK_GCM_TAG_LEN])
{
	uint8_t nothing[HK_GCM_TAG_LEN];
	int n;

	return begin(key, nonce, clear, clear_len, false) &&
	       (!len || EVP_CipherUpdate(ctx, data, &n, data, (int)len)) &&
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, HK_GCM_TAG_LEN,
				   (void *)(uintptr_t)tag) &&
	       EVP_CipherFinal_ex(ctx, nothing, &n) > 0;
}

const struct hk_gcm_library hk_gcm_openssl = {
	.start = start,
	.expand = expand,
	.sign = sign,
	.encrypt = encrypt,
	.open = open_frame,
};

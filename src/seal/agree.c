/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/agree.c: X25519 and HKDF by OpenSSL.
 */
#include "seal/agree.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

static int openssl_failed(struct hk_error *err, const char *what)
{
	char text[160];

	ERR_error_string_n(ERR_get_error(), text, sizeof(text));
	return hk_error_set(err, -EIO, "OpenSSL cannot %s: %s", what, text);
}

int hk_agree_keys(uint8_t private_key[HK_AGREE_LEN], uint8_t public_key[HK_AGREE_LEN],
		  struct hk_error *err)
{
	EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
	size_t private_len = HK_AGREE_LEN, public_len = HK_AGREE_LEN;
	int rc = 0;

	if (!pair || !EVP_PKEY_get_raw_private_key(pair, private_key, &private_len) ||
	    !EVP_PKEY_get_raw_public_key(pair, public_key, &public_len))
		rc = openssl_failed(err, "make a key");
	EVP_PKEY_free(pair);
	return rc;
}

bool hk_agree_secret(const uint8_t private_key[HK_AGREE_LEN],
		     const uint8_t public_key[HK_AGREE_LEN], uint8_t secret[HK_AGREE_LEN])
{
	EVP_PKEY *ours = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, private_key,
						      HK_AGREE_LEN);
	EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, public_key,
						       HK_AGREE_LEN);
	EVP_PKEY_CTX *ctx = ours ? EVP_PKEY_CTX_new(ours, NULL) : NULL;
	size_t len = HK_AGREE_LEN;
	/* EVP_PKEY_derive() refuses a secret of zeros (RFC 7748, section 6.1) */
	bool done = ctx && theirs && EVP_PKEY_derive_init(ctx) > 0 &&
		    EVP_PKEY_derive_set_peer(ctx, theirs) > 0 &&
		    EVP_PKEY_derive(ctx, secret, &len) > 0 && len == HK_AGREE_LEN;

	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(ours);
	EVP_PKEY_free(theirs);
	ERR_clear_error();
	return done;
}

bool hk_agree_derive(const uint8_t secret[HK_AGREE_LEN], const uint8_t *job_key, const void *info,
		     size_t info_len, uint8_t *out, size_t len)
{
	static const uint8_t no_key[HK_AGREE_LEN];
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	const void *salt = job_key ? job_key : no_key;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char[]){"SHA256"}, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
						  HK_AGREE_LEN),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt,
						  HK_AGREE_LEN),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info,
						  info_len),
		OSSL_PARAM_construct_end(),
	};
	bool done = ctx && EVP_KDF_derive(ctx, out, len, params) > 0;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	ERR_clear_error();
	return done;
}

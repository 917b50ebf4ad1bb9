/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/key.c: see seal/key.h.
 */
#include "seal/key.h"

#include <openssl/crypto.h>

bool hk_seal_key_make(struct hk_seal_key *key, const uint8_t secret[HK_AGREE_LEN],
		      const uint8_t *job_key, const void *info, size_t info_len)
{
	uint8_t bytes[HK_GCM_KEY_LEN + sizeof(key->salt)];

	if (!hk_agree_derive(secret, job_key, info, info_len, bytes, sizeof(bytes)))
		return false;
	hk_gcm_expand(&key->gcm, bytes);
	memcpy(key->salt, bytes + HK_GCM_KEY_LEN, sizeof(key->salt));
	key->known = true;
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return true;
}

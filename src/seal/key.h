/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/key.h: one key of frames, for one direction.
 *
 * The nonce of a frame is the key's salt and the frame's counter. So a sender must not use a
 * counter twice under one key. HKDF makes key and salt from a secret and from everything that names
 * the sender, the receiver and their incarnations (@info below). So each incarnation has keys of
 * its own.
 */
#ifndef HK_SEAL_KEY_H
#define HK_SEAL_KEY_H

#include "seal/agree.h"
#include "seal/gcm.h"

#include <string.h>

struct hk_seal_key {
	struct hk_gcm_key gcm;
	uint32_t generation; /* the caller's */
	bool known;
	uint8_t salt[4];
};

/* Makes @key from @secret for the purpose @info. @job_key: as hk_agree_derive(). Call
 * hk_gcm_start() first. False: OpenSSL failed, and @key is as before. */
bool hk_seal_key_make(struct hk_seal_key *key, const uint8_t secret[HK_AGREE_LEN],
		      const uint8_t *job_key, const void *info, size_t info_len);

/* @counter: its bytes in the frame. */
static inline void hk_seal_nonce(uint8_t nonce[HK_GCM_NONCE_LEN], const struct hk_seal_key *k,
				 const void *counter)
{
	memcpy(nonce, k->salt, sizeof(k->salt));
	memcpy(nonce + sizeof(k->salt), counter, sizeof(uint64_t));
}

#endif

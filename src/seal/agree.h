/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/agree.h: how two endpoints come to the keys that they share, by OpenSSL.
 *
 * Each endpoint has a pair of X25519 keys (RFC 7748) of its own, new in each incarnation. The
 * public one travels with its address: in Open MPI's modex, or in struct hk_peer_addr. Two
 * endpoints compute one secret from the own private and the other's public key, so no third one can
 * speak for either. A key of the job, which only its members have, goes in as well, if there is
 * one. HKDF-SHA256 (RFC 5869) makes the keys of frames from that.
 */
#ifndef HK_SEAL_AGREE_H
#define HK_SEAL_AGREE_H

#include "hikyaku/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HK_AGREE_LEN 32 /* bytes of a private or public key, of a secret, and of a job's key */

/* Draws a private key and computes its public key. -EIO: OpenSSL failed; @err says how. */
int hk_agree_keys(uint8_t private_key[HK_AGREE_LEN], uint8_t public_key[HK_AGREE_LEN],
		  struct hk_error *err);

/* Computes the secret of the owner of @private_key and that of @public_key. False: the public key
 * is one of the few that make every secret the same, or OpenSSL failed. */
bool hk_agree_secret(const uint8_t private_key[HK_AGREE_LEN],
		     const uint8_t public_key[HK_AGREE_LEN], uint8_t secret[HK_AGREE_LEN]);

/* Derives @len bytes from @secret for the purpose @info. @job_key: HK_AGREE_LEN bytes, or NULL. */
bool hk_agree_derive(const uint8_t secret[HK_AGREE_LEN], const uint8_t *job_key, const void *info,
		     size_t info_len, uint8_t *out, size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/internal.h: what seal.c and group.c do with a key of frames.
 */
#ifndef HK_SEAL_INTERNAL_H
#define HK_SEAL_INTERNAL_H

#include "seal/key.h"
#include "seal/seal.h"

/* The frames that a key is for: all that it depends on beside the secret. */
struct hk_seal_use {
	uint32_t job, from, from_epoch, to, to_epoch, generation;
	const uint8_t *from_key, *to_key; /* HK_AGREE_LEN bytes each; NULL: none, of a group */
};

/* Computes the key for @use from @secret. */
bool hk_seal_derive(const struct hk_seal *s, const uint8_t secret[HK_AGREE_LEN],
		    const struct hk_seal_use *use, struct hk_seal_key *key);

/* The counter of the next frame. */
uint64_t hk_seal_count(struct hk_seal *s);

const struct hk_seal_config *hk_seal_cfg(const struct hk_seal *s);

/* Writes protection, key index and trailer to a frame that is only authenticated. @body: as
 * hk_seal_sign(). */
static inline void hk_seal_write_tag(const struct hk_seal_key *k, uint64_t counter, uint8_t *base,
				     const struct hk_gcm_piece *body)
{
	size_t covered = HK_WIRE_HLEN + hk_wire_len(base);
	struct hk_gcm_piece piece[2] = {{base, covered}};
	uint8_t *trailer = base + covered, nonce[HK_GCM_NONCE_LEN];

	if (body) {
		piece[0].len -= body->len;
		piece[1] = *body;
	}
	hk_wire_seal_encode(base, HK_WIRE_AUTH, (uint8_t)k->generation, counter, trailer);
	hk_seal_nonce(nonce, k, trailer);
	hk_gcm_sign(&k->gcm, nonce, piece, body ? 2 : 1,
		    trailer + offsetof(struct hk_wire_seal, tag));
}

/* Encrypts the @count pieces of a frame to @base, as hk_seal_encrypt(). The pieces may lie where
 * they are written to. */
size_t hk_seal_write_encrypted(const struct hk_seal_key *k, uint64_t counter,
			       const struct hk_gcm_piece *piece, unsigned count, uint8_t *base);

/* Checks the tag, and decrypts in place if @encrypted. */
static inline bool hk_seal_read(const struct hk_seal_key *k, const struct hk_wire_sealed *f,
				bool encrypted)
{
	size_t clear = encrypted ? HK_WIRE_CLEAR_LEN : f->len;
	uint8_t nonce[HK_GCM_NONCE_LEN];

	hk_seal_nonce(nonce, k, f->base + f->len);
	return hk_gcm_open(&k->gcm, nonce, f->base, clear, f->base + clear, f->len - clear, f->tag);
}

#endif

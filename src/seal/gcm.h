/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/gcm.h: AES-128-GCM over the bytes of one frame, by a library. It is intel-ipsec-mb on x86
 * CPUs with AES instructions, and OpenSSL on others. NIST SP 800-38D defines it.
 *
 * An expanded key has no pointer and no function pointer, so it may lie in memory that processes of
 * one machine share. Threads: any, also with one key.
 */
#ifndef HK_SEAL_GCM_H
#define HK_SEAL_GCM_H

#include "base/common.h"
#include "hikyaku/error.h"

#define HK_GCM_KEY_LEN   16
#define HK_GCM_NONCE_LEN 12
#define HK_GCM_TAG_LEN   16

/* An expanded key. Its contents are the library's: intel-ipsec-mb 1.3 needs 1008 bytes, and 2.0
 * 1264. */
struct hk_gcm_key {
	_Alignas(64) unsigned char bytes[1280];
};

/* A piece of a plaintext. */
struct hk_gcm_piece {
	const void *base;
	size_t len;
};

/* One library's functions, as below. */
struct hk_gcm_library {
	bool (*start)(void); /* false: it cannot work on this CPU */
	void (*expand)(struct hk_gcm_key *key, const uint8_t *bytes);
	void (*sign)(const struct hk_gcm_key *key, const uint8_t *nonce,
		     const struct hk_gcm_piece *piece, unsigned count, uint8_t *tag);
	void (*encrypt)(const struct hk_gcm_key *key, const uint8_t *nonce, const void *clear,
			size_t clear_len, const struct hk_gcm_piece *piece, unsigned count,
			void *to, uint8_t *tag);
	bool (*open)(const struct hk_gcm_key *key, const uint8_t *nonce, const void *clear,
		     size_t clear_len, void *data, size_t len, const uint8_t *tag);
};

extern const struct hk_gcm_library hk_gcm_openssl;
extern const struct hk_gcm_library hk_gcm_ipsec_mb; /* only in a build for x86 */

extern const struct hk_gcm_library *hk_gcm; /* the one that works here */

/* Chooses the library. Call it once in each process, before the others. -ENOSYS: none works. */
int hk_gcm_start(struct hk_error *err);

static inline void hk_gcm_expand(struct hk_gcm_key *key, const uint8_t bytes[HK_GCM_KEY_LEN])
{
	hk_gcm->expand(key, bytes);
}

/* Writes the tag of the @count pieces, 1 or 2, which stay as they are. */
static inline void hk_gcm_sign(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
			       const struct hk_gcm_piece *piece, unsigned count,
			       uint8_t tag[HK_GCM_TAG_LEN])
{
	hk_gcm->sign(key, nonce, piece, count, tag);
}

/* Encrypts the @count pieces one behind the other to @to, and writes the tag of @clear and them. */
static inline void hk_gcm_encrypt(const struct hk_gcm_key *key,
				  const uint8_t nonce[HK_GCM_NONCE_LEN], const void *clear,
				  size_t clear_len, const struct hk_gcm_piece *piece,
				  unsigned count, void *to, uint8_t tag[HK_GCM_TAG_LEN])
{
	hk_gcm->encrypt(key, nonce, clear, clear_len, piece, count, to, tag);
}

/* Checks the tag of @clear and of the ciphertext at @data, and decrypts that in place. With @len 0
 * it only checks the tag, as hk_gcm_sign() wrote it. False: the tag is wrong. The bytes at @data
 * are of no use then. */
static inline bool hk_gcm_open(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
			       const void *clear, size_t clear_len, void *data, size_t len,
			       const uint8_t tag[HK_GCM_TAG_LEN])
{
	return hk_gcm->open(key, nonce, clear, clear_len, data, len, tag);
}

#endif

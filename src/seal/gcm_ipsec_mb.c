/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/gcm_ipsec_mb.c: AES-128-GCM by intel-ipsec-mb.
 *
 * A message of which nothing is encrypted is authenticated as additional data by one call, which is
 * faster than the library's three for GMAC.
 */
#include "seal/gcm.h"

#include <intel-ipsec-mb.h>
#include <string.h>

_Static_assert(sizeof(struct gcm_key_data) <= sizeof(struct hk_gcm_key), "it has room");
_Static_assert(_Alignof(struct gcm_key_data) <= _Alignof(struct hk_gcm_key), "it is aligned");

static IMB_MGR *mgr; /* the functions for this CPU; written once */

static bool start(void)
{
	IMB_MGR *m = alloc_mb_mgr(0);

	if (!m)
		return false;
	init_mb_mgr_auto(m, NULL);
	if (imb_get_errno(m) == 0 && m->gcm128_enc) {
		mgr = m;
		return true;
	}
	free_mb_mgr(m); /* the CPU lacks AES instructions */
	return false;
}

static const struct gcm_key_data *data_of(const struct hk_gcm_key *key)
{
	return (const void *)key;
}

static void expand(struct hk_gcm_key *key, const uint8_t bytes[HK_GCM_KEY_LEN])
{
	IMB_AES128_GCM_PRE(mgr, bytes, (struct gcm_key_data *)(void *)key);
}

static void sign(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
		 const struct hk_gcm_piece *piece, unsigned count, uint8_t tag[HK_GCM_TAG_LEN])
{
	struct gcm_context_data ctx;
	uint8_t nothing;

	if (count == 1) { /* faster by one call than below */
		IMB_AES128_GCM_ENC(mgr, data_of(key), &ctx, &nothing, &nothing, 0, nonce,
				   piece->base, piece->len, tag, HK_GCM_TAG_LEN);
		return;
	}
	IMB_AES128_GMAC_INIT(mgr, data_of(key), &ctx, nonce, HK_GCM_NONCE_LEN);
	for (unsigned i = 0; i < count; i++)
		IMB_AES128_GMAC_UPDATE(mgr, data_of(key), &ctx, piece[i].base, piece[i].len);
	IMB_AES128_GMAC_FINALIZE(mgr, data_of(key), &ctx, tag, HK_GCM_TAG_LEN);
}

static void encrypt(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
		    const void *clear, size_t clear_len, const struct hk_gcm_piece *piece,
		    unsigned count, void *to, uint8_t tag[HK_GCM_TAG_LEN])
{
	struct gcm_context_data ctx;
	uint8_t *at = to;

	if (count == 1) {
		IMB_AES128_GCM_ENC(mgr, data_of(key), &ctx, at, piece->base, piece->len, nonce,
				   clear, clear_len, tag, HK_GCM_TAG_LEN);
		return;
	}
	IMB_AES128_GCM_INIT(mgr, data_of(key), &ctx, nonce, clear, clear_len);
	for (unsigned i = 0; i < count; at += piece[i].len, i++)
		IMB_AES128_GCM_ENC_UPDATE(mgr, data_of(key), &ctx, at, piece[i].base, piece[i].len);
	IMB_AES128_GCM_ENC_FINALIZE(mgr, data_of(key), &ctx, tag, HK_GCM_TAG_LEN);
}

static bool open_frame(const struct hk_gcm_key *key, const uint8_t nonce[HK_GCM_NONCE_LEN],
		       const void *clear, size_t clear_len, void *data, size_t len,
		       const uint8_t tag[HK_GCM_TAG_LEN])
{
	struct gcm_context_data ctx;
	uint64_t is[HK_GCM_TAG_LEN / 8], should[HK_GCM_TAG_LEN / 8];

	IMB_AES128_GCM_DEC(mgr, data_of(key), &ctx, data, data, len, nonce, clear, clear_len,
			   (uint8_t *)is, HK_GCM_TAG_LEN);
	memcpy(should, tag, sizeof(should));
	/* no branch depends on how many bytes are right */
	return ((is[0] ^ should[0]) | (is[1] ^ should[1])) == 0;
}

const struct hk_gcm_library hk_gcm_ipsec_mb = {
	.start = start,
	.expand = expand,
	.sign = sign,
	.encrypt = encrypt,
	.open = open_frame,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/group.c: see seal/group.h.
 */
#include "seal/group.h"
#include "seal/internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>

struct hk_seal_group {
	struct hk_seal_key key;
	uint32_t channel, endpoint, epoch;
};

struct hk_seal_group *hk_seal_group_open(const struct hk_seal *s,
					 const uint8_t secret[HK_AGREE_LEN], uint32_t channel,
					 uint32_t endpoint, uint32_t epoch)
{
	const struct hk_seal_use use = {
		.job = hk_seal_cfg(s)->job, .from = endpoint, .from_epoch = epoch, .to = channel};
	struct hk_seal_group *g = aligned_alloc(_Alignof(struct hk_seal_group), sizeof(*g));

	if (!g)
		return NULL;
	*g = (struct hk_seal_group){.channel = channel, .endpoint = endpoint, .epoch = epoch};
	if (hk_seal_derive(s, secret, &use, &g->key))
		return g;
	hk_seal_group_close(g);
	return NULL;
}

void hk_seal_group_close(struct hk_seal_group *g)
{
	if (g)
		OPENSSL_cleanse(g, sizeof(*g));
	free(g);
}

void hk_seal_group_write(struct hk_seal *s, const struct hk_seal_group *g, void *base)
{
	const struct hk_gcm_piece whole = {base, HK_WIRE_HLEN + hk_wire_len(base)};

	if (hk_seal_cfg(s)->protection == HK_WIRE_AUTH)
		hk_seal_write_tag(&g->key, hk_seal_count(s), base, NULL);
	else
		hk_seal_write_encrypted(&g->key, hk_seal_count(s), &whole, 1, base);
}

bool hk_seal_group_read(const struct hk_seal *s, const struct hk_seal_group *g,
			const struct hk_wire_sealed *f)
{
	return f->job == hk_seal_cfg(s)->job && f->dst == g->channel && f->src == g->endpoint &&
	       f->src_epoch == g->epoch && f->key_index == 0 &&
	       hk_seal_read(&g->key, f, hk_seal_cfg(s)->protection == HK_WIRE_SEAL);
}

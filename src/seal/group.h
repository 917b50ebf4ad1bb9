/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/group.h: multicast frames with keys.
 *
 * All members of a group have one secret, which they were told in protected messages. The key of a
 * sender's frames follows from it and from who the sender is. So somebody outside of the group can
 * neither make nor read such a frame. A member could make one in the name of another member.
 *
 * Nonces are as in seal/seal.h: each frame of a sender has a counter of its own.
 */
#ifndef HK_SEAL_GROUP_H
#define HK_SEAL_GROUP_H

#include "seal/seal.h"

/* The key of one sender's frames on one channel. */
struct hk_seal_group;

/* @s: our own side; @endpoint and @epoch: of the sender, who may be ourselves. NULL: no memory. */
struct hk_seal_group *hk_seal_group_open(const struct hk_seal *s,
					 const uint8_t secret[HK_AGREE_LEN], uint32_t channel,
					 uint32_t endpoint, uint32_t epoch);

/* NULL is allowed. */
void hk_seal_group_close(struct hk_seal_group *g);

/* Protects the frame of ours at @base in its place; HK_WIRE_SEAL_LEN bytes are free behind it. */
void hk_seal_group_write(struct hk_seal *s, const struct hk_seal_group *g, void *base);

/* Checks a frame of the sender, and decrypts it in place with HK_WIRE_SEAL. */
bool hk_seal_group_read(const struct hk_seal *s, const struct hk_seal_group *g,
			const struct hk_wire_sealed *f);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/hash.h: FNV-1a (Fowler, Noll, Vo), to make short names and numbers of long ones. It resists
 * no attacker.
 */
#ifndef HK_BASE_HASH_H
#define HK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HK_HASH_START 2166136261u

/* Returns @hash, continued with the @len bytes at @data. */
static inline uint32_t hk_hash(uint32_t hash, const void *data, size_t len)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ byte[i]) * 16777619u;
	return hash;
}

static inline uint32_t hk_hash_text(const char *text)
{
	return hk_hash(HK_HASH_START, text, strlen(text));
}

#endif

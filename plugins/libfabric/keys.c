/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/keys.c: the directory of our keys, and what we remember of those of peers.
 */
#include "libfabric/keys.h"

#include "libfabric/provider.h"

#define BUCKETS   2048u /* eight entries a region: a bucket does not fill up */
#define KNOWN     64u
#define KNOWN_MAX (1u << 16)

static uint64_t hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static uint32_t sum(const struct hk_fi_key *k)
{
	uint64_t both = k->key ^ (k->base << 1 | k->base >> 63);

	return (uint32_t)(both ^ both >> 32) + k->region;
}

/* ---- ours ------------------------------------------------------------------------------------ */

int hk_fi_keys_open(struct hk_fi_domain *d)
{
	size_t len = BUCKETS * HK_FI_BUCKET * sizeof(*d->directory);

	d->directory = calloc(1, len);
	if (!d->directory)
		return -FI_ENOMEM;
	d->name.directory = hk_worker_region_add(d->worker, d->directory, len, HK_REGION_READ,
						 HK_PEER_NONE);
	return d->name.directory != HK_REGION_NONE ? 0 : -FI_ENOMEM;
}

void hk_fi_keys_close(struct hk_fi_domain *d)
{
	free(d->directory);
	free(d->known);
}

uint64_t hk_fi_key_offset(uint64_t key)
{
	return hash(key) % BUCKETS * HK_FI_BUCKET * sizeof(struct hk_fi_key);
}

static struct hk_fi_key *bucket_of(const struct hk_fi_domain *d, uint64_t key)
{
	return d->directory + hash(key) % BUCKETS * HK_FI_BUCKET;
}

const struct hk_fi_key *hk_fi_key_find(const struct hk_fi_key *bucket, uint64_t key)
{
	for (const struct hk_fi_key *k = bucket; k < bucket + HK_FI_BUCKET; k++)
		if (k->region != HK_REGION_NONE && k->key == key && k->check == sum(k))
			return k;
	return NULL;
}

const struct hk_fi_key *hk_fi_key_own(const struct hk_fi_domain *d, uint64_t key)
{
	return hk_fi_key_find(bucket_of(d, key), key);
}

int hk_fi_key_add(struct hk_fi_domain *d, uint64_t key, uint64_t base, hk_region region)
{
	struct hk_fi_key new = {.key = key, .base = base, .region = region}, *k = bucket_of(d, key);
	const struct hk_fi_key *end = k + HK_FI_BUCKET;

	if (hk_fi_key_own(d, key))
		return -FI_ENOKEY;
	while (k < end && k->region != HK_REGION_NONE)
		k++;
	if (k == end)
		return -FI_ENOSPC;
	new.check = sum(&new);
	*k = new;
	return 0;
}

void hk_fi_key_del(struct hk_fi_domain *d, uint64_t key)
{
	struct hk_fi_key *k = bucket_of(d, key);

	while (k->region == HK_REGION_NONE || k->key != key)
		k++;
	*k = (struct hk_fi_key){0};
}

/* ---- those of peers -------------------------------------------------------------------------- */

/* Each has one place, where a later one replaces it. */
static struct hk_fi_known *place_of(const struct hk_fi_domain *d, uint32_t peer, uint64_t key)
{
	return &d->known[hash(key ^ (uint64_t)peer << 40) & (d->known_room - 1)];
}

const struct hk_fi_key *hk_fi_key_known(const struct hk_fi_domain *d, uint32_t peer, uint64_t key)
{
	const struct hk_fi_known *k = d->known_room ? place_of(d, peer, key) : NULL;

	return k && k->at.region != HK_REGION_NONE && k->at.key == key && k->peer == peer ? &k->at
											  : NULL;
}

/* Doubles the table. Without memory it stays as it is. */
static void grow(struct hk_fi_domain *d)
{
	const struct hk_fi_known *old = d->known;
	uint32_t room = d->known_room;
	struct hk_fi_known *more = calloc(room ? 2 * room : KNOWN, sizeof(*more));

	if (!more)
		return;
	d->known = more;
	d->known_room = room ? 2 * room : KNOWN;
	for (uint32_t i = 0; i < room; i++)
		if (old[i].at.region != HK_REGION_NONE)
			*place_of(d, old[i].peer, old[i].at.key) = old[i];
	free((void *)(uintptr_t)old);
}

void hk_fi_key_learn(struct hk_fi_domain *d, uint32_t peer, const struct hk_fi_key *found)
{
	struct hk_fi_known *k = d->known_room ? place_of(d, peer, found->key) : NULL;

	if (!k || (k->at.region != HK_REGION_NONE && d->known_room < KNOWN_MAX &&
		   (k->at.key != found->key || k->peer != peer)))
		grow(d);
	if (d->known_room)
		*place_of(d, peer, found->key) = (struct hk_fi_known){*found, peer};
}

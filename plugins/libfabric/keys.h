/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/keys.h: keys of memory, and the regions that they mean.
 *
 * DESIGN NOTES
 *
 * Problem. A peer names memory by an address and by a key of 64 bits, which the owner's program has
 * chosen. A worker knows offsets in regions, whose numbers it chooses (hikyaku/rma.h).
 *
 * Approach. The owner writes its keys into a table, the *directory*, which is a region too. Its
 * number is a part of the names of endpoints. Before its first operation with a key, a peer reads
 * the bucket of that key, and remembers what it finds. So the owner's program need not poll. A
 * region that is closed leaves its number, and no later region has the same one soon. So an
 * operation by an outdated entry is refused. Then the peer reads the bucket again.
 *
 * Rejected. A request that the owner's provider answers: only progress of the program would answer
 * it. A hash of the key as a number: two keys may have the same one. The numbers as keys, for
 * programs that take keys of the provider (FI_MR_PROV_KEY): Intel MPI 2021.18 crashes unless its
 * addresses are virtual then. MPICH, and fabtests, take what we need less.
 *
 * Invariants. The owner changes an entry while a peer reads it, so each has a check sum. A peer may
 * find anything in a directory: what it does with that is checked by the owner's worker.
 */
#ifndef HK_FI_KEYS_H
#define HK_FI_KEYS_H

#include "hikyaku/rma.h"

#include <stdint.h>

#define HK_FI_BUCKET 16 /* entries: less than a frame */

/* A key, and the region that it means. */
struct hk_fi_key {
	uint64_t key;
	uint64_t base;    /* address of the region's first byte, as peers say addresses */
	hk_region region; /* HK_REGION_NONE: the entry is free */
	uint32_t check;   /* sum of the others */
};

/* A peer's key, as we have read it. */
struct hk_fi_known {
	struct hk_fi_key at;
	uint32_t peer; /* its place in the domain */
};

struct hk_fi_domain;

/* Opens the directory of @d. Returns 0 or a negative code. */
int hk_fi_keys_open(struct hk_fi_domain *d);
void hk_fi_keys_close(struct hk_fi_domain *d);

/* Adds our key, or removes it. -FI_ENOKEY: it is in use; -FI_ENOSPC: its bucket is full. */
int hk_fi_key_add(struct hk_fi_domain *d, uint64_t key, uint64_t base, hk_region region);
void hk_fi_key_del(struct hk_fi_domain *d, uint64_t key);

/* Our key; or a key in a bucket that we have read. NULL: there is none. */
const struct hk_fi_key *hk_fi_key_own(const struct hk_fi_domain *d, uint64_t key);
const struct hk_fi_key *hk_fi_key_find(const struct hk_fi_key *bucket, uint64_t key);

/* Where the bucket of @key begins, in bytes, in any directory. */
uint64_t hk_fi_key_offset(uint64_t key);

/* A peer's key that we remember, or NULL; remembers @found. */
const struct hk_fi_key *hk_fi_key_known(const struct hk_fi_domain *d, uint32_t peer, uint64_t key);
void hk_fi_key_learn(struct hk_fi_domain *d, uint32_t peer, const struct hk_fi_key *found);

#endif

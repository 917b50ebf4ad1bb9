/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/name.h: the name of an endpoint, which fi_getname() returns and fi_av_insert() takes.
 *
 * MPICH stores names of at most 64 bytes, so this one has 64, and an epoch has no place in it. It
 * needs none: each worker draws its endpoint number at random when it starts. So a process that
 * starts again is another endpoint.
 *
 * Pure. Names come from outside: hk_fi_name_check() decides which are used.
 */
#ifndef HK_FI_NAME_H
#define HK_FI_NAME_H

#include "base/common.h"
#include "hikyaku/worker.h"

#define HK_FI_NAME_VERSION 2
#define HK_FI_EPOCH        1u /* of every worker */

/* Bits of `kind`. */
#define HK_FI_NAME_IP6    0x10 /* the port has an address in `address`, not a MAC */
#define HK_FI_NAME_WIRE   0x20 /* its ports are point-to-point wires, one for each peer */
#define HK_FI_NAME_COUNTS 0x40 /* the endpoint wants to know of writes and reads */
#define HK_FI_NAME_PROT   0x0f /* enum hk_protection of its frames */

struct hk_fi_name {
	uint8_t version;
	uint8_t number; /* of the endpoint in its worker */
	uint8_t kind;
	uint8_t key_check;  /* hk_fi_key_check() of the job's key */
	uint32_t endpoint;  /* of the worker */
	uint32_t directory; /* the worker's region with its keys: keys.h */
	uint16_t frame_max; /* bytes of the largest frame that it takes */
	uint8_t address[HK_IP6_LEN];
	uint8_t public_key[HK_KEY_LEN];
};
_Static_assert(sizeof(struct hk_fi_name) == 64, "MPICH's limit, and there is no hole");

/* A part of the job's key, by which processes of two jobs recognise that they cannot talk. */
uint8_t hk_fi_key_check(uint32_t key);

/* Can a worker with the name @own reach the one with @peer? Returns NULL, or why not, for "endpoint
 * … has …". */
const char *hk_fi_name_check(const struct hk_fi_name *own, const struct hk_fi_name *peer);

/* The peer's address, as the worker wants it, by local port @port. @text names it. */
void hk_fi_name_address(const struct hk_fi_name *peer, unsigned port, const char *text,
			struct hk_peer_addr *addr);

#endif

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
#include "hostd/hosted.h"

#define HK_FI_NAME_VERSION 3
#define HK_FI_EPOCH        1u /* of every worker */

/* Bits of `kind`. */
#define HK_FI_NAME_PROT   0x03 /* enum hk_protection of its frames */
#define HK_FI_NAME_MODE   0x0c /* enum hk_ctl_mode; 0: inline */
#define HK_FI_NAME_IP6    0x10 /* the port has an address in `address`, not a MAC */
#define HK_FI_NAME_WIRE   0x20 /* its ports are point-to-point wires, one for each peer */
#define HK_FI_NAME_COUNTS 0x40 /* the endpoint wants to know of writes and reads */

#define HK_FI_NAME_PORTS 4 /* that a name can count; and that have room in `address`: */
#define HK_FI_NAME_MACS  3 /* of Ethernet, or of UDP by IPv4 */
#define HK_FI_NAME_IP6S  1

struct hk_fi_name {
	uint8_t version;
	uint8_t number : 6; /* of the endpoint in its worker */
	uint8_t more : 2;   /* ports of the worker besides the first */
	uint8_t kind;
	uint8_t key_check;           /* hk_fi_key_check() of the job's key */
	uint32_t endpoint;           /* of the worker */
	uint32_t directory;          /* the worker's region with its keys: keys.h */
	uint16_t frame_max;          /* bytes of the largest frame that it takes */
	uint8_t address[HK_IP6_LEN]; /* MACs; with hikyakud one, and then a struct hk_hosted_node */
	uint8_t public_key[HK_KEY_LEN];
};
_Static_assert(sizeof(struct hk_fi_name) == 64, "MPICH's limit, and there is no hole");

/* A part of the job's key, by which processes of two jobs recognise that they cannot talk. */
uint8_t hk_fi_key_check(uint32_t key);

/* Can a worker with the name @own reach the one with @peer? Returns NULL, or why not, for "endpoint
 * … has …". */
const char *hk_fi_name_check(const struct hk_fi_name *own, const struct hk_fi_name *peer);

/* The polling mode of a worker; 0: inline. */
static inline enum hk_ctl_mode hk_fi_name_mode(const struct hk_fi_name *name)
{
	return (enum hk_ctl_mode)((name->kind & HK_FI_NAME_MODE) >> 2);
}

static inline unsigned hk_fi_name_ports(const struct hk_fi_name *name)
{
	return 1u + name->more;
}

/* Where a worker with hikyakud is. */
void hk_fi_name_set_hosted(struct hk_fi_name *name, enum hk_ctl_mode mode,
			   const struct hk_hosted_node *node);
struct hk_hosted_node hk_fi_name_hosted(const struct hk_fi_name *name);

/* The peer's address, as the worker wants it. The local port @txq[i] leads to its port i, for the
 * first @count of these. @text names it. */
void hk_fi_name_address(const struct hk_fi_name *peer, const int *txq, unsigned count,
			const char *text, struct hk_peer_addr *addr);

#endif

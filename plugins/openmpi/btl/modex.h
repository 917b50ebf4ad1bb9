/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/modex.h: what a rank tells all others (the modex), and what of it is believed.
 *
 * Pure: needs nothing of Open MPI, and may be used by any thread. Little-endian hosts only, like
 * the wire's fast path.
 */
#ifndef HK_MPI_MODEX_H
#define HK_MPI_MODEX_H

#include "base/common.h"
#include "engine/engine.h"

#define HK_MODEX_PATHS HK_PATHS

/* The version comes first, so that a rank recognises another build. */
struct hk_modex {
	uint32_t magic; /* HK_MODEX_MAGIC */
	uint16_t version;
	uint8_t path_count; /* ports: 1 … HK_MODEX_PATHS */
	uint8_t protection; /* enum hk_protection of its frames */
	uint32_t key;       /* of the job, as this rank has it */
	uint32_t endpoint, epoch;
	struct hk_modex_path {
		uint16_t frame_max; /* bytes of the largest frame that it takes */
		uint8_t mac[6];
		uint8_t address[18]; /* hk_port_address(), if … */
		uint8_t has_address; /* … there is one */
		uint8_t udp;         /* it is a UDP socket: it reaches such alone */
		uint8_t zero[4];
		uint64_t network; /* hk_port_network() */
	} path[HK_MODEX_PATHS];
	uint64_t node_id;     /* of its node's polling process; 0: it has none */
	uint32_t mode;        /* enum hk_ctl_mode; 0: inline */
	uint32_t slot, slots; /* which of how many there */
	uint32_t eager;       /* queue pairs of each wire that it polls */
	uint32_t same_node;   /* it serves ranks of its node: see same_node.c */
	uint8_t wire_set;     /* its ports are sets of point-to-point wires */
	uint8_t known_job;    /* its number in tags, if the controller knows where it is; 0: no */
	uint8_t zero[2];
	uint8_t public_key[32]; /* of frames with keys; others: 0 */
	char host[64];
};
_Static_assert(sizeof(struct hk_modex) == 472, "no hole is published");

#define HK_MODEX_MAGIC   0x666b6948u /* "Hikf" */
#define HK_MODEX_VERSION 8

enum hk_modex_status {
	HK_MODEX_OK,
	HK_MODEX_STRANGE, /* nothing of ours */
	HK_MODEX_VERSION_DIFFERS,
	HK_MODEX_PATHS_MALFORMED, /* a number of ports that none can have */
};

/* Reads the @size bytes at @data that a rank published. For HK_MODEX_OK it fills
 * @m and terminates `host`. With a malformed number of ports it fills only `host` and `path_count`,
 * and with another version only `version`. */
enum hk_modex_status hk_modex_read(const void *data, size_t size, struct hk_modex *m);

/* Which of @peer's ports each of ours reaches; -1: none. The n-th Ethernet port reaches the n-th,
 * and the n-th UDP socket the n-th. Two Ethernet ports in different networks of IP may have a
 * router between them, so they are left out if other ports reach. Returns how many of ours reach
 * one. */
unsigned hk_modex_pair(const struct hk_modex *own, const struct hk_modex *peer,
		       int to[HK_MODEX_PATHS]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/xdp.h: what the XDP program and the helper have in common.
 */
#ifndef HK_HELPER_XDP_H
#define HK_HELPER_XDP_H

#include <stdint.h>

#define HK_XDP_QUEUES 64   /* of an interface */
#define HK_XDP_CLAIMS 1024 /* endpoints of all jobs, and UDP sockets */

/* Where our frames (EtherType 0x88B5) have their job and their destination, bytes behind the
 * Ethernet header: wire/wire.h. */
#define HK_XDP_JOB_AT      4
#define HK_XDP_ENDPOINT_AT 12

/* Sockets are numbered by slots, from 1; 0: none. */
struct hk_xdp_queue {
	uint32_t ours;      /* gets frames of our EtherTypes that nobody has claimed */
	uint32_t all;       /* gets all frames */
	uint32_t claims;    /* endpoints that are claimed on this queue */
	uint32_t datagrams; /* UDP sockets whose datagrams are */
};

struct hk_xdp_claim {
	uint32_t queue, job, endpoint;
};

/* Datagrams of UDP for one address and port. */
struct hk_xdp_datagrams {
	uint8_t address[16]; /* IPv4 in the form ::ffff:a.b.c.d */
	uint32_t queue;
	uint16_t port; /* in network order */
	uint16_t pad;  /* 0 */
};

#endif

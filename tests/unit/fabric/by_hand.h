/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/by_hand.h: one fabric, and its peer's frames made by hand.
 *
 * For what two honest fabrics cannot be brought to do at will: a driver that keeps what it has
 * sent, a peer that leaves at a given moment. The wire is a net_ring that leads back to its own
 * port, without a copy: what the fabric sends the test takes out of the ring, as the very buffer,
 * before the fabric looks; what the test puts in comes to the fabric.
 */
#ifndef HK_TEST_BY_HAND_H
#define HK_TEST_BY_HAND_H

#include "fabric/rma.h"
#include "port/internal.h"
#include "tests/unit/hk_test.h"

#define WAIT_MS 30000 /* no test takes a hundredth of it */
#define KEY     0x48414e44u
#define SELF    1u
#define OTHER   2u
#define EPOCH   100u
#define AM      7
#define BUFFERS 256
#define LEN     200

struct scene {
	struct hk_port *port;
	struct hk_fabric *f;
	hk_peer peer;
	hk_peer about; /* of whom verdicts are expected */
	bool crc;
	unsigned lost; /* verdicts */
	enum hk_verdict why;
	char text[256]; /* of the last */
};

uint64_t now_ms(void);

/* A fabric that knows one peer, OTHER; with @crc their frames have one. */
void scene_open(struct scene *s, bool crc);

/* The same without, and it keeps at most so many frames in their buffers (0: the default). */
void scene_open_keep(struct scene *s, unsigned rx_keep);

/* All buffers are back; closes the fabric. */
void nothing_is_left(struct scene *s);

/* What the fabric sent next, parsed into *@f, or NULL: the buffer is the test's, as if it were the driver. */
struct rte_mbuf *take(struct scene *s, struct hk_frame *f);

/* Waits for the next data frame; acks and the like are let go. */
struct rte_mbuf *take_data(struct scene *s, struct hk_frame *f);

/* What every header of the other end has. */
struct hk_wire_hdr other_header(enum hk_wire_type type, uint32_t psn, uint16_t window);

/* A frame into the ring, with h->len bytes of @payload (NULL: zeros). */
void frame_into_ring(struct scene *s, const struct hk_wire_hdr *h, const void *payload);

/* A frame of the other end that carries nothing, into the ring … */
void into_ring(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack,
	       uint16_t window);

/* … and the fabric takes it. */
void arrives(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack, uint16_t window);

/* The fabric sends the other end a message of LEN bytes, @first, @first + 1, …: as hk_fabric_send(). */
int send_one(struct scene *s, uint8_t first);

/* A stand-in takes in the packet that lies in the ring, while the application is away. */
void served(struct scene *s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/by_hand.h: one worker, and a peer whose frames the test makes by hand.
 *
 * Two workers do not produce some cases at will. A driver keeps what it has sent. A peer breaks the
 * rules, or leaves at a given moment.
 *
 * The wire is a net_ring that leads back to its own port, without a copy. The test takes a sent
 * frame out of the ring, as the very buffer, before the worker polls. A frame that the test puts
 * into the ring reaches the worker.
 */
#ifndef HK_TEST_BY_HAND_H
#define HK_TEST_BY_HAND_H

#include "worker/private.h"
#include "hikyaku/rma.h"
#include "port/internal.h"
#include "tests/support/await.h"
#include "tests/support/hk_test.h"

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
	struct hk_worker *w;
	hk_peer peer;
	hk_peer about; /* peer whose connection the test expects to end */
	bool crc;
	unsigned lost; /* ended connections that were reported */
	enum hk_disconnect_reason why;
	char text[256]; /* text of the last report */
};

/* A worker that knows one peer, OTHER; with @crc their frames have one. */
void scene_open(struct scene *s, bool crc);

/* The same without CRC, and an rx backlog of @rx_backlog frames (0: the default). */
void scene_open_rx_backlog(struct scene *s, unsigned rx_backlog);

/* Lets the poller drive the worker, too. */
void scene_share(struct scene *s);

/* Checks that all buffers are free, and closes the worker. */
void nothing_is_left(struct scene *s);

/* The next frame that the worker sent, parsed into *@f, or NULL. The buffer belongs to the test,
 * as if it were the driver. */
struct rte_mbuf *take(struct scene *s, struct hk_frame *f);

/* Waits for the next data frame; frees all others. */
struct rte_mbuf *take_data(struct scene *s, struct hk_frame *f);

/* A header of the other end. */
struct hk_wire_hdr other_header(enum hk_wire_type type, uint32_t psn, uint16_t credit);

/* Puts a frame into the ring, with h->len bytes of @payload (NULL: zeros). */
void frame_into_ring(struct scene *s, const struct hk_wire_hdr *h, const void *payload);

/* Puts a frame of the other end without payload into the ring. */
void into_ring(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack,
	       uint16_t window);

/* The same, and the worker receives it. */
void arrives(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack, uint16_t window);

/* Sends the other end a message of LEN bytes: @first, @first + 1 and so on. Returns as
 * hk_worker_send(). */
int send_one(struct scene *s, uint8_t first);

/* Lets the poller take in the packet in the ring, while the application does not poll. */
void served(struct scene *s);

#endif

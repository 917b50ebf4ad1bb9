/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/memif_rings.c: the rings of a memif, as processes that share one see them.
 *
 * DESIGN NOTES
 *
 * Problem: a process may be killed at any instruction of the driver's rx or tx, and another then
 * uses its queue. Most of what the driver keeps survives this: positions are stored last, so the
 * successor sends or receives a burst again. Two things do not survive, both at the server's end
 * (rte_eth_memif.c of DPDK 22.11):
 *
 *  1. tx to the client. Before tx the length of a descriptor is the room in its buffer, and tx
 *     replaces it by the length of the frame. If tx ends there, the successor takes the old frame's
 *     length for the room. It spreads its frame over two descriptors, and marks the first with
 *     "next". The driver never removes that mark. In each later round of the ring the receiver
 *     joins two frames that have nothing to do with each other.
 *  2. rx from the client. The driver gives slots back (the ring's tail) and then stores how far it
 *     has read (last_head). If rx ends in between, the successor reads slots that the client is
 *     writing.
 *
 * Approach: the successor restores both before its first rx and tx. The unsent descriptors are its
 * own, as is last_head, so nobody else writes to them meanwhile. last_head lies in the driver's
 * private structure, in DPDK's shared memory. Its layout has been the same since DPDK 20.11; the
 * fields whose values are known are compared, and a difference is an error.
 *
 * The client's end needs neither. Its tx writes the length without reading it, and its rx stores
 * how far it has read before it gives slots back.
 */
#include "port/internal.h"

#include <errno.h>
#include <string.h>

#define RING_COOKIE  0x3E31F20
#define RING_NO_INTR 1
#define RING_LOG_MAX 14 /* the driver's limit is 2^14 descriptors */

/* A ring and its descriptors, as the memif protocol defines them. */
struct descriptor {
	uint16_t flags, region;
	uint32_t length, offset, metadata;
};

struct ring {
	uint32_t cookie;
	uint16_t flags, head;
	uint8_t pad0[56];
	uint16_t tail;
	uint8_t pad1[62];
	struct descriptor desc[];
};

/* The begin of the driver's struct memif_queue. */
struct driver_queue {
	struct rte_mempool *pool;
	void *device;
	unsigned type; /* 0: client to server */
	uint16_t region, port;
	uint32_t ring_offset;
	uint16_t last_head, last_tail;
};

static struct ring *ring_at(const struct hk_memif_rings *r, unsigned i)
{
	return (struct ring *)(r->at + i * r->ring_len);
}

int hk_memif_rings_find(void *at, size_t size, unsigned count, struct hk_memif_rings *r)
{
	*r = (struct hk_memif_rings){.at = at, .count = count};
	/* All have the same length, so the position of the second cookie shows it. */
	for (unsigned l = 0; l <= RING_LOG_MAX && count > 1; l++) {
		size_t len = sizeof(struct ring) + (sizeof(struct descriptor) << l);

		if (len * count > size)
			break;
		if (((struct ring *)((uint8_t *)at + len))->cookie == RING_COOKIE) {
			r->ring_len = len;
			break;
		}
	}
	if (!r->ring_len)
		return -EPROTO;
	for (unsigned i = 0; i < count; i++)
		if (ring_at(r, i)->cookie != RING_COOKIE)
			return -EPROTO;
	return 0;
}

void hk_memif_rings_mask_interrupts(const struct hk_memif_rings *r)
{
	for (unsigned i = 0; i < r->count; i++)
		__atomic_or_fetch(&ring_at(r, i)->flags, RING_NO_INTR, __ATOMIC_RELEASE);
}

/* Restores the descriptors that the sender of ring @i has got and not sent. */
static int restore_unsent(const struct hk_memif_rings *r, unsigned i, uint16_t frame_max)
{
	struct ring *ring = ring_at(r, i);
	unsigned size = (unsigned)((r->ring_len - sizeof(*ring)) / sizeof(struct descriptor));
	uint16_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
	uint16_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

	if ((uint16_t)(head - tail) > size)
		return -EPROTO;
	for (; tail != head; tail++) {
		struct descriptor *d = &ring->desc[tail & (size - 1)];

		d->flags = 0;
		d->length = frame_max;
	}
	return 0;
}

uint16_t *hk_memif_rx_position(const struct hk_memif_rings *r, uint16_t port, uint16_t queue)
{
	struct driver_queue *q = rte_eth_fp_ops[port].rxq.data[queue];

	if (!q || q->type != 0 || q->region != 0 || q->port != port ||
	    q->ring_offset != queue * r->ring_len)
		return NULL;
	return &q->last_head;
}

int hk_memif_rings_take(const struct hk_memif_rings *r, uint16_t port, uint16_t queue,
			uint16_t frame_max)
{
	uint16_t *position = queue < r->count / 2 ? hk_memif_rx_position(r, port, queue) : NULL;

	if (!position)
		return -EPROTO;
	*position = __atomic_load_n(&ring_at(r, queue)->tail, __ATOMIC_RELAXED);
	return restore_unsent(r, r->count / 2 + queue, frame_max);
}

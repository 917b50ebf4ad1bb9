/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/ring.h: how one emulated NIC hands frames to another: a ring of descriptors, and a
 * window of bytes. Pure.
 *
 * The sender places a frame in the window, writes its descriptor, and then writes the doorbell: the
 * number of descriptors so far. The receiver takes the frames in order, and writes the credit: the
 * number that it has taken. Both numbers wrap. Descriptors and doorbell are in the receiver's BAR,
 * and the credit in the sender's. So each side only writes across PCIe, except for the frames.
 * Their window may be in any region.
 *
 * Invariants:
 *  - Each side keeps its own count, and never reads back a number that it has written.
 *  - Both read each number and descriptor of the other side once, and check it before use. A
 * doorbell or credit that cannot be true ends the link. A wrong descriptor loses its frame.
 *  - A frame is in one piece, and begins at a cache line.
 */
#ifndef HK_NIC_RING_H
#define HK_NIC_RING_H

#include "base/common.h"

#include <stdatomic.h>

#define HK_NIC_RING      1024u        /* descriptors; a power of two */
#define HK_NIC_WINDOW    (256u << 10) /* bytes of a window */
#define HK_NIC_BURST     64u          /* frames that a NIC handles together */
#define HK_NIC_FRAME_MAX 2048u        /* bytes of the largest frame, without FCS */
#define HK_NIC_FRAME_MIN 14u          /* an Ethernet header */
#define HK_NIC_LINE      64u

struct hk_nic_descriptor {
	uint32_t offset, length; /* of a frame in the window, bytes */
};

/* The part of a NIC's BAR that one peer writes. */
struct hk_nic_inbound {
	_Alignas(HK_NIC_LINE) _Atomic uint32_t doorbell;
	_Alignas(HK_NIC_LINE) _Atomic uint32_t credit; /* for frames in the other direction */
	_Alignas(HK_NIC_LINE) struct hk_nic_descriptor descriptor[HK_NIC_RING];
};

struct hk_nic_sender {
	struct hk_nic_descriptor *descriptor;
	_Atomic uint32_t *doorbell;
	const _Atomic uint32_t *credit;
	uint8_t *window;
	uint32_t sent, taken;      /* descriptors */
	uint64_t head, tail;       /* bytes of the window: ever given to frames, and free again */
	uint64_t end[HK_NIC_RING]; /* `head` after each descriptor */
};

struct hk_nic_receiver {
	const volatile struct hk_nic_descriptor *descriptor;
	const _Atomic uint32_t *doorbell;
	_Atomic uint32_t *credit;
	const uint8_t *window;
	uint32_t taken;
};

/* Reads the credit. False: it is none that the receiver can have written. */
static inline bool hk_nic_sender_refresh(struct hk_nic_sender *s)
{
	uint32_t credit = atomic_load_explicit(s->credit, memory_order_acquire);

	if (HK_UNLIKELY(credit - s->taken > s->sent - s->taken))
		return false;
	if (credit != s->taken) {
		s->tail = s->end[(credit - 1) % HK_NIC_RING];
		s->taken = credit;
	}
	return true;
}

/* Whether a burst of the largest frames fits. A frame may leave as much as its length unused before
 * the end of the window. */
static inline bool hk_nic_sender_has_space(const struct hk_nic_sender *s)
{
	return HK_NIC_RING - (s->sent - s->taken) >= HK_NIC_BURST &&
	       HK_NIC_WINDOW - (s->head - s->tail) >= (HK_NIC_BURST + 1) * HK_NIC_FRAME_MAX;
}

/* Takes a place in the window for a frame of @length bytes, and writes its descriptor. The caller
 * has seen hk_nic_sender_has_space() less than a burst ago, and copies the frame there. */
static inline uint8_t *hk_nic_sender_place(struct hk_nic_sender *s, uint32_t length)
{
	uint32_t bytes = (length + HK_NIC_LINE - 1) & ~(HK_NIC_LINE - 1);
	uint32_t offset = (uint32_t)(s->head % HK_NIC_WINDOW), at = s->sent++ % HK_NIC_RING;

	if (offset + bytes > HK_NIC_WINDOW) {
		s->head += HK_NIC_WINDOW - offset;
		offset = 0;
	}
	s->head += bytes;
	s->end[at] = s->head;
	s->descriptor[at] = (struct hk_nic_descriptor){offset, length};
	return s->window + offset;
}

/* Writes the doorbell, after the frames and descriptors. */
static inline void hk_nic_sender_notify(struct hk_nic_sender *s)
{
	atomic_store_explicit(s->doorbell, s->sent, memory_order_release);
}

/* Returns how many frames wait, at most a burst; -1: the doorbell is none that the sender can have
 * written. */
static inline int hk_nic_receiver_waiting(const struct hk_nic_receiver *r)
{
	uint32_t n = atomic_load_explicit(r->doorbell, memory_order_acquire) - r->taken;

	if (HK_UNLIKELY(n > HK_NIC_RING))
		return -1;
	return (int)HK_MIN(n, HK_NIC_BURST);
}

/* Returns frame @i of those that wait, and its length. NULL: its descriptor is wrong. */
static inline const uint8_t *hk_nic_receiver_frame(const struct hk_nic_receiver *r, uint32_t i,
						   uint32_t *length)
{
	uint32_t at = (r->taken + i) % HK_NIC_RING, offset = r->descriptor[at].offset;

	*length = r->descriptor[at].length;
	if (HK_UNLIKELY(*length < HK_NIC_FRAME_MIN || *length > HK_NIC_FRAME_MAX ||
			offset > HK_NIC_WINDOW - *length))
		return NULL;
	return r->window + offset;
}

/* Gives the places of @n frames back to the sender. */
static inline void hk_nic_receiver_release(struct hk_nic_receiver *r, uint32_t n)
{
	r->taken += n;
	atomic_store_explicit(r->credit, r->taken, memory_order_release);
}

#endif

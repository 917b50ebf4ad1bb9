/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap_ring.h: the protocol and the ring between a captured process and the one that captures.
 *
 * Each process with ports listens on an abstract socket (unix(7), SOCK_SEQPACKET). It needs no
 * file, so a killed process leaves nothing. The socket's name is `hikyaku/tap/PID`. With a hikyakud
 * it is `hikyaku/tap/PID/SHARED`, with the name of the shared memory. The kernel tells the process
 * which user is at the other end; it accepts its own user and root. The capturing process creates a
 * memfd that cannot shrink and sends it with START. The captured process maps it and copies frames
 * there. The connection is a lease: when either end closes it, the capture is over.
 *
 *   request     reply
 *   START    →  STARTED     the process copies frames into the ring that came with START
 *            →  REFUSED     the process does not, with the reason
 *            →  END         the process ends in good order; if it dies, the connection closes
 *   STATS    →  STATS       the process's counters. A second message has `size` bytes of JSON.
 *                           This also works during another process's capture
 *
 * The ring has one writer and one reader. A record lies at `head` modulo the ring's size, never
 * across its end, and its size is a multiple of HK_TAP_ALIGN. The writer counts frames that do not
 * fit, and never waits. Neither side trusts the other. Each has its own index and checks the
 * distance to the other's; the reader checks every record (tools/capture/reader.h).
 *
 * Integers are in native byte order, because both processes run on one machine.
 */
#ifndef HK_PORT_TAP_RING_H
#define HK_PORT_TAP_RING_H

#include "base/common.h"

#include <stdatomic.h>

#define HK_TAP_NAME        "hikyaku/tap/" /* prefix of the name, behind the zero byte */
#define HK_TAP_MAGIC       UINT32_C(0x50544b48)
#define HK_TAP_VERSION     1
#define HK_TAP_PORTS       256 /* limit for one process in one capture */
#define HK_TAP_ALIGN       32
#define HK_TAP_SNAPLEN_MAX 65535
#define HK_TAP_SIZE_MIN    (UINT64_C(1) << 18) /* holds a few of the longest records */
#define HK_TAP_SIZE_MAX    (UINT64_C(1) << 30)

/* ---- the ring -------------------------------------------------------------------------------- */

struct hk_tap_counters {
	_Atomic uint64_t seen;    /* frames that the port has moved since START */
	_Atomic uint64_t dropped; /* those of them that did not fit the ring */
};

struct hk_tap_ring {                        /* head of the ring; its bytes follow */
	_Alignas(64) _Atomic uint64_t head; /* bytes written so far; by the captured process */
	_Atomic uint64_t lost;              /* uncaptured frames that no port counted */
	_Alignas(64) _Atomic uint64_t tail; /* bytes read so far; by the reader */
	_Alignas(64) struct hk_tap_counters port[HK_TAP_PORTS];
};

enum hk_tap_kind {
	HK_TAP_SKIP = 1, /* unused bytes up to the ring's end */
	HK_TAP_PORT,     /* struct hk_tap_port, before the port's first frame */
	HK_TAP_FRAME     /* `cap` bytes of a frame */
};

enum hk_tap_direction { HK_TAP_IN = 1, HK_TAP_OUT = 2 }; /* as in pcapng's flags */

struct hk_tap_record {
	uint32_t size; /* bytes, this head included; a multiple of HK_TAP_ALIGN */
	uint16_t kind; /* enum hk_tap_kind */
	uint16_t port; /* number of the port in this capture, below HK_TAP_PORTS */
	uint64_t ns;   /* time of the burst, CLOCK_REALTIME, ns */
	uint32_t len;  /* bytes of the frame */
	uint32_t cap;  /* bytes of it in this record */
	uint16_t queue;
	uint8_t direction;
	uint8_t zero[5];
};
_Static_assert(sizeof(struct hk_tap_record) == HK_TAP_ALIGN, "a skip's head always fits");

struct hk_tap_port {
	char name[256]; /* port spec; both texts are terminated */
	char driver[32];
	uint8_t mac[6];
	uint16_t frame_max;
	uint32_t link_mbps; /* 0: unknown */
	uint8_t zero[20];
};
_Static_assert(sizeof(struct hk_tap_port) % HK_TAP_ALIGN == 0, "a record's size");

/* ---- messages ------------------------------------------------------------------------------- */

enum hk_tap_type { HK_TAP_START = 1, HK_TAP_STARTED, HK_TAP_REFUSED, HK_TAP_END, HK_TAP_STATS };

#define HK_TAP_STATS_MAX 4096 /* bytes of the JSON text */

/* Flag: capture frames of pipes too (port/pipe.h). hikyakud captures them at its ports already. */
#define HK_TAP_F_PIPES 1u

struct hk_tap_msg {
	uint32_t magic, version;
	uint32_t type;
	uint32_t snaplen; /* START: 1 to HK_TAP_SNAPLEN_MAX */
	uint32_t flags;   /* START: HK_TAP_F_* */
	uint32_t zero;
	uint64_t size;  /* START: bytes of the ring behind its head, a power of two. STATS: bytes of
			   the text */
	char text[232]; /* STARTED: name of the process. REFUSED: reason */
};
_Static_assert(sizeof(struct hk_tap_msg) == 264, "part of the protocol");

#endif

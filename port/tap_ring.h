/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap_ring.h: what a process whose frames are captured, and the one that captures, share and say.
 *
 * Each process that moves frames listens on an abstract socket (unix(7), SOCK_SEQPACKET), so that nothing
 * lies in the file system, and nothing is left of one that is killed. Its name is `hikyaku/tap/PID`, and, of
 * the processes of a hikyakud, `hikyaku/tap/PID/SHARED`, with the name of their shared memory. The kernel says who
 * is at the other end: the process serves its own user and root. Whoever captures makes a memfd that cannot
 * shrink, and sends it with START; the process maps it and copies frames there. The connection is the
 * lease: when it closes, by whatever end, the capture is over.
 *
 *   START    →  STARTED     here is a ring: copy what you move
 *            →  REFUSED     why not
 *            ←  END         the process leaves in good order; when one dies, the connection closes without
 *   STATS    →  STATS       what it counts: behind this message one more, of `size` bytes, JSON. Also while
 *                           another captures
 *
 * The ring has one writer and one reader. Records lie at `head` modulo its size, never across its end, each
 * a multiple of HK_TAP_ALIGN. What there is no room for is counted, never waited for. Neither side believes
 * the other: each keeps its own place, and checks the other's by its distance; the reader checks every
 * record (capture/reader.h).
 *
 * Native byte order: both are of one machine.
 */
#ifndef HK_PORT_TAP_RING_H
#define HK_PORT_TAP_RING_H

#include "base/common.h"

#include <stdatomic.h>

#define HK_TAP_NAME        "hikyaku/tap/" /* after the zero that makes it abstract */
#define HK_TAP_MAGIC       UINT32_C(0x50544b48)
#define HK_TAP_VERSION     1
#define HK_TAP_PORTS       256 /* of one process, in one capture */
#define HK_TAP_ALIGN       32
#define HK_TAP_SNAPLEN_MAX 65535
#define HK_TAP_SIZE_MIN    (UINT64_C(1) << 18) /* some of the longest records */
#define HK_TAP_SIZE_MAX    (UINT64_C(1) << 30)

/* ---- the ring -------------------------------------------------------------------------------- */

struct hk_tap_counters {
	_Atomic uint64_t seen;    /* frames that the port has moved since START … */
	_Atomic uint64_t dropped; /* … of which there was no room for so many */
};

struct hk_tap_ring {                        /* the bytes follow */
	_Alignas(64) _Atomic uint64_t head; /* bytes ever written; the captured process's */
	_Atomic uint64_t lost;              /* frames that no port's counters have */
	_Alignas(64) _Atomic uint64_t tail; /* bytes ever read; the reader's */
	_Alignas(64) struct hk_tap_counters port[HK_TAP_PORTS];
};

enum hk_tap_kind {
	HK_TAP_SKIP = 1, /* nothing until the ring's end */
	HK_TAP_PORT,     /* struct hk_tap_port: comes before the port's first frame */
	HK_TAP_FRAME     /* `cap` bytes of a frame */
};

enum hk_tap_direction { HK_TAP_IN = 1, HK_TAP_OUT = 2 }; /* as in pcapng's flags */

struct hk_tap_record {
	uint32_t size; /* with this head; a multiple of HK_TAP_ALIGN */
	uint16_t kind; /* enum hk_tap_kind */
	uint16_t port; /* below HK_TAP_PORTS */
	uint64_t ns;   /* of CLOCK_REALTIME: when the burst was moved */
	uint32_t len;  /* of the frame */
	uint32_t cap;  /* of which here */
	uint16_t queue;
	uint8_t direction;
	uint8_t zero[5];
};
_Static_assert(sizeof(struct hk_tap_record) == HK_TAP_ALIGN, "a skip always has room for its head");

struct hk_tap_port {
	char name[256]; /* the port's spec; texts end within their room */
	char driver[32];
	uint8_t mac[6];
	uint16_t frame_max;
	uint32_t link_mbps; /* 0: unknown */
	uint8_t zero[20];
};
_Static_assert(sizeof(struct hk_tap_port) % HK_TAP_ALIGN == 0, "a record's room");

/* ---- messages --------------------------------------------------------------------------------- */

enum hk_tap_type { HK_TAP_START = 1, HK_TAP_STARTED, HK_TAP_REFUSED, HK_TAP_END, HK_TAP_STATS };

#define HK_TAP_STATS_MAX 4096 /* of the text */

#define HK_TAP_F_PIPES                                                                             \
	1u /* frames of pipes as well (port/pipe.h): those of ports hikyakud has already */

struct hk_tap_msg {
	uint32_t magic, version;
	uint32_t type;
	uint32_t snaplen; /* START: 1 to HK_TAP_SNAPLEN_MAX */
	uint32_t flags;   /* START: HK_TAP_F_* */
	uint32_t zero;
	uint64_t size; /* START: of the ring without its head; a power of two. STATS: of the text */
	char text[232]; /* STARTED: who this is; REFUSED: why */
};
_Static_assert(sizeof(struct hk_tap_msg) == 264, "part of the protocol");

#endif

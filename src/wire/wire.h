/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/wire.h: every byte of Hikyaku's frames.
 *
 * docs/wire.md shows each frame and tools/wireshark/hikyaku.lua dissects it. A change to one of the
 * three changes all of them, and adds a row to tests/unit/wire/test_wire.c (CONTRIBUTING.md, "Add a
 * frame type").
 *
 * A frame is [framing][base header, 48 bytes][extensions][payload][trailer][padding].
 * The framing is an Ethernet II header today. The base header does not depend on the framing, so
 * UDP could carry the same bytes. docs/design/wire2.md has the reasons of this version. All
 * integers are little-endian. No field is a pointer: `region` is a number that the receiver looks
 * up and checks, and `xfer` is a number that it expects.
 *
 * The functions are pure: they have no state, read no clock and allocate nothing, so any thread
 * may call them. Memory belongs to the caller. Frames may lie at any address.
 *
 * Sources: comparison of packet numbers RFC 1982; selective acknowledgement RFC 2018; timestamps
 * RFC 7323; CRC32C RFC 3720, section 12.1.
 */
#ifndef HK_WIRE_WIRE_H
#define HK_WIRE_WIRE_H

#include "base/common.h"

#include <string.h>

#pragma GCC visibility push(default)

#define HK_WIRE_ETHERTYPE 0x88B5 /* IEEE 802 local experimental 1 */
#define HK_WIRE_VERSION   2
#define HK_ETH_HLEN       14
#define HK_ETH_MIN_FRAME  60 /* bytes without FCS; hardware pads shorter frames */

enum hk_wire_type {
	HK_WIRE_DATA = 1,  /* one fragment of an active message; a packet */
	HK_WIRE_PUT = 2,   /* one piece of a put, with put extension; a packet */
	HK_WIRE_ACK = 3,   /* acknowledgement; a bitmap shows packets behind a gap */
	HK_WIRE_RESET = 4, /* refusal of a frame for an epoch that is not the receiver's */
	HK_WIRE_BYE = 5,   /* orderly leave: the sender sends no more frames */
	HK_WIRE_MCAST = 6, /* one piece of a multicast; unacknowledged, never resent */
};

/* How a frame is protected: the low four bits of `version`. src/seal computes the trailers of the
 * last two. */
enum hk_wire_protection {
	HK_WIRE_BARE = 0, /* no trailer */
	HK_WIRE_CRC = 1,  /* trailer of HK_WIRE_CRC_LEN bytes: CRC32C */
	HK_WIRE_AUTH = 2, /* trailer of HK_WIRE_SEAL_LEN bytes: authenticated */
	HK_WIRE_SEAL = 3, /* the same, and all behind the clear part is encrypted */
};

/* The byte `version` of a frame with protection @p. */
#define HK_WIRE_VERSION_BYTE(p) (HK_WIRE_VERSION << 4 | (p))

/* Flags of the base header. Every other bit must be 0. */
#define HK_WIRE_F_ACK_NOW 0x01u /* acknowledge at once: a probe, a resend or a full window */
#define HK_WIRE_F_RESENT  0x02u /* not the first transmission of this packet number */
/* The packet that tsecr echoes had waited because the receiver was not polling. */
#define HK_WIRE_F_NOT_POLLING 0x04u
#define HK_WIRE_F_GRANT       0x08u /* a grant is the first extension: DATA, PUT, ACK */
#define HK_WIRE_F_BULK        0x10u /* the packet's `len` counts against grants: DATA, PUT */
#define HK_WIRE_F_ALL         0x1fu

/*
 *   0       1       2       3       4       5       6       7
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |ver|prt|  key  |      len      |              job              |
 *  +-------+-------+---------------+-------------------------------+
 *  |        source endpoint        |     destination endpoint      |
 *  +-------------------------------+-------------------------------+
 *  |         source epoch          |       destination epoch       |
 *  +-------+-------+---------------+-------------------------------+  the part from here on
 *  | type  | flags |    credit     |      packet number (psn)      |  is encrypted in a
 *  +-------+-------+---------------+-------------------------------+  sealed frame
 *  |        cumulative ack         |        timestamp value        |
 *  +-------------------------------+-------+-------+-------+-------+
 *  |        timestamp echo         |  am   | frag  | frags | marks |
 *  +-------------------------------+-------+-------+-------+-------+
 */
struct __attribute__((may_alias)) hk_wire_hdr { /* laid over bytes of frames */
	uint8_t version;                        /* HK_WIRE_VERSION_BYTE() */
	uint8_t key_index;  /* AUTH, SEAL: low bits of the number of the key; others: 0 */
	uint16_t len;       /* bytes of extensions and payload, explicit because Ethernet pads */
	uint32_t job;       /* job key; receivers drop and count frames of others */
	uint32_t src;       /* sender's endpoint */
	uint32_t dst;       /* receiver's endpoint. MCAST: multicast channel */
	uint32_t src_epoch; /* incarnation of the sender; never 0 */
	uint32_t dst_epoch; /* receiver's incarnation as the sender knows it; never 0.
			       MCAST: number of the multicast transfer */
	uint8_t type;       /* enum hk_wire_type */
	uint8_t flags;      /* HK_WIRE_F_* */
	uint16_t credit;    /* packet numbers [ack, ack + credit) may be in flight */
	uint32_t psn;       /* DATA, PUT: number of this packet. MCAST: number of this piece.
			       Others: number of the next packet */
	uint32_t ack;       /* cumulative acknowledgement: all numbers before it have arrived */
	uint32_t tsval;     /* sender's clock, in units of 2^HK_WIRE_TS_SHIFT ns */
	uint32_t tsecr;     /* latest tsval received plus the time since then; 0: none yet.
			       RESET: the refused epoch */
	uint8_t am;         /* DATA: number of the active-message handler (an MPI BTL tag) */
	uint8_t frag;       /* DATA: index of this fragment in its message, from 0 */
	uint8_t frags;      /* DATA: fragments of the message, 1 to HK_WIRE_MAX_FRAGS; others: 0 */
	uint8_t marks;      /* frames with a congestion mark that came from the receiver of this
			       frame, modulo 256 */
};

/* The header in its place in a frame, at any address. */
typedef struct hk_wire_hdr hk_wire_hdr_in_frame __attribute__((aligned(1)));

#define HK_WIRE_HLEN      48
#define HK_WIRE_TS_SHIFT  4   /* 16 ns units: wraps after 68 s */
#define HK_WIRE_MAX_FRAGS 16  /* fragments of a message; Open MPI's limit for a descriptor */
#define HK_WIRE_WINDOW    256 /* limit of packets in flight to a peer: bits of the bitmap */
#define HK_WIRE_CRC_LEN   4
#define HK_WIRE_CLEAR_LEN 24 /* bytes of the base header that are never encrypted */
_Static_assert(sizeof(struct hk_wire_hdr) == HK_WIRE_HLEN, "base header is 48 bytes on the wire");

/*
 * AUTH, SEAL: trailer of 24 bytes. The counter never repeats under one key (src/seal/seal.h), and
 * the tag is that of AES-128-GCM.
 */
struct hk_wire_seal {
	uint64_t counter;
	uint8_t tag[16];
};

#define HK_WIRE_SEAL_LEN 24
_Static_assert(sizeof(struct hk_wire_seal) == HK_WIRE_SEAL_LEN, "trailer is 24 bytes");

/* Bytes of the trailer of a frame with @protection, which is valid. */
static inline size_t hk_wire_trailer_len(unsigned protection)
{
	return protection >= HK_WIRE_AUTH ? HK_WIRE_SEAL_LEN : protection * HK_WIRE_CRC_LEN;
}

/* Bytes that a sender keeps free behind the payload. Without a trailer it is as much as for a
 * checksum, so that a job's frames carry the same with one. */
static inline size_t hk_wire_trailer_room(unsigned protection)
{
	return protection >= HK_WIRE_AUTH ? HK_WIRE_SEAL_LEN : HK_WIRE_CRC_LEN;
}

/*
 * GRANT: extension of 8 bytes, in front of the others. Both numbers count the `len` of the first
 * arrivals of BULK packets since the start of the connection, modulo 2^32.
 */
struct hk_wire_grant {
	uint32_t granted; /* the receiver of this frame may have sent so much */
	uint32_t wanted;  /* the sender of this frame has sent so much, or waits to */
};

#define HK_WIRE_GRANT_LEN 8
_Static_assert(sizeof(struct hk_wire_grant) == HK_WIRE_GRANT_LEN, "grant is 8 bytes");

/*
 * PUT: extension of 16 bytes. The payload goes to `offset` of `region`. If the region is a notify
 * target, `xfer` is the put's number there, and the target's counter shows when the put is
 * complete.
 */
struct hk_wire_put {
	uint32_t region; /* number of the receiver's region: slot and generation */
	uint32_t xfer;   /* notify target: number of the put, with bit 31 set; others: 0 */
	uint64_t offset; /* bytes from the start of the region; checked against its length */
};

#define HK_WIRE_PUT_LEN 16
_Static_assert(sizeof(struct hk_wire_put) == HK_WIRE_PUT_LEN, "put extension is 16 bytes");

/*
 * GET and its refusal: the payload of a one-frame DATA message with `am` HK_WIRE_AM_GET. The
 * receiver writes the requested bytes back by PUT, or replies with the same message and `status`
 * set.
 */
struct hk_wire_get {
	uint32_t status;    /* enum hk_wire_get_status: a request or a refusal */
	uint32_t region;    /* number of the receiver's region to read from */
	uint64_t offset;    /* bytes from the start of `region` */
	uint64_t len;       /* bytes to read; not 0 */
	uint64_t to_offset; /* bytes from the start of `to_region` */
	uint32_t to_region; /* number of the requester's region to write to; names the request */
	uint32_t zero;      /* must be 0 */
};

enum hk_wire_get_status {
	HK_WIRE_GET_REQUEST = 0,
	HK_WIRE_GET_BUSY = 1,   /* too many gets at once: the requester tries again later */
	HK_WIRE_GET_DENIED = 2, /* unknown region, missing right or out of bounds */
};

#define HK_WIRE_AM_GET  255
#define HK_WIRE_GET_LEN 40
_Static_assert(sizeof(struct hk_wire_get) == HK_WIRE_GET_LEN, "get message is 40 bytes");

/*
 * ACK: a bitmap of any multiple of 8 bytes, up to HK_WIRE_SACK_MAX. Bit i (byte i / 8, bit i % 8)
 * means that packet number ack + i has arrived; bit 0 is therefore always clear. A frame may have
 * a longer bitmap than our window needs: the parser ignores the rest.
 */
struct hk_wire_sack {
	uint64_t bits[HK_WIRE_WINDOW / 64];
};

#define HK_WIRE_SACK_LEN 32   /* the longest that we send */
#define HK_WIRE_SACK_MAX 1024 /* the longest that the format allows */
_Static_assert(sizeof(struct hk_wire_sack) == HK_WIRE_SACK_LEN, "bitmap is 32 bytes");

/* Bytes of a DATA or PUT frame in front of its payload. */
#define HK_WIRE_DATA_OVERHEAD (HK_ETH_HLEN + HK_WIRE_HLEN)
#define HK_WIRE_PUT_OVERHEAD  (HK_WIRE_DATA_OVERHEAD + HK_WIRE_PUT_LEN)

enum hk_wire_status {
	HK_WIRE_OK = 0,
	HK_WIRE_E_ETHERTYPE,  /* another protocol's frame */
	HK_WIRE_E_SHORT,      /* shorter than its headers, or than `len` */
	HK_WIRE_E_VERSION,    /* a version that this build does not support */
	HK_WIRE_E_PROTECTION, /* another protection than the receiver demands */
	HK_WIRE_E_TYPE,       /* unknown type */
	HK_WIRE_E_FIELD,      /* field out of range (key, flags, frag, frags, epoch, len) */
	HK_WIRE_E_CRC,        /* wrong checksum, or none although required */
	HK_WIRE_STATUS_MAX,
};

/* A frame that hk_wire_frame_parse() accepted: host byte order, every field in range. The pointers
 * point into the caller's frame and are valid as long as it is. */
struct hk_frame {
	struct hk_wire_hdr h;
	const uint8_t *payload; /* after the extensions; payload_len bytes */
	uint16_t payload_len;
	const uint8_t *src_mac;     /* source address, six bytes */
	uint64_t counter;           /* AUTH, SEAL: of the trailer; others: 0 */
	struct hk_wire_grant grant; /* flag GRANT only */
	struct hk_wire_put put;     /* type PUT only */
	struct hk_wire_sack sack;   /* type ACK only; 0 behind a shorter bitmap */
};

/* Checks and decodes one received Ethernet frame of @len bytes (without FCS). @need is the
 * protection that the receiver demands. HK_WIRE_BARE also accepts frames with a checksum.
 * HK_WIRE_AUTH and HK_WIRE_SEAL accept frames of the same protection, which hk_seal_open() has
 * authenticated and decrypted. The caller may read @out only after HK_WIRE_OK. */
enum hk_wire_status hk_wire_frame_parse(const void *frame, size_t len, enum hk_wire_protection need,
					struct hk_frame *out);

/* The parts of a frame that is authenticated, or encrypted as well. */
struct hk_wire_sealed {
	uint32_t job, src, dst, src_epoch, dst_epoch; /* as in the base header */
	uint8_t key_index;
	uint64_t counter;
	uint8_t *base; /* the base header in the caller's frame; extensions and payload follow */
	size_t len;    /* bytes from there to the trailer */
	uint8_t *tag;
};

/* Finds the parts of a received frame with the protection @need: HK_WIRE_AUTH or HK_WIRE_SEAL.
 * Checks that its length fits, and that the epochs are not 0. */
enum hk_wire_status hk_wire_sealed_parse(void *frame, size_t len, enum hk_wire_protection need,
					 struct hk_wire_sealed *out);

/* Sets protection and key index in the base header at @base, whose `len` is already written, and
 * writes the counter of the trailer to @trailer. */
void hk_wire_seal_encode(void *base, enum hk_wire_protection p, uint8_t key_index, uint64_t counter,
			 void *trailer);

/* Returns the bytes of extensions and payload that the base header at @base announces. */
size_t hk_wire_len(const void *base);

/* Reads the job key and the destination endpoint (of a multicast: the channel) of a frame, and
 * checks nothing else. For programs that forward frames, not for receivers. False if the frame is
 * not Hikyaku's or too short. */
bool hk_wire_frame_address(const void *frame, size_t len, uint32_t *job, uint32_t *endpoint);

/* Writes @h in wire order to @dst: HK_WIRE_HLEN bytes, any alignment. */
void hk_wire_hdr_encode(void *dst, const struct hk_wire_hdr *h);

/* Converts a header that the caller wrote into its frame field by field to wire order. */
static inline void hk_wire_hdr_to_wire(hk_wire_hdr_in_frame *h)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	struct hk_wire_hdr native = *h;
	hk_wire_hdr_encode(h, &native);
#else
	(void)h;
#endif
}

/* Write an extension or the payload of a GET in wire order to @dst: HK_WIRE_GRANT_LEN,
 * HK_WIRE_PUT_LEN or HK_WIRE_GET_LEN bytes, any alignment. */
void hk_wire_grant_encode(void *dst, const struct hk_wire_grant *g);
void hk_wire_put_encode(void *dst, const struct hk_wire_put *p);
void hk_wire_get_encode(void *dst, const struct hk_wire_get *g);

/* Writes the bitmap without the zero words at its end, any alignment. Returns its bytes: a multiple
 * of 8, at most HK_WIRE_SACK_LEN. */
size_t hk_wire_sack_encode(void *dst, const struct hk_wire_sack *s);

/* Checks and decodes the payload of an HK_WIRE_AM_GET message. False if it breaks a rule; the
 * caller must not read @out then. */
bool hk_wire_get_parse(const void *payload, size_t len, struct hk_wire_get *out);

/* Writes the Ethernet header: HK_ETH_HLEN bytes at @dst. */
void hk_wire_eth_encode(void *dst, const uint8_t dst_mac[6], const uint8_t src_mac[6]);

/* Sets the protection HK_WIRE_CRC and appends the checksum of base header, extensions and payload.
 * @base points at the base header, whose `len` is already written; HK_WIRE_CRC_LEN bytes must be
 * free after the payload. Returns HK_WIRE_CRC_LEN. */
size_t hk_wire_frame_checksum(void *base);

/* Returns whether a frame with the header @h has a checksum. */
static inline bool hk_wire_has_crc(const struct hk_wire_hdr *h)
{
	return (h->version & 0xf) == HK_WIRE_CRC;
}

/* Returns one word for the status, for counters and messages: a constant string, "unknown" for a
 * value that is not a status. */
const char *hk_wire_status_name(enum hk_wire_status s);

/* Packet numbers wrap: a comes before b if the distance from a to b is the shorter one (RFC 1982).
 */
static inline bool hk_psn_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/wire.h: every byte that Hikyaku puts on a wire.
 *
 * docs/wire.md draws each frame; tools/wireshark/hikyaku.lua dissects it. Touch all three
 * together, and add a row to tests/unit/test_wire.c (CONTRIBUTING.md, "Add a frame type").
 *
 * A frame is [framing][base header, 48 bytes][extension][payload][CRC32C, optional][padding].
 * The framing is an Ethernet II header today; the base header does not know what stands before
 * it, so that UDP can carry the same bytes. All integers are little-endian. Nothing on the wire
 * is a pointer: `region` is an id that the receiver resolves and checks, `xfer` a number it expects.
 *
 * Functions here are pure: no state, no clock, no allocation; any thread may call them. Frames and what is written to
 * them may lie at any address. Memory is the caller's.
 *
 * Sources: packet numbers compare as in RFC 1982; selective ack RFC 2018; timestamps RFC 7323; CRC32C is that of
 * RFC 3720, section 12.1.
 */
#ifndef HK_WIRE_H
#define HK_WIRE_H

#include "base/common.h"

#include <string.h>

#define HK_WIRE_ETHERTYPE 0x88B5 /* IEEE 802 local experimental 1 */
#define HK_WIRE_VERSION   1
#define HK_ETH_HLEN       14
#define HK_ETH_MIN_FRAME  60 /* without FCS: what hardware pads to */

enum hk_wire_type {
	HK_WIRE_DATA = 1,  /* one fragment of an active message; numbered, resent until acked */
	HK_WIRE_PUT = 2,   /* one piece of a one-sided write: + put extension; numbered, resent */
	HK_WIRE_ACK = 3,   /* + ack extension (selective-ack bitmap); not numbered, never resent */
	HK_WIRE_RESET = 4, /* "the epoch you wrote to is not mine"; not numbered */
	HK_WIRE_BYE = 5,   /* orderly leave: no more frames will come; not numbered */
	HK_WIRE_MCAST =
		6, /* a piece of a multicast, for who listens; not acknowledged, never resent */
};

/* flags of the base header; every other bit must be zero */
#define HK_WIRE_F_CRC     0x0001u /* four bytes of CRC32C follow the payload */
#define HK_WIRE_F_ACK_NOW 0x0002u /* do not delay the answer (probe, or the window runs low) */
#define HK_WIRE_F_RESENT  0x0004u /* not the first transmission of this packet number */
#define HK_WIRE_F_AWAY    0x0008u /* what tsecr echoes had waited for a receiver that did not poll */
#define HK_WIRE_F_ALL     0x000fu

/*
 *   0       1       2       3       4       5       6       7
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |version| type  |     flags     |      len      |    window     |
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |             job key           |       source endpoint         |
 *  +-------------------------------+-------------------------------+
 *  |       destination endpoint    |       source epoch            |
 *  +-------------------------------+-------------------------------+
 *  |       destination epoch       |       packet number (psn)     |
 *  +-------------------------------+-------------------------------+
 *  |       cumulative ack          |       timestamp value         |
 *  +-------------------------------+-------+-------+-------+-------+
 *  |       timestamp echo          |  am   | frag  | frags |   0   |
 *  +-------------------------------+-------+-------+-------+-------+
 */
struct __attribute__((may_alias)) hk_wire_hdr { /* laid over bytes of frames */
	uint8_t version;                        /* HK_WIRE_VERSION */
	uint8_t type;                           /* enum hk_wire_type */
	uint16_t flags;                         /* HK_WIRE_F_* */
	uint16_t len;       /* bytes of extension + payload; Ethernet pads, so it is explicit */
	uint16_t window;    /* credit: packet numbers [ack, ack + window) may be in flight to me */
	uint32_t key;       /* of the job; frames of other jobs are dropped and counted */
	uint32_t src;       /* endpoint that sent this */
	uint32_t dst;       /* endpoint that shall receive it. MCAST: the channel */
	uint32_t src_epoch; /* incarnation of the sender; never 0 */
	uint32_t
		dst_epoch; /* incarnation of the receiver the sender believes in; never 0. MCAST: number
				of the transfer */
	uint32_t psn;      /* DATA, PUT: number of this packet. MCAST: which piece of the transfer.
				Others: next number to be sent */
	uint32_t ack;      /* every number before this one has arrived here */
	uint32_t tsval; /* sender's clock, in units of 2^HK_WIRE_TS_SHIFT ns */
	uint32_t tsecr; /* latest tsval heard, plus how long it was held; 0: none yet.
				RESET: the epoch that was refused */
	uint8_t am;     /* DATA: active-message id (an MPI BTL tag) */
	uint8_t frag;   /* DATA: which fragment of the message this is … */
	uint8_t frags;  /* … of how many (1 to HK_WIRE_MAX_FRAGS); 0 for other types */
	uint8_t zero;   /* must be 0 */
};

/* A header where it lies in a frame, at any address. */
typedef struct hk_wire_hdr hk_wire_hdr_in_frame __attribute__((aligned(1)));

#define HK_WIRE_HLEN      48
#define HK_WIRE_TS_SHIFT  4   /* 16 ns units: wraps after 68 s */
#define HK_WIRE_MAX_FRAGS 16  /* Open MPI takes at most 16 segments a descriptor */
#define HK_WIRE_WINDOW    256 /* packets in flight to a peer at the most: bits of the bitmap */
#define HK_WIRE_CRC_LEN   4
_Static_assert(sizeof(struct hk_wire_hdr) == HK_WIRE_HLEN, "base header is 48 bytes on the wire");

/*
 * PUT: extension of 16 bytes. The payload goes to `offset` of `region`. If that is an inbox, which takes
 * one put after the other, `xfer` is the put's number there; when all its bytes have come, the owner is
 * told.
 */
struct hk_wire_put {
	uint32_t region; /* id that the receiver gave out: slot and generation */
	uint32_t xfer;   /* number of the put to an inbox, with bit 31 set; 0: no inbox */
	uint64_t offset; /* bytes from the start of the region; checked against its length */
};

#define HK_WIRE_PUT_LEN 16
_Static_assert(sizeof(struct hk_wire_put) == HK_WIRE_PUT_LEN, "put extension is 16 bytes");

/*
 * GET and its refusal: the payload of a DATA message with am HK_WIRE_AM_GET, in one frame. Who gets it
 * writes the asked bytes back by PUT, or answers with the same message and `status` set.
 */
struct hk_wire_get {
	uint32_t status;    /* enum hk_wire_get_status: a request, or the refusal of one */
	uint32_t region;    /* of the one asked: read from … */
	uint64_t offset;    /* … here … */
	uint64_t len;       /* … so many bytes; not 0 */
	uint64_t to_offset; /* and write them here … */
	uint32_t to_region; /* … in this region of the one who asks; also names the request */
	uint32_t zero;      /* must be 0 */
};

enum hk_wire_get_status {
	HK_WIRE_GET_REQUEST = 0,
	HK_WIRE_GET_BUSY = 1,   /* too many at once: ask again */
	HK_WIRE_GET_DENIED = 2, /* no such region, not for you, not so long */
};

#define HK_WIRE_AM_GET  255
#define HK_WIRE_GET_LEN 40
_Static_assert(sizeof(struct hk_wire_get) == HK_WIRE_GET_LEN, "get message is 40 bytes");

/*
 * ACK: extension of 32 bytes. Bit i of the bitmap (byte i / 8, bit i % 8) says that packet
 * number ack + i has arrived; bit 0 is therefore always clear.
 */
struct hk_wire_sack {
	uint64_t bits[HK_WIRE_WINDOW / 64];
};

#define HK_WIRE_SACK_LEN 32
_Static_assert(sizeof(struct hk_wire_sack) == HK_WIRE_SACK_LEN, "bitmap is 32 bytes");

/* Where a frame's bytes go: the framing, the base header, and what a payload may be at the most. */
#define HK_WIRE_DATA_OVERHEAD (HK_ETH_HLEN + HK_WIRE_HLEN)
#define HK_WIRE_PUT_OVERHEAD  (HK_WIRE_DATA_OVERHEAD + HK_WIRE_PUT_LEN)

enum hk_wire_status {
	HK_WIRE_OK = 0,
	HK_WIRE_E_ETHERTYPE, /* not ours: a stray */
	HK_WIRE_E_SHORT,     /* shorter than its headers, or than `len` says */
	HK_WIRE_E_VERSION,   /* ours, of a version this build does not speak */
	HK_WIRE_E_TYPE,      /* unknown type */
	HK_WIRE_E_FIELD,     /* a field outside its range (flags, frag, frags, epoch, len, zero) */
	HK_WIRE_E_CRC,       /* checksum present and wrong, or absent although required */
	HK_WIRE_STATUS_MAX,
};

/* A frame that passed hk_wire_parse: host byte order, every field in range. The pointers lie
 * inside the caller's frame and live as long as it does. */
struct hk_frame {
	struct hk_wire_hdr h;
	const uint8_t *payload; /* after the extension; payload_len bytes */
	uint16_t payload_len;
	const uint8_t *src_mac;   /* six bytes */
	struct hk_wire_put put;   /* type PUT only */
	struct hk_wire_sack sack; /* type ACK only */
};

/* Checks and decodes one received Ethernet frame of @len bytes (no FCS). With @need_crc a frame
 * without a checksum is refused. On anything but HK_WIRE_OK, @out is not to be read. */
enum hk_wire_status hk_wire_parse(const void *frame, size_t len, bool need_crc,
				  struct hk_frame *out);

/* Whose is this frame: its job's key, and the endpoint it is for (of a multicast: the channel)? Only looks where it says
 * so: for those who pass frames on, not for receivers. False if it is not ours or too short. */
bool hk_wire_address(const void *frame, size_t len, uint32_t *key, uint32_t *endpoint);

/* Writes @h in wire order to @dst (HK_WIRE_HLEN bytes, any alignment). */
void hk_wire_put_hdr(void *dst, const struct hk_wire_hdr *h);

/* The same for a header that was written in its place, field by field. */
static inline void hk_wire_order(hk_wire_hdr_in_frame *h)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	struct hk_wire_hdr native = *h;
	hk_wire_put_hdr(h, &native);
#else
	(void)h;
#endif
}

/* The same for the extensions (HK_WIRE_PUT_LEN and HK_WIRE_SACK_LEN bytes) and for GET's payload (HK_WIRE_GET_LEN). */
void hk_wire_put_ext(void *dst, const struct hk_wire_put *p);
void hk_wire_put_sack(void *dst, const struct hk_wire_sack *s);
void hk_wire_put_get(void *dst, const struct hk_wire_get *g);

/* Checks and decodes the payload of a HK_WIRE_AM_GET message. False if it is none; @out is not to be read then. */
bool hk_wire_parse_get(const void *payload, size_t len, struct hk_wire_get *out);

/* Writes the Ethernet header: HK_ETH_HLEN bytes at @dst. */
void hk_wire_put_eth(void *dst, const uint8_t dst_mac[6], const uint8_t src_mac[6]);

/* Sets HK_WIRE_F_CRC, computes the checksum of base header, extension and payload (@base points at the base header,
 * whose `len` is already written) and appends it, where HK_WIRE_CRC_LEN bytes must be free. Returns their number. */
size_t hk_wire_seal(void *base);

/* One word for the status, for counters and messages; a constant, "unknown" for what is no status. */
const char *hk_wire_status_name(enum hk_wire_status s);

/* Packet numbers wrap (RFC 1982): a comes before b, if the way from a to b is the shorter one. */
static inline bool hk_psn_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#endif

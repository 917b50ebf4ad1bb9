/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/atomic.h: the message of an atomic operation on a peer's memory, and its answer.
 *
 * It is the payload of a DATA message of one frame with am HK_WIRE_AM_ATOMIC. The owner of the memory looks
 * the region up, checks bounds, rights and alignment, does the operation, and answers with the same message:
 * `status` set, and in `operand` what lay there before. Beside the atomic ones there are operations that need
 * the same answer: a write or read of as many bytes as a frame holds, and one that does nothing (a fence:
 * everything sent before it has been placed when it is answered).
 *
 *   0       1       2       3       4       5       6       7       8
 *  +-------+-------+-------+-------+-------+-------+-------+-------+
 *  |  op   | size  |status |   0   |             token             |
 *  +-------+-------+-------+-------+-------------------------------+
 *  |            region             |              len              |
 *  +-------------------------------+-------------------------------+
 *  |                            offset                             |
 *  +---------------------------------------------------------------+
 *  |                            operand                            |
 *  +---------------------------------------------------------------+
 *  |                            compare                            |
 *  +---------------------------------------------------------------+
 *  |  len bytes: of a write, or of what was read
 *
 * Little-endian. Pure functions, any thread. docs/wire.md has the rules in words.
 */
#ifndef HK_WIRE_ATOMIC_H
#define HK_WIRE_ATOMIC_H

#include "base/common.h"

#define HK_WIRE_AM_ATOMIC 254

enum hk_atomic {
	HK_ATOMIC_FENCE = 0, /* nothing: it is answered when what was sent before has been placed */
	HK_ATOMIC_ADD,
	HK_ATOMIC_AND,
	HK_ATOMIC_OR,
	HK_ATOMIC_XOR,
	HK_ATOMIC_SWAP,
	HK_ATOMIC_CAS,   /* operand goes there if `compare` lies there */
	HK_ATOMIC_WRITE, /* these two: any bytes, atomic to nobody */
	HK_ATOMIC_READ,
	HK_ATOMIC_KINDS
};

enum hk_wire_atomic_status {
	HK_WIRE_ATOMIC_REQUEST = 0,
	HK_WIRE_ATOMIC_DONE = 1,
	HK_WIRE_ATOMIC_DENIED = 2, /* no such region, not for you, not so long, not aligned */
};

struct hk_wire_atomic {
	uint8_t op;     /* enum hk_atomic */
	uint8_t size;   /* of the operands: 4 or 8; 0 where there are none */
	uint8_t status; /* enum hk_wire_atomic_status */
	uint8_t zero;   /* must be 0 */
	uint32_t token; /* of who asks: names the operation in the answer; not 0 */
	uint32_t region;
	uint32_t len;    /* WRITE, READ: bytes, not 0; others: 0 */
	uint64_t offset; /* in the region */
	uint64_t operand;
	uint64_t compare; /* CAS; others: 0 */
};

#define HK_WIRE_ATOMIC_LEN 40
_Static_assert(sizeof(struct hk_wire_atomic) == HK_WIRE_ATOMIC_LEN, "40 bytes on the wire");

/* Do bytes follow this header? */
static inline bool hk_wire_atomic_carries(const struct hk_wire_atomic *a)
{
	return a->status == HK_WIRE_ATOMIC_REQUEST
		       ? a->op == HK_ATOMIC_WRITE
		       : a->op == HK_ATOMIC_READ && a->status == HK_WIRE_ATOMIC_DONE;
}

/* Writes @a in wire order to @dst (HK_WIRE_ATOMIC_LEN bytes, any alignment). */
void hk_wire_put_atomic(void *dst, const struct hk_wire_atomic *a);

/* Checks and decodes the @len bytes of a message. What it carries follows the header and is as long as it says. */
bool hk_wire_parse_atomic(const void *message, size_t len, struct hk_wire_atomic *out);

#endif

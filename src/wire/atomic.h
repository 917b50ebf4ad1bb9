/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/atomic.h: the request for an atomic operation on a peer's memory, and the reply.
 *
 * Request and reply are each the payload of a one-frame DATA message with `am` HK_WIRE_AM_ATOMIC.
 * The owner of the memory looks the region up, checks bounds, rights and alignment, and performs
 * the operation. The reply is the same message with `status` set and the previous value in
 * `operand`. Four operations that are not atomic use the same messages, because they need the
 * same reply. They are write, read, fence, and the call of a procedure. A write or read moves as
 * many bytes as a frame holds. A fence does nothing: its reply confirms that everything sent before
 * it has been placed. A call carries `len` bytes of arguments, and its reply `len` of results.
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
 *  |  len bytes: to be written, the bytes that were read, arguments or results
 *
 * Integers are little-endian. The functions are pure; any thread may call them. docs/wire.md lists
 * the rules in words.
 */
#ifndef HK_WIRE_ATOMIC_H
#define HK_WIRE_ATOMIC_H

#include "base/common.h"

#pragma GCC visibility push(default)

#define HK_WIRE_AM_ATOMIC 254

enum hk_atomic {
	HK_ATOMIC_FENCE = 0, /* no operation; the reply comes after everything sent before it */
	HK_ATOMIC_ADD,
	HK_ATOMIC_AND,
	HK_ATOMIC_OR,
	HK_ATOMIC_XOR,
	HK_ATOMIC_SWAP,
	HK_ATOMIC_CAS,   /* compare-and-swap: stores `operand` if the value equals `compare` */
	HK_ATOMIC_WRITE, /* write of any bytes, not atomic */
	HK_ATOMIC_READ,  /* read of any bytes, not atomic */
	HK_ATOMIC_RPC,   /* calls a procedure of the owner, which defines what the fields mean */
	HK_ATOMIC_KINDS
};

enum hk_wire_atomic_status {
	HK_WIRE_ATOMIC_REQUEST = 0,
	HK_WIRE_ATOMIC_DONE = 1,
	HK_WIRE_ATOMIC_DENIED = 2, /* unknown region, missing right, out of bounds or unaligned */
};

struct hk_wire_atomic {
	uint8_t op;       /* enum hk_atomic */
	uint8_t size;     /* bytes of an operand: 4 or 8; 0 for FENCE, WRITE, READ and RPC */
	uint8_t status;   /* enum hk_wire_atomic_status */
	uint8_t zero;     /* must be 0 */
	uint32_t token;   /* requester's number of the operation, quoted in the reply; not 0 */
	uint32_t region;  /* number of the owner's region, or procedure */
	uint32_t len;     /* WRITE, READ: bytes, not 0; RPC: bytes behind it; others: 0 */
	uint64_t offset;  /* bytes from the start of the region */
	uint64_t operand; /* request: the operand; reply: the previous value */
	uint64_t compare; /* CAS: the expected value; RPC: any; others and replies to RPC: 0 */
};

#define HK_WIRE_ATOMIC_LEN 40
_Static_assert(sizeof(struct hk_wire_atomic) == HK_WIRE_ATOMIC_LEN, "40 bytes on the wire");

/* Returns whether `len` bytes follow this header. */
static inline bool hk_wire_atomic_has_data(const struct hk_wire_atomic *a)
{
	return a->status == HK_WIRE_ATOMIC_REQUEST
		       ? a->op == HK_ATOMIC_WRITE || a->op == HK_ATOMIC_RPC
		       : a->status == HK_WIRE_ATOMIC_DONE &&
				 (a->op == HK_ATOMIC_READ || a->op == HK_ATOMIC_RPC);
}

/* Writes @a in wire order to @dst: HK_WIRE_ATOMIC_LEN bytes, any alignment. */
void hk_wire_atomic_encode(void *dst, const struct hk_wire_atomic *a);

/* Checks and decodes a message of @len bytes. True if it follows every rule; the bytes that it
 * carries then follow the header, `out->len` of them. */
bool hk_wire_atomic_parse(const void *message, size_t len, struct hk_wire_atomic *out);

#pragma GCC visibility pop

#endif

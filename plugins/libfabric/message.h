/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/message.h: what the provider writes in front of a message, and its answers.
 *
 * Little-endian hosts only, as the wire's fast path. Pure.
 *
 *   TAGGED, MSG              header [, data of 8 bytes] , the bytes of the message
 *   TAGGED_LONG, MSG_LONG    header [, data of 8 bytes] , struct hk_fi_long: the receiver gets them
 *   ATOMIC                   header [, data of 8 bytes] , struct hk_fi_atomic , operands
 *                            [, values to compare with]
 *   DONE                     header: the receiver has taken message `id`, or carried out operation
 *                            `id` [, the values that it fetched]. Its tag is 0, or one of FI_E…
 *   WRITTEN                  header [, data of 8 bytes]: a write or read is complete. Its tag is
 *                            the key of the memory, its id the region; 0: it had no bytes
 */
#ifndef HK_FI_MESSAGE_H
#define HK_FI_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hk_fi_am { /* numbers of active messages */
		HK_FI_AM_TAGGED = 1,
		HK_FI_AM_MSG,
		HK_FI_AM_TAGGED_LONG,
		HK_FI_AM_MSG_LONG,
		HK_FI_AM_DONE,
		HK_FI_AM_WRITTEN,
		HK_FI_AM_ATOMIC,
};

#define HK_FI_HAS_DATA 1u  /* 8 bytes of the application follow the header */
#define HK_FI_ANSWER   2u  /* the sender waits for DONE */
#define HK_FI_FETCH    4u  /* of an ATOMIC: DONE brings the values from before */
#define HK_FI_COUNTS   8u  /* of a WRITTEN: the receiver counts it */
#define HK_FI_READS    16u /* of a WRITTEN: it was a read */

struct hk_fi_header {
	uint64_t tag;     /* 0 of an untagged message, and of an ATOMIC */
	uint32_t id;      /* of the sender's operation, if it waits for DONE */
	uint8_t to, from; /* numbers of the endpoints in their workers */
	uint8_t flags;
	uint8_t zero;
};
_Static_assert(sizeof(struct hk_fi_header) == 16, "no hole");

struct hk_fi_long {
	uint64_t len;    /* bytes of the message */
	uint32_t region; /* that holds them */
	uint32_t zero;
};

struct hk_fi_atomic {
	uint64_t addr, key; /* of the memory, as the application says them */
	uint16_t count;     /* elements */
	uint8_t type, op;   /* enum fi_datatype, enum fi_op */
	uint32_t zero;
};
_Static_assert(sizeof(struct hk_fi_atomic) == 24, "no hole");

/* All that may precede the bytes. */
struct hk_fi_prefix {
	struct hk_fi_header header;
	uint64_t data;               /* with HK_FI_HAS_DATA, else 0 */
	struct hk_fi_long announced; /* of a long message, else 0 */
	struct hk_fi_atomic atomic;  /* of an ATOMIC, else 0 */
};

#define HK_FI_PREFIX_MAX (sizeof(struct hk_fi_header) + 8 + sizeof(struct hk_fi_atomic))

static inline bool hk_fi_am_is_long(enum hk_fi_am am)
{
	return am == HK_FI_AM_TAGGED_LONG || am == HK_FI_AM_MSG_LONG;
}

/* Writes the prefix of an @am, and returns its bytes. */
size_t hk_fi_prefix_write(const struct hk_fi_prefix *p, enum hk_fi_am am,
			  char to[HK_FI_PREFIX_MAX]);

/* Reads what a peer has sent. Returns the bytes of the prefix, or 0 if it is malformed. */
size_t hk_fi_prefix_read(const void *from, size_t len, enum hk_fi_am am, struct hk_fi_prefix *p);

#endif

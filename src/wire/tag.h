/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/tag.h: the tag, a destination MAC address that carries the communication pattern (SDN-MPI:
 * docs/references.md).
 *
 * docs/tag.md shows the layout and gives the reasons for it. python/hikyaku/sdn/tag.py is the same
 * code in Python; the examples in tests/vectors/tag.txt test C, eBPF and Python. The functions
 * handle a tag as a 48-bit number with the first octet on the wire in the highest bits. So one mask
 * selects one field.
 *
 * The functions are pure and need no libc, because eBPF programs include this file too.
 */
#ifndef HK_WIRE_TAG_H
#define HK_WIRE_TAG_H

#include <stdbool.h>
#include <stdint.h>

/*
 *    47      40 39      32 31    26 25  22 21         11 10          0
 *   +----------+----------+--------+------+-------------+-------------+
 *   | 0110011G | 01001000 |  job   | func | source rank | destination |
 *   +----------+----------+--------+------+-------------+-------------+
 */
#define HK_TAG_PREFIX      UINT64_C(0x664800000000) /* 66:48:…; of a group 67:48:… */
#define HK_TAG_PREFIX_MASK UINT64_C(0xfeff00000000) /* selects both forms */
#define HK_TAG_GROUP       UINT64_C(0x010000000000) /* Ethernet's multicast bit */
#define HK_TAG_BITS        UINT64_C(0xffffffffffff)

#define HK_TAG_JOB_SHIFT      26
#define HK_TAG_FUNCTION_SHIFT 22
#define HK_TAG_SOURCE_SHIFT   11
#define HK_TAG_JOBS           64 /* job numbers are 1 to 63; 0 is not a job */
#define HK_TAG_FUNCTIONS      16
#define HK_TAG_RANKS          2048 /* limit of ranks, and of groups, in a job */

/* The MPI function that a packet belongs to. Functions with the same communication shape share
 * their highest bits, so that one masked flow entry matches a shape. */
enum hk_tag_function {
	HK_TAG_OTHER = 0,    /* unknown: MPI_Init, I/O and others */
	HK_TAG_P2P = 1,      /* point-to-point */
	HK_TAG_RMA = 2,      /* one-sided */
	HK_TAG_NEIGHBOR = 3, /* neighbourhood collectives */
	HK_TAG_BCAST = 4,    /* 4 to 7: collectives with one root */
	HK_TAG_SCATTER = 5,
	HK_TAG_REDUCE = 6,
	HK_TAG_GATHER = 7,
	HK_TAG_BARRIER = 8, /* 8 to 15: collectives of all ranks with all ranks */
	HK_TAG_ALLREDUCE = 9,
	HK_TAG_ALLGATHER = 10,
	HK_TAG_ALLTOALL = 11,
	HK_TAG_REDUCE_SCATTER = 12,
	HK_TAG_SCAN = 13,
	HK_TAG_FUNCTION_MAX = 14, /* 14 and 15 are reserved: never sent, refused on receipt */
};

struct hk_tag {
	uint16_t job;         /* 1 to HK_TAG_JOBS - 1 */
	uint8_t function;     /* enum hk_tag_function */
	bool group;           /* the destination is a group, not a rank */
	uint16_t source;      /* rank in MPI_COMM_WORLD, below HK_TAG_RANKS */
	uint16_t destination; /* rank, or number of a group of this job; below HK_TAG_RANKS */
};

/* Returns the tag as a number. The caller keeps fields in range; excess bits are cut off. */
static inline uint64_t hk_tag_pack(const struct hk_tag *t)
{
	return HK_TAG_PREFIX | (t->group ? HK_TAG_GROUP : 0) |
	       (uint64_t)(t->job & (HK_TAG_JOBS - 1)) << HK_TAG_JOB_SHIFT |
	       (uint64_t)(t->function & (HK_TAG_FUNCTIONS - 1)) << HK_TAG_FUNCTION_SHIFT |
	       (uint64_t)(t->source & (HK_TAG_RANKS - 1)) << HK_TAG_SOURCE_SHIFT |
	       (uint64_t)(t->destination & (HK_TAG_RANKS - 1));
}

/* Returns whether the address has the prefix of tags. Such an address never belongs to a node. */
static inline bool hk_tag_is(uint64_t address)
{
	return (address & HK_TAG_PREFIX_MASK) == HK_TAG_PREFIX;
}

/* Decodes an address. False if it is not a valid tag: outside the prefix, job 0 or a reserved
 * function. The caller must not read @t then. */
static inline bool hk_tag_unpack(uint64_t address, struct hk_tag *t)
{
	t->group = (address & HK_TAG_GROUP) != 0;
	t->job = (uint16_t)(address >> HK_TAG_JOB_SHIFT & (HK_TAG_JOBS - 1));
	t->function = (uint8_t)(address >> HK_TAG_FUNCTION_SHIFT & (HK_TAG_FUNCTIONS - 1));
	t->source = (uint16_t)(address >> HK_TAG_SOURCE_SHIFT & (HK_TAG_RANKS - 1));
	t->destination = (uint16_t)(address & (HK_TAG_RANKS - 1));
	return hk_tag_is(address) && (address & ~HK_TAG_BITS) == 0 && t->job != 0 &&
	       t->function < HK_TAG_FUNCTION_MAX;
}

/* Converts the number to the six octets of an Ethernet header. */
static inline void hk_tag_to_mac(uint64_t address, uint8_t mac[6])
{
	mac[0] = (uint8_t)(address >> 40);
	mac[1] = (uint8_t)(address >> 32);
	mac[2] = (uint8_t)(address >> 24);
	mac[3] = (uint8_t)(address >> 16);
	mac[4] = (uint8_t)(address >> 8);
	mac[5] = (uint8_t)address;
}

/* Converts the six octets of an Ethernet header to the number. */
static inline uint64_t hk_tag_from_mac(const uint8_t mac[6])
{
	return (uint64_t)mac[0] << 40 | (uint64_t)mac[1] << 32 | (uint64_t)mac[2] << 24 |
	       (uint64_t)mac[3] << 16 | (uint64_t)mac[4] << 8 | (uint64_t)mac[5];
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/shared.h: structures that the eBPF programs, hk-tagger and the library in each rank
 * share.
 *
 * The layouts are those of one machine and one build, in native byte order. Only the TCP option is
 * sent to other nodes.
 */
#ifndef HK_TAGGER_SHARED_H
#define HK_TAGGER_SHARED_H

#include "wire/tag.h"

/* The targets of a filter's jump (tagger.bpf.c). */
enum hk_tagger_jump { HK_TAGGER_JUMP_EGRESS, HK_TAGGER_JUMP_INGRESS, HK_TAGGER_JUMPS };

/* A rank of this node, one cache line each. The rank maps the map into its memory and writes only
 * `function`, by a plain store. The egress program reads it for each packet. */
#define HK_TAGGER_SLOTS 256

struct hk_tagger_slot {
	uint32_t function; /* enum hk_tag_function; other values count as HK_TAG_OTHER */
	uint32_t zero[15];
};

/* An interface's own address, at the interface's number modulo HK_TAGGER_OWN_SLOTS. */
#define HK_TAGGER_OWN_SLOTS 64

struct hk_tagger_own {
	uint32_t ifindex; /* 0: the entry is free */
	uint32_t zero;
	uint64_t mac;
};

/* A connection of a rank, in its socket's storage, and freed with the socket. */
struct hk_tagger_conn {
	uint64_t base;   /* the tag without its function; 0 until both ends are known */
	uint64_t frames; /* tagged frames as on the wire: a long segment is several */
	uint64_t bytes;  /* bytes of these frames, with headers as they leave the host's stack */
	uint32_t slot;
	uint16_t rank, peer; /* own rank; the other end's, if base is not 0 */
};

/* Counters, summed over the CPUs. The first HK_TAG_FUNCTIONS count tagged frames by function. */
enum hk_tagger_count {
	HK_TAGGER_CONNECTIONS = HK_TAG_FUNCTIONS, /* connections that became tagged */
	HK_TAGGER_STRANGERS, /* connections whose other end did not report that it is of this job */
	HK_TAGGER_RESTORED,  /* incoming frames that got the interface's own address again */
	HK_TAGGER_FAILED,    /* frames that could not be changed */
	HK_TAGGER_COUNTS
};

struct hk_tagger_sum {
	uint64_t frames, bytes;
};

/*
 * Two ranks that connect exchange their numbers in an option of SYN and SYN-ACK. It has the kind
 * for experiments, and a magic number that identifies it (RFC 6994).
 *
 *      0      1      2      3      4      5      6      7
 *   +------+------+------+------+------+------+------+------+
 *   | 254  |  8   |  0x48  0x4b |     job     |    rank     |   big-endian
 *   +------+------+------+------+------+------+------+------+
 */
#define HK_TAGGER_OPT_KIND   254
#define HK_TAGGER_OPT_LEN    8
#define HK_TAGGER_OPT_MAGIC0 0x48
#define HK_TAGGER_OPT_MAGIC1 0x4b

#endif

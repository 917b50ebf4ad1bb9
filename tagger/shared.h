/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/shared.h: what the eBPF programs, hk-tagger and the library in each rank share.
 *
 * Layouts are of one machine and one build, in native byte order; only the TCP option travels.
 */
#ifndef HK_TAGGER_SHARED_H
#define HK_TAGGER_SHARED_H

#include "wire/tag.h"

/* The end of an error, when the kernel wants a privilege. */
#define HK_TAGGER_PRIVILEGE                                                                        \
	"; fix: run as root, or: setcap cap_bpf,cap_perfmon,cap_net_admin+ep hk-tagger"

/* Where a filter's jump leads (tagger.bpf.c). */
enum hk_tagger_jump { HK_TAGGER_JUMP_EGRESS, HK_TAGGER_JUMP_INGRESS, HK_TAGGER_JUMPS };

/* A rank of this node. The map is mapped into the rank, which writes `function` and nothing else, by a
 * plain store; the egress program reads it for each packet. One cache line each. */
#define HK_TAGGER_SLOTS 256

struct hk_tagger_slot {
	uint32_t function; /* enum hk_tag_function; others count as HK_TAG_OTHER */
	uint32_t zero[15];
};

/* An interface's own address, at its number modulo HK_TAGGER_NEAR. */
#define HK_TAGGER_NEAR 64

struct hk_tagger_own {
	uint32_t ifindex; /* 0: none */
	uint32_t zero;
	uint64_t mac;
};

/* A connection of a rank, kept in its socket and gone with it. */
struct hk_tagger_conn {
	uint64_t base;   /* the tag less its function; 0 until both ends are known */
	uint64_t frames; /* tagged, as the wire has them (a long segment is several) */
	uint64_t bytes;  /* of these, with headers as they leave the host's stack */
	uint32_t slot;
	uint16_t rank, peer; /* own; the other end's, once base is not 0 */
};

/* What is counted, summed over the CPUs: by function, and then … */
enum hk_tagger_count {
	HK_TAGGER_CONNECTIONS = HK_TAG_FUNCTIONS, /* became tagged */
	HK_TAGGER_STRANGERS, /* the other end did not say that it is of this job */
	HK_TAGGER_RESTORED,  /* frames in, given our own address back */
	HK_TAGGER_FAILED,    /* could not be written to, and left as they were */
	HK_TAGGER_COUNTS
};

struct hk_tagger_sum {
	uint64_t frames, bytes;
};

/*
 * How two ranks that connect tell each other who they are: an option in SYN and SYN-ACK, of the kind for
 * experiments, told from others by a magic number (RFC 6994).
 *
 *    0      1      2      3      4      5      6      7
 *  +------+------+------+------+------+------+------+------+
 *  | 254  |  8   |  0x48 0x4b  |     job     |    rank     |   big-endian
 *  +------+------+------+------+------+------+------+------+
 */
#define HK_TAGGER_OPT_KIND   254
#define HK_TAGGER_OPT_LEN    8
#define HK_TAGGER_OPT_MAGIC0 0x48
#define HK_TAGGER_OPT_MAGIC1 0x4b

/* One connection, as the iterator writes it. */
struct hk_tagger_line {
	struct hk_tagger_conn conn;
	uint16_t family;                  /* AF_INET or AF_INET6 */
	uint16_t local_port, remote_port; /* host order */
	uint16_t state;                   /* of TCP, as in the kernel */
	uint8_t local[16], remote[16];    /* network order; IPv4 in the first four */
};

#endif

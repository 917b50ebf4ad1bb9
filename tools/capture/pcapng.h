/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/pcapng.h: writes the blocks of pcapng (draft-ietf-opsawg-pcapng) that a capture needs.
 *
 * This is our own code for two reasons. DPDK's librte_pcapng only describes the ethdevs of its own
 * process and takes their mbufs. Python packages are too slow for millions of frames.
 *
 * Blocks are gathered and written whole, so that the file is valid after each flush. After an error
 * a part of a block is truncated if the output is a file.
 *
 * Threads: one.
 */
#ifndef HK_CAPTURE_PCAPNG_H
#define HK_CAPTURE_PCAPNG_H

#include "base/common.h"

struct hk_pcapng;

/* Takes over @fd, which hk_pcapng_close() closes. NULL: no memory; then the caller closes @fd. */
struct hk_pcapng *hk_pcapng_open(int fd);

/* Writes the gathered blocks, closes and frees. Returns 0, or the negative errno of the first
 * error. */
int hk_pcapng_close(struct hk_pcapng *p);

/* Writes the gathered blocks. Returns 0, or the negative errno of the first error since the start:
 * -EPIPE if the reader has closed. Continues after an interrupted write, so that blocks stay whole.
 */
int hk_pcapng_flush(struct hk_pcapng *p);

/* Writes the first block of the file. @comment may be NULL. */
void hk_pcapng_section(struct hk_pcapng *p, const char *comment);

struct hk_pcapng_interface {
	const char *name, *description, *hardware; /* "": omitted */
	const char *filter;                        /* "": none */
	uint8_t mac[6];
	uint64_t bits_per_s; /* 0: unknown */
	uint32_t snaplen;
};

/* Writes an interface. Returns its number, for the calls below. */
uint32_t hk_pcapng_interface(struct hk_pcapng *p, const struct hk_pcapng_interface *i);

/* Writes a packet: @cap of its @len bytes. @direction: 1 in, 2 out. */
void hk_pcapng_packet(struct hk_pcapng *p, uint32_t interface, uint64_t ns, unsigned direction,
		      uint32_t queue, const void *bytes, uint32_t cap, uint32_t len);

/* Frames of an interface between the two times: moved by it, not captured, and in the file. */
struct hk_pcapng_statistics {
	uint64_t start_ns, end_ns, seen, dropped, written;
};

void hk_pcapng_statistics(struct hk_pcapng *p, uint32_t interface,
			  const struct hk_pcapng_statistics *s);

#endif

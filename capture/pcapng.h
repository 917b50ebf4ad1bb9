/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/pcapng.h: writes pcapng (draft-ietf-opsawg-pcapng), the few blocks that a capture needs.
 *
 * By ourselves: DPDK's librte_pcapng describes the ethdevs of its own process and takes their mbufs, and
 * the packages for Python are too slow for frames that come by the million.
 *
 * Blocks are gathered and go out whole, so that the file is valid whenever nothing is gathered, and also
 * after an error: what was written of a block is cut off where the output can be cut.
 *
 * Threads: one.
 */
#ifndef HK_CAPTURE_PCAPNG_H
#define HK_CAPTURE_PCAPNG_H

#include "base/common.h"

struct hk_pcapng;

/* Takes over @fd. NULL without memory. */
struct hk_pcapng *hk_pcapng_open(int fd);

/* Writes what is gathered and closes. 0, or the negative errno of the first error. */
int hk_pcapng_close(struct hk_pcapng *p);

/* Writes what is gathered. 0, or the negative errno of the first error since the start: -EPIPE if a reader
 * has gone. An interrupted write goes on, so that blocks stay whole. */
int hk_pcapng_flush(struct hk_pcapng *p);

/* The first block. @comment may be NULL. */
void hk_pcapng_section(struct hk_pcapng *p, const char *comment);

struct hk_pcapng_interface {
	const char *name, *description, *hardware; /* "": not said */
	const char *filter;                        /* "": none */
	uint8_t mac[6];
	uint64_t bits_per_s; /* 0: unknown */
	uint32_t snaplen;
};

/* Returns the interface's number, for the calls below. */
uint32_t hk_pcapng_interface(struct hk_pcapng *p, const struct hk_pcapng_interface *i);

/* @direction: 1 in, 2 out. */
void hk_pcapng_packet(struct hk_pcapng *p, uint32_t interface, uint64_t ns, unsigned direction,
		      uint32_t queue, const void *bytes, uint32_t cap, uint32_t len);

/* Frames that it moved between the two times, how many could not be captured, and how many are in the
 * file. */
struct hk_pcapng_statistics {
	uint64_t start_ns, end_ns, seen, dropped, written;
};

void hk_pcapng_statistics(struct hk_pcapng *p, uint32_t interface,
			  const struct hk_pcapng_statistics *s);

#endif

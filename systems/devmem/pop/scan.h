/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/scan.h: searches DPDK's main memory for a packet's payload, to prove that it is not
 * there.
 */
#ifndef HK_POP_SCAN_H
#define HK_POP_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* Counts the occurrences of the @len bytes at @marker in DPDK's own memory (pools and rings, not
 * pops). Slow: it reads all of that memory. */
uint64_t hk_pop_scan(const void *marker, size_t len);

/* Converts hexadecimal digits to at most @max bytes. Returns their number, or 0 if @text is
 * malformed. */
size_t hk_pop_hex(const char *text, unsigned char *out, size_t max);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/scan.h: is a packet's payload anywhere in main memory, as far as DPDK has it? For proving that it is not.
 */
#ifndef HK_POP_SCAN_H
#define HK_POP_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* How often the @len bytes at @marker occur in DPDK's own memory (pools, rings; no pop). Slow: it reads all of it. */
uint64_t hk_pop_scan(const void *marker, size_t len);

/* Bytes from hexadecimal digits; their number, or 0. */
size_t hk_pop_hex(const char *text, unsigned char *out, size_t max);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/crc32c.h: CRC32C (Castagnoli), the checksum of iSCSI (RFC 3720), SCTP and ext4.
 *
 * Chosen because processors compute it with one instruction, and because it finds every error
 * burst of up to 32 bits and every error of up to three bits in any frame that Ethernet carries.
 *
 * Pure functions; any thread may call them.
 */
#ifndef HK_CRC32C_H
#define HK_CRC32C_H

#include "base/common.h"

/* The checksum of @len bytes at @data, any alignment. */
uint32_t hk_crc32c(const void *data, size_t len);

/* The same, one byte at a time from a table: what hk_crc32c() is where the processor has no
 * instruction for it, and what the tests compare the fast one with. */
uint32_t hk_crc32c_table(const void *data, size_t len);

#endif

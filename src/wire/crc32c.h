/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/crc32c.h: CRC32C (Castagnoli), the checksum of iSCSI (RFC 3720), SCTP and ext4.
 *
 * We chose it for two reasons. Processors compute it with one instruction. In frames of Ethernet's
 * size it detects every error burst of up to 32 bits, and every error of up to three bits.
 *
 * The functions are pure; any thread may call them.
 */
#ifndef HK_WIRE_CRC32C_H
#define HK_WIRE_CRC32C_H

#include "base/common.h"

#pragma GCC visibility push(default)

/* Returns the checksum of @len bytes at @data, at any alignment. */
uint32_t hk_crc32c(const void *data, size_t len);

/* Returns the same checksum, one byte at a time by a table. hk_crc32c() calls it on processors
 * without the instruction, and the tests compare the two. */
uint32_t hk_crc32c_table(const void *data, size_t len);

#pragma GCC visibility pop

#endif

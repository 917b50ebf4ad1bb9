/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/seal/hex.h: bytes as standards print them.
 */
#ifndef TESTS_UNIT_SEAL_HEX_H
#define TESTS_UNIT_SEAL_HEX_H

#include "tests/support/hk_test.h"

static inline void hex_read(const char *hex, uint8_t *to, size_t len)
{
	CHECK_EQ(strlen(hex), 2 * len);
	for (size_t i = 0; i < len; i++)
		CHECK_EQ(sscanf(hex + 2 * i, "%2hhx", &to[i]), 1);
}

#endif

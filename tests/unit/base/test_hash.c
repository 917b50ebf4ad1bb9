/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/base/test_hash.c: FNV-1a, by published values, and in pieces.
 */
#include "base/hash.h"
#include "tests/support/hk_test.h"

TEST(published_values)
{
	CHECK_EQ(hk_hash_text(""), 0x811c9dc5);
	CHECK_EQ(hk_hash_text("a"), 0xe40c292c);
	CHECK_EQ(hk_hash_text("foobar"), 0xbf9cf968);
	CHECK_EQ(hk_hash(hk_hash_text("foo"), "bar", 3), 0xbf9cf968);
}

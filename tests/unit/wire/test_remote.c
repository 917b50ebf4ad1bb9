/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_remote.c: the messages that ask for memory of another process: a get, and an
 * atomic operation (wire/wire.h, wire/atomic.h).
 */
#include "tests/support/hk_test.h"
#include "wire/atomic.h"
#include "wire/wire.h"

TEST(get_messages)
{
	static const uint8_t golden[HK_WIRE_GET_LEN] = {
		0,    0,    0,    0,    0x01, 0x00, 0x03, 0x00, /* a request of region 0x00030001 */
		0x00, 0x20, 0,    0,    1,    0,    0,    0,    /* from 0x100002000 */
		0x40, 0x42, 0x0f, 0,    0,    0,    0,    0,    /* a million bytes */
		0x10, 0,    0,    0,    0,    0,    0,    0,    /* to offset 16 */
		0x02, 0x00, 0x05, 0x00, 0,    0,    0,    0,    /* of region 0x00050002 */
	};
	const struct hk_wire_get g = {
		.region = 0x00030001,
		.offset = UINT64_C(0x100002000),
		.len = 1000000,
		.to_offset = 16,
		.to_region = 0x00050002,
	};
	struct hk_wire_get back;
	uint8_t bytes[HK_WIRE_GET_LEN], bad[HK_WIRE_GET_LEN];

	hk_wire_get_encode(bytes, &g);
	CHECK(memcmp(bytes, golden, sizeof(golden)) == 0);
	CHECK(hk_wire_get_parse(bytes, sizeof(bytes), &back));
	CHECK(memcmp(&g, &back, sizeof(g)) == 0);
	CHECK(!hk_wire_get_parse(bytes, sizeof(bytes) - 1, &back));
	bytes[0] = HK_WIRE_GET_DENIED; /* a refusal */
	CHECK(hk_wire_get_parse(bytes, sizeof(bytes), &back));
	CHECK_EQ(back.status, HK_WIRE_GET_DENIED);
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {{0, 3}, {3, 1}, {36, 1}, {39, 1}};

	for (size_t i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		memcpy(bad, bytes, sizeof(bad));
		bad[wrong[i].at] = wrong[i].value;
		CHECK_MSG(!hk_wire_get_parse(bad, sizeof(bad), &back), "byte %zu", wrong[i].at);
	}
	memcpy(bad, bytes, sizeof(bad));
	memset(bad + 16, 0, 8); /* a request for 0 bytes */
	CHECK(!hk_wire_get_parse(bad, sizeof(bad), &back));
	memcpy(bad, bytes, sizeof(bad));
	memset(bad + 32, 0, 4); /* no region to write to */
	CHECK(!hk_wire_get_parse(bad, sizeof(bad), &back));
}

TEST(atomic_messages)
{
	static const uint8_t golden[HK_WIRE_ATOMIC_LEN] = {
		6,    8,    0,    0,    0x07, 0x00, 0x02, 0x00, /* compare-and-swap, of 8 bytes */
		0x01, 0x00, 0x03, 0x00, 0,    0,    0,    0,    /* in region 0x00030001 */
		0x00, 0x20, 0,    0,    1,    0,    0,    0,    /* at 0x100002000 */
		0x40, 0x42, 0x0f, 0,    0,    0,    0,    0,    /* becomes a million */
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* if it is -1 */
	};
	const struct hk_wire_atomic a = {
		.op = HK_ATOMIC_CAS,
		.size = 8,
		.token = 0x00020007,
		.region = 0x00030001,
		.offset = UINT64_C(0x100002000),
		.operand = 1000000,
		.compare = UINT64_MAX,
	};
	struct hk_wire_atomic back;
	uint8_t bytes[HK_WIRE_ATOMIC_LEN + 8] = {0}, bad[HK_WIRE_ATOMIC_LEN];
	const size_t len = HK_WIRE_ATOMIC_LEN;

	hk_wire_atomic_encode(bytes, &a);
	CHECK(memcmp(bytes, golden, sizeof(golden)) == 0);
	CHECK(hk_wire_atomic_parse(bytes, len, &back));
	CHECK(memcmp(&a, &back, sizeof(a)) == 0);
	CHECK(!hk_wire_atomic_parse(bytes, len - 1, &back));
	CHECK(!hk_wire_atomic_parse(bytes, len + 1, &back)); /* a message with bytes behind it */
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {{0, HK_ATOMIC_KINDS},
		     {0, HK_ATOMIC_ADD},
		     {0, HK_ATOMIC_FENCE},
		     {1, 0},
		     {1, 5},
		     {2, 3},
		     {3, 1},
		     {12, 1}};

	for (size_t i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		memcpy(bad, bytes, sizeof(bad));
		bad[wrong[i].at] = wrong[i].value;
		CHECK_MSG(!hk_wire_atomic_parse(bad, len, &back), "number %zu", i);
	}
	memcpy(bad, bytes, sizeof(bad));
	memset(bad + 4, 0, 4); /* a reply would have no token */
	CHECK(!hk_wire_atomic_parse(bad, len, &back));

	/* an operation that does not exist; apart from that, the message is one to add */
	const struct hk_wire_atomic next = {.op = HK_ATOMIC_KINDS, .size = 8, .token = 1};

	hk_wire_atomic_encode(bytes, &next);
	CHECK(!hk_wire_atomic_parse(bytes, len, &back));
	bytes[0] = HK_ATOMIC_ADD;
	CHECK(hk_wire_atomic_parse(bytes, len, &back));

	/* a request to write and the reply to a read carry `len` bytes */
	for (uint8_t op = HK_ATOMIC_FENCE; op < HK_ATOMIC_KINDS; op++)
		for (uint8_t status = 0; status <= HK_WIRE_ATOMIC_DENIED; status++) {
			bool rpc = op == HK_ATOMIC_RPC;
			bool some = op == HK_ATOMIC_WRITE || op == HK_ATOMIC_READ || rpc;
			bool carries = ((op == HK_ATOMIC_WRITE || rpc) &&
					status == HK_WIRE_ATOMIC_REQUEST) ||
				       ((op == HK_ATOMIC_READ || rpc) &&
					status == HK_WIRE_ATOMIC_DONE);
			struct hk_wire_atomic w = {
				.op = op,
				.size = some || op == HK_ATOMIC_FENCE ? 0 : 4,
				.status = status,
				.token = 1,
				.len = some ? 8 : 0,
			};

			hk_wire_atomic_encode(bytes, &w);
			CHECK_EQ(hk_wire_atomic_parse(bytes, len, &back), !carries);
			CHECK_EQ(hk_wire_atomic_parse(bytes, len + 8, &back), carries);
			CHECK(!hk_wire_atomic_parse(bytes, len + 7, &back));
			if (!rpc)
				continue;
			w.len = 0;
			w.compare = 5; /* only the request of a call */
			hk_wire_atomic_encode(bytes, &w);
			CHECK_EQ(hk_wire_atomic_parse(bytes, len, &back),
				 status == HK_WIRE_ATOMIC_REQUEST);
		}
}

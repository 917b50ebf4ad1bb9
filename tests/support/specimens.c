/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/specimens.c: the frames of specimens.h.
 */
#include "tests/support/specimens.h"

#include "wire/bundle.h"

#include <stdio.h>

static const uint8_t to_mac[6] = {2, 0, 0, 0, 0, 2}, from_mac[6] = {2, 0, 0, 0, 0, 1};

/* The fields that most frames have in common. */
#define COMMON                                                                                     \
	.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE), .job = 0x4b454b48, .src = 1, .dst = 2,      \
	.src_epoch = 0x1111, .dst_epoch = 0x2222

const struct hk_specimen hk_specimens[] = {
	{
		.name = "data",
		.h = {COMMON, .credit = 256, .type = HK_WIRE_DATA, .len = 8, .psn = 7, .ack = 3,
		      .tsval = 0x01020304, .tsecr = 0x05060708, .am = 0x41, .frags = 1, .marks = 5},
		.payload = "hikyaku!",
		.hex = "02000000000202000000000188b5"
		       "20000800484b454b010000000200000011110000222200000100000107000000"
		       "03000000040302010807060541000105"
		       "68696b79616b7521",
	},
	{
		.name = "data-fragment-crc",
		.h = {.version = HK_WIRE_VERSION_BYTE(HK_WIRE_CRC),
		      .type = HK_WIRE_DATA,
		      .flags = HK_WIRE_F_ACK_NOW,
		      .len = 15,
		      .credit = 64,
		      .job = 0x4b454b48,
		      .src = 1,
		      .dst = 2,
		      .src_epoch = 0x1111,
		      .dst_epoch = 0x2222,
		      .psn = 0xffffffff,
		      .ack = 0xfffffff0,
		      .tsval = 0xa0b0c0d0,
		      .tsecr = 0x10,
		      .am = 0xff,
		      .frag = 1,
		      .frags = 3},
		.payload = "second of three",
		.hex = "02000000000202000000000188b5"
		       "21000f00484b454b0100000002000000111100002222000001014000ffffffff"
		       "f0ffffffd0c0b0a010000000ff010300"
		       "7365636f6e64206f66207468726565"
		       "d0ec1e42",
	},
	{
		/* messages "one" for handler 0x41, "four" for 0x42, "hi" for 0x41 */
		.name = "bundle",
		.h = {COMMON, .credit = 256, .type = HK_WIRE_DATA, .len = 22, .psn = 7, .ack = 3,
		      .tsval = 0x01020304, .tsecr = 0x05060708, .am = HK_WIRE_AM_BUNDLE,
		      .frags = 1},
		.payload = "\3\0\x41\0one\0\4\0\x42\0four\2\0\x41\0hi",
		.payload_len = 22,
		.hex = "02000000000202000000000188b5"
		       "20001600484b454b010000000200000011110000222200000100000107000000"
		       "030000000403020108070605fd000100"
		       "030041006f6e650004004200666f7572020041006869",
	},
	{
		.name = "put",
		.h = {COMMON, .credit = 256, .type = HK_WIRE_PUT, .flags = HK_WIRE_F_RESENT,
		      .len = 32, .psn = 8, .ack = 3, .tsval = 0x01020310, .tsecr = 0x05060718},
		.put = {.region = 0x00030001, .xfer = 0x00050002, .offset = 0x100002000},
		.payload = "written in place",
		.hex = "02000000000202000000000188b5"
		       "20002000484b454b010000000200000011110000222200000202000108000000"
		       "03000000100302011807060500000000"
		       "01000300020005000020000001000000"
		       "7772697474656e20696e20706c616365",
	},
	{
		.name = "put-grant",
		.h = {COMMON, .credit = 256, .type = HK_WIRE_PUT,
		      .flags = HK_WIRE_F_GRANT | HK_WIRE_F_BULK, .len = 40, .psn = 8, .ack = 3,
		      .tsval = 0x01020310, .tsecr = 0x05060718},
		.grant = {.granted = 0x10000, .wanted = 0x30020},
		.put = {.region = 0x00030001, .offset = 0x100002000},
		.payload = "written in place",
		.hex = "02000000000202000000000188b5"
		       "20002800484b454b010000000200000011110000222200000218000108000000"
		       "03000000100302011807060500000000"
		       "0000010020000300"
		       "01000300000000000020000001000000"
		       "7772697474656e20696e20706c616365",
	},
	{
		/* packet 5 is missing; 6, 7 and 260 have arrived */
		.name = "ack",
		.h = {COMMON, .type = HK_WIRE_ACK, .len = 32, .credit = 200, .psn = 9, .ack = 5,
		      .tsval = 0x01020320, .tsecr = 0x05060728},
		.sack = {{0x6, 0, 0, UINT64_C(1) << 63}},
		.payload = "",
		.hex = "02000000000202000000000188b5"
		       "20002000484b454b010000000200000011110000222200000300c80009000000"
		       "05000000200302012807060500000000"
		       "0600000000000000000000000000000000000000000000000000000000000080",
	},
	{
		/* the same without 260, after two frames with a congestion mark */
		.name = "ack-grant",
		.h = {COMMON, .type = HK_WIRE_ACK, .flags = HK_WIRE_F_GRANT, .len = 16,
		      .credit = 200, .psn = 9, .ack = 5, .tsval = 0x01020320, .tsecr = 0x05060728,
		      .marks = 2},
		.grant = {.granted = 0x20000},
		.sack = {{0x6}},
		.payload = "",
		.hex = "02000000000202000000000188b5"
		       "20001000484b454b010000000200000011110000222200000308c80009000000"
		       "05000000200302012807060500000002"
		       "0000020000000000"
		       "0600000000000000",
	},
	{
		.name = "reset",
		.h = {.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE),
		      .type = HK_WIRE_RESET,
		      .job = 0x4b454b48,
		      .src = 1,
		      .dst = 2,
		      .src_epoch = 0x3333,
		      .dst_epoch = 0x2222,
		      .tsecr = 0x1111},
		.payload = "",
		.hex = "02000000000202000000000188b5"
		       "20000000484b454b010000000200000033330000222200000400000000000000"
		       "00000000000000001111000000000000",
	},
	{
		.name = "bye",
		.h = {COMMON, .credit = 256, .type = HK_WIRE_BYE, .flags = HK_WIRE_F_ACK_NOW,
		      .psn = 10, .ack = 12, .tsval = 0x01020330, .tsecr = 0x05060738},
		.payload = "",
		.hex = "02000000000202000000000188b5"
		       "20000000484b454b01000000020000001111000022220000050100010a000000"
		       "0c000000300302013807060500000000",
	},
	{
		.name = "mcast",
		.h = {.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE),
		      .type = HK_WIRE_MCAST,
		      .len = 9,
		      .job = 0x4b454b48,
		      .src = 1,
		      .dst = 4,
		      .src_epoch = 0x1111,
		      .dst_epoch = 0x77,
		      .psn = 3},
		.payload = "for every",
		.hex = "02000000000202000000000188b5"
		       "20000900484b454b010000000400000011110000770000000600000003000000"
		       "00000000000000000000000000000000"
		       "666f72206576657279",
	},
};
const size_t hk_specimens_len = HK_ARRAY_LEN(hk_specimens);

const struct hk_msg_specimen hk_msg_specimens[] = {
	{
		.name = "message",
		.h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_WANTS_REPLY,
		      .type = 7,
		      .len = 8,
		      .src = 1,
		      .dst = 2,
		      .key = 0x4b454b48,
		      .number = 0x00010203,
		      .epoch = 0x1111},
		.payload = "hikyaku!",
		.hex = "02000000000202000000000188b6"
		       "2107080001000200484b454b030201001111"
		       "68696b79616b7521",
	},
	{
		.name = "reply",
		.h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_REPLY | HK_MSG_F_RESENT,
		      .type = 7,
		      .len = 2,
		      .src = 1,
		      .dst = 2,
		      .key = 0x4b454b48,
		      .number = 0x00010203,
		      .epoch = 0x2222},
		.payload = "ok",
		.hex = "02000000000202000000000188b6"
		       "5107020001000200484b454b030201002222"
		       "6f6b",
	},
	{
		.name = "alive",
		.h = {.ver_flags = HK_MSG_VERSION,
		      .type = HK_MSG_T_ALIVE,
		      .src = 1,
		      .dst = 2,
		      .key = 0x4b454b48,
		      .number = 9,
		      .epoch = 0x1111},
		.payload = "",
		.hex = "02000000000202000000000188b6"
		       "01f0000001000200484b454b090000001111",
	},
	{
		.name = "message-auth",
		.h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_TAG,
		      .type = 7,
		      .len = 2,
		      .src = 1,
		      .dst = 2,
		      .key = 0x4b454b48,
		      .number = 0x00010203,
		      .epoch = 0x1111},
		.payload = "ok",
		.trailer = "\x05\0\0\0\0\0\0\0the tag in bytes",
		.hex = "02000000000202000000000188b6"
		       "8107020001000200484b454b030201001111"
		       "6f6b"
		       "0500000000000000"
		       "7468652074616720696e206279746573",
	},
};
const size_t hk_msg_specimens_len = HK_ARRAY_LEN(hk_msg_specimens);

size_t hk_msg_specimen_encode(const struct hk_msg_specimen *s, uint8_t *frame)
{
	hk_wire_eth_encode(frame, to_mac, from_mac);
	frame[12] = HK_MSG_ETHERTYPE >> 8;
	frame[13] = HK_MSG_ETHERTYPE & 0xff;
	hk_msg_encode(frame + HK_ETH_HLEN, &s->h);
	size_t len = HK_ETH_HLEN + HK_MSG_HLEN;
	memcpy(frame + len, s->payload, strlen(s->payload));
	len += strlen(s->payload);
	if (s->trailer) {
		memcpy(frame + len, s->trailer, HK_MSG_TRAILER_LEN);
		len += HK_MSG_TRAILER_LEN;
	}
	return len;
}

const struct hk_specimen *hk_specimen_named(const char *name)
{
	for (size_t i = 0; i < hk_specimens_len; i++)
		if (strcmp(hk_specimens[i].name, name) == 0)
			return &hk_specimens[i];
	return NULL;
}

size_t hk_specimen_payload(const struct hk_specimen *s)
{
	return s->payload_len ? s->payload_len : strlen(s->payload);
}

size_t hk_specimen_encode(const struct hk_specimen *s, uint8_t *frame)
{
	uint8_t *p = frame + HK_ETH_HLEN;
	size_t len = hk_specimen_payload(s);

	hk_wire_eth_encode(frame, to_mac, from_mac);
	hk_wire_hdr_encode(p, &s->h);
	p += HK_WIRE_HLEN;
	if (s->h.flags & HK_WIRE_F_GRANT) {
		hk_wire_grant_encode(p, &s->grant);
		p += HK_WIRE_GRANT_LEN;
	}
	if (s->h.type == HK_WIRE_PUT) {
		hk_wire_put_encode(p, &s->put);
		p += HK_WIRE_PUT_LEN;
	} else if (s->h.type == HK_WIRE_ACK) {
		p += hk_wire_sack_encode(p, &s->sack);
	}
	memcpy(p, s->payload, len);
	p += len;
	if (hk_wire_has_crc(&s->h))
		p += hk_wire_frame_checksum(frame + HK_ETH_HLEN);
	return (size_t)(p - frame);
}

size_t hk_specimen_unhex(const char *hex, uint8_t *frame)
{
	size_t n = strlen(hex) / 2;
	for (size_t i = 0; i < n; i++) {
		unsigned byte = 0;
		sscanf(hex + 2 * i, "%2x", &byte);
		frame[i] = (uint8_t)byte;
	}
	return n;
}

size_t hk_specimen_bytes(const struct hk_specimen *s, uint8_t *frame)
{
	return hk_specimen_unhex(s->hex, frame);
}

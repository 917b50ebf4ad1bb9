/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_msg.c: the frame of run-to-completion messages: bytes from docs/wire.md, and
 * each rule broken once.
 */
#include "tests/support/hk_test.h"
#include "tests/support/specimens.h"

static const uint8_t *message(const struct hk_msg_specimen *s, size_t *len)
{
	static uint8_t frame[HK_SPECIMEN_MAX];
	*len = hk_specimen_unhex(s->hex, frame) - HK_ETH_HLEN;
	return frame + HK_ETH_HLEN;
}

TEST(golden_bytes)
{
	for (size_t i = 0; i < hk_msg_specimens_len; i++) {
		const struct hk_msg_specimen *s = &hk_msg_specimens[i];
		uint8_t want[HK_SPECIMEN_MAX], got[HK_SPECIMEN_MAX];
		size_t n = hk_specimen_unhex(s->hex, want);
		CHECK_EQ(hk_msg_specimen_encode(s, got), n);
		CHECK_MSG(memcmp(got, want, n) == 0, "%s is encoded otherwise", s->name);
	}
}

TEST(golden_fields)
{
	for (size_t i = 0; i < hk_msg_specimens_len; i++) {
		const struct hk_msg_specimen *s = &hk_msg_specimens[i];
		struct hk_msg_hdr h;
		size_t len;
		const uint8_t *m = message(s, &len);
		CHECK_EQ(hk_msg_parse(m, len, &h), HK_MSG_OK);
		CHECK_MSG(memcmp(&h, &s->h, sizeof(h)) == 0, "%s is decoded otherwise", s->name);
		CHECK_EQ(memcmp(m + HK_MSG_HLEN, s->payload, h.len), 0);
		/* the parser ignores padding */
		CHECK_EQ(hk_msg_parse(m, len + 20, &h), HK_MSG_OK);
		CHECK_EQ(h.len, strlen(s->payload));
	}
}

TEST(every_rule)
{
	static const struct {
		size_t at, len;
		uint8_t byte[2];
		enum hk_msg_status want;
	} broken[] = {
		{offsetof(struct hk_msg_hdr, ver_flags), 1, {0x20}, HK_MSG_E_VERSION},
		{offsetof(struct hk_msg_hdr, ver_flags), 1, {0x22}, HK_MSG_E_VERSION},
		{offsetof(struct hk_msg_hdr, ver_flags), 1, {0xa1}, HK_MSG_E_SHORT},
		{offsetof(struct hk_msg_hdr, len), 2, {9, 0}, HK_MSG_E_SHORT},
		{offsetof(struct hk_msg_hdr, len), 2, {0xff, 0xff}, HK_MSG_E_SHORT},
		{offsetof(struct hk_msg_hdr, epoch), 2, {0, 0}, HK_MSG_E_FIELD},
		{offsetof(struct hk_msg_hdr, dst), 2, {1, 0}, HK_MSG_E_FIELD},
	};
	for (size_t i = 0; i < HK_ARRAY_LEN(broken); i++) {
		struct hk_msg_hdr h;
		size_t len;
		uint8_t *m = (uint8_t *)(uintptr_t)message(&hk_msg_specimens[0], &len);
		memcpy(m + broken[i].at, broken[i].byte, broken[i].len);
		CHECK_MSG(hk_msg_parse(m, len, &h) == broken[i].want, "broken rule %zu", i);
	}
}

TEST(every_length)
{
	for (size_t cut = 0; cut < HK_MSG_HLEN + 8; cut++) {
		struct hk_msg_hdr h;
		size_t len;
		const uint8_t *m = message(&hk_msg_specimens[0], &len);
		CHECK_EQ(len, HK_MSG_HLEN + 8);
		CHECK_EQ(hk_msg_parse(m, cut, &h), HK_MSG_E_SHORT);
	}
}

/* A header alone is a whole message, so another rule that it breaks is the one that is named. */
TEST(an_empty_message_is_not_short)
{
	struct hk_msg_hdr h = hk_msg_specimens[0].h, out;
	uint8_t m[HK_MSG_HLEN];

	h.len = 0;
	hk_msg_encode(m, &h);
	CHECK_EQ(hk_msg_parse(m, sizeof(m), &out), HK_MSG_OK);
	h.epoch = 0;
	hk_msg_encode(m, &h);
	CHECK_EQ(hk_msg_parse(m, sizeof(m), &out), HK_MSG_E_FIELD);
}

TEST(names)
{
	for (unsigned s = 0; s < HK_MSG_STATUS_MAX; s++)
		CHECK(strcmp(hk_msg_status_name(s), "unknown") != 0);
	CHECK(strcmp(hk_msg_status_name(HK_MSG_STATUS_MAX), "unknown") == 0);
}

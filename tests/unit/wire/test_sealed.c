/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_sealed.c: frames with a tag: which receiver takes them, and their parts.
 * Their cryptography is tested elsewhere (tests/unit/seal).
 */
#include "tests/support/hk_test.h"
#include "tests/support/specimens.h"

#define BASE HK_ETH_HLEN
#define EXT  (HK_ETH_HLEN + HK_WIRE_HLEN)

/* offset of a base-header field in the frame */
#define AT(field) (BASE + offsetof(struct hk_wire_hdr, field))

/* The specimen @name with protection @p and a trailer whose bytes count up. Returns its length. */
static size_t with_trailer(const char *name, unsigned p, uint8_t *frame)
{
	size_t n = hk_specimen_encode(hk_specimen_named(name), frame);

	n = EXT + hk_wire_len(frame + BASE);
	for (unsigned i = 0; i < HK_WIRE_SEAL_LEN; i++)
		frame[n + i] = (uint8_t)(i + 1);
	hk_wire_seal_encode(frame + BASE, p, 0x5a, 0x0807060504030201, frame + n);
	return n + HK_WIRE_SEAL_LEN;
}

TEST(each_receiver_takes_its_own_protection)
{
	uint8_t frame[HK_SPECIMEN_MAX + HK_WIRE_SEAL_LEN];
	struct hk_frame f;

	for (unsigned need = HK_WIRE_BARE; need <= HK_WIRE_SEAL; need++) {
		for (unsigned p = HK_WIRE_AUTH; p <= HK_WIRE_SEAL; p++) {
			size_t n = with_trailer("data", p, frame);
			enum hk_wire_status st = hk_wire_frame_parse(frame, n, need, &f);

			CHECK_EQ(st, p == need ? HK_WIRE_OK : HK_WIRE_E_PROTECTION);
			if (st != HK_WIRE_OK)
				continue;
			CHECK_EQ(f.counter, 0x0807060504030201);
			CHECK_EQ(f.h.key_index, 0x5a);
		}
		size_t n = hk_specimen_encode(hk_specimen_named("data"), frame);

		CHECK_EQ(hk_wire_frame_parse(frame, n, need, &f), need == HK_WIRE_BARE ? HK_WIRE_OK
								  : need == HK_WIRE_CRC
									  ? HK_WIRE_E_CRC
									  : HK_WIRE_E_PROTECTION);
	}
	hk_specimen_encode(hk_specimen_named("data"), frame);
	CHECK_EQ(hk_wire_frame_parse(frame, sizeof(frame), HK_WIRE_BARE, &f), HK_WIRE_OK);
	CHECK_EQ(f.counter, 0);
}

TEST(the_parts_of_a_frame_with_a_tag)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum hk_wire_status want;
	} spoilt[] = {{12, 8, HK_WIRE_E_ETHERTYPE},
		      {AT(version), 0x32, HK_WIRE_E_VERSION},
		      {AT(version), 0x24, HK_WIRE_E_VERSION},
		      {AT(version), 0x20, HK_WIRE_E_PROTECTION},
		      {AT(version), 0x21, HK_WIRE_E_PROTECTION},
		      {AT(version), 0x23, HK_WIRE_E_PROTECTION},
		      {AT(len) + 1, 0xff, HK_WIRE_E_SHORT}};
	uint8_t frame[HK_SPECIMEN_MAX + HK_WIRE_SEAL_LEN];
	size_t n = with_trailer("data", HK_WIRE_AUTH, frame);
	const struct hk_wire_hdr *h = &hk_specimen_named("data")->h;
	struct hk_wire_sealed s;

	CHECK_EQ(hk_wire_sealed_parse(frame, n, HK_WIRE_AUTH, &s), HK_WIRE_OK);
	CHECK(s.job == h->job && s.src == h->src && s.dst == h->dst);
	CHECK(s.src_epoch == h->src_epoch && s.dst_epoch == h->dst_epoch && s.key_index == 0x5a);
	CHECK_EQ(s.counter, 0x0807060504030201);
	CHECK(s.base == frame + BASE && s.tag == frame + n - 16);
	CHECK_EQ(s.len, n - BASE - HK_WIRE_SEAL_LEN);
	for (size_t len = 0; len < n; len++)
		CHECK_EQ(hk_wire_sealed_parse(frame, len, HK_WIRE_AUTH, &s), HK_WIRE_E_SHORT);
	for (size_t i = 0; i < HK_ARRAY_LEN(spoilt); i++) {
		uint8_t was = frame[spoilt[i].at];

		frame[spoilt[i].at] = spoilt[i].value;
		CHECK_EQ(hk_wire_sealed_parse(frame, n, HK_WIRE_AUTH, &s), spoilt[i].want);
		frame[spoilt[i].at] = was;
	}
	memset(frame + AT(src_epoch), 0, 4);
	CHECK_EQ(hk_wire_sealed_parse(frame, n, HK_WIRE_AUTH, &s), HK_WIRE_E_FIELD);
	with_trailer("data", HK_WIRE_AUTH, frame);
	memset(frame + AT(dst_epoch), 0, 4);
	CHECK_EQ(hk_wire_sealed_parse(frame, n, HK_WIRE_AUTH, &s), HK_WIRE_E_FIELD);
}

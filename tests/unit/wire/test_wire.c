/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_wire.c: the codec against bytes from docs/wire.md, and against every
 * possible violation of its rules.
 */
#include "tests/support/hk_test.h"
#include "tests/support/specimens.h"

#define BASE HK_ETH_HLEN
#define EXT  (HK_ETH_HLEN + HK_WIRE_HLEN)

/* offset of a base-header field in the frame */
#define AT(field) (BASE + offsetof(struct hk_wire_hdr, field))

/* Parses a copy in memory of exactly the frame's size, so that AddressSanitizer reports each
 * read beyond it. */
static enum hk_wire_status parse_exact(const uint8_t *frame, size_t len, bool need_crc)
{
	struct hk_frame f;
	uint8_t *copy = malloc(len ? len : 1);

	CHECK(copy != NULL);
	memcpy(copy, frame, len);
	enum hk_wire_status s = hk_wire_frame_parse(copy, len, need_crc, &f);
	free(copy);
	return s;
}

static void check_same(const struct hk_specimen *s, const struct hk_frame *f, const uint8_t *frame)
{
	size_t n = hk_specimen_payload(s);

	CHECK(memcmp(&f->h, &s->h, sizeof(s->h)) == 0);
	if (s->h.flags & HK_WIRE_F_GRANT)
		CHECK(memcmp(&f->grant, &s->grant, sizeof(s->grant)) == 0);
	if (s->h.type == HK_WIRE_PUT)
		CHECK(memcmp(&f->put, &s->put, sizeof(s->put)) == 0);
	if (s->h.type == HK_WIRE_ACK)
		CHECK(memcmp(&f->sack, &s->sack, sizeof(s->sack)) == 0);
	CHECK_EQ(f->payload_len, n);
	CHECK(memcmp(f->payload, s->payload, n) == 0);
	CHECK(f->src_mac == frame + 6);
}

TEST(golden_bytes)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		const struct hk_specimen *s = &hk_specimens[i];
		uint8_t ours[HK_SPECIMEN_MAX], gold[HK_SPECIMEN_MAX];
		size_t n = hk_specimen_encode(s, ours), m = hk_specimen_bytes(s, gold);
		struct hk_frame f;

		CHECK_MSG(n == m, "%s: %zu bytes encoded, %zu written down", s->name, n, m);
		for (size_t b = 0; b < n; b++)
			CHECK_MSG(ours[b] == gold[b], "%s: byte %zu is %02x, should be %02x",
				  s->name, b, ours[b], gold[b]);
		CHECK_EQ(hk_wire_frame_parse(gold, m, hk_wire_has_crc(&s->h), &f), HK_WIRE_OK);
		check_same(s, &f, gold);
	}
}

/* Ethernet pads short frames; the parser ignores bytes behind the frame. */
TEST(padding_is_ignored)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX + 64];
		struct hk_frame f;
		memset(frame, 0xee, sizeof(frame));
		hk_specimen_encode(&hk_specimens[i], frame);
		CHECK_EQ(hk_wire_frame_parse(frame, sizeof(frame), false, &f), HK_WIRE_OK);
		check_same(&hk_specimens[i], &f, frame);
	}
}

TEST(every_truncation)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		size_t n = hk_specimen_encode(&hk_specimens[i], frame);
		for (size_t len = 0; len < n; len++)
			CHECK_EQ(parse_exact(frame, len, false), HK_WIRE_E_SHORT);
		CHECK_EQ(parse_exact(frame, n, false), HK_WIRE_OK);
	}
}

/* One byte written over a valid frame, and the expected result. A frame with checksum is sealed
 * again, so that the parser judges the field itself. */
struct spoil {
	const char *frame;
	size_t at;
	uint8_t value;
	enum hk_wire_status want;
};

TEST(every_rule)
{
	static const struct spoil table[] = {
		{"data", 12, 0x08, HK_WIRE_E_ETHERTYPE},
		{"data", 13, 0xb6, HK_WIRE_E_ETHERTYPE},
		{"data", AT(version), 0, HK_WIRE_E_VERSION},
		{"data", AT(version), 0x10, HK_WIRE_E_VERSION},
		{"data", AT(version), 0x21, HK_WIRE_E_SHORT}, /* no room for a checksum */
		{"data", AT(version), 0x22, HK_WIRE_E_PROTECTION},
		{"data", AT(version), 0x23, HK_WIRE_E_PROTECTION},
		{"data", AT(version), 0x24, HK_WIRE_E_VERSION},
		{"data", AT(version), 0x30, HK_WIRE_E_VERSION},
		{"data", AT(version), 255, HK_WIRE_E_VERSION},
		{"data", AT(key_index), 1, HK_WIRE_E_FIELD},
		{"data", AT(key_index), 0x80, HK_WIRE_E_FIELD},
		{"data", AT(type), 0, HK_WIRE_E_TYPE},
		{"data", AT(type), 7, HK_WIRE_E_TYPE},
		{"data", AT(type), 255, HK_WIRE_E_TYPE},
		{"data", AT(flags), HK_WIRE_F_ALL + 1, HK_WIRE_E_FIELD},
		{"data", AT(flags), 0x80, HK_WIRE_E_FIELD},
		{"data", AT(flags), HK_WIRE_F_ALL, HK_WIRE_OK}, /* all 8 bytes are the grant */
		{"data", AT(flags), HK_WIRE_F_BULK, HK_WIRE_OK},
		{"data", AT(len), 9, HK_WIRE_E_SHORT},
		{"data", AT(len) + 1, 0xff, HK_WIRE_E_SHORT},
		{"data", AT(len), 7, HK_WIRE_OK}, /* the parser takes the last byte for padding */
		{"data", AT(len), 0, HK_WIRE_OK},
		{"data", AT(credit) + 1, 0xff, HK_WIRE_OK},
		{"data", AT(job), 0, HK_WIRE_OK}, /* the engine compares it */
		{"data", AT(am), 0, HK_WIRE_OK},
		{"data", AT(frag), 1, HK_WIRE_E_FIELD},
		{"data", AT(frag), 255, HK_WIRE_E_FIELD},
		{"data", AT(frags), 0, HK_WIRE_E_FIELD},
		{"data", AT(frags), HK_WIRE_MAX_FRAGS, HK_WIRE_OK},
		{"data", AT(frags), HK_WIRE_MAX_FRAGS + 1, HK_WIRE_E_FIELD},
		{"data", AT(marks), 0xff, HK_WIRE_OK},
		{"data-fragment-crc", AT(frag), 2, HK_WIRE_OK},
		{"data-fragment-crc", AT(frag), 3, HK_WIRE_E_FIELD},
		{"data-fragment-crc", AT(frags), 2, HK_WIRE_OK},
		{"data-fragment-crc", AT(frags), 1, HK_WIRE_E_FIELD},
		{"put", AT(am), 1, HK_WIRE_E_FIELD},
		{"put", AT(frag), 1, HK_WIRE_E_FIELD},
		{"put", AT(frags), 1, HK_WIRE_E_FIELD},
		{"put", AT(len), 15, HK_WIRE_E_FIELD},
		{"put", AT(len), 0, HK_WIRE_E_FIELD},
		{"put", AT(len), 16, HK_WIRE_OK},
		{"put", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_OK},
		{"put-grant", AT(len), 23, HK_WIRE_E_FIELD},
		{"put-grant", AT(len), 24, HK_WIRE_OK},
		{"data", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_OK},
		{"data-fragment-crc", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_OK},
		{"ack", AT(am), 1, HK_WIRE_E_FIELD},
		{"ack", AT(frag), 1, HK_WIRE_E_FIELD},
		{"ack", AT(frags), 1, HK_WIRE_E_FIELD},
		{"ack", AT(flags), HK_WIRE_F_BULK, HK_WIRE_E_FIELD},
		{"ack", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_OK},
		{"ack", AT(len), 31, HK_WIRE_E_FIELD},
		{"ack", AT(len), 24, HK_WIRE_OK},
		{"ack", AT(len), 0, HK_WIRE_OK},
		{"ack-grant", AT(len), 15, HK_WIRE_E_FIELD},
		{"ack-grant", AT(len), 8, HK_WIRE_OK}, /* the grant alone */
		{"ack-grant", AT(len), 7, HK_WIRE_E_FIELD},
		{"ack", EXT, 0x07, HK_WIRE_E_FIELD}, /* bit 0 would be packet `ack` itself */
		{"ack", EXT, 0xfe, HK_WIRE_OK},
		{"reset", AT(len), 1, HK_WIRE_E_SHORT},
		{"reset", AT(am), 1, HK_WIRE_E_FIELD},
		{"reset", AT(frag), 1, HK_WIRE_E_FIELD},
		{"reset", AT(frags), 1, HK_WIRE_E_FIELD},
		{"bye", AT(am), 1, HK_WIRE_E_FIELD},
		{"bye", AT(frags), 1, HK_WIRE_E_FIELD},
		{"bye", AT(flags), HK_WIRE_F_BULK, HK_WIRE_E_FIELD},
		{"bye", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_E_FIELD},
		{"reset", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_E_FIELD},
		{"mcast", AT(flags), HK_WIRE_F_GRANT, HK_WIRE_E_FIELD},
		{"mcast", AT(flags), HK_WIRE_F_BULK, HK_WIRE_E_FIELD},
		{"mcast", AT(marks), 1, HK_WIRE_E_FIELD},
		{"mcast", AT(am), 1, HK_WIRE_E_FIELD},
		{"mcast", AT(frags), 1, HK_WIRE_E_FIELD},
		{"mcast", AT(credit), 1, HK_WIRE_E_FIELD},
		{"mcast", AT(ack) + 3, 1, HK_WIRE_E_FIELD},
		{"mcast", AT(tsval), 1, HK_WIRE_E_FIELD},
		{"mcast", AT(tsecr), 1, HK_WIRE_E_FIELD},
		{"mcast", AT(len), 0, HK_WIRE_OK},
		{"mcast", AT(psn), 0xff, HK_WIRE_OK},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		const struct spoil *t = &table[i];
		uint8_t frame[HK_SPECIMEN_MAX];
		size_t n = hk_specimen_encode(hk_specimen_named(t->frame), frame);

		frame[t->at] = t->value;
		if (hk_wire_has_crc(&hk_specimen_named(t->frame)->h))
			hk_wire_frame_checksum(frame + BASE);
		enum hk_wire_status got = parse_exact(frame, n, false);
		CHECK_MSG(got == t->want, "row %zu, %s with byte %zu = %02x: %s, should be %s", i,
			  t->frame, t->at, t->value, hk_wire_status_name(got),
			  hk_wire_status_name(t->want));
	}
}

/* A frame that breaks two rules is counted under the one that docs/wire.md checks first. */
TEST(the_first_broken_rule_is_named)
{
	static const struct {
		const char *frame;
		size_t cut; /* bytes missing at the end */
		struct {
			size_t at;
			uint8_t value;
		} bytes[2];
		enum hk_wire_status want;
	} table[] = {
		{"data", 57, {{12, 0x08}}, HK_WIRE_E_SHORT}, /* the Ethernet header is incomplete */
		{"data", 56, {{13, 0xb6}}, HK_WIRE_E_ETHERTYPE}, /* it is complete, and alone */
		{"data", 9, {{13, 0xb6}}, HK_WIRE_E_ETHERTYPE},  /* the base header is incomplete */
		{"data", 1, {{AT(version), 0x24}}, HK_WIRE_E_VERSION},
		{"data", 1, {{AT(version), 0x22}}, HK_WIRE_E_PROTECTION},
		{"data", 0, {{AT(version), 0x30}, {AT(type), 0}}, HK_WIRE_E_VERSION},
		{"data", 1, {{AT(type), 7}}, HK_WIRE_E_SHORT},
		{"data", 1, {{AT(key_index), 1}}, HK_WIRE_E_SHORT},
		{"data", 0, {{AT(key_index), 1}, {AT(type), 0}}, HK_WIRE_E_TYPE},
		{"data", 0, {{AT(key_index), 1}, {AT(type), 7}}, HK_WIRE_E_TYPE},
		{"data", 0, {{AT(flags), 0x20}, {AT(type), 255}}, HK_WIRE_E_TYPE},
		{"data", 0, {{AT(key_index), 1}, {AT(type), HK_WIRE_DATA}}, HK_WIRE_E_FIELD},
		{"mcast", 0, {{AT(key_index), 1}, {AT(type), HK_WIRE_MCAST}}, HK_WIRE_E_FIELD},
		/* the frame has space for a grant, and `len` has not */
		{"reset", 0, {{AT(flags), HK_WIRE_F_GRANT}, {AT(type), 7}}, HK_WIRE_E_TYPE},
		{"data", 0, {{AT(flags), HK_WIRE_F_GRANT}, {AT(len), 7}}, HK_WIRE_E_FIELD},
		/* the checksum is wrong, too */
		{"data-fragment-crc", 0, {{AT(frag), 3}}, HK_WIRE_E_FIELD},
		{"data-fragment-crc", 0, {{AT(type), 7}}, HK_WIRE_E_TYPE},
		{"data-fragment-crc", 1, {{AT(frag), 2}}, HK_WIRE_E_SHORT},
		{"data-fragment-crc", 0, {{AT(frag), 2}}, HK_WIRE_E_CRC},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		size_t n = hk_specimen_encode(hk_specimen_named(table[i].frame), frame) -
			   table[i].cut;

		for (size_t b = 0; b < 2; b++)
			if (table[i].bytes[b].at)
				frame[table[i].bytes[b].at] = table[i].bytes[b].value;
		enum hk_wire_status got = parse_exact(frame, n, false);
		CHECK_MSG(got == table[i].want, "row %zu: %s, should be %s", i,
			  hk_wire_status_name(got), hk_wire_status_name(table[i].want));
	}
}

/* An ACK of the format's longest bitmap is accepted, and the bits beyond our window are ignored. */
TEST(a_bitmap_may_be_longer_than_the_window)
{
	static const struct {
		size_t len;
		enum hk_wire_status want;
	} table[] = {
		{0, HK_WIRE_OK},
		{8, HK_WIRE_OK},
		{HK_WIRE_SACK_LEN + 8, HK_WIRE_OK},
		{HK_WIRE_SACK_MAX - 1, HK_WIRE_E_FIELD},
		{HK_WIRE_SACK_MAX, HK_WIRE_OK},
		{HK_WIRE_SACK_MAX + 8, HK_WIRE_E_FIELD},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		uint8_t frame[EXT + HK_WIRE_SACK_MAX + 8] = {0};
		struct hk_specimen s = *hk_specimen_named("ack");
		struct hk_frame f;

		hk_specimen_encode(&s, frame);
		s.h.len = (uint16_t)table[i].len;
		hk_wire_hdr_encode(frame + BASE, &s.h);
		memset(frame + EXT, 0xff, sizeof(frame) - EXT);
		frame[EXT] = 0xfe;
		CHECK_EQ(parse_exact(frame, EXT + table[i].len, false), table[i].want);
		memset(&f, 0xa5, sizeof(f));
		if (hk_wire_frame_parse(frame, EXT + table[i].len, false, &f) != HK_WIRE_OK)
			continue;
		CHECK_EQ(f.payload_len, 0);
		for (size_t w = 0; w < HK_ARRAY_LEN(f.sack.bits); w++)
			CHECK(f.sack.bits[w] == (8 * w >= table[i].len ? 0
						 : w == 0              ? ~UINT64_C(1)
								       : UINT64_MAX));
	}
}

/* A network switch reads job and endpoint from the first 62 bytes of a frame, whatever the rest. */
TEST(a_forwarder_reads_the_address)
{
	struct hk_specimen s = *hk_specimen_named("data");
	uint8_t frame[HK_SPECIMEN_MAX];
	uint32_t job = 1, endpoint = 1;

	s.h.job = 0x14131211;
	s.h.dst = 0x24232221;
	hk_specimen_encode(&s, frame);
	CHECK(!hk_wire_frame_address(frame, EXT - 1, &job, &endpoint));
	CHECK(hk_wire_frame_address(frame, EXT, &job, &endpoint));
	CHECK_EQ(job, 0x14131211);
	CHECK_EQ(endpoint, 0x24232221);

	static const struct {
		size_t at;
		uint8_t value;
		bool ours;
	} table[] = {
		{12, 0x08, false},          {13, 0xb6, false},         {AT(version), 0x1f, false},
		{AT(version), 0x30, false}, {AT(version), 0x2f, true}, {AT(type), 0xff, true},
		{AT(src_epoch), 0, true},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		hk_specimen_encode(&s, frame);
		frame[table[i].at] = table[i].value;
		CHECK_MSG(hk_wire_frame_address(frame, EXT, &job, &endpoint) == table[i].ours,
			  "row %zu", i);
	}
}

TEST(epochs_are_not_zero)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		struct hk_specimen s = hk_specimens[i];

		s.h.src_epoch = 0;
		CHECK_EQ(parse_exact(frame, hk_specimen_encode(&s, frame), false), HK_WIRE_E_FIELD);
		s.h.src_epoch = 0x80000000;
		CHECK_EQ(parse_exact(frame, hk_specimen_encode(&s, frame), false), HK_WIRE_OK);
		s.h.dst_epoch = 0;
		CHECK_EQ(parse_exact(frame, hk_specimen_encode(&s, frame), false), HK_WIRE_E_FIELD);
	}
}

/* RESET and BYE carry nothing, and ACK only a bitmap. The frames have space for the bytes, so
 * that the parser refuses the field and not the length. */
TEST(control_carries_nothing)
{
	static const char *const names[] = {"ack", "reset", "bye"};
	for (size_t i = 0; i < HK_ARRAY_LEN(names); i++) {
		uint8_t frame[HK_SPECIMEN_MAX] = {0};
		size_t n = hk_specimen_encode(hk_specimen_named(names[i]), frame);
		frame[AT(len)]++;
		CHECK_EQ(parse_exact(frame, n + 1, false), HK_WIRE_E_FIELD);
	}
}

TEST(a_checksum_may_be_required)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		struct hk_specimen s = hk_specimens[i];
		uint8_t frame[HK_SPECIMEN_MAX];

		s.h.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE);
		size_t n = hk_specimen_encode(&s, frame);
		CHECK_EQ(parse_exact(frame, n, true), HK_WIRE_E_CRC);
		CHECK_EQ(hk_wire_frame_checksum(frame + BASE), HK_WIRE_CRC_LEN);
		CHECK_EQ(parse_exact(frame, n, true), HK_WIRE_E_SHORT);
		CHECK_EQ(parse_exact(frame, n + HK_WIRE_CRC_LEN, true), HK_WIRE_OK);
		CHECK_EQ(parse_exact(frame, n + HK_WIRE_CRC_LEN, false), HK_WIRE_OK);
	}
}

/* A sealed frame is refused after any single bit behind its Ethernet header was flipped. */
TEST(every_bit_under_the_checksum)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		struct hk_specimen s = hk_specimens[i];
		uint8_t frame[HK_SPECIMEN_MAX];

		s.h.version = HK_WIRE_VERSION_BYTE(HK_WIRE_CRC);
		size_t n = hk_specimen_encode(&s, frame);
		for (size_t bit = BASE * 8; bit < n * 8; bit++) {
			frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
			CHECK_MSG(parse_exact(frame, n, true) != HK_WIRE_OK,
				  "%s: flipped bit %zu passed", s.name, bit);
			frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		CHECK_EQ(parse_exact(frame, n, true), HK_WIRE_OK);
	}
}

/* Random valid frames, at any alignment, parse to what was encoded. With random bytes changed
 * the parser refuses them or returns fields within the rules, and never reads out of bounds. */
TEST(random_round_trips)
{
	static const uint8_t mac[6] = {2, 3, 4, 5, 6, 7};
	struct hk_rng *r = &hk_test_rng;

	for (int round = 0; round < 50000; round++) {
		uint8_t memory[400], payload[200];
		uint8_t *frame = memory + hk_rng_below(r, 8), *p = frame + BASE;
		struct hk_specimen s = {.payload = ""};
		struct hk_wire_hdr *h = &s.h;
		bool crc = hk_rng_below(r, 2);
		size_t ext_len = 0, payload_len = hk_rng_below(r, sizeof(payload));

		for (size_t i = 0; i < sizeof(*h); i++)
			((uint8_t *)h)[i] = (uint8_t)hk_rng_next(r);
		for (size_t i = 0; i < payload_len; i++)
			payload[i] = (uint8_t)hk_rng_next(r);
		h->version = HK_WIRE_VERSION_BYTE(crc ? HK_WIRE_CRC : HK_WIRE_BARE);
		h->key_index = 0;
		h->type = (uint8_t)hk_rng_range(r, HK_WIRE_DATA, HK_WIRE_MCAST);
		h->flags = (uint8_t)hk_rng_below(r, HK_WIRE_F_ALL + 1);
		if (h->type > HK_WIRE_PUT)
			h->flags &= (uint8_t)~HK_WIRE_F_BULK;
		if (h->type > HK_WIRE_ACK)
			h->flags &= (uint8_t)~HK_WIRE_F_GRANT;
		h->src_epoch |= 1;
		h->dst_epoch |= 1;
		if (h->type == HK_WIRE_DATA) {
			h->frags = (uint8_t)hk_rng_range(r, 1, HK_WIRE_MAX_FRAGS);
			h->frag = (uint8_t)hk_rng_below(r, h->frags);
		} else {
			h->am = h->frag = h->frags = 0;
		}
		if (h->type == HK_WIRE_PUT) {
			ext_len = HK_WIRE_PUT_LEN;
			s.put = (struct hk_wire_put){.region = (uint32_t)hk_rng_next(r),
						     .xfer = (uint32_t)hk_rng_next(r),
						     .offset = hk_rng_next(r)};
		} else if (h->type == HK_WIRE_ACK) {
			for (size_t i = 0, n = hk_rng_below(r, 5); i < n; i++)
				s.sack.bits[i] = hk_rng_next(r);
			s.sack.bits[0] &= ~UINT64_C(1);
		}
		if (h->type == HK_WIRE_MCAST)
			h->credit = 0, h->ack = h->tsval = h->tsecr = h->marks = 0;
		else if (h->type > HK_WIRE_PUT)
			payload_len = 0;
		uint8_t *ext = p + HK_WIRE_HLEN;

		if (h->flags & HK_WIRE_F_GRANT) {
			s.grant = (struct hk_wire_grant){(uint32_t)hk_rng_next(r),
							 (uint32_t)hk_rng_next(r)};
			hk_wire_grant_encode(ext, &s.grant);
			ext += HK_WIRE_GRANT_LEN;
		}
		hk_wire_eth_encode(frame, mac, mac);
		if (h->type == HK_WIRE_PUT)
			hk_wire_put_encode(ext, &s.put);
		if (h->type == HK_WIRE_ACK)
			ext_len = hk_wire_sack_encode(ext, &s.sack);
		ext_len += (size_t)(ext - p) - HK_WIRE_HLEN;
		h->len = (uint16_t)(ext_len + payload_len);
		hk_wire_hdr_encode(p, h);
		memcpy(p + HK_WIRE_HLEN + ext_len, payload, payload_len);
		size_t n = EXT + h->len;
		if (crc)
			n += hk_wire_frame_checksum(p);

		struct hk_frame f;
		CHECK_EQ(hk_wire_frame_parse(frame, n, crc, &f), HK_WIRE_OK);
		CHECK(memcmp(&f.h, h, sizeof(*h)) == 0);
		CHECK(!(h->flags & HK_WIRE_F_GRANT) ||
		      memcmp(&f.grant, &s.grant, sizeof(s.grant)) == 0);
		CHECK(h->type != HK_WIRE_PUT || memcmp(&f.put, &s.put, sizeof(s.put)) == 0);
		CHECK(h->type != HK_WIRE_ACK || memcmp(&f.sack, &s.sack, sizeof(s.sack)) == 0);
		CHECK_EQ(f.payload_len, payload_len);
		CHECK(f.payload == p + HK_WIRE_HLEN + ext_len);
		CHECK(memcmp(f.payload, payload, payload_len) == 0);

		for (unsigned i = 0; i < 3; i++)
			frame[hk_rng_below(r, n)] = (uint8_t)hk_rng_next(r);
		parse_exact(frame, hk_rng_range(r, 0, n), hk_rng_below(r, 2));
	}
}

TEST(packet_numbers_wrap)
{
	CHECK(hk_psn_before(0, 1));
	CHECK(!hk_psn_before(1, 0));
	CHECK(!hk_psn_before(7, 7));
	CHECK(hk_psn_before(UINT32_MAX, 0));
	CHECK(!hk_psn_before(0, UINT32_MAX));
	CHECK(hk_psn_before(UINT32_MAX - 100, 100));
	CHECK(hk_psn_before(0x7fffffff, 0x80000000));
}

TEST(statuses_have_names)
{
	for (int s = 0; s < HK_WIRE_STATUS_MAX; s++) {
		CHECK(strcmp(hk_wire_status_name(s), "unknown") != 0);
		for (int t = 0; t < s; t++)
			CHECK(strcmp(hk_wire_status_name(s), hk_wire_status_name(t)) != 0);
	}
	CHECK(strcmp(hk_wire_status_name(HK_WIRE_STATUS_MAX), "unknown") == 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/router/test_fragment.c: reassembled fragments of random packets.
 */
#include "devmem/router/fragment.h"
#include "tests/support/hk_test.h"

#define LONGEST 9180

struct packet {
	uint8_t bytes[HK_ETHER_LEN + LONGEST];
	struct hk_ip ip;
};

/* Makes options. Sets @copied to those that every fragment has, padded. */
static unsigned options(uint8_t *out, uint8_t *copied, unsigned *copied_len)
{
	static const uint8_t one[4][8] = {
		{1},                           /* no operation */
		{0x94, 4, 0, 0},               /* router alert: copied */
		{7, 7, 4, 0, 0, 0, 0},         /* record route */
		{0x86, 6, 0xaa, 0xbb, 1, 0x7}, /* commercial security: copied */
	};
	static const unsigned size[4] = {1, 4, 7, 6};
	unsigned n = 0, kept = 0;

	for (unsigned i = (unsigned)hk_rng_below(&hk_test_rng, 5); i; i--) {
		unsigned k = (unsigned)hk_rng_below(&hk_test_rng, 4);
		memcpy(out + n, one[k], size[k]);
		n += size[k];
		if (one[k][0] & 0x80) {
			memcpy(copied + kept, one[k], size[k]);
			kept += size[k];
		}
	}
	for (; n % 4; n++)
		out[n] = 0;
	for (; kept % 4; kept++)
		copied[kept] = 0;
	*copied_len = kept;
	return n;
}

static void make(struct packet *p, unsigned payload, unsigned fragment, const uint8_t *option,
		 unsigned option_len)
{
	unsigned header = 20 + option_len, total = header + payload;
	uint8_t *h = p->bytes + HK_ETHER_LEN;

	memset(p->bytes, 0, HK_ETHER_LEN);
	const uint8_t fixed[20] = {(uint8_t)(0x40 | header / 4),
				   0x1c,
				   (uint8_t)(total >> 8),
				   (uint8_t)total,
				   0xab,
				   0xcd,
				   (uint8_t)(fragment >> 8),
				   (uint8_t)fragment,
				   9,
				   17,
				   [12] = 10,
				   [15] = 1,
				   [16] = 10,
				   [19] = 2};
	memcpy(h, fixed, 20);
	memcpy(h + 20, option, option_len);
	uint16_t sum = (uint16_t)~hk_sum(h, header, 0);
	memcpy(h + 10, &sum, 2);
	for (unsigned i = 0; i < payload; i++)
		h[header + i] = (uint8_t)hk_rng_next(&hk_test_rng);
	CHECK_EQ(hk_ip4_read(p->bytes, HK_HEADER_MAX, HK_ETHER_LEN + total, &p->ip),
		 HK_RESULT_FORWARD);
}

TEST(put_together_again)
{
	static struct packet p;
	struct hk_rng *r = &hk_test_rng;

	for (unsigned round = 0; round < 20000; round++) {
		uint8_t option[40], copied[40], header[HK_IP4_HEADER_MAX];
		unsigned kept, option_len = options(option, copied, &kept);
		unsigned mtu = 576 + (unsigned)hk_rng_below(r, 3000);
		unsigned payload = 1 + (unsigned)hk_rng_below(r, LONGEST - 60), count = 0;
		unsigned more = (unsigned)hk_rng_below(r, 2) * HK_IP4_MORE, begin;
		unsigned offset = (unsigned)hk_rng_below(r, 1000), next = offset * 8, size, at, len;
		struct hk_fragments s;
		struct hk_ip ip;

		make(&p, payload, more | offset, option, option_len);
		CHECK_EQ(hk_fragments_begin(&s, p.bytes + HK_ETHER_LEN, &p.ip, mtu),
			 HK_RESULT_FORWARD);
		unsigned expect = hk_fragments_count(&s);
		for (begin = 0; (size = hk_fragments_next(&s, header, &at, &len)); begin += len) {
			uint8_t frame[HK_ETHER_LEN + HK_IP4_HEADER_MAX] = {0};
			memcpy(frame + HK_ETHER_LEN, header, size);
			CHECK_EQ(hk_ip4_read(frame, HK_HEADER_MAX, HK_ETHER_LEN + size + len, &ip),
				 HK_RESULT_FORWARD); /* checksum and length are correct */
			CHECK_EQ(ip.ttl, 8);
			CHECK_EQ(ip.length, size + len);
			CHECK(ip.length <= mtu && len);
			CHECK_EQ(at, p.ip.header + begin);
			CHECK_EQ((ip.fragment & HK_IP4_OFFSET) * 8u, next);
			bool last = begin + len == payload;
			CHECK(last || len % 8 == 0);
			/* as few fragments as possible: one more unit would not fit */
			CHECK(last || size + len + 8 > mtu);
			CHECK_EQ(ip.fragment & ~HK_IP4_OFFSET, last ? more : HK_IP4_MORE);
			CHECK(memcmp(header + 12, p.bytes + HK_ETHER_LEN + 12, 8) == 0);
			CHECK(memcmp(header + 4, "\xab\xcd", 2) == 0 && header[1] == 0x1c);
			CHECK_EQ(size, 20 + (count ? kept : option_len));
			CHECK(memcmp(header + 20, count ? copied : option, size - 20) == 0);
			next += len;
			count++;
		}
		CHECK_EQ(begin, payload);
		CHECK_EQ(count, expect);
	}
}

TEST(what_cannot_be_cut)
{
	static struct packet p;
	struct hk_fragments s;

	make(&p, 1000, HK_IP4_MORE | 8100, (const uint8_t *)"", 0);
	CHECK_EQ(hk_fragments_begin(&s, p.bytes + HK_ETHER_LEN, &p.ip, 576), HK_RESULT_LENGTH);
	make(&p, 728, HK_IP4_MORE | 8100, (const uint8_t *)"", 0);
	CHECK_EQ(hk_fragments_begin(&s, p.bytes + HK_ETHER_LEN, &p.ip, 576), HK_RESULT_FORWARD);
	CHECK_EQ(hk_fragments_begin(&s, p.bytes + HK_ETHER_LEN, &p.ip, 27), HK_RESULT_TOO_BIG);
	CHECK_EQ(hk_fragments_begin(&s, p.bytes + HK_ETHER_LEN, &p.ip, 28), HK_RESULT_FORWARD);
}

/* Options that were valid when they were checked and are garbage afterwards. */
TEST(options_that_changed)
{
	static struct packet p;
	uint8_t header[HK_IP4_HEADER_MAX];
	unsigned at, len, size;
	struct hk_fragments s;

	make(&p, 2000, 0, (const uint8_t *)"\x94\x04\0\0\x94\x04\0\0", 8);
	for (unsigned round = 0; round < 100000; round++) {
		for (unsigned i = 0; i < 8; i++)
			p.bytes[HK_ETHER_LEN + 20 + i] = (uint8_t)hk_rng_next(&hk_test_rng);
		CHECK_EQ(hk_fragments_begin(&s, p.bytes + HK_ETHER_LEN, &p.ip, 576),
			 HK_RESULT_FORWARD);
		while ((size = hk_fragments_next(&s, header, &at, &len)))
			CHECK(size >= 20 && size <= 28 && at + len <= 28 + 2000);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_wire.c: arbitrary bytes as a received frame.
 *
 * The first byte of the input chooses. Bit 0: a checksum is required. Bit 1: the target first adds
 * a valid checksum, so that the fuzzer gets past it. The other bytes are the frame. It lies in
 * memory of exactly its size, so that a sanitizer reports each read beyond it.
 */
#include "tests/support/hk_test.h"
#include "wire/atomic.h"
#include "wire/bundle.h"
#include "wire/wire.h"

/* Frames with a tag: what the two parsers of one protection agree on, and bounds. */
static void check_sealed(uint8_t *frame, size_t len, enum hk_wire_protection need)
{
	struct hk_wire_sealed s;
	struct hk_frame f;
	enum hk_wire_status parts = hk_wire_sealed_parse(frame, len, need, &s);
	enum hk_wire_status whole = hk_wire_frame_parse(frame, len, need, &f);

	if (parts != HK_WIRE_OK) {
		CHECK(whole != HK_WIRE_OK);
		return;
	}
	CHECK(s.base == frame + HK_ETH_HLEN && s.len >= HK_WIRE_HLEN);
	CHECK(s.tag == s.base + s.len + offsetof(struct hk_wire_seal, tag));
	CHECK(s.tag + sizeof(((struct hk_wire_seal *)0)->tag) <= frame + len);
	if (whole != HK_WIRE_OK)
		return;
	CHECK(f.counter == s.counter && f.h.src == s.src && f.h.key_index == s.key_index);
	CHECK(f.payload + f.payload_len == s.base + s.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks the rules of docs/wire.md for an accepted frame. */
static void check_accepted(const struct hk_frame *f, const uint8_t *frame, size_t len, bool crc)
{
	const struct hk_wire_hdr *h = &f->h;
	uint8_t base[HK_WIRE_HLEN];
	size_t grant = h->flags & HK_WIRE_F_GRANT ? HK_WIRE_GRANT_LEN : 0;
	size_t ext = h->type == HK_WIRE_ACK
			     ? h->len
			     : grant + (h->type == HK_WIRE_PUT ? HK_WIRE_PUT_LEN : 0);

	CHECK(h->version >> 4 == HK_WIRE_VERSION && (h->version & 0xf) <= HK_WIRE_CRC);
	CHECK(h->key_index == 0);
	CHECK(h->type >= HK_WIRE_DATA && h->type <= HK_WIRE_MCAST);
	CHECK((h->flags & ~HK_WIRE_F_ALL) == 0);
	CHECK(!crc || hk_wire_has_crc(h));
	CHECK(h->src_epoch != 0 && h->dst_epoch != 0);
	if (h->type == HK_WIRE_DATA)
		CHECK(h->frags >= 1 && h->frags <= HK_WIRE_MAX_FRAGS && h->frag < h->frags);
	else
		CHECK(h->am == 0 && h->frag == 0 && h->frags == 0);
	bool any_length = h->type <= HK_WIRE_PUT || h->type == HK_WIRE_MCAST;
	CHECK(any_length || h->len == ext);
	CHECK(h->type != HK_WIRE_ACK ||
	      (!(f->sack.bits[0] & 1) && (ext - grant) % 8 == 0 && ext <= 8 + HK_WIRE_SACK_MAX));
	CHECK(h->type <= HK_WIRE_PUT || !(h->flags & HK_WIRE_F_BULK));
	CHECK(h->type <= HK_WIRE_ACK || !(h->flags & HK_WIRE_F_GRANT));
	CHECK(f->payload == frame + HK_ETH_HLEN + HK_WIRE_HLEN + ext);
	CHECK(f->payload_len + ext == h->len);
	CHECK(f->payload + f->payload_len + (hk_wire_has_crc(h) ? HK_WIRE_CRC_LEN : 0) <=
	      frame + len);
	/* encoding it again gives the same bytes */
	hk_wire_hdr_encode(base, h);
	CHECK(memcmp(base, frame + HK_ETH_HLEN, sizeof(base)) == 0);
}

/* Checks messages of atomic operations: an accepted one is as long as it says, and encoding it
 * gives the same bytes. */
static void check_atomic(const struct hk_frame *f)
{
	struct hk_wire_atomic a;
	uint8_t head[HK_WIRE_ATOMIC_LEN];

	if (f->h.type != HK_WIRE_DATA || f->h.am != HK_WIRE_AM_ATOMIC ||
	    !hk_wire_atomic_parse(f->payload, f->payload_len, &a))
		return;
	CHECK(a.op < HK_ATOMIC_KINDS && a.token != 0);
	CHECK(f->payload_len == sizeof(head) + (hk_wire_atomic_has_data(&a) ? a.len : 0));
	hk_wire_atomic_encode(head, &a);
	CHECK(memcmp(head, f->payload, sizeof(head)) == 0);
}

/* Checks the records of a bundle: they lie within it, in order. Encoding them again gives the same
 * places. */
static void check_bundle(const struct hk_frame *f)
{
	struct hk_wire_record r;
	const uint8_t *message;
	size_t at = 0, used = 0;

	if (f->h.type != HK_WIRE_DATA || f->h.am != HK_WIRE_AM_BUNDLE)
		return;
	uint8_t *again = malloc(f->payload_len + 1u);

	CHECK(again != NULL);
	while ((message = hk_wire_bundle_next(f->payload, f->payload_len, &at, &r)) != NULL) {
		CHECK(r.am < HK_WIRE_AM_BUNDLE && r.zero == 0);
		CHECK(hk_wire_bundle_after(used, r.len) <= f->payload_len);
		void *to = hk_wire_bundle_add(again, &used, r.am, r.len);

		CHECK((const uint8_t *)to - again == message - f->payload);
		CHECK(message + r.len <= f->payload + f->payload_len);
		memcpy(to, message, r.len);
		CHECK(at >= used && at <= f->payload_len);
	}
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hk_frame f;

	if (size < 1)
		return 0;
	bool crc = data[0] & 1, seal = data[0] & 2;
	size_t len = size - 1;
	uint8_t *frame = malloc(len ? len : 1);
	CHECK(frame != NULL);
	memcpy(frame, data + 1, len);
	if (seal && len >= HK_ETH_HLEN + HK_WIRE_HLEN) {
		const uint8_t *at = frame + HK_ETH_HLEN + offsetof(struct hk_wire_hdr, len);
		size_t inner = (size_t)(at[0] | at[1] << 8);
		if (HK_ETH_HLEN + HK_WIRE_HLEN + inner + HK_WIRE_CRC_LEN <= len)
			hk_wire_frame_checksum(frame + HK_ETH_HLEN);
	}
	if (hk_wire_frame_parse(frame, len, crc, &f) == HK_WIRE_OK) {
		check_accepted(&f, frame, len, crc);
		check_atomic(&f);
		check_bundle(&f);
	}
	check_sealed(frame, len, HK_WIRE_AUTH);
	check_sealed(frame, len, HK_WIRE_SEAL);
	free(frame);
	return 0;
}

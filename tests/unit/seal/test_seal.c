/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/seal/test_seal.c: frames of endpoints that share keys, and frames of everybody else.
 */
#include "seal/seal.h"
#include "tests/support/hk_test.h"

#define JOB      77u
#define ROOM     2048
#define MS       HK_MSEC
#define CONTEXTS 4

/* An endpoint. Its peers are numbered like the endpoints of the test. */
struct end {
	struct hk_seal *seal;
	struct hk_seal_peer peer[8];
	uint32_t endpoint, epoch;
	enum hk_wire_protection protection;
};

static struct hk_seal_config config(uint32_t endpoint, enum hk_wire_protection protection)
{
	return (struct hk_seal_config){.protection = protection,
				       .job = JOB,
				       .endpoint = endpoint,
				       .epoch = 100 + endpoint,
				       .contexts = CONTEXTS};
}

static struct end end_open(const struct hk_seal_config *c)
{
	struct end e = {.endpoint = c->endpoint, .epoch = c->epoch, .protection = c->protection};
	struct hk_error err = {""};
	void *memory = aligned_alloc(64, (hk_seal_size(c) + 63) & ~(size_t)63);

	CHECK(memory != NULL);
	e.seal = hk_seal_init(memory, c, &err);
	CHECK_MSG(e.seal != NULL, "%s", err.text);
	return e;
}

static void end_close(struct end *e)
{
	hk_seal_end(e->seal);
	free(e->seal);
}

/* Both know the other's address. */
static void introduce(struct end *a, struct end *b)
{
	hk_seal_peer_set(a->seal, &a->peer[b->endpoint], b->endpoint, b->epoch,
			 hk_seal_public_key(b->seal));
	hk_seal_peer_set(b->seal, &b->peer[a->endpoint], a->endpoint, a->epoch,
			 hk_seal_public_key(a->seal));
}

static struct hk_wire_hdr header(const struct end *from, const struct end *to, uint16_t len)
{
	return (struct hk_wire_hdr){.version = HK_WIRE_VERSION_BYTE(from->protection),
				    .len = len,
				    .job = JOB,
				    .src = from->endpoint,
				    .dst = to->endpoint,
				    .src_epoch = from->epoch,
				    .dst_epoch = to->epoch,
				    .type = HK_WIRE_DATA,
				    .frags = 1};
}

/* Writes a frame of @len bytes of payload to @frame. Returns its length; 0: no key. */
static size_t make(struct end *from, const struct end *to, uint16_t len, uint8_t *frame)
{
	const struct hk_wire_hdr h = header(from, to, len);
	uint8_t plain[ROOM], *base = frame + HK_ETH_HLEN;
	struct hk_seal_peer *p = &from->peer[to->endpoint];

	hk_wire_hdr_encode(plain, &h);
	for (unsigned i = 0; i < len; i++)
		plain[HK_WIRE_HLEN + i] = (uint8_t)(i * 3);
	hk_wire_eth_encode(frame, (uint8_t[6]){2}, (uint8_t[6]){4});
	size_t covered = HK_WIRE_HLEN + len;

	if (from->protection == HK_WIRE_AUTH) {
		memcpy(base, plain, covered);
		if (!hk_seal_sign(from->seal, p, base, NULL))
			return 0;
		return HK_ETH_HLEN + covered + HK_WIRE_SEAL_LEN;
	}
	const struct hk_gcm_piece piece[] = {{plain, HK_WIRE_HLEN + len / 2},
					     {plain + HK_WIRE_HLEN + len / 2, len - len / 2}};
	size_t n = hk_seal_encrypt(from->seal, p, piece, 2, base);

	return n ? HK_ETH_HLEN + n : 0;
}

/* Does @to take a copy of the frame for one of @from? Checks what it reads then. */
static bool takes(struct end *to, const struct end *from, const uint8_t *frame, size_t len,
		  uint64_t now)
{
	uint8_t copy[ROOM];
	struct hk_wire_sealed sealed;
	struct hk_frame f;

	memcpy(copy, frame, len);
	if (hk_wire_sealed_parse(copy, len, to->protection, &sealed) != HK_WIRE_OK ||
	    !hk_seal_open(to->seal, &to->peer[from->endpoint], &sealed, now))
		return false;
	CHECK_EQ(hk_wire_frame_parse(copy, len, to->protection, &f), HK_WIRE_OK);
	CHECK(f.h.src == from->endpoint && f.h.type == HK_WIRE_DATA && f.counter != 0);
	for (unsigned i = 0; i < f.payload_len; i++)
		CHECK_EQ(f.payload[i], (uint8_t)(i * 3));
	return true;
}

static const enum hk_wire_protection both[] = {HK_WIRE_AUTH, HK_WIRE_SEAL};

TEST(a_frame_opens_at_its_receiver)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(both); i++) {
		struct hk_seal_config ca = config(1, both[i]), cb = config(2, both[i]);
		struct end a = end_open(&ca), b = end_open(&cb);
		uint8_t frame[ROOM];

		introduce(&a, &b);
		for (uint16_t len = 0; len < 1500; len += len < 70 ? 1 : 97) {
			size_t n = make(&a, &b, len, frame);

			CHECK(n != 0 && takes(&b, &a, frame, n, 0));
			n = make(&b, &a, len, frame);
			CHECK(n != 0 && takes(&a, &b, frame, n, 0));
		}
		end_close(&a), end_close(&b);
	}
}

TEST(only_a_sealed_payload_is_unreadable)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(both); i++) {
		struct hk_seal_config ca = config(1, both[i]), cb = config(2, both[i]);
		struct end a = end_open(&ca), b = end_open(&cb);
		uint8_t frame[ROOM];
		unsigned same = 0;

		introduce(&a, &b);
		CHECK(make(&a, &b, 1000, frame) != 0);
		for (unsigned k = 0; k < 1000; k++)
			same += frame[HK_WIRE_DATA_OVERHEAD + k] == (uint8_t)(k * 3);
		CHECK(both[i] == HK_WIRE_AUTH ? same == 1000 : same < 50);
		end_close(&a), end_close(&b);
	}
}

TEST(one_wrong_bit_is_noticed)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(both); i++) {
		struct hk_seal_config ca = config(1, both[i]), cb = config(2, both[i]);
		struct end a = end_open(&ca), b = end_open(&cb);
		uint8_t frame[ROOM];

		introduce(&a, &b);
		size_t n = make(&a, &b, 40, frame);

		CHECK(takes(&b, &a, frame, n, 0));
		for (size_t bit = 8 * HK_ETH_HLEN; bit < 8 * n; bit++) {
			frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
			CHECK_MSG(!takes(&b, &a, frame, n, bit * MS), "bit %zu", bit);
			frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		for (size_t len = 0; len < n; len++)
			CHECK(!takes(&b, &a, frame, len, 0));
		CHECK(takes(&b, &a, frame, n, 0));
		end_close(&a), end_close(&b);
	}
}

/* Each knows all addresses, but not the others' private keys. */
TEST(nobody_speaks_for_somebody_else)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);
	struct hk_seal_config cc = config(3, HK_WIRE_AUTH);
	struct end a = end_open(&ca), b = end_open(&cb), c = end_open(&cc);
	uint8_t frame[ROOM];

	introduce(&a, &b), introduce(&b, &c), introduce(&a, &c);
	/* @c says it is @a, and uses the key that it has with @b */
	struct hk_wire_hdr h = header(&a, &b, 8);

	hk_wire_eth_encode(frame, (uint8_t[6]){2}, (uint8_t[6]){4});
	hk_wire_hdr_encode(frame + HK_ETH_HLEN, &h);
	CHECK(hk_seal_sign(c.seal, &c.peer[2], frame + HK_ETH_HLEN, NULL));
	CHECK(!takes(&b, &a, frame, HK_WIRE_DATA_OVERHEAD + 8 + HK_WIRE_SEAL_LEN, 0));
	/* a frame for @b, given to @c, and one of @a, sent back to it */
	size_t n = make(&a, &b, 8, frame);

	CHECK(!takes(&c, &a, frame, n, MS) && !takes(&a, &b, frame, n, MS));
	CHECK(takes(&b, &a, frame, n, MS));
	end_close(&a), end_close(&b), end_close(&c);
}

TEST(a_key_of_the_job_is_needed_as_well)
{
	static const uint8_t job_key[2][HK_AGREE_LEN] = {{1}, {2}};

	for (unsigned i = 0; i < 9; i++) {
		struct hk_seal_config ca = config(1, HK_WIRE_SEAL), cb = config(2, HK_WIRE_SEAL);
		const uint8_t *key[] = {NULL, job_key[0], job_key[1]};

		ca.job_key = key[i / 3], cb.job_key = key[i % 3];
		struct end a = end_open(&ca), b = end_open(&cb);
		uint8_t frame[ROOM];

		introduce(&a, &b);
		size_t n = make(&a, &b, 8, frame);

		CHECK_EQ(takes(&b, &a, frame, n, 0), i / 3 == i % 3);
		end_close(&a), end_close(&b);
	}
}

TEST(another_incarnation_has_other_keys)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);
	struct end a = end_open(&ca), b = end_open(&cb);
	uint8_t frame[ROOM], late[ROOM];

	introduce(&a, &b);
	size_t n = make(&a, &b, 8, late);

	CHECK(takes(&b, &a, late, n, 0));
	ca.epoch++;
	struct end again = end_open(&ca);

	CHECK(make(&again, &b, 8, frame) == 0 || !takes(&b, &again, frame, n, MS));
	introduce(&again, &b);
	CHECK(!takes(&b, &a, late, n, 2 * MS));
	CHECK(make(&again, &b, 8, frame) == n && takes(&b, &again, frame, n, 3 * MS));
	end_close(&a), end_close(&b), end_close(&again);
}

/* Keys change after four frames here. Every frame opens, and the one before the last generation
 * does not open any more. */
TEST(keys_rotate)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);

	ca.rotate = cb.rotate = 2;
	struct end a = end_open(&ca), b = end_open(&cb);
	uint8_t frame[64][ROOM];
	size_t n = 0;

	introduce(&a, &b);
	for (unsigned i = 0; i < 64; i++) {
		n = make(&a, &b, 8, frame[i]);
		CHECK(n != 0 && takes(&b, &a, frame[i], n, 0));
		for (unsigned k = 0; k <= i; k++) /* counters begin with 1 */
			CHECK_MSG(takes(&b, &a, frame[k], n, 0) == ((k + 1) / 4 + 1 >= (i + 1) / 4),
				  "frame %u after %u", k, i);
	}
	/* the key index has the lowest bits alone: 256 generations later it is the same */
	for (unsigned i = 0; i < 4 * 256; i++)
		CHECK(make(&a, &b, 8, frame[0]) == n && takes(&b, &a, frame[0], n, 0));
	CHECK(!takes(&b, &a, frame[63], n, 0));
	end_close(&a), end_close(&b);
}

/* A jump by several generations, of a peer that talked to others meanwhile, and a frame of the one
 * before that comes late. */
TEST(generations_may_be_skipped)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);

	ca.rotate = cb.rotate = 2;
	struct end a = end_open(&ca), b = end_open(&cb);
	uint8_t first[ROOM], frame[ROOM], late[ROOM];

	introduce(&a, &b);
	size_t n = make(&a, &b, 8, first);

	CHECK(takes(&b, &a, first, n, 0));
	for (unsigned i = 0; i < 20; i++)
		make(&a, &b, 8, late);
	for (unsigned i = 0; i < 4; i++)
		make(&a, &b, 8, frame);
	CHECK(takes(&b, &a, frame, n, 0) && takes(&b, &a, late, n, 0));
	CHECK(!takes(&b, &a, first, n, MS));
	end_close(&a), end_close(&b);
}

/* With fewer contexts than peers, all of them can still talk. */
TEST(idle_peers_lose_their_context)
{
	struct hk_seal_config ca = config(7, HK_WIRE_SEAL);

	ca.contexts = 2;
	struct end a = end_open(&ca), b[6];
	uint8_t frame[ROOM];

	for (uint32_t i = 0; i < 6; i++) {
		struct hk_seal_config cb = config(i, HK_WIRE_SEAL);

		b[i] = end_open(&cb);
		introduce(&a, &b[i]);
	}
	for (unsigned i = 0; i < 200; i++) {
		struct end *peer = &b[hk_rng_below(&hk_test_rng, 6)];
		size_t n = make(&a, peer, 100, frame);

		CHECK(n != 0 && takes(peer, &a, frame, n, 0));
		n = make(peer, &a, 100, frame);
		CHECK(n != 0 && takes(&a, peer, frame, n, 0));
	}
	for (unsigned i = 0; i < 6; i++)
		end_close(&b[i]);
	end_close(&a);
}

/* A forger who makes the receiver compute keys in vain does so once in 100 µs. A context at hand
 * is not touched by that. */
TEST(forged_frames_cost_no_keys)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);
	struct hk_seal_config cc = config(3, HK_WIRE_AUTH);
	struct end a = end_open(&ca), b = end_open(&cb), c = end_open(&cc);
	uint8_t frame[ROOM], forged[ROOM];

	introduce(&a, &b), introduce(&c, &b);
	size_t n = make(&a, &b, 8, frame);

	CHECK(takes(&b, &a, frame, n, 0));
	size_t m = make(&c, &b, 8, forged);

	forged[HK_WIRE_DATA_OVERHEAD] ^= 1;
	CHECK(!takes(&b, &c, forged, m, MS));
	forged[HK_WIRE_DATA_OVERHEAD] ^= 1; /* now right, but too early for another key */
	CHECK(!takes(&b, &c, forged, m, MS + 99 * HK_USEC));
	CHECK(takes(&b, &a, frame, n, MS + 99 * HK_USEC));
	CHECK(takes(&b, &c, forged, m, MS + 100 * HK_USEC));
	end_close(&a), end_close(&b), end_close(&c);
}

/* A public key without a secret was computed with in vain, too. */
TEST(a_bad_public_key_costs_no_more)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);
	struct hk_seal_config cc = config(3, HK_WIRE_AUTH);
	static const uint8_t zero[HK_AGREE_LEN];
	struct end a = end_open(&ca), b = end_open(&cb), c = end_open(&cc);
	uint8_t frame[ROOM], bad[ROOM];

	introduce(&a, &b), introduce(&c, &b);
	hk_seal_peer_set(b.seal, &b.peer[3], 3, c.epoch, zero);
	size_t n = make(&a, &b, 8, frame), m = make(&c, &b, 8, bad);

	CHECK(!takes(&b, &c, bad, m, MS));
	CHECK(!takes(&b, &a, frame, n, MS + 99 * HK_USEC)); /* right, but too early */
	CHECK(takes(&b, &a, frame, n, MS + 100 * HK_USEC));
	end_close(&a), end_close(&b), end_close(&c);
}

TEST(a_peer_without_a_good_key_gets_no_frame)
{
	struct hk_seal_config ca = config(1, HK_WIRE_AUTH), cb = config(2, HK_WIRE_AUTH);
	static const uint8_t zero[HK_AGREE_LEN];
	struct end a = end_open(&ca), b = end_open(&cb);
	uint8_t frame[ROOM];

	hk_seal_peer_set(a.seal, &a.peer[2], 2, b.epoch, zero);
	CHECK_EQ(make(&a, &b, 8, frame), 0u);
	end_close(&a), end_close(&b);
}

/* Counters, which are the nonces, never come twice: over peers, resends and generations. */
TEST(no_counter_repeats)
{
	struct hk_seal_config ca = config(7, HK_WIRE_AUTH);

	ca.rotate = 3;
	struct end a = end_open(&ca), b[6];
	uint8_t frame[ROOM];
	uint64_t last = 0;

	for (uint32_t i = 0; i < 6; i++) {
		struct hk_seal_config cb = config(i, HK_WIRE_AUTH);

		b[i] = end_open(&cb);
		introduce(&a, &b[i]);
	}
	for (unsigned i = 0; i < 2000; i++) {
		struct hk_wire_sealed sealed;
		size_t n = make(&a, &b[hk_rng_below(&hk_test_rng, 6)], 8, frame);

		CHECK_EQ(hk_wire_sealed_parse(frame, n, HK_WIRE_AUTH, &sealed), HK_WIRE_OK);
		CHECK_CMP(sealed.counter, >, last);
		last = sealed.counter;
	}
	for (unsigned i = 0; i < 6; i++)
		end_close(&b[i]);
	end_close(&a);
}

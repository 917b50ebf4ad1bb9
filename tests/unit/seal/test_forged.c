/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/seal/test_forged.c: ten million frames that somebody without the keys makes, to an
 * endpoint with keys and an engine. FRAMES=1000000000 in the environment makes it a thousand
 * million, in some minutes.
 *
 * The forger knows job, endpoints, epochs, and has recorded genuine frames. A frame of it is
 * random, or a genuine one with some bytes changed, or a genuine one again.
 */
#include "base/clock.h"
#include "engine/engine.h"
#include "seal/seal.h"
#include "tests/support/hk_test.h"

#define JOB      77u
#define RECORDED 8u
#define LEN      22u
#define FRAME    (HK_WIRE_DATA_OVERHEAD + LEN + HK_WIRE_SEAL_LEN)

struct end {
	struct hk_seal *seal;
	struct hk_seal_peer peer;
	struct hk_engine *engine;
	void *arena;
	hk_peer index;
	uint64_t now;
	uint64_t opened, delivered; /* frames */
};

static uint32_t epoch_of(uint32_t endpoint)
{
	return 1000 + endpoint;
}

static void end_open(struct end *e, uint32_t endpoint)
{
	const struct hk_seal_config seal = {.protection = HK_WIRE_AUTH,
					    .job = JOB,
					    .endpoint = endpoint,
					    .epoch = epoch_of(endpoint),
					    .contexts = 4};
	struct hk_engine_config cfg;
	struct hk_error err = {""};

	*e = (struct end){.now = HK_SEC};
	e->seal = hk_seal_init(aligned_alloc(64, (hk_seal_size(&seal) + 63) & ~(size_t)63), &seal,
			       &err);
	CHECK_MSG(e->seal != NULL, "%s", err.text);
	hk_engine_config_default(&cfg);
	cfg.key = JOB;
	cfg.endpoint = endpoint;
	cfg.epoch = epoch_of(endpoint);
	cfg.max_peers = 4;
	cfg.tx_blocks = 4;
	cfg.protection = HK_PROTECTION_AUTH;
	size_t bytes = (hk_engine_size(&cfg) + 63) & ~(size_t)63;

	e->arena = aligned_alloc(64, bytes);
	CHECK(e->arena != NULL);
	e->engine = hk_engine_init(e->arena, bytes, &cfg);
	e->index = hk_engine_peer_add(e->engine, 3 - endpoint, epoch_of(3 - endpoint), e->now);
	CHECK(e->index != HK_PEER_NONE);
}

static void end_close(struct end *e)
{
	hk_seal_end(e->seal);
	free(e->seal);
	free(e->arena);
}

/* As the worker does. */
static void input(struct end *e, uint8_t *frame, size_t len)
{
	struct hk_wire_sealed sealed;
	struct hk_rx rx;

	e->now += 100;
	if (hk_wire_sealed_parse(frame, len, HK_WIRE_AUTH, &sealed) == HK_WIRE_OK &&
	    !hk_seal_open(e->seal, &e->peer, &sealed, e->now))
		return;
	hk_engine_input(e->engine, frame, len, 1, e->now, &rx);
	e->opened += rx.result != HK_RX_DROP;
	e->delivered += rx.result == HK_RX_DELIVER;
}

static void genuine(struct end *from, uint8_t *frame)
{
	const struct hk_packet pkt = {.token = 1, .len = LEN, .type = HK_WIRE_DATA, .frags = 1};

	hk_wire_eth_encode(frame, (uint8_t[6]){2}, (uint8_t[6]){4});
	memset(frame + HK_WIRE_DATA_OVERHEAD, 0x5a, LEN);
	CHECK(hk_engine_send(from->engine, from->index, &pkt, from->now, frame + HK_ETH_HLEN));
	CHECK(hk_seal_sign(from->seal, &from->peer, frame + HK_ETH_HLEN, NULL));
}

/* Writes a frame of the forger. Returns whether it is a recorded one as it was. */
static bool forge(uint8_t *frame, uint8_t (*recorded)[FRAME], struct hk_rng *r)
{
	uint64_t what = hk_rng_next(r);

	memcpy(frame, recorded[what % RECORDED], FRAME);
	what >>= 8;
	if (what % 8 == 0)
		return true;
	if (what % 8 == 1) {
		for (size_t at = HK_ETH_HLEN; at < FRAME; at += 8) {
			uint64_t noise = hk_rng_next(r);

			memcpy(frame + at, &noise, HK_MIN((size_t)8, FRAME - at));
		}
		return false;
	}
	uint8_t *at = frame + HK_ETH_HLEN + (what >> 8) % (FRAME - HK_ETH_HLEN);

	*at = (uint8_t)(*at ^ (1 + (what >> 40) % 255));
	return false;
}

TEST(no_forged_frame_is_accepted)
{
	const char *wanted = getenv("FRAMES");
	uint64_t frames = wanted ? strtoull(wanted, NULL, 10) : 10000000, again = 0;
	static uint8_t recorded[RECORDED][FRAME];
	uint8_t frame[FRAME + 2];
	struct hk_peer_info before, after;
	struct end a, b;

	end_open(&a, 1), end_open(&b, 2);
	hk_seal_peer_set(a.seal, &a.peer, 2, epoch_of(2), hk_seal_public_key(b.seal));
	hk_seal_peer_set(b.seal, &b.peer, 1, epoch_of(1), hk_seal_public_key(a.seal));
	for (unsigned i = 0; i < RECORDED; i++) {
		genuine(&a, recorded[i]);
		memcpy(frame, recorded[i], FRAME);
		input(&b, frame, FRAME);
	}
	CHECK_EQ(b.delivered, RECORDED);
	b.opened = 0;
	hk_engine_peer_info(b.engine, b.index, &before);
	uint64_t start = hk_clock_ns();

	for (uint64_t i = 0; i < frames; i++) {
		again += forge(frame, recorded, &hk_test_rng);
		input(&b, frame, FRAME);
	}
	double each = (double)(hk_clock_ns() - start) / (double)frames;

	/* a recorded packet is a duplicate, and changes only a counter */
	const struct hk_engine_counters *n = hk_engine_counters(b.engine);

	CHECK_EQ(b.opened, 0);
	CHECK_EQ(b.delivered, RECORDED);
	CHECK_EQ(n->rx_packets, RECORDED);
	CHECK_EQ(n->rx_duplicates, again);
	hk_engine_peer_info(b.engine, b.index, &after);
	CHECK(after.state == before.state && after.epoch == before.epoch);
	CHECK(after.srtt == before.srtt && after.cwnd == before.cwnd);
	CHECK(after.credit == before.credit && after.in_flight == before.in_flight);
	/* the conversation goes on */
	genuine(&a, frame);
	input(&b, frame, FRAME);
	CHECK_EQ(b.delivered, RECORDED + 1);
	printf("%llu frames, %.0f ns each\n", (unsigned long long)frames, each);
	end_close(&a), end_close(&b);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_faults.c: fault injection, on DPDK's ring device. Frames sent there are
 * received again, buffer by buffer, so that a test sees whether it got the sender's own buffer or a
 * copy.
 */
#include "port/faults.h"
#include "tests/support/loopback.h"

#include <sched.h>

#define BUFFERS   8192
#define FRAMES    6000
#define BODY      64
#define HASH_INIT UINT64_C(1469598103934665603)

static struct hk_port *port;

/* ---- frames ---------------------------------------------------------------------------------- */

static struct rte_mbuf *make(uint32_t seq)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	CHECK(m != NULL);
	uint8_t *b = (uint8_t *)rte_pktmbuf_append(m, BODY);
	for (int i = 0; i < BODY; i++)
		b[i] = (uint8_t)(seq * 31 + (uint32_t)i);
	memcpy(b, &seq, sizeof(seq));
	return m;
}

static uint32_t seq_of(const struct rte_mbuf *m)
{
	uint32_t seq;
	memcpy(&seq, rte_pktmbuf_mtod(m, const void *), sizeof(seq));
	return seq;
}

/* Returns how many bits differ from frame @seq. */
static int wrong_bits(const struct rte_mbuf *m, uint32_t seq)
{
	const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);
	uint8_t want[BODY];
	int bits = 0;
	for (int i = 0; i < BODY; i++)
		want[i] = (uint8_t)(seq * 31 + (uint32_t)i);
	memcpy(want, &seq, sizeof(seq));
	CHECK_EQ(m->data_len, BODY);
	for (int i = 0; i < BODY; i++)
		bits += __builtin_popcount((unsigned)(b[i] ^ want[i]));
	return bits;
}

static void attach(const char *faults)
{
	struct hk_faults_config cfg;
	CHECK_OK(hk_faults_parse(faults, &cfg, ERR));
	CHECK_OK(hk_faults_attach(port, &cfg, ERR));
}

static void send_one(struct rte_mbuf *m)
{
	CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
}

static unsigned receive(struct rte_mbuf **m, unsigned max)
{
	return hk_port_rx(port, 0, m, (uint16_t)max);
}

static void no_leak(void)
{
	hk_faults_detach(port);
	struct rte_mbuf *m[64];
	for (unsigned n; (n = receive(m, 64));)
		rte_pktmbuf_free_bulk(m, n);
	CHECK_EQ(rte_mempool_in_use_count(port->pool), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(healthy_is_untouched)
{
	attach("drop=0");
	for (uint32_t i = 0; i < 100; i++) {
		struct rte_mbuf *m = make(i), *got = NULL;
		send_one(m);
		CHECK_EQ(receive(&got, 1), 1);
		CHECK(got == m); /* the buffer itself, not a copy */
		rte_pktmbuf_free(got);
	}
	CHECK_EQ(hk_faults_counters(port)->frames, 100);
	no_leak();
}

TEST(drop_all)
{
	attach("drop=1");
	struct rte_mbuf *m;
	for (uint32_t i = 0; i < 100; i++)
		send_one(make(i));
	CHECK_EQ(receive(&m, 1), 0);
	CHECK_EQ(hk_faults_counters(port)->dropped, 100);
	CHECK_EQ(rte_mempool_in_use_count(port->pool), 0);
	no_leak();
}

TEST(duplicate_all)
{
	attach("dup=1");
	struct rte_mbuf *m[4];
	for (uint32_t i = 0; i < 100; i++) {
		send_one(make(i));
		CHECK_EQ(receive(m, 4), 2);
		CHECK(m[0] != m[1] && m[0]->buf_addr != m[1]->buf_addr);
		CHECK_EQ(wrong_bits(m[0], i), 0);
		CHECK_EQ(wrong_bits(m[1], i), 0);
		rte_pktmbuf_free_bulk(m, 2);
	}
	CHECK_EQ(hk_faults_counters(port)->duplicated, 100);
	no_leak();
}

/* The sender keeps a reference, as one that may have to resend does. */
TEST(corrupt_never_touches_the_senders)
{
	attach("corrupt=1,dup=0.5,seed=5");
	struct rte_mbuf *m[4];
	for (uint32_t i = 0; i < 500; i++) {
		struct rte_mbuf *mine = make(i);
		rte_mbuf_refcnt_set(mine, 2);
		send_one(mine);
		CHECK_EQ(rte_mbuf_refcnt_read(mine), 1); /* released: only copies travel */
		CHECK_EQ(wrong_bits(mine, i), 0);
		rte_pktmbuf_free(mine);
		unsigned n = receive(m, 4);
		CHECK_CMP(n, >=, 1);
		CHECK_EQ(wrong_bits(m[0], i), 1);
		if (n > 1)
			CHECK_EQ(wrong_bits(m[1], i),
				 0); /* the duplicate is copied before the corruption */
		rte_pktmbuf_free_bulk(m, n);
	}
	CHECK_EQ(hk_faults_counters(port)->corrupted, 500);
	no_leak();
}

TEST(reorder_swaps_neighbours)
{
	attach("reorder=1,delay_us=10000000");
	struct rte_mbuf *m[4];
	for (uint32_t i = 0; i < 100; i += 2) {
		struct rte_mbuf *first = make(i);
		rte_mbuf_refcnt_set(first, 2);
		send_one(first);
		CHECK_EQ(rte_mbuf_refcnt_read(first), 1);
		rte_pktmbuf_free(first);
		CHECK_EQ(receive(m, 4), 0);
		CHECK_EQ(hk_faults_pending(port), 1);
		send_one(make(i + 1));
		CHECK_EQ(receive(m, 4), 2);
		CHECK_EQ(seq_of(m[0]), i + 1);
		CHECK_EQ(seq_of(m[1]), i);
		rte_pktmbuf_free_bulk(m, 2);
	}
	CHECK_EQ(hk_faults_counters(port)->reordered, 50);
	no_leak();
}

/* No frame overtakes the very last one: it leaves when its delay is over. */
TEST(reorder_of_the_last_frame_ends)
{
	attach("reorder=1,delay_us=1");
	struct rte_mbuf *m = NULL;
	send_one(make(7));
	for (unsigned tries = 0; !receive(&m, 1); tries++) {
		CHECK_CMP(tries, <, 10000000);
		sched_yield();
	}
	CHECK_EQ(wrong_bits(m, 7), 0);
	rte_pktmbuf_free(m);
	no_leak();
}

TEST(delay_waits_for_its_time)
{
	struct rte_mbuf *m[64];
	attach("delay=1,delay_us=10000000");
	for (uint32_t i = 0; i < 50; i++)
		send_one(make(i));
	CHECK_EQ(receive(m, 64), 0);
	CHECK_EQ(hk_faults_pending(port), 50);
	CHECK_EQ(hk_faults_counters(port)->delayed, 50);
	no_leak(); /* detaching frees pending frames */

	attach("delay=1,delay_us=1");
	for (uint32_t i = 0; i < 50; i++)
		send_one(make(i));
	uint32_t next = 0; /* receiving alone releases them, in order */
	for (unsigned tries = 0; next < 50; tries++) {
		unsigned n = receive(m, 64);
		for (unsigned k = 0; k < n; k++)
			CHECK_EQ(seq_of(m[k]), next++);
		rte_pktmbuf_free_bulk(m, n);
		CHECK_CMP(tries, <, 10000000);
	}
	no_leak();
}

struct came {
	uint64_t frames, hash; /* FNV-1a over all bytes, in the order of arrival */
};

static bool collect(struct came *c)
{
	struct rte_mbuf *m[64];
	unsigned n = receive(m, 64);
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *b = rte_pktmbuf_mtod(m[i], const uint8_t *);
		for (int k = 0; k < BODY; k++)
			c->hash = (c->hash ^ b[k]) * UINT64_C(1099511628211);
	}
	c->frames += n;
	rte_pktmbuf_free_bulk(m, n);
	return n != 0;
}

/* Sends FRAMES frames in random bursts through @faults and returns what came out. With @keep the
 * sender has a reference to each, and all must be unchanged in the end. */
static struct came storm(const char *faults, bool keep, struct hk_faults_counters *count)
{
	static struct rte_mbuf *kept[FRAMES];
	struct came came = {0, HASH_INIT};
	attach(faults);
	for (uint32_t seq = 0; seq < FRAMES;) {
		struct rte_mbuf *m[64];
		unsigned n = (unsigned)hk_rng_range(&hk_test_rng, 1, 64), sent = 0;
		n = HK_MIN(n, FRAMES - seq);
		for (unsigned i = 0; i < n; i++) {
			m[i] = kept[seq + i] = make(seq + i);
			rte_mbuf_refcnt_set(m[i], keep ? 2 : 1);
		}
		while (sent < n) { /* tx accepts fewer frames while the device is full */
			sent += hk_port_tx(port, 0, m + sent, (uint16_t)(n - sent));
			(void)collect(&came);
		}
		seq += n;
	}
	while (hk_faults_pending(port) || collect(&came))
		(void)collect(&came);
	for (uint32_t i = 0; keep && i < FRAMES; i++) {
		CHECK_EQ(wrong_bits(kept[i], i), 0);
		CHECK_EQ(rte_mbuf_refcnt_read(kept[i]), 1);
		rte_pktmbuf_free(kept[i]);
	}
	*count = *hk_faults_counters(port);
	no_leak();
	return came;
}

/* Every frame is dropped or delivered, exactly as the counters say, and no buffer is lost. */
TEST(nothing_is_lost_uncounted)
{
	for (int round = 0; round < 20; round++) {
		struct hk_faults_counters c;
		char text[160];
		snprintf(text, sizeof(text),
			 "drop=0.%02d,dup=0.%02d,reorder=0.%02d,corrupt=0.%02d,delay=0.%02d,"
			 "delay_us=%d,seed=%d",
			 (int)hk_rng_below(&hk_test_rng, 60), (int)hk_rng_below(&hk_test_rng, 60),
			 (int)hk_rng_below(&hk_test_rng, 60), (int)hk_rng_below(&hk_test_rng, 60),
			 (int)hk_rng_below(&hk_test_rng, 60),
			 (int)hk_rng_range(&hk_test_rng, 1, 300), round);
		uint64_t delivered = storm(text, round % 2, &c).frames;
		CHECK_EQ(c.frames, FRAMES);
		CHECK_MSG(delivered == c.frames - c.dropped + c.duplicated,
			  "%s: %llu frames, %llu dropped, %llu twice, but %llu came", text,
			  (unsigned long long)c.frames, (unsigned long long)c.dropped,
			  (unsigned long long)c.duplicated, (unsigned long long)delivered);
	}
}

/* The same seed gives the same fate, also in other bursts: the bursts here differ each time. */
TEST(seed_decides)
{
	struct hk_faults_counters a, b, c;
	/* no delays: then the seed alone determines the arrivals too */
	const char *faults = "drop=0.1,dup=0.1,corrupt=0.1,seed=11";
	struct came first = storm(faults, false, &a), again = storm(faults, true, &b);
	struct came other = storm("drop=0.1,dup=0.1,corrupt=0.1,seed=12", false, &c);
	CHECK_EQ(first.frames, again.frames);
	CHECK(first.hash == again.hash && first.hash != other.hash);
	CHECK(memcmp(&a, &b, sizeof(a)) == 0);
	/* the numbers match the probabilities: 600 of 6000, within five standard deviations */
	CHECK(a.dropped > 480 && a.dropped < 720);
	CHECK(a.corrupted > 420 && a.corrupted < 660);
	CHECK(a.duplicated > 420 && a.duplicated < 660);
}

/* A device accepts nothing. The queue of fault injection fills, then tx refuses frames, and
 * nothing is lost. */
TEST(full_device_pushes_back)
{
	attach("dup=0.2,seed=3");
	uint32_t taken = 0;
	struct rte_mbuf *m = make(0);
	while (hk_port_tx(port, 0, &m, 1) == 1) {
		taken++;
		CHECK_CMP(taken, <, BUFFERS);
		m = make(taken);
	}
	rte_pktmbuf_free(m);
	uint64_t came = 0;
	struct rte_mbuf *got[64];
	for (unsigned n; (n = receive(got, 64));) {
		came += n;
		rte_pktmbuf_free_bulk(got, n);
	}
	const struct hk_faults_counters *c = hk_faults_counters(port);
	CHECK_EQ(c->frames, taken);
	CHECK_EQ(came, taken + c->duplicated);
	CHECK_EQ(hk_faults_pending(port), 0);
	no_leak();
}

/* A stuck port accepts nothing, and still delivers the frames that it had accepted. */
TEST(stuck_takes_no_more)
{
	struct rte_mbuf *m[8];

	attach("stuck=5,reorder=1");
	for (uint32_t i = 0; i < HK_ARRAY_LEN(m); i++)
		m[i] = make(i);
	CHECK_EQ(hk_port_tx(port, 0, m, 8), 5);
	CHECK_EQ(hk_port_tx(port, 0, &m[5], 3), 0);
	rte_pktmbuf_free_bulk(&m[5], 3);
	for (unsigned came = 0, n; came < 5; came += n) {
		n = receive(m, 8);
		rte_pktmbuf_free_bulk(m, n);
	}
	CHECK_EQ(hk_faults_counters(port)->frames, 5);
	CHECK_EQ(hk_faults_pending(port), 0);
	no_leak();
}

BEFORE_ALL()
{
	port = loopback_open(256, BUFFERS);
}

AFTER_ALL()
{
	hk_port_close(port);
}

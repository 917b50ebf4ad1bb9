/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_faults.c: the lossy wrapper, on DPDK's ring device: what is sent there is
 * received again, buffer by buffer, so that a test sees whether it got the sender's own buffer or
 * a copy.
 */
#include "port/faults.h"
#include "port/port.h"
#include "tests/unit/hk_test.h"

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

/* How many bits differ from the frame @seq. */
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
	struct hk_error err = {""};
	CHECK_MSG(hk_faults_parse(faults, &cfg, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_faults_attach(port, &cfg, &err) == 0, "%s", err.text);
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

static void healthy_is_untouched(void)
{
	attach("drop=0");
	for (uint32_t i = 0; i < 100; i++) {
		struct rte_mbuf *m = make(i), *got = NULL;
		send_one(m);
		CHECK_EQ(receive(&got, 1), 1);
		CHECK(got == m); /* not even a copy */
		rte_pktmbuf_free(got);
	}
	CHECK_EQ(hk_faults_counters(port)->frames, 100);
	no_leak();
}

static void drop_all(void)
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

static void duplicate_all(void)
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

/* The sender keeps a reference, as one that may have to send again does. */
static void corrupt_never_touches_the_senders(void)
{
	attach("corrupt=1,dup=0.5,seed=5");
	struct rte_mbuf *m[4];
	for (uint32_t i = 0; i < 500; i++) {
		struct rte_mbuf *mine = make(i);
		rte_mbuf_refcnt_set(mine, 2);
		send_one(mine);
		CHECK_EQ(rte_mbuf_refcnt_read(mine), 1); /* let go of: only copies travel */
		CHECK_EQ(wrong_bits(mine, i), 0);
		rte_pktmbuf_free(mine);
		unsigned n = receive(m, 4);
		CHECK_CMP(n, >=, 1);
		CHECK_EQ(wrong_bits(m[0], i), 1);
		if (n > 1)
			CHECK_EQ(wrong_bits(m[1], i), 0); /* twins part before the damage */
		rte_pktmbuf_free_bulk(m, n);
	}
	CHECK_EQ(hk_faults_counters(port)->corrupted, 500);
	no_leak();
}

static void reorder_swaps_neighbours(void)
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
		CHECK_EQ(hk_faults_held(port), 1);
		send_one(make(i + 1));
		CHECK_EQ(receive(m, 4), 2);
		CHECK_EQ(seq_of(m[0]), i + 1);
		CHECK_EQ(seq_of(m[1]), i);
		rte_pktmbuf_free_bulk(m, 2);
	}
	CHECK_EQ(hk_faults_counters(port)->reordered, 50);
	no_leak();
}

/* The last frame of all has nobody to be overtaken by: it leaves when its time is over. */
static void reorder_of_the_last_frame_ends(void)
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

static void delay_waits_for_its_time(void)
{
	struct rte_mbuf *m[64];
	attach("delay=1,delay_us=10000000");
	for (uint32_t i = 0; i < 50; i++)
		send_one(make(i));
	CHECK_EQ(receive(m, 64), 0);
	CHECK_EQ(hk_faults_held(port), 50);
	CHECK_EQ(hk_faults_counters(port)->delayed, 50);
	no_leak(); /* detaching frees what is held */

	attach("delay=1,delay_us=1");
	for (uint32_t i = 0; i < 50; i++)
		send_one(make(i));
	uint32_t next = 0; /* receiving alone lets them go, in order */
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

/* Sends FRAMES frames in random bursts through @faults and says what came out. With @keep the
 * sender holds a reference to each, and all must be as it wrote them in the end. */
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
		while (sent < n) { /* the wrapper takes less while the device is full */
			sent += hk_port_tx(port, 0, m + sent, (uint16_t)(n - sent));
			(void)collect(&came);
		}
		seq += n;
	}
	while (hk_faults_held(port) || collect(&came))
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
static void nothing_is_lost_uncounted(void)
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

/* The same seed, the same fate: also in other bursts, since the bursts here differ each time. */
static void seed_decides(void)
{
	struct hk_faults_counters a, b, c;
	/* nothing that waits: then arrival, too, follows from the seed alone */
	const char *faults = "drop=0.1,dup=0.1,corrupt=0.1,seed=11";
	struct came first = storm(faults, false, &a), again = storm(faults, true, &b);
	struct came other = storm("drop=0.1,dup=0.1,corrupt=0.1,seed=12", false, &c);
	CHECK_EQ(first.frames, again.frames);
	CHECK(first.hash == again.hash && first.hash != other.hash);
	CHECK(memcmp(&a, &b, sizeof(a)) == 0);
	/* and the numbers are what was asked for: 600 of 6000, five standard deviations wide */
	CHECK(a.dropped > 480 && a.dropped < 720);
	CHECK(a.corrupted > 420 && a.corrupted < 660);
	CHECK(a.duplicated > 420 && a.duplicated < 660);
}

/* A device that takes nothing: the wrapper's queue fills, then tx says so, and nothing is lost. */
static void full_device_pushes_back(void)
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
	CHECK_EQ(hk_faults_held(port), 0);
	no_leak();
}

/* One that got stuck takes no more, and still delivers what it had taken. */
static void stuck_takes_no_more(void)
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
	CHECK_EQ(hk_faults_held(port), 0);
	no_leak();
}

static const struct hk_test tests[] = {
	{"healthy_is_untouched", healthy_is_untouched},
	{"drop_all", drop_all},
	{"stuck_takes_no_more", stuck_takes_no_more},
	{"duplicate_all", duplicate_all},
	{"corrupt_never_touches_the_senders", corrupt_never_touches_the_senders},
	{"reorder_swaps_neighbours", reorder_swaps_neighbours},
	{"reorder_of_the_last_frame_ends", reorder_of_the_last_frame_ends},
	{"delay_waits_for_its_time", delay_waits_for_its_time},
	{"nothing_is_lost_uncounted", nothing_is_lost_uncounted},
	{"seed_decides", seed_decides},
	{"full_device_pushes_back", full_device_pushes_back},
};

int main(int argc, char **argv)
{
	struct hk_error err;
	struct hk_eal_config eal = {.memory_mb = 256};
	if (hk_eal_init(&eal, &err) ||
	    hk_port_open("vdev:net_ring0", BUFFERS, NULL, 1000, &port, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	hk_port_close(port);
	return rc;
}

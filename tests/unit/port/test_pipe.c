/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_pipe.c: queue pairs in software: frames in both directions, buffers that
 * come back, shares, and users that write garbage. One process plays both sides; one test uses two
 * threads.
 */
#include "port/pipe.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include <rte_mempool.h>

#define FRAMES    200000
#define SHARE     300
#define DATA_ROOM 1024

static struct rte_mempool *rx_pool, *tx_pool;
static struct hk_pipe *pipe_;
static struct hk_pipe_share *share;
static struct hk_pipe_end *end;
static struct hk_port port;

static void open_pipe(void)
{
	static unsigned made;
	struct hk_port_info info = {.frame_max = 1000, .point_to_point = true};
	char rx[20], tx[20];

	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 64}, ERR));
	snprintf(rx, sizeof(rx), "rx%u", made);
	snprintf(tx, sizeof(tx), "tx%u", made++);
	CHECK_OK(hk_pool_create(rx, 1024, 1000, &rx_pool, ERR));
	CHECK_OK(hk_pool_create_sized(tx, 700, 40, DATA_ROOM, &tx_pool, ERR));
	pipe_ = aligned_alloc(64, sizeof(*pipe_));
	CHECK(pipe_ != NULL);
	share = hk_pipe_share_new(SHARE);
	CHECK(share != NULL);
	CHECK_OK(hk_pipe_open(pipe_, tx_pool, share, &end, ERR));
	hk_pipe_port(pipe_, &info, &port);
}

/* Closes the pipe; every buffer is back in its pool. */
static void close_pipe(void)
{
	hk_pipe_close(end);
	hk_pipe_share_free(share);
	CHECK_EQ(rte_mempool_avail_count(rx_pool), 1024);
	hk_pool_free(rx_pool);
	hk_pool_free(tx_pool);
	free(pipe_);
}

static struct rte_mbuf *frame(struct rte_mempool *pool, uint32_t i)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	if (!m)
		return NULL;
	m->data_len = (uint16_t)(4 + i % 500);
	m->pkt_len = m->data_len;
	memcpy(rte_pktmbuf_mtod(m, char *), &i, 4);
	return m;
}

static uint32_t number_in(const void *bytes, uint16_t len)
{
	uint32_t i;

	memcpy(&i, bytes, 4);
	CHECK_EQ(len, 4 + i % 500);
	return i;
}

/* The user's side: receives in order, sends, frees, and holds some buffers for long. */
struct user {
	uint32_t got, sent;
	struct rte_mbuf *held[64], *mine[64];
	unsigned helds, mines;
};

static void user_turn(struct user *u, uint32_t frames)
{
	struct rte_mbuf *m[32];
	uint16_t n = hk_port_rx(&port, 0, m, 32);

	for (uint16_t i = 0; i < n; i++) {
		CHECK_EQ(number_in(rte_pktmbuf_mtod(m[i], void *), m[i]->data_len), u->got);
		u->got++;
		if (u->got % 100 == 0 && u->helds < 64)
			u->held[u->helds++] = m[i];
		else
			rte_pktmbuf_free_seg(m[i]);
	}
	if (u->helds == 64 || n == 0)
		while (u->helds)
			rte_pktmbuf_free_seg(u->held[--u->helds]);
	struct rte_mbuf *s = u->sent < frames ? frame(tx_pool, u->sent) : NULL;

	if (!s)
		return;
	/* the sender keeps every other one, as until an acknowledgement */
	bool keep = u->sent % 2 && u->mines < 64;

	if (keep)
		rte_mbuf_refcnt_set(s, 2);
	if (hk_port_tx(&port, 0, &s, 1) == 0) {
		rte_mbuf_refcnt_set(s, 1);
		rte_pktmbuf_free_seg(s);
		return;
	}
	u->sent++;
	if (keep)
		u->mine[u->mines++] = s;
	if (u->mines == 64)
		while (u->mines)
			rte_pktmbuf_free_seg(u->mine[--u->mines]);
}

struct other {
	uint32_t given, taken;
};

static void switch_turn(struct other *o, uint32_t frames)
{
	struct hk_pipe_frame f[32];
	struct rte_mbuf *m[8];
	unsigned n = 0;

	/* within the share and the ring, so that no frame is dropped */
	while (n < 8 && o->given + n < frames && hk_pipe_share_held(share) + n < SHARE &&
	       (m[n] = frame(rx_pool, o->given + n)))
		n++;
	CHECK_EQ(hk_pipe_give(end, m, n), 0);
	o->given += n;
	hk_pipe_share_reclaim(share);
	int k = hk_pipe_take(end, f, 32);

	CHECK(k >= 0);
	for (int i = 0; i < k; i++)
		CHECK_EQ(number_in(f[i].bytes, f[i].len), o->taken++);
	hk_pipe_sent(end, (unsigned)k);
}

static void user_ends(struct user *u)
{
	struct rte_mbuf *none[1];

	while (u->mines)
		rte_pktmbuf_free_seg(u->mine[--u->mines]);
	CHECK_EQ(hk_port_tx(&port, 0, none, 0), 0); /* frees sent buffers */
	CHECK_EQ(rte_mempool_avail_count(tx_pool), 700);
}

TEST(both_ways)
{
	struct user u = {0};
	struct other o = {0};

	open_pipe();
	while (u.got < FRAMES || o.taken < FRAMES) {
		user_turn(&u, FRAMES);
		switch_turn(&o, FRAMES);
	}
	user_ends(&u);
	CHECK(hk_pipe_counters(end)->rx_dropped_full == 0 &&
	      hk_pipe_counters(end)->rx_dropped_quota == 0);
	close_pipe();
}

static struct other other;
static _Atomic bool stop;

static void *switch_thread(void *arg)
{
	while (!atomic_load(&stop)) {
		switch_turn(&other, FRAMES);
		sched_yield();
	}
	return NULL;
}

TEST(in_two_threads)
{
	struct user u = {0};
	pthread_t t;

	open_pipe();
	other = (struct other){0};
	atomic_store(&stop, false);
	CHECK(pthread_create(&t, NULL, switch_thread, NULL) == 0);
	while (u.got < FRAMES || u.sent < FRAMES ||
	       atomic_load(&pipe_->tx_tail) != (uint32_t)FRAMES) {
		user_turn(&u, FRAMES);
		if (u.got % 64 == 0)
			sched_yield();
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	CHECK_EQ(other.taken, FRAMES);
	user_ends(&u);
	close_pipe();
}

/* A user that ended does not take its frames, and a user that has taken all need not be watched. */
TEST(what_is_not_taken_is_seen)
{
	struct rte_mbuf *m;

	open_pipe();
	CHECK(hk_pipe_empty(end) && !hk_pipe_stalled(end));
	m = frame(rx_pool, 1);
	CHECK_EQ(hk_pipe_give(end, &m, 1), 0);
	CHECK(!hk_pipe_empty(end));
	CHECK(!hk_pipe_stalled(end)); /* the frame may have just come */
	CHECK(hk_pipe_stalled(end));
	CHECK_EQ(hk_port_rx(&port, 0, &m, 1), 1);
	CHECK(hk_pipe_empty(end) && !hk_pipe_stalled(end));
	rte_pktmbuf_free_seg(m);
	close_pipe();
}

/* A user that does not poll, or keeps everything, loses only its own frames. */
TEST(a_share_is_not_exceeded)
{
	open_pipe();
	for (unsigned i = 0; i < 2 * HK_PIPE_RING; i++) {
		struct rte_mbuf *m = frame(rx_pool, i), *got[8];

		CHECK(m != NULL);
		CHECK_EQ(hk_pipe_give(end, &m, 1), 0);
		(void)hk_port_rx(&port, 0, got, 8); /* takes frames and never frees them */
		CHECK(hk_pipe_share_held(share) <= SHARE);
	}
	CHECK_EQ(hk_pipe_counters(end)->rx_dropped_quota, 2 * HK_PIPE_RING - SHARE);
	CHECK_EQ(rte_mempool_avail_count(rx_pool), 1024 - SHARE);
	close_pipe();
}

/* All pipes of a user have one share. Frames of a closed pipe stay in it until they are freed. */
TEST(pipes_share)
{
	struct hk_pipe *second = aligned_alloc(64, sizeof(*second));
	struct rte_mbuf *got[2 * HK_PIPE_RING];
	struct hk_pipe_end *both[2];
	struct hk_port ports[2];
	unsigned n = 0;

	CHECK(second != NULL);
	open_pipe();
	CHECK_OK(hk_pipe_open(second, tx_pool, share, &both[1], ERR));
	hk_pipe_port(second, &port.info, &ports[1]);
	both[0] = end;
	ports[0] = port;
	for (unsigned i = 0; i < 2 * HK_PIPE_RING; i++) {
		struct rte_mbuf *m = frame(rx_pool, i);

		CHECK(m != NULL);
		CHECK_EQ(hk_pipe_give(both[i % 2], &m, 1), 0);
		n += hk_port_rx(&ports[i % 2], 0, got + n, 8);
	}
	CHECK_EQ(n, SHARE);
	CHECK_EQ(hk_pipe_counters(both[0])->rx_dropped_quota +
			 hk_pipe_counters(both[1])->rx_dropped_quota,
		 2 * HK_PIPE_RING - SHARE);
	hk_pipe_close(both[1]);
	hk_pipe_share_reclaim(share);
	CHECK_EQ(hk_pipe_share_held(share), SHARE);
	while (n)
		rte_pktmbuf_free_seg(got[--n]);
	while (hk_pipe_share_held(share))
		hk_pipe_share_reclaim(share);
	close_pipe();
	free(second);
}

static bool same_header(const struct rte_mbuf *a, const struct rte_mbuf *b)
{
	return a->buf_addr == b->buf_addr && rte_mbuf_iova_get(a) == rte_mbuf_iova_get(b) &&
	       a->buf_len == b->buf_len && a->priv_size == b->priv_size && a->pool == b->pool &&
	       a->next == b->next && a->nb_segs == b->nb_segs && a->ol_flags == b->ol_flags &&
	       a->data_off == b->data_off;
}

/* A user overwrites the headers of its buffers before it frees them or dies. They return as they
 * were, and to their own pool. */
TEST(headers_are_made_anew)
{
	static struct rte_mbuf before[1024];
	struct rte_mbuf *m[1024], *got[64];
	unsigned n = 0;

	open_pipe();
	for (unsigned i = 0; i < 1024; i++) {
		m[i] = rte_pktmbuf_alloc(rx_pool);
		CHECK(m[i] != NULL);
		before[i] = *m[i];
	}
	CHECK_EQ(hk_pipe_give(end, m, 64), 0);
	while (n < 64)
		n += hk_port_rx(&port, 0, got + n, 64);
	for (unsigned i = 0; i < 64; i++) {
		for (unsigned k = 0; k < sizeof(*got[i]) / 8; k++)
			((uint64_t *)got[i])[k] = hk_rng_next(&hk_test_rng);
		rte_mbuf_refcnt_set(got[i], i % 2 ? 1 : 2); /* half of them look freed */
	}
	hk_pipe_share_reclaim(share);
	CHECK_EQ(hk_pipe_share_held(share), 32);
	CHECK_EQ(rte_mempool_avail_count(rx_pool), 32);
	hk_pipe_close(end);
	hk_pipe_share_free(share);
	CHECK_EQ(rte_mempool_avail_count(rx_pool), 64);
	for (unsigned i = 0; i < 64; i++) {
		struct rte_mbuf *again = rte_pktmbuf_alloc(rx_pool);
		unsigned k = 0;

		while (k < 64 && m[k] != again)
			k++;
		CHECK_MSG(k < 64, "a buffer comes back that was never given");
		CHECK_MSG(same_header(again, &before[k]), "the header of buffer %u is not restored",
			  k);
	}
	hk_pool_free(rx_pool);
	hk_pool_free(tx_pool);
	free(pipe_);
}

/* For every value that the user writes, the switch reads within the pool or reports an error. */
TEST(garbage_is_noticed)
{
	for (unsigned round = 0; round < 2000; round++) {
		struct hk_pipe_frame f[32];
		struct rte_mbuf *m;
		unsigned words = sizeof(*pipe_) / 4;

		if (round % 50 == 0)
			open_pipe();
		for (unsigned i = 0; i < 8; i++) {
			uint32_t v = (uint32_t)hk_rng_next(&hk_test_rng) >>
				     hk_rng_below(&hk_test_rng, 32);

			((uint32_t *)pipe_)[hk_rng_below(&hk_test_rng, i < 4 ? 80 : words)] = v;
		}
		m = frame(tx_pool, round);
		if (m) {
			m->data_off = (uint16_t)hk_rng_next(&hk_test_rng);
			m->data_len = (uint16_t)hk_rng_next(&hk_test_rng);
		}
		int n = hk_pipe_take(end, f, 32);

		CHECK(n == -EPROTO || (n >= 0 && n <= 32));
		for (int i = 0; i < n; i++)
			for (uint16_t b = 0; b < f[i].len; b++)
				f[i].bytes[b] ^= 1; /* an invalid address would end the test */
		if (n > 0)
			hk_pipe_sent(end, (unsigned)n);
		struct rte_mbuf *g = frame(rx_pool, round);
		int rc = g ? hk_pipe_give(end, &g, 1) : 0;

		CHECK(rc == 0 || rc == -EPROTO);
		if (round % 50 == 49)
			close_pipe();
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_hostile.c: a peer that breaks the rules. It is a worker without a
 * provider, which sends messages that no provider sends. The environment turns protection off, so
 * that this worker needs no key.
 */
#include "ends.h"

#include "base/clock.h"
#include "hikyaku/worker.h"
#include "libfabric/message.h"
#include "libfabric/name.h"

#include <string.h>

#define LIMIT_MS 20000
#define LARGE    65536

static _Alignas(16) char memory[LARGE];

struct hostile {
	struct end e;
	struct fid_mr *mr;
	struct hk_worker *worker;
	hk_peer provider;
	unsigned answers;
	struct hk_fi_header done; /* the last answer, and bytes behind it */
	size_t len;
};

static void on_done(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hostile *h = arg;

	(void)peer, (void)am;
	CHECK(count == 1 && iov->len >= sizeof(h->done));
	memcpy(&h->done, iov->base, sizeof(h->done));
	h->len = iov->len - sizeof(h->done);
	h->answers++;
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	(void)arg, (void)peer, (void)why;
	CHECK(!text);
}

static void open_hostile(struct hostile *h)
{
	struct hk_worker_config cfg;
	struct hk_fi_name name;
	struct hk_peer_addr addr;
	size_t len = sizeof(name);

	memset(h, 0, sizeof(*h));
	end_open(&h->e, 0, 0);
	FI_OK(fi_mr_reg(h->e.domain, memory, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
			&h->mr, NULL));
	FI_OK(fi_getname(&h->e.ep->fid, &name, &len));
	hk_worker_config_default(&cfg);
	cfg.engine.endpoint = 0x12345;
	cfg.engine.epoch = HK_FI_EPOCH;
	cfg.lost = on_lost;
	CHECK_OK(hk_worker_open_port_spec(&cfg, "udp:addr=127.0.0.1", 1000, &h->worker, ERR));
	hk_fi_name_address(&name, (int[]){0}, 1, "the provider", &addr);
	CHECK_OK(hk_worker_peer_add(h->worker, &addr, &h->provider, ERR));
	hk_worker_set_am(h->worker, HK_FI_AM_DONE, on_done, h);
}

static void close_hostile(struct hostile *h)
{
	hk_worker_close(h->worker, 1000);
	FI_OK(fi_close(&h->mr->fid));
	end_close(&h->e);
}

static void poll_both(struct hostile *h)
{
	hk_worker_progress(h->worker);
	(void)fi_cq_read(h->e.cq, NULL, 0);
}

static void send_bytes(struct hostile *h, enum hk_fi_am am, const void *head, size_t head_len,
		       const void *more, size_t len)
{
	CHECK(hk_worker_send_short(h->worker, h->provider, (uint8_t)am, head, head_len, more,
				   len) >= 0);
}

/* Sends the request @a, with @len bytes of values, and returns the answer's error. */
static uint64_t ask(struct hostile *h, struct hk_fi_atomic a, uint8_t to, uint8_t flags, size_t len)
{
	static const char values[HK_SHORT_MAX] = {1};
	const struct hk_fi_prefix p = {
		.header = {.id = h->answers + 7, .to = to, .flags = flags | HK_FI_ANSWER},
		.atomic = a,
	};
	unsigned before = h->answers;
	int64_t end = hk_clock_ms() + LIMIT_MS;
	char prefix[HK_FI_PREFIX_MAX];

	send_bytes(h, HK_FI_AM_ATOMIC, prefix, hk_fi_prefix_write(&p, HK_FI_AM_ATOMIC, prefix),
		   values, len);
	while (h->answers == before) {
		poll_both(h);
		CHECK(hk_clock_ms() < end);
	}
	CHECK_EQ(h->done.id, before + 7);
	CHECK(!h->done.tag || h->len == 0);
	return h->done.tag;
}

static void rest(struct hostile *h)
{
	for (unsigned i = 0; i < 2000; i++)
		poll_both(h);
}

TEST(requests_that_are_wrong)
{
	struct hostile h;

	open_hostile(&h);
	const struct hk_fi_atomic good = {
		.key = fi_mr_key(h.mr), .count = 2, .type = FI_INT64, .op = FI_SUM};
	struct hk_fi_atomic a = good;

	memset(memory, 0, sizeof(memory));
	CHECK_EQ(ask(&h, a, 0, 0, 16), 0);
	CHECK_EQ(h.len, 0);
	CHECK_EQ(ask(&h, a, 0, HK_FI_FETCH, 16), 0);
	CHECK_EQ(h.len, 16);
	CHECK_EQ(memory[0], 2);

	CHECK_EQ(ask(&h, a, 0, 0, 15), FI_EINVAL); /* other lengths */
	CHECK_EQ(ask(&h, a, 0, 0, 24), FI_EINVAL);
	CHECK_EQ(ask(&h, a, 0, 0, 0), FI_EINVAL);
	a.count = 0;
	CHECK_EQ(ask(&h, a, 0, 0, 0), FI_EINVAL);
	a = good;
	a.op = FI_CSWAP; /* without its values to compare with, and without an answer for them */
	CHECK_EQ(ask(&h, a, 0, HK_FI_FETCH, 16), FI_EINVAL);
	CHECK_EQ(ask(&h, a, 0, 0, 32), FI_EINVAL);
	a.op = 200;
	CHECK_EQ(ask(&h, a, 0, HK_FI_FETCH, 16), FI_EINVAL);
	a = good;
	a.type = 200;
	CHECK_EQ(ask(&h, a, 0, HK_FI_FETCH, 16), FI_EINVAL);

	a = good;
	a.op = FI_ATOMIC_READ; /* its answer would be larger than a frame */
	a.type = FI_INT8;
	a.count = 60000;
	CHECK_EQ(ask(&h, a, 0, HK_FI_FETCH, 0), FI_EINVAL);
	a.count = UINT16_MAX;
	a.type = FI_LONG_DOUBLE_COMPLEX;
	CHECK_EQ(ask(&h, a, 0, HK_FI_FETCH, 0), FI_EINVAL);

	a = good;
	a.addr = LARGE - 8; /* outside */
	CHECK_EQ(ask(&h, a, 0, 0, 16), FI_EACCES);
	a.addr = UINT64_MAX - 7;
	CHECK_EQ(ask(&h, a, 0, 0, 16), FI_EACCES);
	a.addr = 4;
	CHECK_EQ(ask(&h, a, 0, 0, 16), FI_EINVAL);
	a = good;
	a.key ^= 1u << 30;
	CHECK_EQ(ask(&h, a, 0, 0, 16), FI_EACCES);
	CHECK_EQ(ask(&h, good, 63, 0, 16), FI_ECONNREFUSED); /* no such endpoint */
	CHECK_EQ(ask(&h, good, 255, 0, 16), FI_ECONNREFUSED);
	CHECK_EQ(memory[0], 2); /* nothing of that was carried out */
	for (size_t i = 1; i < LARGE; i++)
		CHECK_EQ(memory[i], 0);
	close_hostile(&h);
}

/* A request in two frames, and messages that are too short to be any. */
TEST(messages_of_a_wrong_form)
{
	struct hostile h;
	char bytes[64] = {0};

	open_hostile(&h);
	memset(memory, 0, sizeof(memory));
	for (enum hk_fi_am am = HK_FI_AM_TAGGED; am <= HK_FI_AM_ATOMIC; am++)
		for (size_t len = 1; len < 16; len++)
			send_bytes(&h, am, bytes, len, NULL, 0);
	for (size_t len = 16; len < 32; len++)
		send_bytes(&h, HK_FI_AM_ATOMIC, bytes, len, NULL, 0);
	rest(&h);
	CHECK_EQ(h.answers, 0);

	const struct hk_fi_prefix p = {
		.header = {.id = 9, .flags = HK_FI_ANSWER},
		.atomic = {.key = fi_mr_key(h.mr), .count = 1, .type = FI_INT64, .op = FI_SUM},
	};
	hk_buf *buf[2] = {hk_worker_alloc(h.worker), hk_worker_alloc(h.worker)};
	size_t len[2] = {hk_fi_prefix_write(&p, HK_FI_AM_ATOMIC, bytes) + 8, 8};

	memcpy(hk_buf_data(buf[0]), bytes, len[0]); /* complete, were it not for the second */
	memset(hk_buf_data(buf[1]), 1, len[1]);
	CHECK(hk_worker_sendv(h.worker, h.provider, HK_FI_AM_ATOMIC, buf, len, 2) >= 0);
	while (!h.answers)
		poll_both(&h);
	CHECK_EQ(h.done.tag, FI_EINVAL);
	CHECK_EQ(memory[0], 0);
	close_hostile(&h);
}

/* News of writes to endpoints and keys that are not there, and of writes that were none. */
TEST(news_of_nothing)
{
	struct hostile h;

	open_hostile(&h);
	for (unsigned i = 0; i < 64; i++) {
		const struct hk_fi_prefix p = {
			.header = {.tag = fi_mr_key(h.mr) + i % 3,
				   .id = i % 5 << 15,
				   .to = (uint8_t)(5 * i),
				   .flags = (uint8_t)i},
		};
		char prefix[HK_FI_PREFIX_MAX];
		size_t len = hk_fi_prefix_write(&p, HK_FI_AM_WRITTEN, prefix);

		if (p.header.to || p.header.id) /* else it may have data for the endpoint */
			send_bytes(&h, HK_FI_AM_WRITTEN, prefix, len - i % 2, NULL, 0);
	}
	rest(&h);
	CHECK_EQ(fi_cq_read(h.e.cq, NULL, 0), -FI_EAGAIN);
	close_hostile(&h);
}

/* Answers to operations that nobody has started. */
TEST(answers_to_nothing)
{
	struct hostile h;
	char values[32] = {0};

	open_hostile(&h);
	for (uint32_t i = 0; i < 64; i++) {
		const struct hk_fi_header done = {.id = i << 20 | i % 3, .tag = i % 2};

		send_bytes(&h, HK_FI_AM_DONE, &done, sizeof(done), values, i % sizeof(values));
	}
	rest(&h);
	CHECK_EQ(fi_cq_read(h.e.cq, NULL, 0), -FI_EAGAIN);
	close_hostile(&h);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_atomic.c: atomic operations between two workers of one process, over a
 * real memif. Each test runs over a good wire, with checksums, and over a lossy one
 * (tests/support/pair.h). There a request that was carried out twice, or never, would give another
 * sum.
 */
#include "tests/support/pair.h"

#include "worker/atomic.h"
#include "worker/rx.h"
#include "worker/tx.h"
#include "hikyaku/notify.h"

static uint64_t word[1024] __attribute__((aligned(64)));

/* An atomic operation on its way (pair.h: struct xfer). */
struct asked {
	struct hk_atomic_op op;
	int status;
};

/* End @e begins an operation on the memory of the other end. */
static void start(struct asked *a, int e, const struct hk_wire_atomic *req, void *data)
{
	a->status = 0;
	CHECK_EQ(hk_worker_atomic(end[e].w, end[e].peer, &a->op, req, data, done, &a->status), 0);
}

static int ended(const struct asked *a)
{
	UNTIL(a->status);
	return a->status;
}

/* Runs one operation of A to its end. Returns its status. */
static int run(const struct hk_wire_atomic *req, void *data, uint64_t *old)
{
	struct asked a;

	start(&a, A, req, data);
	ended(&a);
	if (old)
		*old = a.op.old;
	return a.status;
}

/* The value that the operation should leave. */
static uint64_t model(const struct hk_wire_atomic *req, uint64_t old)
{
	switch (req->op) {
	case HK_ATOMIC_ADD:
		return old + req->operand;
	case HK_ATOMIC_AND:
		return old & req->operand;
	case HK_ATOMIC_OR:
		return old | req->operand;
	case HK_ATOMIC_XOR:
		return old ^ req->operand;
	case HK_ATOMIC_SWAP:
		return req->operand;
	default:
		return old == req->compare ? req->operand : old;
	}
}

EACH_WAY(every_operation)
{
	hk_region r = hk_worker_region_add(end[B].w, word, sizeof(word),
					   HK_REGION_READ | HK_REGION_WRITE, end[B].peer);

	for (unsigned i = 0; i < 600; i++) {
		uint8_t size = i % 2 ? 4 : 8;
		uint64_t mask = size == 8 ? UINT64_MAX : UINT32_MAX, was = 0, is = 0, old;
		size_t at = hk_rng_below(&hk_test_rng, sizeof(word) / size) * size;
		char *p = (char *)word + at;
		struct hk_wire_atomic req = {
			.op = (uint8_t)hk_rng_range(&hk_test_rng, HK_ATOMIC_ADD, HK_ATOMIC_CAS),
			.size = size,
			.region = r,
			.offset = at,
			.operand = hk_rng_next(&hk_test_rng),
		};
		uint64_t beside[2] = {word[at / 8], word[(at / 8 + 1) % 1024]};

		memcpy(&was, p, size);
		if (req.op == HK_ATOMIC_CAS)
			req.compare = hk_rng_below(&hk_test_rng, 2) ? was : was + 1;
		req.compare &= mask;
		CHECK_EQ(run(&req, NULL, &old), 1);
		memcpy(&is, p, size);
		CHECK_EQ(old, was);
		CHECK_EQ(is, model(&req, was) & mask);
		CHECK_EQ(word[(at / 8 + 1) % 1024], beside[1]);
		if (size == 4) /* the other half */
			CHECK_EQ(at % 8 ? (uint32_t)word[at / 8] : word[at / 8] >> 32,
				 at % 8 ? (uint32_t)beside[0] : beside[0] >> 32);
	}
	hk_worker_region_del(end[B].w, r);
}

/* More operations of both ends than may be in flight: each is carried out exactly once. */
EACH_WAY(many_add_once_each)
{
	enum { N = 3000 };
	static struct asked a[2][N];
	static bool seen[2 * N];
	const struct hk_wire_atomic one = {.op = HK_ATOMIC_ADD, .size = 8, .operand = 1};
	static uint64_t sum;
	hk_region r[2];

	memset(seen, 0, sizeof(seen));
	sum = 0;
	for (int e = 0; e < 2; e++)
		r[e] = hk_worker_region_add(end[e].w, &sum, 8, HK_REGION_READ | HK_REGION_WRITE,
					    end[e].peer);
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			struct hk_wire_atomic req = one;

			req.region = r[!e];
			start(&a[e][i], e, &req, NULL);
		}
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			CHECK_EQ(ended(&a[e][i]), 1);
			CHECK(a[e][i].op.old < 2 * N && !seen[a[e][i].op.old]);
			seen[a[e][i].op.old] = true;
		}
	CHECK_EQ(sum, 2 * N);
	for (int e = 0; e < 2; e++) {
		CHECK_EQ(hk_worker_counters(end[e].w)->atomics_served, N);
		CHECK_EQ(hk_worker_counters(end[e].w)->atomic_excess, 0);
		hk_worker_region_del(end[e].w, r[e]);
	}
}

/* Requests whose replies find no buffer are carried out when there is one, in their order. */
EACH_WAY(answers_wait_for_buffers)
{
	enum { N = 40, HELD = 16384 };
	static hk_buf *held[HELD];
	struct hk_worker *w = end[B].w;
	static struct asked a[N];
	static uint64_t value;
	unsigned n = 0;

	value = 0;
	hk_region r = hk_worker_region_add(w, &value, 8, HK_REGION_READ | HK_REGION_WRITE,
					   end[B].peer);
	while (n < HELD && (held[n] = hk_buf_take_reserved(w)))
		n++;
	CHECK(n < HELD);
	for (unsigned i = 0; i < N; i++) {
		const struct hk_wire_atomic req = {
			.op = HK_ATOMIC_SWAP, .size = 8, .region = r, .operand = i + 1};

		start(&a[i], A, &req, NULL);
	}
	UNTIL(w->peer[end[B].peer].pending_replies_len > 0);
	CHECK_EQ(value, 0);
	while (n > 0)
		hk_buf_release(w, held[--n]);
	for (unsigned i = 0; i < N; i++) {
		CHECK_EQ(ended(&a[i]), 1);
		CHECK_EQ(a[i].op.old, i);
	}
	CHECK_EQ(w->peer[end[B].peer].pending_replies_len, 0);
	CHECK_EQ(hk_worker_counters(w)->atomic_excess, 0);
	hk_worker_region_del(w, r);
}

EACH_WAY(bytes_are_written_and_read)
{
	MAPPED(from, 21);
	MAPPED(to, 22);
	MAPPED(back, 23);
	size_t max = hk_worker_atomic_max(end[A].w);
	hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_READ | HK_REGION_WRITE,
					   HK_PEER_NONE);
	const size_t lens[] = {1, 8, 63, 4096, max};

	for (size_t i = 0; i < HK_ARRAY_LEN(lens); i++) {
		size_t at = hk_rng_below(&hk_test_rng, MEMORY - lens[i]);
		struct hk_wire_atomic req = {
			.op = HK_ATOMIC_WRITE, .region = r, .len = (uint32_t)lens[i], .offset = at};

		CHECK_EQ(run(&req, from, NULL), 1);
		CHECK(memcmp(to + at, from, lens[i]) == 0);
		req.op = HK_ATOMIC_READ;
		memset(back, 0, lens[i] + 1);
		CHECK_EQ(run(&req, back, NULL), 1);
		CHECK(memcmp(back, from, lens[i]) == 0 && back[lens[i]] == 0);
	}
	struct hk_wire_atomic long_one = {
		.op = HK_ATOMIC_WRITE, .region = r, .len = (uint32_t)max + 1};
	struct hk_atomic_op a;

	CHECK_EQ(hk_worker_atomic(end[A].w, end[A].peer, &a, &long_one, from, done, &max), -EINVAL);
	hk_worker_region_del(end[B].w, r);
}

/* A fence is answered when the bytes of the put before it lie in memory. */
static void puts_and_fences(void)
{
	MAPPED(from, 24);
	MAPPED(to, 25);
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};

	for (unsigned i = 0; i < 20; i++) {
		hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE,
						   end[B].peer);
		size_t len = hk_rng_range(&hk_test_rng, 1, 300000);
		struct xfer x;

		memset(to, 0, len);
		put_start(&x, A, from, len, r, 0);
		CHECK_EQ(run(&fence, NULL, NULL), 1);
		CHECK(memcmp(from, to, len) == 0);
		finish(&x);
		hk_worker_region_del(end[B].w, r);
	}
}

EACH_WAY(what_is_not_allowed_is_refused)
{
	struct hk_worker *w = end[B].w;
	hk_region both = hk_worker_region_add(w, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					      end[B].peer),
		  r = hk_worker_region_add(w, word, 64, HK_REGION_READ, end[B].peer),
		  writable = hk_worker_region_add(w, word, 64, HK_REGION_WRITE, end[B].peer),
		  other = hk_worker_region_add(w, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					       end[B].peer + 1),
		  gone = hk_worker_region_add(w, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					      end[B].peer);
	/* a target has no memory of its own */
	static char staging[2 * 4096];
	const struct hk_block block = {(char *)word, 0, 4096};
	const struct hk_layout layout = {&block, 1, 4096};
	struct hk_notify_target in;
	hk_region target = hk_worker_notify_add(w, &in, end[B].peer, &layout, staging, 2);
	const struct hk_wire_atomic bad[] = {
		{.op = HK_ATOMIC_ADD, .size = 8, .region = r},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = writable},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = other},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = gone},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = 0},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = UINT32_MAX},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = both, .offset = 64},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = both, .offset = 60},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = both, .offset = 4},
		{.op = HK_ATOMIC_ADD, .size = 4, .region = both, .offset = 2},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = both, .offset = UINT64_MAX - 7},
		{.op = HK_ATOMIC_CAS, .size = 8, .region = both, .offset = 72},
		{.op = HK_ATOMIC_WRITE, .len = 8, .region = r},
		{.op = HK_ATOMIC_WRITE, .len = 8, .region = target, .offset = 8},
		{.op = HK_ATOMIC_WRITE, .len = 65, .region = both},
		{.op = HK_ATOMIC_READ, .len = 8, .region = writable},
		{.op = HK_ATOMIC_READ, .len = 8, .region = both, .offset = 57},
	};
	uint64_t before[1024], bytes[16] = {0}, refused = hk_worker_counters(w)->atomic_refused;
	struct hk_atomic_op a;
	int status = 0;

	hk_worker_region_del(w, gone);
	memcpy(before, word, sizeof(word));
	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++)
		CHECK_MSG(run(&bad[i], bytes, NULL) == -EACCES, "number %zu", i);
	hk_worker_notify_del(w, &in);
	CHECK_EQ(hk_worker_counters(w)->atomic_refused, refused + HK_ARRAY_LEN(bad));
	CHECK(memcmp(before, word, sizeof(word)) == 0);
	const struct hk_wire_atomic none[] = {
		{.op = HK_ATOMIC_KINDS, .size = 8},
		{.op = HK_ATOMIC_ADD, .size = 2},
		{.op = HK_ATOMIC_ADD, .size = 8, .len = 8},
		{.op = HK_ATOMIC_WRITE},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(none); i++)
		CHECK_EQ(
			hk_worker_atomic(end[A].w, end[A].peer, &a, &none[i], bytes, done, &status),
			-EINVAL);
	hk_worker_region_del(w, both);
	hk_worker_region_del(w, r);
	hk_worker_region_del(w, writable);
	hk_worker_region_del(w, other);
}

static void answer(const struct hk_wire_atomic *req, size_t len)
{
	hk_buf *b = hk_worker_alloc(end[B].w);

	hk_wire_atomic_encode(hk_buf_data(b), req);
	CHECK(hk_worker_send(end[B].w, end[B].peer, HK_WIRE_AM_ATOMIC, b, len) >= 0);
}

/* Replies that were not requested, or belong to another request, are counted and end nothing. */
EACH_WAY(false_answers_end_nothing)
{
	struct asked a;
	uint64_t before = hk_worker_counters(end[A].w)->atomic_refused;
	hk_region r = hk_worker_region_add(end[B].w, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					   end[B].peer);
	const struct hk_wire_atomic req = {
		.op = HK_ATOMIC_ADD, .size = 8, .region = r, .operand = 1};

	start(&a, A, &req, NULL);
	struct hk_wire_atomic reply = a.op.request;
	uint64_t was = word[0];

	reply.status = HK_WIRE_ATOMIC_DONE;
	reply.op = HK_ATOMIC_SWAP;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* of another operation */
	reply.op = HK_ATOMIC_ADD;
	reply.token += 1 << 16;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* of one before */
	reply.token = a.op.request.token | 0xffff;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* of none */
	answer(&reply, HK_WIRE_ATOMIC_LEN - 1);
	CHECK_EQ(ended(&a), 1);
	CHECK_EQ(a.op.old, was);
	UNTIL(hk_worker_counters(end[A].w)->atomic_refused == before + 4);
	reply.token = a.op.request.token;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* a second time */
	UNTIL(hk_worker_counters(end[A].w)->atomic_refused == before + 5);
	hk_worker_region_del(end[B].w, r);
}

static void operations_to_a_silent_peer(void)
{
	enum { N = 200 };
	static struct asked a[N];
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};

	for (unsigned i = 0; i < N; i++)
		start(&a[i], A, &fence, NULL);
	for (unsigned i = 0; !end[A].lost; i++) {
		hk_worker_progress(end[A].w); /* B does not poll any more */
		CHECK(i < UINT32_MAX);
	}
	for (unsigned i = 0; i < N; i++) {
		for (unsigned k = 0; !a[i].status; k++) {
			hk_worker_progress(end[A].w);
			CHECK(k < ROUNDS);
		}
		CHECK_EQ(a[i].status, -ENOTCONN);
	}
	CHECK_EQ(
		hk_worker_atomic(end[A].w, end[A].peer, &a[0].op, &fence, NULL, done, &a[0].status),
		-ENOTCONN);
}

TEST(with_a_peer_that_is_lost_operations_end)
{
	peer_timeout = 50 * HK_MSEC;
	each_way(operations_to_a_silent_peer);
	peer_timeout = 0;
}

/* B never polls again. The poller takes in A's requests, and B's RMA proxy carries them out.
 * That frees space for more: several times as many bytes pass as the rx backlog has. */
static void served_without_progress(void)
{
	enum { LEN = 1024, TIMES = 3 };
	static char bytes[LEN];
	struct hk_worker *w = end[B].w;
	hk_region r = hk_worker_region_add(w, word, sizeof(word), HK_REGION_WRITE, end[B].peer);
	const struct hk_wire_atomic req = {.op = HK_ATOMIC_WRITE, .len = LEN, .region = r};

	CHECK_OK(hk_worker_share(w, ERR));
	for (size_t sent = 0; sent < TIMES * w->cfg.backlog_bytes; sent += LEN) {
		struct asked a;
		int rounds = 0;

		memset(bytes, (int)(sent / LEN), LEN);
		start(&a, A, &req, bytes);
		while (!a.status) {
			hk_worker_progress(end[A].w);
			(void)hk_worker_proxy_poll(w, rte_rdtsc());
			if (hk_biased_try_proxy(&w->lock)) {
				hk_rx_backlog_deliver(w);
				hk_biased_leave_proxy(&w->lock);
			}
			CHECK_MSG(rounds++ < ROUNDS, "after %zu bytes nothing is served any more",
				  sent);
		}
		CHECK_EQ(a.status, 1);
		CHECK(memcmp(word, bytes, LEN) == 0);
	}
	CHECK_EQ(hk_engine_counters(w->engine)->refused, 0);
	hk_worker_region_del(w, r);
}

TEST(served_without_the_application)
{
	once("", served_without_progress);
}

TEST(fence_follows_a_put)
{
	each_way(puts_and_fences);
}

TEST(fence_follows_a_put_by_paths)
{
	each_way_by_paths(puts_and_fences);
}

TEST(fence_follows_a_put_by_two_ports)
{
	each_way_by_two_ports(puts_and_fences);
}

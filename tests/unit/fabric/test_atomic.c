/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_atomic.c: atomic operations between two fabrics of one process, over a real memif.
 *
 * Each test runs over a good wire, with checksums, and over a lossy one (pair.h): there a request that were
 * done twice, or never, would give another sum.
 */
#include "tests/unit/fabric/pair.h"

#include "fabric/atomic.h"
#include "fabric/internal.h"
#include "fabric/notify.h"

static uint64_t word[1024] __attribute__((aligned(64)));

/* One operation of A on B's memory, to its end; its status. */
static int run(const struct hk_wire_atomic *w, void *data, uint64_t *old)
{
	struct hk_atom a;
	int status = 0;

	CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a, w, data, done, &status), 0);
	UNTIL(status);
	if (old)
		*old = a.old;
	return status;
}

/* What the operation should leave there. */
static uint64_t model(const struct hk_wire_atomic *w, uint64_t old)
{
	switch (w->op) {
	case HK_ATOMIC_ADD:
		return old + w->operand;
	case HK_ATOMIC_AND:
		return old & w->operand;
	case HK_ATOMIC_OR:
		return old | w->operand;
	case HK_ATOMIC_XOR:
		return old ^ w->operand;
	case HK_ATOMIC_SWAP:
		return w->operand;
	default:
		return old == w->compare ? w->operand : old;
	}
}

static void every_operation(void)
{
	hk_region r = hk_fabric_region_add(end[B].f, word, sizeof(word),
					   HK_REGION_READ | HK_REGION_WRITE, end[B].peer);

	for (unsigned i = 0; i < 600; i++) {
		uint8_t size = i % 2 ? 4 : 8;
		uint64_t mask = size == 8 ? UINT64_MAX : UINT32_MAX, was = 0, is = 0, old;
		size_t at = hk_rng_below(&hk_test_rng, sizeof(word) / size) * size;
		char *p = (char *)word + at;
		struct hk_wire_atomic w = {
			.op = (uint8_t)hk_rng_range(&hk_test_rng, HK_ATOMIC_ADD, HK_ATOMIC_CAS),
			.size = size,
			.region = r,
			.offset = at,
			.operand = hk_rng_next(&hk_test_rng),
		};
		uint64_t beside[2] = {word[at / 8], word[(at / 8 + 1) % 1024]};

		memcpy(&was, p, size);
		if (w.op == HK_ATOMIC_CAS)
			w.compare = hk_rng_below(&hk_test_rng, 2) ? was : was + 1;
		w.compare &= mask;
		CHECK_EQ(run(&w, NULL, &old), 1);
		memcpy(&is, p, size);
		CHECK_EQ(old, was);
		CHECK_EQ(is, model(&w, was) & mask);
		CHECK_EQ(word[(at / 8 + 1) % 1024], beside[1]);
		if (size == 4) /* the other half */
			CHECK_EQ(at % 8 ? (uint32_t)word[at / 8] : word[at / 8] >> 32,
				 at % 8 ? (uint32_t)beside[0] : beside[0] >> 32);
	}
	hk_fabric_region_del(end[B].f, r);
}

/* More of both ends than may be under way: each is done exactly once. */
static void many_add_once_each(void)
{
	enum { N = 3000 };
	static struct hk_atom a[2][N];
	static int status[2][N];
	static bool seen[2 * N];
	const struct hk_wire_atomic one = {.op = HK_ATOMIC_ADD, .size = 8, .operand = 1};
	static uint64_t sum;
	hk_region r[2];

	memset(status, 0, sizeof(status));
	memset(seen, 0, sizeof(seen));
	sum = 0;
	for (int e = 0; e < 2; e++)
		r[e] = hk_fabric_region_add(end[e].f, &sum, 8, HK_REGION_READ | HK_REGION_WRITE,
					    end[e].peer);
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			struct hk_wire_atomic w = one;

			w.region = r[!e];
			CHECK_EQ(hk_fabric_atomic(end[e].f, end[e].peer, &a[e][i], &w, NULL, done,
						  &status[e][i]),
				 0);
		}
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			UNTIL(status[e][i]);
			CHECK_EQ(status[e][i], 1);
			CHECK(a[e][i].old < 2 * N && !seen[a[e][i].old]);
			seen[a[e][i].old] = true;
		}
	CHECK_EQ(sum, 2 * N);
	for (int e = 0; e < 2; e++) {
		CHECK_EQ(hk_fabric_counters(end[e].f)->atomics_served, N);
		CHECK_EQ(hk_fabric_counters(end[e].f)->atomic_excess, 0);
		hk_fabric_region_del(end[e].f, r[e]);
	}
}

/* Requests that find no buffer for their answers are done when there is one, in their order. */
static void answers_wait_for_buffers(void)
{
	enum { N = 40, HELD = 16384 };
	static hk_buf *held[HELD];
	struct hk_fabric *f = end[B].f;
	static struct hk_atom a[N];
	static int status[N];
	static uint64_t value;
	unsigned n = 0;

	memset(status, 0, sizeof(status));
	value = 0;
	hk_region r = hk_fabric_region_add(f, &value, 8, HK_REGION_READ | HK_REGION_WRITE,
					   end[B].peer);
	while (n < HELD && (held[n] = hk_tx_take_reserved(f)))
		n++;
	CHECK(n < HELD);
	for (unsigned i = 0; i < N; i++) {
		const struct hk_wire_atomic w = {
			.op = HK_ATOMIC_SWAP, .size = 8, .region = r, .operand = i + 1};

		CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a[i], &w, NULL, done, &status[i]),
			 0);
	}
	UNTIL(f->peer[end[B].peer].later > 0);
	CHECK_EQ(value, 0);
	while (n > 0)
		hk_tx_give(f, held[--n]);
	for (unsigned i = 0; i < N; i++) {
		UNTIL(status[i]);
		CHECK_EQ(status[i], 1);
		CHECK_EQ(a[i].old, i);
	}
	CHECK_EQ(f->peer[end[B].peer].later, 0);
	CHECK_EQ(hk_fabric_counters(f)->atomic_excess, 0);
	hk_fabric_region_del(f, r);
}

static void bytes_are_written_and_read(void)
{
	char *from = memory(21), *to = memory(22), *back = memory(23);
	size_t max = hk_fabric_atomic_max(end[A].f);
	hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_READ | HK_REGION_WRITE,
					   HK_PEER_NONE);
	const size_t lens[] = {1, 8, 63, 4096, max};

	for (size_t i = 0; i < HK_ARRAY_LEN(lens); i++) {
		size_t at = hk_rng_below(&hk_test_rng, MEMORY - lens[i]);
		struct hk_wire_atomic w = {
			.op = HK_ATOMIC_WRITE, .region = r, .len = (uint32_t)lens[i], .offset = at};

		CHECK_EQ(run(&w, from, NULL), 1);
		CHECK(memcmp(to + at, from, lens[i]) == 0);
		w.op = HK_ATOMIC_READ;
		memset(back, 0, lens[i] + 1);
		CHECK_EQ(run(&w, back, NULL), 1);
		CHECK(memcmp(back, from, lens[i]) == 0 && back[lens[i]] == 0);
	}
	struct hk_wire_atomic long_one = {
		.op = HK_ATOMIC_WRITE, .region = r, .len = (uint32_t)max + 1};
	struct hk_atom a;

	CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a, &long_one, from, done, &max), -EINVAL);
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
	munmap(back, MEMORY);
}

/* A fence is answered when the put before it lies there. */
static void fence_follows_a_put(void)
{
	char *from = memory(24), *to = memory(25);
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};

	for (unsigned i = 0; i < 20; i++) {
		hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE,
						   end[B].peer);
		size_t len = hk_rng_range(&hk_test_rng, 1, 300000);
		struct hk_op op;
		int status = 0;

		memset(to, 0, len);
		CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op, from, len, r, 0, done, &status),
			 0);
		CHECK_EQ(run(&fence, NULL, NULL), 1);
		CHECK(memcmp(from, to, len) == 0);
		UNTIL(status);
		hk_fabric_region_del(end[B].f, r);
	}
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

static void what_is_not_allowed_is_refused(void)
{
	struct hk_fabric *f = end[B].f;
	hk_region both = hk_fabric_region_add(f, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					      end[B].peer),
		  r = hk_fabric_region_add(f, word, 64, HK_REGION_READ, end[B].peer),
		  w = hk_fabric_region_add(f, word, 64, HK_REGION_WRITE, end[B].peer),
		  other = hk_fabric_region_add(f, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					       end[B].peer + 1),
		  gone = hk_fabric_region_add(f, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					      end[B].peer);
	/* which has no memory of its own */
	static char early[2 * 4096];
	const struct hk_block block = {(char *)word, 0, 4096};
	const struct hk_layout layout = {&block, 1, 4096};
	struct hk_inbox in;
	hk_region inbox = hk_fabric_inbox_add(f, &in, end[B].peer, &layout, early, 2);
	const struct hk_wire_atomic bad[] = {
		{.op = HK_ATOMIC_ADD, .size = 8, .region = r},
		{.op = HK_ATOMIC_ADD, .size = 8, .region = w},
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
		{.op = HK_ATOMIC_WRITE, .len = 8, .region = inbox, .offset = 8},
		{.op = HK_ATOMIC_WRITE, .len = 65, .region = both},
		{.op = HK_ATOMIC_READ, .len = 8, .region = w},
		{.op = HK_ATOMIC_READ, .len = 8, .region = both, .offset = 57},
	};
	uint64_t before[1024], bytes[16] = {0}, refused = hk_fabric_counters(f)->atomic_refused;
	struct hk_atom a;
	int status = 0;

	hk_fabric_region_del(f, gone);
	memcpy(before, word, sizeof(word));
	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++)
		CHECK_MSG(run(&bad[i], bytes, NULL) == -EACCES, "number %zu", i);
	hk_fabric_inbox_del(f, &in);
	CHECK_EQ(hk_fabric_counters(f)->atomic_refused, refused + HK_ARRAY_LEN(bad));
	CHECK(memcmp(before, word, sizeof(word)) == 0);
	const struct hk_wire_atomic none[] = {
		{.op = HK_ATOMIC_KINDS, .size = 8},
		{.op = HK_ATOMIC_ADD, .size = 2},
		{.op = HK_ATOMIC_ADD, .size = 8, .len = 8},
		{.op = HK_ATOMIC_WRITE},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(none); i++)
		CHECK_EQ(
			hk_fabric_atomic(end[A].f, end[A].peer, &a, &none[i], bytes, done, &status),
			-EINVAL);
	hk_fabric_region_del(f, both);
	hk_fabric_region_del(f, r);
	hk_fabric_region_del(f, w);
	hk_fabric_region_del(f, other);
}

static void answer(const struct hk_wire_atomic *w, size_t len)
{
	hk_buf *b = hk_fabric_alloc(end[B].f);

	hk_wire_put_atomic(hk_buf_data(b), w);
	CHECK(hk_fabric_send(end[B].f, end[B].peer, HK_WIRE_AM_ATOMIC, b, len) >= 0);
}

/* Answers that nobody asked for, or to something else, are counted, and end nothing. */
static void false_answers_end_nothing(void)
{
	struct hk_atom a;
	int status = 0;
	uint64_t before = hk_fabric_counters(end[A].f)->atomic_refused;
	hk_region r = hk_fabric_region_add(end[B].f, word, 64, HK_REGION_READ | HK_REGION_WRITE,
					   end[B].peer);
	const struct hk_wire_atomic w = {.op = HK_ATOMIC_ADD, .size = 8, .region = r, .operand = 1};

	CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a, &w, NULL, done, &status), 0);
	struct hk_wire_atomic reply = a.ask;
	uint64_t was = word[0];

	reply.status = HK_WIRE_ATOMIC_DONE;
	reply.op = HK_ATOMIC_SWAP;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* of another operation */
	reply.op = HK_ATOMIC_ADD;
	reply.token += 1 << 16;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* of one before */
	reply.token = a.ask.token | 0xffff;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* of none */
	answer(&reply, HK_WIRE_ATOMIC_LEN - 1);
	UNTIL(status);
	CHECK_EQ(status, 1);
	CHECK_EQ(a.old, was);
	UNTIL(hk_fabric_counters(end[A].f)->atomic_refused == before + 4);
	reply.token = a.ask.token;
	answer(&reply, HK_WIRE_ATOMIC_LEN); /* a second time */
	UNTIL(hk_fabric_counters(end[A].f)->atomic_refused == before + 5);
	hk_fabric_region_del(end[B].f, r);
}

static void with_a_peer_that_is_lost_operations_end(void)
{
	enum { N = 200 };
	static struct hk_atom a[N];
	static int status[N];
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};

	memset(status, 0, sizeof(status));
	for (unsigned i = 0; i < N; i++)
		CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a[i], &fence, NULL, done,
					  &status[i]),
			 0);
	for (unsigned i = 0; !end[A].lost; i++) {
		hk_fabric_progress(end[A].f); /* B is not driven any more */
		CHECK(i < UINT32_MAX);
	}
	for (unsigned i = 0; i < N; i++) {
		for (unsigned k = 0; !status[i]; k++) {
			hk_fabric_progress(end[A].f);
			CHECK(k < ROUNDS);
		}
		CHECK_EQ(status[i], -ENOTCONN);
	}
	CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a[0], &fence, NULL, done, &status[0]),
		 -ENOTCONN);
}

/* B computes, for good: a stand-in takes in what A asks, and B's servant does it. What is done leaves room for what comes:
 * several times as many bytes pass as can be kept. */
static void served_without_the_application(void)
{
	enum { LEN = 1024, TIMES = 3 };
	static char bytes[LEN];
	struct hk_fabric *f = end[B].f;
	struct hk_error err = {""};
	hk_region r = hk_fabric_region_add(f, word, sizeof(word), HK_REGION_WRITE, end[B].peer);
	const struct hk_wire_atomic w = {.op = HK_ATOMIC_WRITE, .len = LEN, .region = r};

	CHECK_MSG(hk_fabric_share(f, &err) == 0, "%s", err.text);
	for (size_t sent = 0; sent < TIMES * f->cfg.keep_bytes; sent += LEN) {
		struct hk_atom a;
		int status = 0, rounds = 0;

		memset(bytes, (int)(sent / LEN), LEN);
		CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a, &w, bytes, done, &status), 0);
		while (!status) {
			hk_fabric_progress(end[A].f);
			(void)hk_fabric_serve(f, rte_rdtsc());
			if (hk_biased_try_helper(&f->lock)) {
				hk_rx_serve_kept(f);
				hk_biased_leave_helper(&f->lock);
			}
			CHECK_MSG(rounds++ < ROUNDS, "after %zu bytes nothing is served any more",
				  sent);
		}
		CHECK_EQ(status, 1);
		CHECK(memcmp(word, bytes, LEN) == 0);
	}
	CHECK_EQ(hk_engine_counters(f->engine)->refused, 0);
	hk_fabric_region_del(f, r);
}

static void test_operations(void)
{
	each_way(every_operation);
}

/* B takes its own lock again and again, and looks at the port while it has it, never else. Its helper thread does. */
static void lock_that_its_owner_takes_again(void)
{
	static _Atomic uint64_t lock;
	struct hk_fabric *f = end[B].f;
	struct hk_error err = {""};
	hk_region r = hk_fabric_region_add(f, &lock, sizeof(lock), HK_REGION_READ | HK_REGION_WRITE,
					   end[B].peer);
	const struct hk_wire_atomic w = {.op = HK_ATOMIC_CAS, .size = 8, .region = r, .operand = 1};
	struct hk_atom a = {.old = 1};
	int status = 1;
	uint64_t none;

	atomic_store(&lock, 0);
	CHECK_MSG(hk_fabric_async_start(f, 1000, 200, &err) == 0, "%s", err.text);
	for (unsigned rounds = 0; atomic_compare_exchange_strong(&lock, &(uint64_t){0}, 2);
	     rounds++) {
		if (status) {
			status = 0;
			CHECK_EQ(hk_fabric_atomic(end[A].f, end[A].peer, &a, &w, NULL, done,
						  &status),
				 0);
		}
		progress();
		none = atomic_exchange(&lock, 0);
		CHECK_EQ(none, 2);
		for (volatile unsigned gap = 0; gap < 100; gap++)
			;
		CHECK_MSG(rounds < ROUNDS / 2, "the owner always came first");
	}
	UNTIL(status);
	CHECK_EQ(status, 1);
	CHECK_EQ(a.old, 0);
	CHECK_EQ(lock, 1);
	hk_fabric_region_del(f, r);
}

static void test_lock(void)
{
	each_way(lock_that_its_owner_takes_again);
}

static void test_served(void)
{
	faults = "";
	crc = false;
	open_both();
	served_without_the_application();
	close_both();
}

static void test_once(void)
{
	each_way(many_add_once_each);
}

static void test_bytes(void)
{
	each_way(bytes_are_written_and_read);
}

static void test_fence(void)
{
	each_way(fence_follows_a_put);
}

static void test_fence_rails(void)
{
	each_way_by_rails(fence_follows_a_put);
}

static void test_fence_two_ports(void)
{
	each_way_by_two_ports(fence_follows_a_put);
}

static void test_refused(void)
{
	each_way(what_is_not_allowed_is_refused);
}

static void test_false_answers(void)
{
	each_way(false_answers_end_nothing);
}

static void test_no_buffer(void)
{
	each_way(answers_wait_for_buffers);
}

static void test_lost(void)
{
	peer_timeout = 50 * HK_MSEC;
	each_way(with_a_peer_that_is_lost_operations_end);
	peer_timeout = 0;
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"operations", test_operations},
		{"served_without_the_application", test_served},
		{"lock", test_lock},
		{"once", test_once},
		{"bytes", test_bytes},
		{"no_buffer", test_no_buffer},
		{"fence", test_fence},
		{"fence_two_ports", test_fence_two_ports},
		{"fence_rails", test_fence_rails},
		{"refused", test_refused},
		{"false_answers", test_false_answers},
		{"lost", test_lost},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

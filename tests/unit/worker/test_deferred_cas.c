/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_deferred_cas.c: a peer that has missed a lock many times in a row gets it.
 *
 * Two peers made by hand ask for one word. The test decides when the progress thread looks: it
 * calls what that thread calls.
 */
#include "tests/support/by_hand.h"

#include "worker/rx.h"

#define THIRD  3u
#define MISSES 16 /* in a row before one is deferred */
#define TAKEN  77

static const struct hk_defer_cas defer_cas = {.misses = MISSES,
					      .watch_misses_max = 1024,
					      .defer_misses_max = 1u << 20,
					      /* a test ends it: the machine may be slow */
					      .time = 1000 * HK_SEC};

struct asker {
	uint32_t endpoint, psn, acked;
	unsigned answers;
	struct hk_wire_atomic last; /* answer */
};

struct contest {
	struct scene s;
	struct asker other, third;
	hk_region r;
	uint64_t word;
};

static void open_contest_as(struct contest *c, const struct hk_defer_cas *as)
{
	struct hk_peer_addr addr = {
		.endpoint = THIRD, .epoch = EPOCH, .frame_max = 2048, .name = "rank 2 on node2"};
	hk_peer third;

	memset(c, 0, sizeof(*c));
	c->other.endpoint = OTHER;
	c->third.endpoint = THIRD;
	scene_open_defer_cas(&c->s, as);
	CHECK_OK(hk_worker_peer_add(c->s.w, &addr, &third, ERR));
	c->r = hk_worker_region_add(c->s.w, &c->word, sizeof(c->word),
				    HK_REGION_READ | HK_REGION_WRITE, HK_PEER_NONE);
	CHECK_EQ(hk_biased_register(&c->s.w->lock, false), 0);
	c->s.w->thread.running = true; /* so the worker believes: see above */
}

static void open_contest(struct contest *c)
{
	open_contest_as(c, &defer_cas);
}

static void close_contest(struct contest *c)
{
	c->s.w->thread.running = false;
	hk_worker_close(c->s.w, 0);
}

/* A contest until the end of the block. */
#define CONTEST(c)                                                                                 \
	__attribute__((cleanup(close_contest))) struct contest c;                                  \
	open_contest(&(c))

/* Takes the frames that the worker has sent. */
static void collect(struct contest *c)
{
	struct rte_mbuf *m;
	struct hk_frame f;

	while ((m = take(&c->s, &f))) {
		struct asker *a = f.h.dst == OTHER ? &c->other : &c->third;

		if (f.h.type == HK_WIRE_DATA && f.h.psn == a->acked) {
			CHECK_EQ(f.h.am, HK_WIRE_AM_ATOMIC);
			CHECK(hk_wire_atomic_parse(f.payload, f.payload_len, &a->last));
			a->acked++;
			a->answers++;
		}
		rte_pktmbuf_free_seg(m);
	}
}

static void ask(struct contest *c, struct asker *a, struct hk_wire_atomic w)
{
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, a->psn++, 64);
	char request[HK_WIRE_ATOMIC_LEN];

	w.token = h.psn + 1;
	w.region = c->r;
	h.src = a->endpoint;
	h.ack = a->acked;
	h.am = HK_WIRE_AM_ATOMIC;
	h.len = sizeof(request);
	hk_wire_atomic_encode(request, &w);
	frame_into_ring(&c->s, &h, request);
	hk_worker_progress(c->s.w);
	collect(c);
}

static void take_lock(struct contest *c, struct asker *a)
{
	ask(c, a, (struct hk_wire_atomic){.op = HK_ATOMIC_CAS, .size = 8, .operand = TAKEN});
}

static void give_lock(struct contest *c, struct asker *a)
{
	ask(c, a, (struct hk_wire_atomic){.op = HK_ATOMIC_SWAP, .size = 8});
}

/* Checks that a request is deferred. */
static void is_deferred(struct contest *c)
{
	CHECK(hk_deferred_cas_waits(&c->s.w->deferred_cas));
	CHECK_EQ(c->other.answers, c->other.psn - 1);
}

/* OTHER misses so often that its next request is deferred. */
static void until_deferred(struct contest *c, unsigned misses)
{
	c->word = TAKEN;
	for (unsigned i = 0; i < misses; i++) {
		unsigned before = c->other.answers;

		take_lock(c, &c->other);
		CHECK_MSG(c->other.answers == before + 1, "deferred after %u misses", i);
		CHECK_EQ(c->other.last.operand, TAKEN);
	}
	take_lock(c, &c->other); /* watched */
	CHECK_EQ(c->other.answers, c->other.psn);
	c->word = 0; /* for a moment */
	hk_deferred_cas_poll(c->s.w);
	c->word = TAKEN;
	take_lock(c, &c->other);
	is_deferred(c);
}

/* Checks that the request is answered, and had found @found. */
static void answered(const struct contest *c, uint64_t found)
{
	CHECK_EQ(c->other.answers, c->other.psn);
	CHECK_EQ(c->other.last.status, HK_WIRE_ATOMIC_DONE);
	CHECK_EQ(c->other.last.op, HK_ATOMIC_CAS);
	CHECK_EQ(c->other.last.token, c->other.psn);
	CHECK_EQ(c->other.last.operand, found);
}

/* THIRD has the lock whenever OTHER asks, until OTHER is served at the next release of THIRD. */
TEST(two_in_step)
{
	unsigned rounds = 0;

	CONTEST(c);
	do {
		take_lock(&c, &c.third);
		CHECK_EQ(c.third.last.operand, 0);
		take_lock(&c, &c.other);
		give_lock(&c, &c.third);
		CHECK_EQ(c.third.last.operand, TAKEN);
		CHECK_MSG(rounds++ < 1000, "one always had the lock, and the other never");
	} while (c.other.last.operand == TAKEN);
	CHECK_CMP(rounds, <=, MISSES + 2);
	answered(&c, 0);
	CHECK_EQ(c.word, TAKEN);
	take_lock(&c, &c.third); /* comes too late */
	CHECK_EQ(c.third.last.operand, TAKEN);
	CHECK_EQ(hk_worker_counters(c.s.w)->atomics_deferred, 1);
}

/* The owner releases its lock, and takes it again before it polls. */
TEST(owner_that_looks_while_it_has_it)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	hk_worker_progress(c.s.w);
	hk_deferred_cas_poll(c.s.w);
	collect(&c);
	CHECK_EQ(c.other.answers, c.other.psn - 1);
	c.word = 0;
	hk_deferred_cas_poll(c.s.w);
	collect(&c);
	answered(&c, 0);
	CHECK_EQ(c.word, TAKEN);
}

TEST(four_bytes)
{
	const struct hk_wire_atomic w = {
		.op = HK_ATOMIC_CAS, .size = 4, .offset = 4, .operand = 5, .compare = 0};
	CONTEST(c);
	c.word = 1ull << 32;
	for (unsigned i = 0; i <= MISSES; i++)
		ask(&c, &c.other, w);
	c.word = 0;
	hk_deferred_cas_poll(c.s.w);
	c.word = 1ull << 32;
	ask(&c, &c.other, w);
	is_deferred(&c);
	c.word = 9; /* the other half does not count */
	hk_deferred_cas_poll(c.s.w);
	collect(&c);
	answered(&c, 0);
	CHECK_EQ(c.word, 5ull << 32 | 9);
}

/* A deferred request is answered in the end, because its sender may want to know the value. Then
 * the threshold doubles. */
TEST(not_for_ever)
{
	CONTEST(c);
	for (unsigned misses = MISSES; misses <= 8 * MISSES; misses *= 2) {
		until_deferred(&c, misses);
		c.s.w->deferred_cas.until = hk_now(c.s.w);
		hk_deferred_cas_poll(c.s.w);
		collect(&c);
		answered(&c, TAKEN);
	}
	until_deferred(&c, 16 * MISSES);
	c.word = 0;
	hk_deferred_cas_poll(c.s.w);
	collect(&c);
	answered(&c, 0);
	until_deferred(&c, MISSES); /* deferring was of use */
}

/* A peer's requests are carried out in their order. */
TEST(what_follows_is_done_after_it)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	unsigned before = c.other.answers;

	give_lock(&c, &c.other);
	CHECK_EQ(c.other.answers, before + 2);
	CHECK_EQ(c.other.last.op, HK_ATOMIC_SWAP);
	CHECK_EQ(c.other.last.operand, TAKEN); /* and the compare-and-swap before it had missed */
	CHECK_EQ(c.word, 0);
}

TEST(others_wait_for_nothing)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	for (unsigned i = 0; i < 2 * MISSES; i++)
		take_lock(&c, &c.third);
	CHECK_EQ(c.third.answers, 2 * MISSES); /* one is deferred at a time */
}

TEST(memory_that_is_taken_back)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	hk_worker_region_del(c.s.w, c.r);
	hk_deferred_cas_poll(c.s.w);
	collect(&c);
	CHECK_EQ(c.other.answers, c.other.psn);
	CHECK_EQ(c.other.last.status, HK_WIRE_ATOMIC_DENIED);
}

/* The same if only the poller has received its frame. */
static void leaves(bool by_poller)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	c.s.w->by_poller = by_poller;
	arrives(&c.s, HK_WIRE_BYE, c.other.psn, c.other.acked, 0);
	c.s.w->by_poller = false;
	CHECK(!hk_deferred_cas_waits(&c.s.w->deferred_cas));
	c.word = 0;
	hk_deferred_cas_poll(c.s.w);
	CHECK_EQ(c.word, 0);
}

TEST(who_leaves_is_forgotten)
{
	leaves(false);
	leaves(true);
}

/* Without the progress thread: the owner polls. */
TEST(its_time_is_over)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	c.s.w->deferred_cas.until = hk_now(c.s.w);
	for (unsigned i = 0; i < 2 * HK_IDLE_CLOCK; i++) {
		hk_worker_progress(c.s.w);
		collect(&c);
	}
	answered(&c, TAKEN);
}

/* A peer that adds by compare-and-swap comes with the value that it found last. It does not wait
 * for a value that will not come again. */
TEST(another_value_each_time)
{
	CONTEST(c);
	for (uint64_t i = 1; i < 10 * MISSES; i++) {
		c.word = i;
		ask(&c, &c.other,
		    (struct hk_wire_atomic){
			    .op = HK_ATOMIC_CAS, .size = 8, .operand = i, .compare = i - 1});
		CHECK_EQ(c.other.answers, i);
	}
}

/* A later request of the same peer ends the deferral; the request may succeed then. */
TEST(in_time_after_all)
{
	CONTEST(c);
	until_deferred(&c, MISSES);
	c.word = 0;
	give_lock(&c, &c.other);
	CHECK_EQ(c.other.last.operand, TAKEN); /* its own value */
	CHECK_EQ(c.word, 0);
	until_deferred(&c, MISSES); /* no more misses than before */
}

/* A word that does not change is watched, and nobody waits. */
TEST(who_reads_is_answered)
{
	CONTEST(c);
	c.word = TAKEN;
	for (unsigned i = 0; i < 40 * MISSES; i++) {
		take_lock(&c, &c.other);
		CHECK_EQ(c.other.answers, i + 1);
		hk_deferred_cas_poll(c.s.w);
	}
	CHECK_EQ(hk_worker_counters(c.s.w)->atomics_deferred, 0);
}

/* By default nothing is deferred, however often a peer misses. */
TEST(only_on_request)
{
	static const struct hk_defer_cas off;
	__attribute__((cleanup(close_contest))) struct contest c;

	open_contest_as(&c, &off);
	for (unsigned i = 0; i < 10 * MISSES; i++) {
		c.word = TAKEN;
		take_lock(&c, &c.other);
		CHECK_EQ(c.other.answers, i + 1);
		c.word = 0; /* for a moment */
		hk_deferred_cas_poll(c.s.w);
	}
	CHECK_EQ(hk_worker_counters(c.s.w)->atomics_deferred, 0);
}

TEST(nobody_would_look)
{
	CONTEST(c);
	c.s.w->thread.running = false;
	c.word = TAKEN;
	for (unsigned i = 0; i < 10 * MISSES; i++)
		take_lock(&c, &c.other);
	CHECK_EQ(c.other.answers, 10 * MISSES);
}

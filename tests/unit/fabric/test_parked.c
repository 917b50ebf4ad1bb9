/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_parked.c: who has missed a lock many times in a row gets it.
 *
 * Two peers made by hand ask for one word. The test says when the helper thread looks: in its stead it calls what
 * that calls.
 */
#include "tests/unit/fabric/by_hand.h"

#include "fabric/internal.h"

#define THIRD    3u
#define PATIENCE 16 /* misses in a row before one is parked: parked.c */
#define TAKEN    77

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

static void open_contest(struct contest *c)
{
	struct hk_peer_addr addr = {
		.endpoint = THIRD, .epoch = EPOCH, .frame_max = 2048, .name = "rank 2 on node2"};
	struct hk_error err = {""};
	hk_peer third;

	memset(c, 0, sizeof(*c));
	c->other.endpoint = OTHER;
	c->third.endpoint = THIRD;
	scene_open(&c->s, false);
	CHECK_MSG(hk_fabric_peer_add(c->s.f, &addr, &third, &err) == 0, "%s", err.text);
	c->r = hk_fabric_region_add(c->s.f, &c->word, sizeof(c->word),
				    HK_REGION_READ | HK_REGION_WRITE, HK_PEER_NONE);
	CHECK_EQ(hk_biased_register(&c->s.f->lock, false), 0);
	c->s.f->helper_runs = true; /* so the fabric believes: see above */
}

static void close_contest(struct contest *c)
{
	c->s.f->helper_runs = false;
	hk_fabric_close(c->s.f, 0);
}

/* Takes what the fabric has sent. */
static void collect(struct contest *c)
{
	struct rte_mbuf *m;
	struct hk_frame f;

	while ((m = take(&c->s, &f))) {
		struct asker *a = f.h.dst == OTHER ? &c->other : &c->third;

		if (f.h.type == HK_WIRE_DATA && f.h.psn == a->acked) {
			CHECK_EQ(f.h.am, HK_WIRE_AM_ATOMIC);
			CHECK(hk_wire_parse_atomic(f.payload, f.payload_len, &a->last));
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
	h.frags = 1;
	h.am = HK_WIRE_AM_ATOMIC;
	h.len = sizeof(request);
	hk_wire_put_atomic(request, &w);
	frame_into_ring(&c->s, &h, request);
	hk_fabric_progress(c->s.f);
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

/* It has been parked; and not for some ms only, the machine may be slow. */
static void is_parked(struct contest *c)
{
	CHECK(hk_parked_full(c->s.f));
	CHECK_EQ(c->other.answers, c->other.psn - 1);
	c->s.f->parked.until = hk_now(c->s.f) + 1000 * HK_SEC;
}

/* OTHER misses so often that its next is parked. */
static void until_parked(struct contest *c, unsigned misses)
{
	c->word = TAKEN;
	for (unsigned i = 0; i < misses; i++) {
		unsigned before = c->other.answers;

		take_lock(c, &c->other);
		CHECK_MSG(c->other.answers == before + 1, "parked after %u misses", i);
		CHECK_EQ(c->other.last.operand, TAKEN);
	}
	take_lock(c, &c->other); /* watched */
	CHECK_EQ(c->other.answers, c->other.psn);
	c->word = 0; /* for a moment */
	hk_parked_look(c->s.f);
	c->word = TAKEN;
	take_lock(c, &c->other);
	is_parked(c);
}

/* Now it has been answered, and had found @found. */
static void answered(const struct contest *c, uint64_t found)
{
	CHECK_EQ(c->other.answers, c->other.psn);
	CHECK_EQ(c->other.last.status, HK_WIRE_ATOMIC_DONE);
	CHECK_EQ(c->other.last.op, HK_ATOMIC_CAS);
	CHECK_EQ(c->other.last.token, c->other.psn);
	CHECK_EQ(c->other.last.operand, found);
}

/* Whatever OTHER asks, THIRD has it: until THIRD's next release, at which OTHER is served. */
static void two_in_step(void)
{
	struct contest c;
	unsigned rounds = 0;

	open_contest(&c);
	do {
		take_lock(&c, &c.third);
		CHECK_EQ(c.third.last.operand, 0);
		take_lock(&c, &c.other);
		give_lock(&c, &c.third);
		CHECK_EQ(c.third.last.operand, TAKEN);
		CHECK_MSG(rounds++ < 1000, "one always had the lock, and the other never");
	} while (c.other.last.operand == TAKEN);
	CHECK_CMP(rounds, <=, PATIENCE + 2);
	answered(&c, 0);
	CHECK_EQ(c.word, TAKEN);
	take_lock(&c, &c.third); /* is not in time */
	CHECK_EQ(c.third.last.operand, TAKEN);
	CHECK_EQ(hk_fabric_counters(c.s.f)->atomics_parked, 1);
	close_contest(&c);
}

/* The owner gives its lock back, and takes it again before it looks at the port. */
static void owner_that_looks_while_it_has_it(void)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	hk_fabric_progress(c.s.f);
	hk_parked_look(c.s.f);
	collect(&c);
	CHECK_EQ(c.other.answers, c.other.psn - 1);
	c.word = 0;
	hk_parked_look(c.s.f);
	collect(&c);
	answered(&c, 0);
	CHECK_EQ(c.word, TAKEN);
	close_contest(&c);
}

static void four_bytes(void)
{
	const struct hk_wire_atomic w = {
		.op = HK_ATOMIC_CAS, .size = 4, .offset = 4, .operand = 5, .compare = 0};
	struct contest c;

	open_contest(&c);
	c.word = 1ull << 32;
	for (unsigned i = 0; i <= PATIENCE; i++)
		ask(&c, &c.other, w);
	c.word = 0;
	hk_parked_look(c.s.f);
	c.word = 1ull << 32;
	ask(&c, &c.other, w);
	is_parked(&c);
	c.word = 9; /* the other half is no matter */
	hk_parked_look(c.s.f);
	collect(&c);
	answered(&c, 0);
	CHECK_EQ(c.word, 5ull << 32 | 9);
	close_contest(&c);
}

/* It is answered in the end, for who asks may want to know what lies there; and then patience is twice as long. */
static void not_for_ever(void)
{
	struct contest c;

	open_contest(&c);
	for (unsigned misses = PATIENCE; misses <= 8 * PATIENCE; misses *= 2) {
		until_parked(&c, misses);
		c.s.f->parked.until = hk_now(c.s.f);
		hk_parked_look(c.s.f);
		collect(&c);
		answered(&c, TAKEN);
	}
	until_parked(&c, 16 * PATIENCE);
	c.word = 0;
	hk_parked_look(c.s.f);
	collect(&c);
	answered(&c, 0);
	until_parked(&c, PATIENCE); /* once it was of use */
	close_contest(&c);
}

/* A peer's requests are done in their order. */
static void what_follows_is_done_after_it(void)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	unsigned before = c.other.answers;

	give_lock(&c, &c.other);
	CHECK_EQ(c.other.answers, before + 2);
	CHECK_EQ(c.other.last.op, HK_ATOMIC_SWAP);
	CHECK_EQ(c.other.last.operand, TAKEN); /* and the CAS before it had missed */
	CHECK_EQ(c.word, 0);
	close_contest(&c);
}

static void others_wait_for_nothing(void)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	for (unsigned i = 0; i < 2 * PATIENCE; i++)
		take_lock(&c, &c.third);
	CHECK_EQ(c.third.answers, 2 * PATIENCE); /* one is parked at a time */
	close_contest(&c);
}

static void memory_that_is_taken_back(void)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	hk_fabric_region_del(c.s.f, c.r);
	hk_parked_look(c.s.f);
	collect(&c);
	CHECK_EQ(c.other.answers, c.other.psn);
	CHECK_EQ(c.other.last.status, HK_WIRE_ATOMIC_DENIED);
	close_contest(&c);
}

/* … also if the application has not heard of it: a stand-in has. */
static void leaves(bool away)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	c.s.f->stand_in = away;
	arrives(&c.s, HK_WIRE_BYE, c.other.psn, c.other.acked, 0);
	c.s.f->stand_in = false;
	CHECK(!hk_parked_full(c.s.f));
	c.word = 0;
	hk_parked_look(c.s.f);
	CHECK_EQ(c.word, 0);
	close_contest(&c);
}

static void who_leaves_is_forgotten(void)
{
	leaves(false);
	leaves(true);
}

/* Nothing of the helper thread: the owner polls. */
static void its_time_is_over(void)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	c.s.f->parked.until = hk_now(c.s.f);
	for (unsigned i = 0; i < 2 * HK_IDLE_CLOCK; i++) {
		hk_fabric_progress(c.s.f);
		collect(&c);
	}
	answered(&c, TAKEN);
	close_contest(&c);
}

/* Who adds by compare-and-swap comes with what it found last, and is not kept waiting for what will not come again. */
static void another_value_each_time(void)
{
	struct contest c;

	open_contest(&c);
	for (uint64_t i = 1; i < 10 * PATIENCE; i++) {
		c.word = i;
		ask(&c, &c.other,
		    (struct hk_wire_atomic){
			    .op = HK_ATOMIC_CAS, .size = 8, .operand = i, .compare = i - 1});
		CHECK_EQ(c.other.answers, i);
	}
	close_contest(&c);
}

/* What comes from the same peer ends it; but it may have been time. */
static void in_time_after_all(void)
{
	struct contest c;

	open_contest(&c);
	until_parked(&c, PATIENCE);
	c.word = 0;
	give_lock(&c, &c.other);
	CHECK_EQ(c.other.last.operand, TAKEN); /* its own */
	CHECK_EQ(c.word, 0);
	until_parked(&c, PATIENCE); /* no more than before */
	close_contest(&c);
}

/* A word that does not change is watched, and nobody kept waiting. */
static void who_reads_is_answered(void)
{
	struct contest c;

	open_contest(&c);
	c.word = TAKEN;
	for (unsigned i = 0; i < 40 * PATIENCE; i++) {
		take_lock(&c, &c.other);
		CHECK_EQ(c.other.answers, i + 1);
		hk_parked_look(c.s.f);
	}
	CHECK_EQ(hk_fabric_counters(c.s.f)->atomics_parked, 0);
	close_contest(&c);
}

static void nobody_would_look(void)
{
	struct contest c;

	open_contest(&c);
	c.s.f->helper_runs = false;
	c.word = TAKEN;
	for (unsigned i = 0; i < 10 * PATIENCE; i++)
		take_lock(&c, &c.other);
	CHECK_EQ(c.other.answers, 10 * PATIENCE);
	close_contest(&c);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"two_in_step", two_in_step},
		{"owner_that_looks_while_it_has_it", owner_that_looks_while_it_has_it},
		{"four_bytes", four_bytes},
		{"not_for_ever", not_for_ever},
		{"what_follows_is_done_after_it", what_follows_is_done_after_it},
		{"others_wait_for_nothing", others_wait_for_nothing},
		{"memory_that_is_taken_back", memory_that_is_taken_back},
		{"who_leaves_is_forgotten", who_leaves_is_forgotten},
		{"its_time_is_over", its_time_is_over},
		{"another_value_each_time", another_value_each_time},
		{"in_time_after_all", in_time_after_all},
		{"who_reads_is_answered", who_reads_is_answered},
		{"nobody_would_look", nobody_would_look},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

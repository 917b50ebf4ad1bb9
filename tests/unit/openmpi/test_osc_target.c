/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/openmpi/test_osc_target.c: the owner's side of a window (openmpi/osc/target.h under
 * plugins), and calls that no rank sends. Predefined types and operations are Open MPI's, so the
 * test is an MPI program of one rank.
 */
#include "openmpi/osc/target.h"

#include "ompi_config.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/op/op.h"

#include "tests/support/hk_test.h"

#include <mpi.h>
#include <stdlib.h>

#define CALL_MAX 4096u /* bytes that a call carries */
#define RANKS    4u
#define GUARD    64u
#define WINDOW   1024u

static char memory[GUARD + WINDOW + GUARD] __attribute__((aligned(64)));
static char args[CALL_MAX + GUARD], result[CALL_MAX + GUARD];
static struct hk_osc_target target;
static unsigned replies;
static struct hk_wire_atomic replied; /* the last reply … */
static char replied_bytes[CALL_MAX];  /* … and its bytes */

static size_t max(void)
{
	return CALL_MAX;
}

static bool add(struct hk_btl_procedure *p)
{
	p->id = 1;
	return true;
}

static void del(struct hk_btl_procedure *p)
{
	p->id = HK_REGION_NONE;
}

static int reply(const struct hk_btl_waiting *caller, const void *bytes)
{
	CHECK_CMP(caller->call.len, <=, CALL_MAX);
	replied = caller->call;
	if (replied.len)
		memcpy(replied_bytes, bytes, replied.len);
	replies++;
	return 0;
}

/* The endpoints of ranks 0 and 1. The one of the caller is in its place. */
static char endpoint[2];

static bool is_of(const struct mca_btl_base_endpoint_t *ep, const struct hk_btl_caller *c)
{
	return (const void *)ep == (const void *)c->far;
}

static const struct hk_btl_rpc rpc = {
	.max = max, .add = add, .del = del, .reply = reply, .is_of = is_of};

static void up(bool dynamic)
{
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (char)(i * 5 + 1);
	replies = 0;
	CHECK_EQ(hk_osc_target_open(&target, &rpc, dynamic ? NULL : memory + GUARD, WINDOW, dynamic,
				    RANKS, false),
		 OMPI_SUCCESS);
}

static void down(void)
{
	hk_osc_target_close(&target);
}

static enum hk_rpc_end ask(uint64_t rank, uint64_t operand, uint32_t len, uint32_t *back)
{
	struct hk_wire_atomic call = {
		.op = HK_ATOMIC_RPC, .offset = rank, .operand = operand, .len = len};
	struct hk_btl_caller caller = {.call = &call};
	bool must_tell;
	enum hk_rpc_end end = hk_osc_serve(&target, &caller, true, args, result, &must_tell);

	CHECK(!must_tell); /* the owner answers by itself */
	if (back)
		*back = call.len;
	return end;
}

static enum hk_rpc_end tell_by(uint64_t rank, enum hk_osc_kind kind)
{
	return ask(rank, hk_osc_ask(kind, 0, 0, 0), 0, NULL);
}

static enum hk_rpc_end tell(enum hk_osc_kind kind)
{
	return tell_by(1, kind);
}

static enum hk_rpc_end lock_by(uint64_t rank, enum hk_osc_lock_kind lock)
{
	return ask(rank, hk_osc_ask(HK_OSC_LOCK, 0, 0, 0) | hk_osc_with_lock(lock), 0, NULL);
}

static size_t put_run(size_t at, uint64_t offset, uint64_t count)
{
	const struct hk_osc_run r = {offset, count};

	memcpy(args + at, &r, sizeof(r));
	return at + sizeof(r);
}

/* ---- data ------------------------------------------------------------------------------------ */

TEST(runs_are_written_and_read)
{
	size_t at = put_run(put_run(0, 3, 5), 100, 7);
	uint32_t back;

	up(false);
	memcpy(args + at, "abcdefghijkl", 12);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_PUT, 0, 0, 2), (uint32_t)at + 12, &back), HK_RPC_DONE);
	CHECK_EQ(back, 0);
	CHECK(memcmp(memory + GUARD + 3, "abcde", 5) == 0);
	CHECK(memcmp(memory + GUARD + 100, "fghijkl", 7) == 0);
	CHECK_EQ(memory[GUARD + 8], (char)((GUARD + 8) * 5 + 1));
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 2), (uint32_t)at, &back), HK_RPC_DONE);
	CHECK_EQ(back, 12);
	CHECK(memcmp(result, "abcdefghijkl", 12) == 0);
	down();
}

static unsigned index_of(ompi_datatype_t *type)
{
	return (unsigned)type->d_f_to_c_index;
}

TEST(elements_are_combined)
{
	const double in[3] = {1.5, 2, -4};
	double now[3] = {10, 20, 30}, old[3];
	unsigned type = index_of(MPI_DOUBLE), sum = (unsigned)MPI_SUM->o_f_to_c_index;
	size_t at = put_run(0, 64, 3);
	uint32_t back;

	up(false);
	memcpy(memory + GUARD + 64, now, sizeof(now));
	memcpy(args + at, in, sizeof(in));
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET_ACC, sum, type, 1), (uint32_t)(at + sizeof(in)),
		     &back),
		 HK_RPC_DONE);
	CHECK_EQ(back, sizeof(old));
	memcpy(old, result, sizeof(old));
	memcpy(now, memory + GUARD + 64, sizeof(now));
	for (unsigned i = 0; i < 3; i++)
		CHECK(old[i] == 10 * (i + 1) && now[i] == old[i] + in[i]);
	down();
}

TEST(a_value_is_swapped_if_it_is_expected)
{
	const int expected = 7, new = 9;
	int now = 7;
	size_t at = put_run(0, 8, 1);
	uint64_t cas = hk_osc_ask(HK_OSC_CAS, 0, index_of(MPI_INT), 1);

	up(false);
	memcpy(memory + GUARD + 8, &now, 4);
	memcpy(args + at, &expected, 4);
	memcpy(args + at + 4, &new, 4);
	for (int i = 0; i < 2; i++) { /* the second finds the new value */
		CHECK_EQ(ask(0, cas, (uint32_t)at + 8, NULL), HK_RPC_DONE);
		memcpy(&now, result, 4);
		CHECK_EQ(now, i ? new : expected);
	}
	memcpy(&now, memory + GUARD + 8, 4);
	CHECK_EQ(now, new);
	down();
}

/* ---- calls that no rank sends ---------------------------------------------------------------- */

/* Bounds are drawn around the window's, and around the values at which sums wrap. */
static uint64_t number(void)
{
	static const uint64_t borders[] = {
		0, 8, WINDOW - 8, WINDOW, CALL_MAX, UINT64_MAX / 8, UINT64_MAX};
	uint64_t base = borders[hk_rng_range(&hk_test_rng, 0, HK_ARRAY_LEN(borders) - 1)];

	return base + hk_rng_range(&hk_test_rng, 0, 16) - 8;
}

static void random_call(void)
{
	unsigned kind = (unsigned)hk_rng_range(&hk_test_rng, 0, HK_OSC_KINDS + 1);
	unsigned op = (unsigned)hk_rng_range(&hk_test_rng, 0, 20);
	unsigned type = (unsigned)hk_rng_range(&hk_test_rng, 0, 90);
	unsigned runs = (unsigned)hk_rng_range(&hk_test_rng, 0, 4);
	unsigned lock = (unsigned)HK_MAX(hk_rng_range(&hk_test_rng, 0, 6), 3) - 3;
	uint32_t len = (uint32_t)hk_rng_range(&hk_test_rng, 0, 200), back = 0;
	size_t at = 0;

	for (unsigned i = 0; i < runs; i++)
		at = put_run(at, number(), hk_rng_range(&hk_test_rng, 0, 2) ? 1 : number());
	if (kind > HK_OSC_CAS && hk_rng_range(&hk_test_rng, 0, 3)) /* mostly as real ones are */
		len = runs = 0;
	else if (hk_rng_range(&hk_test_rng, 0, 3))
		len = (uint32_t)at + 8 * runs * (kind == HK_OSC_CAS ? 2 : 1);
	memset(result, 'r', sizeof(result));
	enum hk_rpc_end end = ask(hk_rng_range(&hk_test_rng, 0, RANKS),
				  hk_osc_ask(kind, op, type, runs) | hk_osc_with_lock(lock), len,
				  &back);

	if (end == HK_RPC_DONE)
		CHECK_CMP(back, <=, CALL_MAX);
	for (size_t i = 0; i < GUARD; i++) {
		CHECK_EQ(result[CALL_MAX + i], 'r');
		CHECK_EQ(memory[i], (char)(i * 5 + 1));
		CHECK_EQ(memory[GUARD + WINDOW + i], (char)((GUARD + WINDOW + i) * 5 + 1));
	}
}

TEST(nothing_outside_of_the_window_is_touched)
{
	up(false);
	for (unsigned i = 0; i < 300000; i++) {
		random_call();
		if (hk_rng_range(&hk_test_rng, 0, 3) == 0) /* so that not all wait */
			(void)tell_by(hk_rng_range(&hk_test_rng, 0, RANKS - 1), HK_OSC_UNLOCK);
	}
	CHECK_CMP(replies, >, 1000);
	down();
}

/* A run without elements names no memory, so its offset may be anything. */
TEST(runs_without_elements_are_denied)
{
	const char old[8] = {0}, new[8] = {"written"};
	uint64_t cas = hk_osc_ask(HK_OSC_CAS, 0, index_of(MPI_INT64_T), 2);
	size_t at = put_run(put_run(0, WINDOW, 0), 0, 1);

	up(false);
	memset(memory + GUARD + WINDOW, 0, 8);
	memcpy(args + at, old, 8);
	memcpy(args + at + 8, new, 8);
	CHECK_EQ(ask(0, cas, (uint32_t)at + 16, NULL), HK_RPC_DENIED);
	CHECK_EQ(memory[GUARD + WINDOW], 0);
	at = put_run(0, 0, 0);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	down();
}

TEST(what_is_wrong_is_denied)
{
	size_t at = put_run(0, 0, 8);

	up(false);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_POST, 0, 0, 0), 8, NULL), HK_RPC_DENIED);
	CHECK_EQ(ask(RANKS, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 2), (uint32_t)at, NULL), HK_RPC_DENIED);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_PUT, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	CHECK_EQ(tell(HK_OSC_KINDS), HK_RPC_DENIED);
	CHECK_EQ(tell(HK_OSC_UNLOCK), HK_RPC_DENIED); /* nobody has it */
	at = put_run(0, WINDOW - 7, 8);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	at = 0;
	for (unsigned i = 0; i < CALL_MAX / WINDOW + 1; i++) /* more than a reply holds */
		at = put_run(at, 0, WINDOW);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, CALL_MAX / WINDOW), (uint32_t)at - 16, NULL),
		 HK_RPC_DONE);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, CALL_MAX / WINDOW + 1), (uint32_t)at, NULL),
		 HK_RPC_DENIED);
	at = put_run(0, 0, CALL_MAX + 1);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	down();
}

/* ---- locks ----------------------------------------------------------------------------------- */

TEST(a_lock_is_granted_later)
{
	up(false);
	CHECK_EQ(lock_by(0, HK_OSC_EXCLUSIVE), HK_RPC_DONE);
	CHECK_EQ(lock_by(0, HK_OSC_EXCLUSIVE), HK_RPC_DENIED); /* it has it already */
	CHECK_EQ(lock_by(1, HK_OSC_SHARED), HK_RPC_LATER);
	CHECK_EQ(lock_by(1, HK_OSC_SHARED), HK_RPC_DENIED); /* it waits already */
	CHECK_EQ(lock_by(2, HK_OSC_SHARED), HK_RPC_LATER);
	CHECK_EQ(lock_by(3, HK_OSC_EXCLUSIVE), HK_RPC_LATER);
	CHECK_EQ(tell_by(0, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK_EQ(replies, 2);
	CHECK_EQ(tell_by(0, HK_OSC_UNLOCK), HK_RPC_DENIED); /* others have it */
	CHECK_EQ(tell_by(1, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK_EQ(replies, 2);
	CHECK_EQ(tell_by(2, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK_EQ(replies, 3);
	CHECK_EQ(lock_by(1, HK_OSC_SHARED), HK_RPC_LATER); /* ends with the window */
	down();
}

/* Adds @value to the int64_t at the window's begin, under the exclusive lock. */
static enum hk_rpc_end add_under_lock(uint64_t rank, int64_t value)
{
	size_t at = put_run(0, 0, 1);
	uint64_t operand = hk_osc_ask(HK_OSC_GET_ACC, (unsigned)MPI_SUM->o_f_to_c_index,
				      index_of(MPI_INT64_T), 1);

	memcpy(args + at, &value, 8);
	return ask(rank, operand | hk_osc_with_lock(HK_OSC_EXCLUSIVE), (uint32_t)at + 8, NULL);
}

static int64_t word_at(const char *at)
{
	int64_t word;

	memcpy(&word, at, 8);
	return word;
}

TEST(a_call_is_carried_out_when_it_has_the_lock)
{
	const char *word = memory + GUARD;

	up(false);
	memset(memory + GUARD, 0, 8);
	CHECK_EQ(add_under_lock(0, 1), HK_RPC_DONE);
	CHECK_EQ(word_at(word), 1);
	CHECK_EQ(add_under_lock(1, 10), HK_RPC_LATER);
	CHECK_EQ(add_under_lock(2, 100), HK_RPC_LATER);
	CHECK_EQ(tell_by(1, HK_OSC_UNLOCK), HK_RPC_LATER);
	CHECK_EQ(tell_by(1, HK_OSC_UNLOCK), HK_RPC_DENIED);
	memset(args, 0xff, sizeof(args)); /* the owner has a copy */
	CHECK_EQ(word_at(word), 1);
	CHECK_EQ(tell_by(0, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK_EQ(replies, 3); /* to rank 1 two, and one to rank 2, which has the lock now */
	CHECK_EQ(word_at(word), 111);
	CHECK_EQ(replied.offset, 2);
	CHECK_EQ(replied.operand, 0);
	CHECK_EQ(replied.len, 8);
	CHECK_EQ(word_at(replied_bytes), 11);
	CHECK_EQ(lock_by(0, HK_OSC_SHARED), HK_RPC_LATER);
	CHECK_EQ(tell_by(2, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK_EQ(replies, 4);
	down();
}

TEST(a_call_that_is_denied_has_no_lock)
{
	size_t at = put_run(0, WINDOW, 1);

	up(false);
	CHECK_EQ(ask(1, hk_osc_ask(HK_OSC_GET, 0, 0, 1) | hk_osc_with_lock(HK_OSC_EXCLUSIVE),
		     (uint32_t)at, NULL),
		 HK_RPC_DENIED);
	CHECK_EQ(
		ask(1, hk_osc_ask(HK_OSC_POST, 0, 0, 0) | hk_osc_with_lock(HK_OSC_SHARED), 0, NULL),
		HK_RPC_DENIED);
	CHECK_EQ(ask(1, hk_osc_ask(HK_OSC_LOCK, 0, 0, 0) | UINT64_C(3) << 48, 0, NULL),
		 HK_RPC_DENIED);
	CHECK_EQ(lock_by(2, HK_OSC_EXCLUSIVE), HK_RPC_DONE);
	down();
}

TEST(memory_that_is_detached_before_the_grant_is_refused)
{
	char *a = memory + GUARD;

	up(true);
	CHECK_EQ(hk_osc_attach(&target, a, 16), OMPI_SUCCESS);
	CHECK_EQ(lock_by(0, HK_OSC_EXCLUSIVE), HK_RPC_DONE);
	size_t at = put_run(0, (uintptr_t)a, 8);

	CHECK_EQ(ask(1, hk_osc_ask(HK_OSC_GET, 0, 0, 1) | hk_osc_with_lock(HK_OSC_SHARED),
		     (uint32_t)at, NULL),
		 HK_RPC_LATER);
	CHECK_EQ(hk_osc_detach(&target, a), OMPI_SUCCESS);
	CHECK_EQ(tell_by(0, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK_EQ(replied.operand, HK_OSC_REFUSED);
	CHECK_EQ(replied.len, 0);
	CHECK_EQ(tell_by(1, HK_OSC_UNLOCK), HK_RPC_DONE); /* it has the lock all the same */
	down();
}

/* Calls as the process that has @ep, in the name of @rank. */
static enum hk_rpc_end call_as(char *ep, uint64_t rank)
{
	struct hk_wire_atomic call = {
		.op = HK_ATOMIC_RPC, .offset = rank, .operand = hk_osc_ask(HK_OSC_POST, 0, 0, 0)};
	struct hk_btl_caller caller = {.call = &call, .far = (void *)ep};

	return target.procedure.fn(target.procedure.arg, &caller, args, result);
}

TEST(nobody_calls_in_the_name_of_another_rank)
{
	struct mca_btl_base_endpoint_t *callers[RANKS] = {(void *)&endpoint[0],
							  (void *)&endpoint[1]};

	up(false);
	CHECK_EQ(call_as(&endpoint[0], 0), HK_RPC_DENIED); /* the window is not complete yet */
	target.callers = callers;
	CHECK_EQ(call_as(&endpoint[0], 0), HK_RPC_DONE);
	CHECK_EQ(call_as(&endpoint[1], 1), HK_RPC_DONE);
	CHECK_EQ(call_as(&endpoint[1], 0), HK_RPC_DENIED);
	CHECK_EQ(call_as(&endpoint[1], 2), HK_RPC_DENIED); /* which has no endpoint */
	CHECK_EQ(call_as(&endpoint[1], RANKS), HK_RPC_DENIED);
	down();
}

/* ---- ranks of the owner's node --------------------------------------------------------------- */

static uint64_t cookie(void)
{
	return target.segment.state->cookie;
}

static enum hk_rpc_end near(struct hk_osc_target *t, uint64_t rank, uint64_t operand,
			    bool *must_tell)
{
	struct hk_wire_atomic call = {.op = HK_ATOMIC_RPC, .offset = rank, .operand = operand};
	struct hk_btl_caller caller = {.call = &call};

	return hk_osc_serve(t, &caller, false, args, result, must_tell);
}

static enum hk_rpc_end near_lock(struct hk_osc_target *t, uint64_t rank, enum hk_osc_lock_kind lock,
				 bool *must_tell)
{
	return near(t, rank, hk_osc_ask(HK_OSC_LOCK, 0, 0, 0) | hk_osc_with_lock(lock), must_tell);
}

static enum hk_rpc_end near_unlock(struct hk_osc_target *t, uint64_t rank, bool *must_tell)
{
	return near(t, rank, hk_osc_ask(HK_OSC_UNLOCK, 0, 0, 0), must_tell);
}

/* Rank 1 is of the owner's node and maps its window; rank 2 calls; rank 0 is the owner. */
TEST(ranks_of_the_node_take_the_lock_by_themselves)
{
	struct hk_osc_target mapped;
	const struct hk_osc_rank *waiting;
	bool must_tell;

	replies = 0;
	CHECK_EQ(hk_osc_target_open(&target, &rpc, NULL, WINDOW, false, RANKS, true), OMPI_SUCCESS);
	CHECK(hk_osc_target_map(&mapped, &rpc, target.segment.name, cookie(), true, WINDOW, RANKS));
	hk_osc_segment_unlink(&target.segment);
	CHECK(mapped.base != target.base);
	memset(target.base, 0, 8);
	target.base[WINDOW - 1] = 'x';
	CHECK_EQ(mapped.base[WINDOW - 1], 'x');
	waiting = hk_osc_ranks(mapped.segment.state, RANKS);

	CHECK_EQ(near_lock(&mapped, 1, HK_OSC_EXCLUSIVE, &must_tell), HK_RPC_DONE);
	CHECK_EQ(add_under_lock(2, 10), HK_RPC_LATER);
	CHECK_EQ(near_lock(&target, 0, HK_OSC_SHARED, &must_tell), HK_RPC_LATER);
	CHECK_EQ(near_unlock(&mapped, 1, &must_tell), HK_RPC_DONE);
	CHECK(must_tell && replies == 0); /* rank 2 has it, and only the owner can say so */
	CHECK_EQ(word_at(mapped.base), 0);
	CHECK_EQ(near(&mapped, 1, hk_osc_ask(HK_OSC_GRANT, 0, 0, 0), &must_tell), HK_RPC_DENIED);
	CHECK_EQ(tell_by(1, HK_OSC_GRANT), HK_RPC_DONE);
	CHECK_EQ(replies, 1);
	CHECK_EQ(word_at(mapped.base), 10);
	CHECK_EQ(near_lock(&mapped, 1, HK_OSC_SHARED, &must_tell), HK_RPC_LATER);
	CHECK(!must_tell && !waiting[0].granted && !waiting[1].granted);
	CHECK_EQ(tell_by(2, HK_OSC_UNLOCK), HK_RPC_DONE);
	CHECK(waiting[0].granted && waiting[1].granted && replies == 1);
	hk_osc_target_close(&mapped);
	hk_osc_target_close(&target);
}

/* Rank 2 gives the lock back before the owner knows that it has it. */
TEST(a_lock_given_back_before_the_owner_told_of_it)
{
	struct hk_osc_target mapped;
	bool must_tell;

	replies = 0;
	CHECK_EQ(hk_osc_target_open(&target, &rpc, NULL, WINDOW, false, RANKS, true), OMPI_SUCCESS);
	CHECK(hk_osc_target_map(&mapped, &rpc, target.segment.name, cookie(), true, WINDOW, RANKS));
	hk_osc_segment_unlink(&target.segment);
	memset(target.base, 0, 8);
	CHECK_EQ(near_lock(&mapped, 1, HK_OSC_EXCLUSIVE, &must_tell), HK_RPC_DONE);
	CHECK_EQ(add_under_lock(2, 10), HK_RPC_LATER);
	CHECK_EQ(near_lock(&target, 0, HK_OSC_EXCLUSIVE, &must_tell), HK_RPC_LATER);
	CHECK_EQ(near_unlock(&mapped, 1, &must_tell), HK_RPC_DONE);
	CHECK(must_tell);
	CHECK_EQ(tell_by(2, HK_OSC_UNLOCK), HK_RPC_LATER);
	CHECK_EQ(word_at(target.base), 0);
	CHECK(!hk_osc_ranks(target.segment.state, RANKS)[0].granted);
	CHECK_EQ(tell_by(1, HK_OSC_GRANT), HK_RPC_DONE);
	CHECK_EQ(replies, 2);
	CHECK_EQ(word_at(target.base), 10);
	CHECK(hk_osc_ranks(target.segment.state, RANKS)[0].granted);
	hk_osc_target_close(&mapped);
	hk_osc_target_close(&target);
}

TEST(another_segment_is_not_mapped)
{
	struct hk_osc_target mapped;

	CHECK(!hk_osc_target_map(&mapped, &rpc, "/hikyaku-osc-none", 0, false, 0, RANKS));
	CHECK_EQ(hk_osc_target_open(&target, &rpc, NULL, WINDOW, false, RANKS, true), OMPI_SUCCESS);
	CHECK(!hk_osc_target_map(&mapped, &rpc, target.segment.name, cookie(), true, WINDOW + 1,
				 RANKS));
	CHECK(!hk_osc_target_map(&mapped, &rpc, target.segment.name, cookie() + 1, true, WINDOW,
				 RANKS));
	CHECK(!hk_osc_target_map(&mapped, &rpc, target.segment.name, cookie(), true, SIZE_MAX - 64,
				 RANKS));
	hk_osc_target_close(&target);
}

/* ---- exposure, attached memory --------------------------------------------------------------- */

TEST(exposure_is_counted)
{
	up(false);
	CHECK_EQ(ask(2, hk_osc_ask(HK_OSC_POST, 0, 0, 0), 0, NULL), HK_RPC_DONE);
	CHECK_EQ(tell(HK_OSC_COMPLETE), HK_RPC_DONE);
	CHECK(hk_osc_posted(target.segment.state, RANKS)[2] == 1);
	CHECK(hk_osc_posted(target.segment.state, RANKS)[1] == 0);
	CHECK_EQ(target.segment.state->completed, 1);
	down();
}

TEST(memory_is_attached_and_detached)
{
	char *a = memory + GUARD, *b = memory + GUARD + 512;
	size_t at;

	up(true);
	CHECK_EQ(hk_osc_attach(&target, a, 16), OMPI_SUCCESS);
	CHECK_EQ(hk_osc_attach(&target, b, 16), OMPI_SUCCESS);
	at = put_run(0, (uintptr_t)b + 8, 8);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DONE);
	CHECK(memcmp(result, b + 8, 8) == 0);
	at = put_run(0, (uintptr_t)b + 9, 8);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	CHECK_EQ(hk_osc_attach(&target, b + 16, 16), OMPI_SUCCESS); /* the next piece */
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DONE);
	at = put_run(0, (uintptr_t)b + 8, 25);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	CHECK_EQ(hk_osc_detach(&target, b + 16), OMPI_SUCCESS);
	CHECK_EQ(hk_osc_detach(&target, b), OMPI_SUCCESS);
	CHECK_EQ(hk_osc_detach(&target, b), OMPI_ERR_BASE);
	at = put_run(0, (uintptr_t)b + 8, 8);
	CHECK_EQ(ask(0, hk_osc_ask(HK_OSC_GET, 0, 0, 1), (uint32_t)at, NULL), HK_RPC_DENIED);
	down();
}

/* One rank without daemons, and without anything of a network. */
BEFORE_ALL()
{
	setenv("OMPI_MCA_ess_singleton_isolated", "1", 1);
	setenv("OMPI_MCA_btl", "self", 1);
	CHECK_EQ(MPI_Init(NULL, NULL), MPI_SUCCESS);
}

AFTER_ALL()
{
	MPI_Finalize();
}

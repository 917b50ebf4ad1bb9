/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_procedure.c: procedures that a peer calls, between two workers of one
 * process, over a good wire and a lossy one (tests/support/pair.h). A call that ran twice, or in
 * another order, would give other results.
 */
#include "tests/support/pair.h"

#include "worker/internal.h"

#include <pthread.h>

#define ROOM 16384

struct called {
	struct hk_atomic_op op;
	int status;
	char bytes[ROOM], more[ROOM];
};

/* End A calls procedure @r of B with @len bytes that @c has. */
static void call(struct called *c, hk_region r, uint64_t operand, uint32_t len)
{
	const struct hk_wire_atomic request = {
		.op = HK_ATOMIC_RPC,
		.region = r,
		.len = len,
		.offset = operand * 3,
		.operand = operand,
		.compare = operand * 5,
	};

	/* some in two pieces */
	uint32_t more = operand % 3 == 0 ? 0 : operand % 3 == 1 ? len / 2 : len;
	const struct hk_rpc_bytes bytes = {
		.base = c->bytes, .room = ROOM, .more = c->more, .more_len = more};

	memcpy(c->more, c->bytes + len - more, more);
	memset(c->bytes + len - more, 'x', more);
	c->status = 0;
	CHECK_EQ(hk_worker_call(end[A].w, end[A].peer, &c->op, &request, &bytes, done, &c->status),
		 0);
}

static int result(const struct called *c)
{
	UNTIL(c->status);
	return c->status;
}

/* ---- at once --------------------------------------------------------------------------------- */

static uint64_t last; /* operand */
static struct called of[300];

/* Gives back the arguments from the last to the first, and once more. */
static enum hk_rpc_end mirror(void *arg, struct hk_rpc_caller *caller, const void *args, void *to)
{
	struct hk_wire_atomic *c = &caller->call;
	const char *from = args;

	CHECK_EQ(caller->peer, end[B].peer);
	CHECK(arg == &last);
	CHECK_MSG(c->operand == last + 1, "%llu after %llu", (unsigned long long)c->operand,
		  (unsigned long long)last);
	CHECK_EQ(c->offset, c->operand * 3);
	CHECK_EQ(c->compare, c->operand * 5);
	last = c->operand;
	for (uint32_t i = 0; i < c->len; i++)
		((char *)to)[i] = ((char *)to)[c->len + i] = from[c->len - 1 - i];
	c->operand *= 2;
	c->len *= 2;
	return HK_RPC_DONE;
}

/* More calls than may be in flight: each runs once, and in order. */
EACH_WAY(calls_run_once_and_in_order)
{
	hk_region r = hk_worker_procedure_add(end[B].w, mirror, &last);
	uint32_t most = (uint32_t)hk_worker_atomic_max(end[A].w) / 2;

	CHECK(r != HK_REGION_NONE);
	last = 0;
	for (unsigned i = 0; i < HK_ARRAY_LEN(of); i++) {
		uint32_t len = i % 7 == 0 ? most : i % 40;

		for (uint32_t k = 0; k < len; k++)
			of[i].bytes[k] = (char)(i + k);
		call(&of[i], r, i + 1, len);
	}
	for (unsigned i = 0; i < HK_ARRAY_LEN(of); i++) {
		uint32_t len = i % 7 == 0 ? most : i % 40;

		CHECK_EQ(result(&of[i]), 1);
		CHECK_EQ(of[i].op.old, 2 * (i + 1));
		CHECK_EQ(of[i].op.result, 2 * len);
		for (uint32_t k = 0; k < 2 * len; k++)
			CHECK_EQ(of[i].bytes[k], (char)(i + len - 1 - k % len));
	}
	hk_worker_region_del(end[B].w, r);
}

/* ---- later ----------------------------------------------------------------------------------- */

static struct hk_rpc_caller waiting[HK_ATOMIC_OPS_PER_PEER];
static _Atomic unsigned waiters;

static enum hk_rpc_end wait_in_line(void *arg, struct hk_rpc_caller *caller, const void *args,
				    void *to)
{
	(void)arg;
	(void)args;
	(void)to;
	if (caller->call.operand == 0) { /* lets the first go on */
		struct hk_rpc_caller first = waiting[0];

		if (!waiters)
			return HK_RPC_DENIED;
		waiters--;
		memmove(waiting, waiting + 1, waiters * sizeof(*waiting));
		first.call.len = 0;
		CHECK_EQ(hk_worker_rpc_reply(end[B].w, &first, NULL), 0);
		caller->call.len = 0;
		return HK_RPC_DONE;
	}
	CHECK(waiters < HK_ARRAY_LEN(waiting));
	waiting[waiters] = *caller;
	waiters++;
	return HK_RPC_LATER;
}

EACH_WAY(calls_wait_until_another_one)
{
	hk_region r = hk_worker_procedure_add(end[B].w, wait_in_line, NULL);
	struct called *next = &of[10];

	waiters = 0;
	call(next, r, 0, 0);
	CHECK_EQ(result(next), -EACCES);
	for (unsigned i = 0; i < 3; i++)
		call(&of[i], r, i + 1, 8 * i);
	UNTIL(waiters == 3);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(of[i].status, 0);
		call(next, r, 0, 0);
		CHECK_EQ(result(next), 1);
		CHECK_EQ(result(&of[i]), 1);
		CHECK_EQ(of[i].op.old, i + 1);
	}
	hk_worker_region_del(end[B].w, r);
}

static void *answer_all(void *arg)
{
	for (unsigned i = 0; i < waiters; i++) {
		waiting[i].call.operand += 100;
		waiting[i].call.len = 5;
		CHECK_EQ(hk_worker_rpc_reply(end[B].w, &waiting[i], "later"), 0);
	}
	return arg;
}

/* As many as may be in flight wait, and another thread answers them. */
EACH_WAY(another_thread_answers)
{
	hk_region r = hk_worker_procedure_add(end[B].w, wait_in_line, NULL);
	pthread_t thread;
	unsigned n = HK_ATOMIC_OPS_PER_PEER;

	waiters = 0;
	for (unsigned i = 0; i < n; i++)
		call(&of[i], r, i + 1, 1);
	UNTIL(waiters == n);
	CHECK_EQ(pthread_create(&thread, NULL, answer_all, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		CHECK_EQ(result(&of[i]), 1);
		CHECK_EQ(of[i].op.old, i + 101);
		CHECK_EQ(of[i].op.result, 5);
		CHECK(memcmp(of[i].bytes, "later", 5) == 0);
	}
	pthread_join(thread, NULL);
	hk_worker_region_del(end[B].w, r);
}

/* B's application polls, replies, and then computes. Its RMA proxy sends the reply. */
static void owner_leaves_a_reply(void)
{
	hk_region r = hk_worker_procedure_add(end[B].w, wait_in_line, NULL);
	struct called *c = &of[0];
	unsigned rounds = 0;

	CHECK_OK(hk_worker_share(end[B].w, ERR));
	CHECK_OK(hk_worker_rma_proxy_start(end[B].w, ERR));
	waiters = 0;
	call(c, r, 1, 0);
	UNTIL(waiters == 1);
	waiting[0].call.len = 0;
	hk_worker_progress(end[B].w);
	CHECK_EQ(hk_worker_rpc_reply(end[B].w, &waiting[0], NULL), 0);
	while (!c->status) {
		hk_worker_progress(end[A].w);
		(void)hk_worker_proxy_poll(end[B].w, rte_rdtsc());
		CHECK_MSG(rounds++ < ROUNDS, "nobody sends the reply");
	}
	CHECK_EQ(c->status, 1);
	hk_worker_thread_stop(end[B].w);
	hk_worker_region_del(end[B].w, r);
}

TEST(a_reply_leaves_without_the_application)
{
	once("", owner_leaves_a_reply);
}

/* ---- refused --------------------------------------------------------------------------------- */

EACH_WAY(what_is_no_procedure_is_not_called)
{
	static char memory[64];
	hk_region gone = hk_worker_procedure_add(end[B].w, mirror, &last),
		  plain = hk_worker_region_add(end[B].w, memory, sizeof(memory),
					       HK_REGION_READ | HK_REGION_WRITE, HK_PEER_NONE),
		  procedure = hk_worker_procedure_add(end[B].w, mirror, &last);
	const struct hk_wire_atomic read = {.op = HK_ATOMIC_READ, .region = procedure, .len = 8};
	struct called *c = &of[0];

	hk_worker_region_del(end[B].w, gone);
	call(c, gone, 1, 0);
	CHECK_EQ(result(c), -EACCES);
	call(c, plain, 1, 0);
	CHECK_EQ(result(c), -EACCES);
	call(c, HK_REGION_NONE, 1, 0);
	CHECK_EQ(result(c), -EACCES);
	c->status = 0; /* and a procedure has no memory */
	CHECK_EQ(hk_worker_atomic(end[A].w, end[A].peer, &c->op, &read, c->bytes, done, &c->status),
		 0);
	CHECK_EQ(result(c), -EACCES);
	hk_worker_region_del(end[B].w, plain);
	hk_worker_region_del(end[B].w, procedure);
}

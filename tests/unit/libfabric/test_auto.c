/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_auto.c: operations on an endpoint whose program calls nothing
 * (FI_PROGRESS_AUTO). The initiator polls.
 */
#include "ends.h"

#include "base/clock.h"

#include <pthread.h>
#include <rdma/fi_atomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE    200000u
#define MANY     100
#define LIMIT_MS 20000

static char own[LARGE], theirs[LARGE];
static _Alignas(16) int64_t words[2];

/* In a process of its own, since a parameter is read once. */
TEST(not_without_a_thread)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		struct fi_info *hints = fi_allocinfo(), *info;

		setenv("FI_HIKYAKU_PROGRESS_THREAD", "0", 1);
		hints->fabric_attr->prov_name = strdup("hikyaku");
		int manual = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);

		hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
		int automatic = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);

		_exit(manual == 0 && automatic == -FI_ENODATA ? 0 : 1);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void open_ends(struct ends *e)
{
	ends_set_progress(FI_PROGRESS_AUTO);
	ends_open_with(e, 0, FI_DELIVERY_COMPLETE);
	CHECK_EQ(e->b.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	memset(words, 0, sizeof(words));
}

/* Waits for a completion of @at, and calls nothing of the other end. */
static struct fi_cq_tagged_entry await(struct end *at)
{
	int64_t end = hk_clock_ms() + LIMIT_MS;
	struct fi_cq_tagged_entry got;
	ssize_t n;

	while ((n = fi_cq_read(at->cq, &got, 1)) == -FI_EAGAIN)
		CHECK(hk_clock_ms() < end);
	CHECK_EQ(n, 1);
	return got;
}

TEST(atomic_operations)
{
	struct ends e;
	struct region r;
	int64_t one = 1, old;

	open_ends(&e);
	r = end_region(&e.b, words, sizeof(words), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (int64_t i = 0; i < MANY; i++) {
		FI_OK(fi_fetch_atomic(e.a.ep, &one, 1, NULL, &old, NULL, e.a.peer, r.base, r.key,
				      FI_INT64, FI_SUM, NULL));
		CHECK_EQ(await(&e.a).flags, FI_ATOMIC | FI_READ);
		CHECK_EQ(old, i);
	}
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

TEST(messages_into_posted_buffers)
{
	static const size_t sizes[] = {8, LARGE};
	struct ends e;

	open_ends(&e);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		memset(own, (int)i + 1, sizes[i]);
		FI_OK(fi_trecv(e.b.ep, theirs, sizes[i], NULL, e.b.peer, 5, 0, &e));
		FI_OK(fi_tsend(e.a.ep, own, sizes[i], NULL, e.a.peer, 5, NULL));
		CHECK_EQ(await(&e.a).flags, FI_SEND | FI_TAGGED);
		CHECK(memcmp(own, theirs, sizes[i]) == 0);
		CHECK(await(&e.b).op_context == &e);
	}
	ends_close(&e);
}

/* A program whose thread sleeps is woken, although another thread has taken the frame. */
TEST(a_sleeper_wakes)
{
	struct ends e;
	struct fi_cq_tagged_entry got;

	open_ends(&e);
	(void)end_sleeps(&e.b, FI_WAIT_FD);
	for (unsigned i = 0; i < 20; i++) {
		FI_OK(fi_trecv(e.b.ep, theirs, 8, NULL, e.b.peer, 5, 0, NULL));
		FI_OK(fi_tsend(e.a.ep, own, 8, NULL, e.a.peer, 5, NULL));
		CHECK_EQ(fi_cq_sread(e.b.cq, &got, 1, NULL, LIMIT_MS), 1);
		CHECK_EQ(await(&e.a).flags, FI_SEND | FI_TAGGED);
	}
	ends_close(&e);
}

struct adder {
	struct ends *e;
	struct region r;
};

static void *add_to_b(void *arg)
{
	const struct adder *a = arg;
	int64_t one = 1, old;

	for (unsigned i = 0; i < 10 * MANY; i++) {
		FI_OK(fi_fetch_atomic(a->e->a.ep, &one, 1, NULL, &old, NULL, a->e->a.peer,
				      a->r.base, a->r.key, FI_INT64, FI_SUM, NULL));
		(void)await(&a->e->a);
	}
	return NULL;
}

/* The owner calls, too. The domain has a lock, although its program asks for FI_THREAD_DOMAIN. */
TEST(the_owner_polls_as_well)
{
	struct ends e;
	struct adder a = {.e = &e};
	int64_t one = 1, old;
	pthread_t thread;

	open_ends(&e);
	a.r = end_region(&e.b, words, sizeof(words), FI_REMOTE_READ | FI_REMOTE_WRITE);
	CHECK_EQ(pthread_create(&thread, NULL, add_to_b, &a), 0);
	for (unsigned i = 0; i < MANY; i++) {
		FI_OK(fi_fetch_atomic(e.b.ep, &one, 1, NULL, &old, NULL, e.b.self, a.r.base,
				      a.r.key, FI_INT64, FI_SUM, NULL));
		(void)await(&e.b);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(words[0], 11 * MANY);
	FI_OK(fi_close(&a.r.mr->fid));
	ends_close(&e);
}

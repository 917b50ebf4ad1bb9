/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_events.c: counters of what peers do to the memory of an endpoint
 * (FI_RMA_EVENT).
 */
#include "ends.h"

#include "base/clock.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <string.h>

#define LARGE    100000u
#define CAPS     (FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT)
#define LIMIT_MS 20000

static char own[LARGE];
static _Alignas(16) char theirs[LARGE];

/* An endpoint, its counters, and two regions of the same memory, one of which has a counter. */
struct target {
	struct end *at;
	struct fid_cntr *reads, *writes, *changes;
	struct region counted, plain;
};

/* Replaces the endpoint of @at by one with counters. */
static void open_target(struct target *t, struct end *at)
{
	struct fi_cntr_attr attr = {0};

	*t = (struct target){.at = at};
	FI_OK(fi_cntr_open(at->domain, &attr, &t->reads, NULL));
	FI_OK(fi_cntr_open(at->domain, &attr, &t->writes, NULL));
	FI_OK(fi_cntr_open(at->domain, &attr, &t->changes, NULL));
	FI_OK(fi_close(&at->ep->fid));
	FI_OK(fi_endpoint(at->domain, at->info, &at->ep, NULL));
	FI_OK(fi_ep_bind(at->ep, &at->av->fid, 0));
	FI_OK(fi_ep_bind(at->ep, &at->cq->fid, FI_TRANSMIT | FI_RECV));
	FI_OK(fi_ep_bind(at->ep, &t->reads->fid, FI_REMOTE_READ));
	FI_OK(fi_ep_bind(at->ep, &t->writes->fid, FI_REMOTE_WRITE));
	CHECK_EQ(fi_ep_bind(at->ep, &t->writes->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	FI_OK(fi_enable(at->ep));
	t->counted = end_region(at, theirs, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	t->plain = end_region(at, theirs, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	FI_OK(fi_mr_bind(t->counted.mr, &t->changes->fid, FI_REMOTE_WRITE));
	CHECK_EQ(fi_mr_bind(t->counted.mr, &t->changes->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	CHECK_EQ(fi_mr_bind(t->plain.mr, &t->changes->fid, FI_REMOTE_READ), -FI_EINVAL);
	CHECK_EQ(fi_mr_bind(t->plain.mr, &at->ep->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	CHECK_EQ(fi_close(&t->changes->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&t->writes->fid), -FI_EBUSY);
}

static void close_target(struct target *t)
{
	FI_OK(fi_close(&t->plain.mr->fid));
	FI_OK(fi_close(&t->counted.mr->fid));
	FI_OK(fi_close(&t->changes->fid));
	FI_OK(fi_close(&t->at->ep->fid));
	FI_OK(fi_close(&t->reads->fid));
	FI_OK(fi_close(&t->writes->fid));
	FI_OK(fi_endpoint(t->at->domain, t->at->info, &t->at->ep, NULL)); /* for ends_close() */
}

/* The counters reach these values, and no others. */
static void expect(struct ends *e, const struct target *t, uint64_t reads, uint64_t writes,
		   uint64_t changes)
{
	int64_t end = hk_clock_ms() + LIMIT_MS;

	while (fi_cntr_read(t->reads) < reads || fi_cntr_read(t->writes) < writes ||
	       fi_cntr_read(t->changes) < changes) {
		(void)fi_cq_read(e->a.cq, NULL, 0);
		CHECK(hk_clock_ms() < end);
	}
	ends_rest_of(e, &e->b);
	CHECK_EQ(fi_cntr_read(t->reads), reads);
	CHECK_EQ(fi_cntr_read(t->writes), writes);
	CHECK_EQ(fi_cntr_read(t->changes), changes);
}

/* Carries out one operation of each kind on @r, and waits for their completions. */
static void one_of_each(struct ends *e, const struct region *r, fi_addr_t to)
{
	int64_t v = 1, old;

	FI_OK(fi_write(e->a.ep, own, 8, NULL, to, r->base, r->key, NULL));
	FI_OK(fi_write(e->a.ep, own, LARGE, NULL, to, r->base, r->key, NULL));
	FI_OK(fi_inject_write(e->a.ep, own, 8, to, r->base, r->key));
	FI_OK(fi_read(e->a.ep, own, 8, NULL, to, r->base, r->key, NULL));
	FI_OK(fi_read(e->a.ep, own, LARGE, NULL, to, r->base, r->key, NULL));
	FI_OK(fi_atomic(e->a.ep, &v, 1, NULL, to, r->base, r->key, FI_INT64, FI_SUM, NULL));
	FI_OK(fi_fetch_atomic(e->a.ep, &v, 1, NULL, &old, NULL, to, r->base, r->key, FI_INT64,
			      FI_SUM, NULL));
	FI_OK(fi_fetch_atomic(e->a.ep, NULL, 1, NULL, &old, NULL, to, r->base, r->key, FI_INT64,
			      FI_ATOMIC_READ, NULL));
	FI_OK(fi_compare_atomic(e->a.ep, &v, 1, NULL, &v, NULL, &old, NULL, to, r->base, r->key,
				FI_INT64, FI_CSWAP, NULL));
	for (unsigned i = 0; i < 8; i++)
		(void)ends_wait(e, &e->a);
}

TEST(operations_of_a_peer)
{
	struct ends e;
	struct target t;

	ends_open_with(&e, CAPS, 0);
	open_target(&t, &e.b);
	one_of_each(&e, &t.counted, e.a.peer);
	expect(&e, &t, 5, 4, 6);
	one_of_each(&e, &t.plain, e.a.peer);
	expect(&e, &t, 10, 8, 6);
	close_target(&t);
	ends_close(&e);
}

TEST(operations_on_ones_own_memory)
{
	struct ends e;
	struct target t;

	ends_open_with(&e, CAPS, 0);
	open_target(&t, &e.a);
	one_of_each(&e, &t.counted, e.a.self);
	expect(&e, &t, 5, 4, 6);
	close_target(&t);
	ends_close(&e);
}

/* The bytes of a write that is counted are in place. */
TEST(a_counted_write_is_complete)
{
	static const size_t sizes[] = {1, 1000, LARGE};
	struct ends e;
	struct target t;

	ends_open_with(&e, CAPS, 0);
	open_target(&t, &e.b);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		int64_t end = hk_clock_ms() + LIMIT_MS;

		memset(own, (int)i + 1, LARGE);
		FI_OK(fi_write(e.a.ep, own, sizes[i], NULL, e.a.peer, t.counted.base, t.counted.key,
			       NULL));
		while (fi_cntr_read(t.changes) <= i) {
			(void)fi_cq_read(e.a.cq, NULL, 0);
			CHECK(hk_clock_ms() < end);
		}
		CHECK(memcmp(own, theirs, sizes[i]) == 0);
		(void)ends_wait(&e, &e.a);
	}
	close_target(&t);
	ends_close(&e);
}

TEST(what_is_refused_is_not_counted)
{
	struct ends e;
	struct target t;
	int64_t v = 1;

	ends_open_with(&e, CAPS, 0);
	open_target(&t, &e.b);
	FI_OK(fi_write(e.a.ep, own, 8, NULL, e.a.peer, t.counted.base + LARGE, t.counted.key,
		       NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	FI_OK(fi_read(e.a.ep, own, 8, NULL, e.a.peer, t.counted.base + LARGE, t.counted.key, NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	FI_OK(fi_atomic(e.a.ep, &v, 1, NULL, e.a.peer, t.counted.base + 4, t.counted.key, FI_INT64,
			FI_SUM, NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EINVAL);
	expect(&e, &t, 0, 0, 0);
	CHECK_EQ(fi_cntr_readerr(t.writes), 0);
	close_target(&t);
	ends_close(&e);
}

/* Data and the count of one write come together. */
TEST(a_counted_write_with_data)
{
	struct ends e;
	struct target t;

	ends_open_with(&e, CAPS, 0);
	open_target(&t, &e.b);
	FI_OK(fi_writedata(e.a.ep, own, 8, NULL, 77, e.a.peer, t.plain.base, t.plain.key, NULL));
	CHECK_EQ(ends_wait(&e, &e.b).data, 77);
	CHECK_EQ(fi_cntr_read(t.writes), 1);
	(void)ends_wait(&e, &e.a);
	close_target(&t);
	ends_close(&e);
}

/* fi_endpoint(3): such a counter needs the capability. A program that asks for nothing lacks it. */
TEST(without_the_capability)
{
	struct ends e;
	struct fi_cntr_attr attr = {0};
	struct fid_cntr *c;

	ends_open(&e);
	CHECK_EQ(e.a.info->caps & FI_RMA_EVENT, 0);
	FI_OK(fi_close(&e.a.ep->fid));
	FI_OK(fi_endpoint(e.a.domain, e.a.info, &e.a.ep, NULL));
	FI_OK(fi_cntr_open(e.a.domain, &attr, &c, NULL));
	CHECK_EQ(fi_ep_bind(e.a.ep, &c->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	CHECK_EQ(fi_ep_bind(e.a.ep, &c->fid, FI_REMOTE_READ), -FI_EINVAL);
	FI_OK(fi_close(&c->fid));
	ends_close(&e);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_atomic.c: atomic operations on another endpoint's memory, and on one's
 * own. test_atomic_ops.c has the arithmetic.
 */
#include "ends.h"

#include <rdma/fi_atomic.h>
#include <string.h>

static _Alignas(16) char theirs[8192];

static struct region reg(struct end *e, uint64_t access)
{
	return end_region(e, theirs, sizeof(theirs), access);
}

static struct region open_both(struct ends *e)
{
	ends_open(e);
	memset(theirs, 0, sizeof(theirs));
	return reg(&e->b, FI_REMOTE_READ | FI_REMOTE_WRITE);
}

static void close_both(struct ends *e, struct region *r)
{
	FI_OK(fi_close(&r->mr->fid));
	ends_close(e);
}

static void done(struct ends *e, uint64_t kind, const void *context)
{
	struct fi_cq_tagged_entry got = ends_wait(e, &e->a);

	CHECK_EQ(got.flags, FI_ATOMIC | kind);
	CHECK(got.op_context == context);
}

static int64_t at(size_t i)
{
	int64_t v;

	memcpy(&v, theirs + 8 * i, sizeof(v));
	return v;
}

TEST(base_fetch_and_compare)
{
	struct ends e;
	struct region r = open_both(&e);
	int64_t v[2] = {5, -7}, old[2] = {0}, compare[2] = {6, 6};

	FI_OK(fi_atomic(e.a.ep, v, 2, NULL, e.a.peer, r.base + 8, r.key, FI_INT64, FI_SUM, &e));
	done(&e, FI_WRITE, &e);
	CHECK(at(0) == 0 && at(1) == 5 && at(2) == -7);
	v[0] = 1;
	FI_OK(fi_fetch_atomic(e.a.ep, v, 1, NULL, old, NULL, e.a.peer, r.base + 8, r.key, FI_INT64,
			      FI_SUM, &r));
	done(&e, FI_READ, &r);
	CHECK(old[0] == 5 && at(1) == 6);
	FI_OK(fi_fetch_atomic(e.a.ep, NULL, 2, NULL, old, NULL, e.a.peer, r.base + 8, r.key,
			      FI_INT64, FI_ATOMIC_READ, &r));
	done(&e, FI_READ, &r);
	CHECK(old[0] == 6 && old[1] == -7);
	v[0] = v[1] = 100;
	FI_OK(fi_compare_atomic(e.a.ep, v, 2, NULL, compare, NULL, old, NULL, e.a.peer, r.base + 8,
				r.key, FI_INT64, FI_CSWAP, NULL));
	done(&e, FI_READ, NULL);
	CHECK(at(1) == 100 && at(2) == -7 && old[0] == 6 && old[1] == -7);
	close_both(&e, &r);
}

/* Are the elements equal? The last bytes of a part of 16 bytes may be unused: those of a long
 * double. */
static bool same(const char *a, const char *b, size_t count, size_t size)
{
	bool equal = true;

	for (size_t i = 0; i < count * size; i += HK_MIN(size, 16u))
		equal = equal && memcmp(a + i, b + i, HK_MIN(size, 10u)) == 0;
	return equal;
}

/* As many elements as one operation takes, of each type. */
TEST(as_many_elements_as_the_query_says)
{
	static char values[4096], compare[4096], old[4096];
	struct ends e;
	struct region r = open_both(&e);

	for (unsigned type = 0; type <= FI_UINT128; type++) {
		struct fi_atomic_attr attr;
		size_t count;

		FI_OK(fi_query_atomic(e.a.domain, type, FI_ATOMIC_WRITE, &attr, 0));
		FI_OK(fi_atomicvalid(e.a.ep, type, FI_ATOMIC_WRITE, &count));
		CHECK_EQ(attr.count, count);
		memset(theirs, 0, sizeof(theirs));
		memset(values, 0, sizeof(values));
		for (size_t i = 0; i < count * attr.size; i += attr.size)
			values[i] = 1; /* no NaN, no padding */
		FI_OK(fi_atomic(e.a.ep, values, count, NULL, e.a.peer, r.base, r.key, type,
				FI_ATOMIC_WRITE, NULL));
		done(&e, FI_WRITE, NULL);
		CHECK(same(theirs, values, count, attr.size));
		CHECK_EQ(fi_atomic(e.a.ep, values, count + 1, NULL, e.a.peer, r.base, r.key, type,
				   FI_ATOMIC_WRITE, NULL),
			 -FI_EMSGSIZE);
		FI_OK(fi_fetch_atomicvalid(e.a.ep, type, FI_ATOMIC_READ, &count));
		memset(old, 0, sizeof(old));
		FI_OK(fi_fetch_atomic(e.a.ep, NULL, count, NULL, old, NULL, e.a.peer, r.base, r.key,
				      type, FI_ATOMIC_READ, NULL));
		done(&e, FI_READ, NULL);
		CHECK(same(old, values, count, attr.size));
		FI_OK(fi_compare_atomicvalid(e.a.ep, type, FI_CSWAP, &count));
		memcpy(compare, values, sizeof(compare));
		memset(values, 0, sizeof(values));
		FI_OK(fi_compare_atomic(e.a.ep, values, count, NULL, compare, NULL, old, NULL,
					e.a.peer, r.base, r.key, type, FI_CSWAP, NULL));
		done(&e, FI_READ, NULL);
		CHECK(same(theirs, values, count, attr.size));
		CHECK(same(old, compare, count, attr.size));
	}
	close_both(&e, &r);
}

TEST(several_pieces)
{
	struct ends e;
	struct region r = open_both(&e);
	uint32_t v[4] = {1, 2, 3, 4}, c[4] = {0, 0, 9, 0}, old[4] = {7, 7, 7, 7};
	struct fi_ioc iov[3] = {{v, 1}, {v + 1, 0}, {v + 1, 3}}, in[2] = {{old + 1, 3}, {old, 1}};
	struct fi_ioc compare[2] = {{c, 2}, {c + 2, 2}};

	FI_OK(fi_atomicv(e.a.ep, iov, NULL, 3, e.a.peer, r.base, r.key, FI_UINT32, FI_MAX, NULL));
	done(&e, FI_WRITE, NULL);
	FI_OK(fi_fetch_atomicv(e.a.ep, iov, NULL, 3, in, NULL, 2, e.a.peer, r.base, r.key,
			       FI_UINT32, FI_SUM, NULL));
	done(&e, FI_READ, NULL);
	CHECK(old[1] == 1 && old[2] == 2 && old[3] == 3 && old[0] == 4);
	FI_OK(fi_fetch_atomicv(e.a.ep, NULL, NULL, 0, in, NULL, 2, e.a.peer, r.base, r.key,
			       FI_UINT32, FI_ATOMIC_READ, NULL));
	done(&e, FI_READ, NULL);
	CHECK(old[1] == 2 && old[2] == 4 && old[3] == 6 && old[0] == 8);
	FI_OK(fi_compare_atomicv(e.a.ep, iov, NULL, 3, compare, NULL, 2, in, NULL, 2, e.a.peer,
				 r.base, r.key, FI_UINT32, FI_CSWAP_GT, NULL));
	done(&e, FI_READ, NULL);
	CHECK(((uint32_t *)(void *)theirs)[2] == 3 && ((uint32_t *)(void *)theirs)[3] == 8);
	/* results of another length */
	CHECK_EQ(fi_fetch_atomicv(e.a.ep, iov, NULL, 3, in, NULL, 1, e.a.peer, r.base, r.key,
				  FI_UINT32, FI_SUM, NULL),
		 -FI_EINVAL);
	close_both(&e, &r);
}

TEST(an_operation_that_tells_the_peer)
{
	struct ends e;
	struct region r = open_both(&e);
	int64_t v = 3;
	struct fi_ioc ioc = {&v, 1};
	struct fi_rma_ioc there = {.addr = r.base + 16, .count = 1, .key = r.key};
	struct fi_msg_atomic m = {.msg_iov = &ioc,
				  .iov_count = 1,
				  .addr = e.a.peer,
				  .rma_iov = &there,
				  .rma_iov_count = 1,
				  .datatype = FI_INT64,
				  .op = FI_SUM,
				  .context = &v,
				  .data = 77};
	struct fi_cq_tagged_entry got;

	for (unsigned i = 0; i < 2; i++) { /* the peer, then ourselves */
		FI_OK(fi_atomicmsg(e.a.ep, &m, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE));
		got = ends_wait(&e, i ? &e.a : &e.b);
		CHECK_EQ(got.flags, FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		CHECK_EQ(got.data, 77);
		CHECK_EQ(at(2), 3 * (i + 1));
		done(&e, FI_WRITE, &v);
		if (i == 0) {
			FI_OK(fi_close(&r.mr->fid));
			r = reg(&e.a, FI_REMOTE_WRITE);
			there.key = r.key;
			there.addr = r.base + 16;
			m.addr = e.a.self;
		}
	}
	close_both(&e, &r);
}

TEST(ones_own_memory)
{
	struct ends e;
	struct region r;
	double v = 2.5, old = 0;

	ends_open(&e);
	memset(theirs, 0, sizeof(theirs));
	r = reg(&e.a, FI_REMOTE_READ | FI_REMOTE_WRITE);
	FI_OK(fi_fetch_atomic(e.a.ep, &v, 1, NULL, &old, NULL, e.a.self, r.base + 8, r.key,
			      FI_DOUBLE, FI_SUM, NULL));
	done(&e, FI_READ, NULL);
	FI_OK(fi_fetch_atomic(e.a.ep, &v, 1, NULL, &old, NULL, e.a.self, r.base + 8, r.key,
			      FI_DOUBLE, FI_PROD, NULL));
	done(&e, FI_READ, NULL);
	memcpy(&v, theirs + 8, sizeof(v));
	CHECK(old == 2.5 && v == 6.25);
	FI_OK(fi_inject_atomic(e.a.ep, &v, 1, e.a.self, r.base + sizeof(theirs), r.key, FI_DOUBLE,
			       FI_SUM));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	close_both(&e, &r);
}

/* Operations of one endpoint on one word are carried out in the order of their calls. */
TEST(operations_in_their_order)
{
	struct ends e;
	struct region r = open_both(&e);
	int64_t old[200], thousand = 1000;

	for (int64_t i = 0; i < 200; i++) {
		ssize_t rc;

		while ((rc = fi_fetch_atomic(e.a.ep, &i, 1, NULL, &old[i], NULL, e.a.peer, r.base,
					     r.key, FI_INT64, FI_ATOMIC_WRITE, NULL)) == -FI_EAGAIN)
			(void)fi_cq_read(e.b.cq, NULL, 0);
		FI_OK(rc);
		while ((rc = fi_inject_atomic(e.a.ep, &thousand, 1, e.a.peer, r.base, r.key,
					      FI_INT64, FI_SUM)) == -FI_EAGAIN)
			(void)fi_cq_read(e.b.cq, NULL, 0);
		FI_OK(rc);
	}
	for (unsigned i = 0; i < 200; i++)
		done(&e, FI_READ, NULL);
	ends_rest(&e); /* what is injected has no completion */
	for (int64_t i = 1; i < 200; i++)
		CHECK_EQ(old[i], i - 1 + 1000);
	CHECK_EQ(at(0), 199 + 1000);
	close_both(&e, &r);
}

static void refused(struct ends *e, uint64_t where, uint64_t key, bool fetch, enum fi_op op,
		    int error)
{
	int64_t v[2] = {1, 1}, old[2];
	struct fi_cq_err_entry got;

	if (fetch)
		FI_OK(fi_fetch_atomic(e->a.ep, v, 2, NULL, old, NULL, e->a.peer, where, key,
				      FI_INT64, op, &v));
	else
		FI_OK(fi_atomic(e->a.ep, v, 2, NULL, e->a.peer, where, key, FI_INT64, op, &v));
	got = ends_wait_error(e, &e->a);
	CHECK_EQ(got.err, error);
	CHECK_EQ(got.flags, FI_ATOMIC | (fetch ? FI_READ : FI_WRITE));
	CHECK(got.op_context == &v);
	CHECK(got.err_data_size > 0); /* the peer's name */
}

TEST(what_the_owner_does_not_permit)
{
	struct ends e;
	struct region both = open_both(&e), reads = reg(&e.b, FI_REMOTE_READ);
	struct region writes = reg(&e.b, FI_REMOTE_WRITE);
	int64_t v = 0;

	refused(&e, reads.base, reads.key, false, FI_SUM, FI_EACCES);
	refused(&e, reads.base, reads.key, true, FI_SUM, FI_EACCES);
	refused(&e, writes.base, writes.key, true, FI_SUM, FI_EACCES);
	refused(&e, writes.base, writes.key, true, FI_ATOMIC_READ, FI_EACCES);
	refused(&e, both.base + sizeof(theirs) - 8, both.key, true, FI_SUM, FI_EACCES);
	refused(&e, both.base + UINT64_MAX - 7, both.key, false, FI_SUM, FI_EACCES);
	refused(&e, both.base + 4, both.key, false, FI_SUM, FI_EINVAL); /* not aligned */
	refused(&e, 0, UINT64_C(1) << 40, false, FI_SUM, FI_EACCES);
	for (size_t i = 0; i < sizeof(theirs); i++)
		CHECK_EQ(theirs[i], 0);
	FI_OK(fi_fetch_atomic(e.a.ep, NULL, 1, NULL, &v, NULL, e.a.peer, reads.base, reads.key,
			      FI_INT64, FI_ATOMIC_READ, NULL));
	done(&e, FI_READ, NULL);
	FI_OK(fi_atomic(e.a.ep, &v, 1, NULL, e.a.peer, writes.base, writes.key, FI_INT64, FI_SUM,
			NULL));
	done(&e, FI_WRITE, NULL);
	FI_OK(fi_close(&reads.mr->fid));
	refused(&e, reads.base, reads.key, true, FI_ATOMIC_READ, FI_EACCES); /* it is gone */
	FI_OK(fi_close(&writes.mr->fid));
	close_both(&e, &both);
}

TEST(calls_that_are_wrong)
{
	struct ends e;
	struct region r = open_both(&e);
	struct fi_atomic_attr attr;
	float v[600] = {0};
	size_t count;

	CHECK_EQ(fi_atomicvalid(e.a.ep, FI_FLOAT, FI_BOR, &count), -FI_EOPNOTSUPP);
	CHECK_EQ(fi_atomicvalid(e.a.ep, FI_FLOAT, FI_ATOMIC_READ, &count), -FI_EOPNOTSUPP);
	CHECK_EQ(fi_compare_atomicvalid(e.a.ep, FI_FLOAT, FI_SUM, &count), -FI_EOPNOTSUPP);
	CHECK_EQ(fi_fetch_atomicvalid(e.a.ep, FI_FLOAT, FI_CSWAP, &count), -FI_EOPNOTSUPP);
	CHECK_EQ(fi_query_atomic(e.a.domain, FI_FLOAT, FI_SUM, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
	CHECK_EQ(fi_query_atomic(e.a.domain, FI_FLOAT, FI_SUM, &attr,
				 FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
		 -FI_EINVAL);
	CHECK_EQ(fi_atomic(e.a.ep, v, 1, NULL, e.a.peer, r.base, r.key, FI_FLOAT, FI_BOR, NULL),
		 -FI_EOPNOTSUPP);
	CHECK_EQ(fi_atomic(e.a.ep, v, 0, NULL, e.a.peer, r.base, r.key, FI_FLOAT, FI_SUM, NULL),
		 -FI_EINVAL);
	CHECK_EQ(fi_atomic(e.a.ep, v, 1, NULL, 12345, r.base, r.key, FI_FLOAT, FI_SUM, NULL),
		 -FI_EINVAL);
	CHECK_EQ(fi_inject_atomic(e.a.ep, v, 300, e.a.peer, r.base, r.key, FI_FLOAT, FI_SUM),
		 -FI_EINVAL);
	close_both(&e, &r);
}

/* Counters, and an endpoint that reports only what it is asked to. */
TEST(counters_and_selective_completion)
{
	struct ends e;
	struct region r = open_both(&e);
	struct fi_cntr_attr attr = {0};
	struct fid_cntr *reads, *writes;
	struct fid_ep *ep;
	struct fi_cq_tagged_entry got;
	int64_t v = 1, old;
	struct fi_ioc ioc = {&v, 1}, result = {&old, 1};
	struct fi_rma_ioc there = {.addr = r.base, .count = 1, .key = r.key};
	struct fi_msg_atomic m = {.msg_iov = &ioc,
				  .iov_count = 1,
				  .addr = e.a.peer,
				  .rma_iov = &there,
				  .rma_iov_count = 1,
				  .datatype = FI_INT64,
				  .op = FI_SUM,
				  .context = &v};

	FI_OK(fi_cntr_open(e.a.domain, &attr, &reads, NULL));
	FI_OK(fi_cntr_open(e.a.domain, &attr, &writes, NULL));
	FI_OK(fi_endpoint(e.a.domain, e.a.info, &ep, NULL));
	FI_OK(fi_ep_bind(ep, &e.a.av->fid, 0));
	FI_OK(fi_ep_bind(ep, &e.a.cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
	FI_OK(fi_ep_bind(ep, &reads->fid, FI_READ));
	FI_OK(fi_ep_bind(ep, &writes->fid, FI_WRITE));
	FI_OK(fi_enable(ep));
	FI_OK(fi_atomicmsg(ep, &m, 0));
	FI_OK(fi_fetch_atomicmsg(ep, &m, &result, NULL, 1, FI_INJECT));
	m.op = FI_CSWAP;
	FI_OK(fi_compare_atomicmsg(ep, &m, &ioc, NULL, 1, &result, NULL, 1, FI_COMPLETION));
	FI_OK(fi_inject_atomic(ep, &v, 1, e.a.peer, r.base + 8, r.key, FI_INT64, FI_SUM));
	got = ends_wait(&e, &e.a);
	CHECK(got.op_context == &v && got.flags == (FI_ATOMIC | FI_READ));
	while (fi_cntr_read(writes) < 2)
		(void)fi_cq_read(e.b.cq, NULL, 0);
	CHECK_EQ(fi_cntr_read(reads), 2);
	ends_rest(&e);
	m.op = FI_SUM;
	there.addr = r.base + 4;
	FI_OK(fi_atomicmsg(ep, &m, 0));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EINVAL);
	CHECK_EQ(fi_cntr_readerr(writes), 1);
	CHECK(at(0) == 2 && at(1) == 1 && old == 2);
	FI_OK(fi_close(&ep->fid));
	FI_OK(fi_close(&reads->fid));
	FI_OK(fi_close(&writes->fid));
	close_both(&e, &r);
}

/* The peer closes its endpoint, or we close ours: nothing is written into our memory afterwards. */
TEST(endpoints_that_close)
{
	struct ends e;
	struct region r = open_both(&e);
	int64_t old = 42, v = 1;

	FI_OK(fi_fetch_atomic(e.a.ep, &v, 1, NULL, &old, NULL, e.a.peer, r.base, r.key, FI_INT64,
			      FI_SUM, NULL));
	FI_OK(fi_close(&e.a.ep->fid));
	FI_OK(fi_endpoint(e.a.domain, e.a.info, &e.a.ep, NULL));
	FI_OK(fi_ep_bind(e.a.ep, &e.a.av->fid, 0));
	FI_OK(fi_ep_bind(e.a.ep, &e.a.cq->fid, FI_TRANSMIT | FI_RECV));
	FI_OK(fi_enable(e.a.ep));
	ends_rest(&e);
	CHECK(old == 42 && at(0) == 1);
	FI_OK(fi_close(&e.b.ep->fid));
	FI_OK(fi_atomic(e.a.ep, &v, 1, NULL, e.a.peer, r.base, r.key, FI_INT64, FI_SUM, NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EIO);
	CHECK_EQ(at(0), 1);
	FI_OK(fi_endpoint(e.b.domain, e.b.info, &e.b.ep, NULL)); /* for ends_close() */
	FI_OK(fi_ep_bind(e.b.ep, &e.b.av->fid, 0));
	close_both(&e, &r);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_rma.c: writes to and reads of another endpoint's memory, and of one's
 * own.
 */
#include "ends.h"

#include "libfabric/name.h"

#include <rdma/fi_rma.h>
#include <string.h>

#define LARGE (2u << 20)
#define PEERS 300
#define RESTS 2000 /* polls */

static char own[LARGE], theirs[LARGE];

/* Short ones are one message, others a put or get. */
static const size_t sizes[] = {1, 8, 1000, 1400, 20000, LARGE};

static void fill(char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (char)hk_rng_next(&hk_test_rng);
}

static void done(struct ends *e, uint64_t kind, void *context)
{
	struct fi_cq_tagged_entry got = ends_wait(e, &e->a);

	CHECK_EQ(got.flags, FI_RMA | kind);
	CHECK(got.op_context == context);
}

/* With FI_DELIVERY_COMPLETE the bytes are in place when the write ends. */
TEST(writes_and_reads_of_all_sizes)
{
	struct ends e;
	struct region r;

	ends_open_with(&e, 0, FI_DELIVERY_COMPLETE);
	r = end_region(&e.b, theirs, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		size_t len = sizes[i], at = (LARGE - len) / 2;

		fill(own, len);
		FI_OK(fi_write(e.a.ep, own, len, NULL, e.a.peer, r.base + at, r.key, &e));
		done(&e, FI_WRITE, &e);
		CHECK(memcmp(theirs + at, own, len) == 0);
		fill(theirs, LARGE);
		FI_OK(fi_read(e.a.ep, own, len, NULL, e.a.peer, r.base + at, r.key, &r));
		done(&e, FI_READ, &r);
		CHECK(memcmp(theirs + at, own, len) == 0);
	}
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

TEST(several_pieces)
{
	static const size_t lens[] = {600, 30000};
	struct ends e;
	struct region r;

	ends_open_with(&e, 0, FI_DELIVERY_COMPLETE);
	r = end_region(&e.b, theirs, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (size_t i = 0; i < HK_ARRAY_LEN(lens); i++) {
		size_t len = lens[i], cut = len / 3;
		struct iovec iov[3] = {{own, cut}, {own + cut, 0}, {own + cut, len - cut}};

		fill(own, len);
		FI_OK(fi_writev(e.a.ep, iov, NULL, 3, e.a.peer, r.base, r.key, NULL));
		done(&e, FI_WRITE, NULL);
		CHECK(memcmp(theirs, own, len) == 0);
		fill(theirs, len);
		FI_OK(fi_readv(e.a.ep, iov, NULL, 3, e.a.peer, r.base, r.key, NULL));
		done(&e, FI_READ, NULL);
		CHECK(memcmp(theirs, own, len) == 0);
	}
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

TEST(a_write_that_tells_the_peer)
{
	struct ends e;
	struct region r;
	struct fi_cq_tagged_entry got;

	ends_open(&e);
	r = end_region(&e.b, theirs, LARGE, FI_REMOTE_WRITE);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		fill(own, sizes[i]);
		FI_OK(fi_writedata(e.a.ep, own, sizes[i], NULL, 1000 + i, e.a.peer, r.base, r.key,
				   &e));
		got = ends_wait(&e, &e.b);
		CHECK_EQ(got.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		CHECK_EQ(got.data, 1000 + i);
		CHECK(memcmp(theirs, own, sizes[i]) == 0);
		done(&e, FI_WRITE, &e);
	}
	FI_OK(fi_inject_writedata(e.a.ep, own, 8, 7, e.a.peer, r.base, r.key));
	CHECK_EQ(ends_wait(&e, &e.b).data, 7);
	ends_rest(&e);
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

/* Programs write no bytes to tell the peer something. There is no region for that. */
TEST(writes_of_nothing)
{
	struct ends e;

	ends_open(&e);
	FI_OK(fi_writedata(e.a.ep, NULL, 0, NULL, 5, e.a.peer, 0, 12345, &e));
	CHECK_EQ(ends_wait(&e, &e.b).data, 5);
	done(&e, FI_WRITE, &e);
	FI_OK(fi_read(e.a.ep, NULL, 0, NULL, e.a.peer, 0, 12345, &e));
	done(&e, FI_READ, &e);
	ends_close(&e);
}

/* The writer has many peers, so few operations with one may be under way. Later ones wait at the
 * writer, which does not poll. */
TEST(data_does_not_overtake_its_write)
{
	struct ends e;
	struct region r;
	struct hk_fi_name name;
	struct fi_cq_tagged_entry got;
	size_t len = sizeof(name);
	fi_addr_t unused;
	char one = 1;

	ends_open(&e);
	FI_OK(fi_getname(&e.b.ep->fid, &name, &len));
	for (unsigned i = 0; i < PEERS; i++) {
		name.endpoint++;
		CHECK_EQ(fi_av_insert(e.a.av, &name, 1, &unused, 0, NULL), 1);
	}
	memset(theirs, 0, 10);
	r = end_region(&e.b, theirs, 10, FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 10; i++)
		FI_OK(fi_inject_writedata(e.a.ep, &one, 1, i, e.a.peer, r.base + i, r.key));
	for (unsigned i = 0; i < RESTS; i++)
		if (fi_cq_read(e.b.cq, &got, 1) == 1)
			CHECK_EQ(theirs[got.data], 1);
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

TEST(an_injected_buffer_is_free_at_once)
{
	struct ends e;
	struct region r;
	char small[16] = "before";

	ends_open(&e);
	r = end_region(&e.b, theirs, LARGE, FI_REMOTE_WRITE);
	FI_OK(fi_inject_write(e.a.ep, small, sizeof(small), e.a.peer, r.base, r.key));
	memcpy(small, "after", 6);
	FI_OK(fi_write(e.a.ep, own, 1, NULL, e.a.peer, r.base + 100, r.key, NULL)); /* behind it */
	done(&e, FI_WRITE, NULL);
	CHECK(strcmp(theirs, "before") == 0);
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

TEST(ones_own_memory)
{
	struct ends e;
	struct region r;

	ends_open(&e);
	r = end_region(&e.a, theirs, 1000, FI_REMOTE_READ | FI_REMOTE_WRITE);
	fill(own, 100);
	FI_OK(fi_write(e.a.ep, own, 100, NULL, e.a.self, r.base + 900, r.key, NULL));
	done(&e, FI_WRITE, NULL);
	CHECK(memcmp(theirs + 900, own, 100) == 0);
	FI_OK(fi_read(e.a.ep, own, 100, NULL, e.a.self, r.base, r.key, NULL));
	done(&e, FI_READ, NULL);
	CHECK(memcmp(theirs, own, 100) == 0);
	FI_OK(fi_read(e.a.ep, own, 100, NULL, e.a.self, r.base + 901, r.key, NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

static void refused_of(struct ends *e, size_t len, uint64_t at, uint64_t key, bool write)
{
	if (write)
		FI_OK(fi_write(e->a.ep, own, len, NULL, e->a.peer, at, key, NULL));
	else
		FI_OK(fi_read(e->a.ep, own, len, NULL, e->a.peer, at, key, NULL));
	CHECK_EQ(ends_wait_error(e, &e->a).err, FI_EACCES);
}

static void refused(struct ends *e, uint64_t at, uint64_t key, bool write)
{
	refused_of(e, 100, at, key, write);
}

TEST(what_the_owner_does_not_permit)
{
	struct ends e;
	struct region reads, writes;
	char before[100];

	ends_open(&e);
	reads = end_region(&e.b, theirs, 1000, FI_REMOTE_READ);
	writes = end_region(&e.b, theirs, 1000, FI_REMOTE_WRITE);
	memcpy(before, theirs, sizeof(before));
	fill(own, 100);
	refused(&e, reads.base, reads.key, true);
	refused(&e, writes.base, writes.key, false);
	refused(&e, reads.base + 901, reads.key, false);
	refused(&e, writes.base + 901, writes.key, true);
	refused(&e, reads.base + UINT64_MAX, reads.key, false);
	refused(&e, 0, 0x12345678, true);
	refused_of(&e, LARGE, reads.base, reads.key, true);
	refused_of(&e, LARGE, writes.base, writes.key, true);
	refused_of(&e, LARGE, writes.base, writes.key, false);
	/* the sum of offset and length is a small one */
	refused_of(&e, LARGE, writes.base + UINT64_MAX - LARGE + 9, writes.key, true);
	refused(&e, 0, UINT64_C(1) << 40, true);
	FI_OK(fi_close(&reads.mr->fid));
	refused(&e, reads.base, reads.key, false); /* it is gone */
	CHECK(memcmp(before, theirs, sizeof(before)) == 0);
	CHECK_EQ(fi_close(&e.b.domain->fid), -FI_EBUSY);
	FI_OK(fi_close(&writes.mr->fid));
	ends_close(&e);
}

TEST(counters)
{
	struct end a;
	struct ends e;
	struct fi_cntr_attr attr = {0};
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	struct region r;

	ends_open(&e);
	a = e.a;
	r = end_region(&e.b, theirs, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	FI_OK(fi_cntr_open(a.domain, &attr, &cntr, NULL));
	FI_OK(fi_endpoint(a.domain, a.info, &ep, NULL));
	FI_OK(fi_ep_bind(ep, &a.av->fid, 0));
	CHECK_EQ(fi_ep_bind(ep, &cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	FI_OK(fi_ep_bind(ep, &cntr->fid, FI_READ | FI_WRITE));
	FI_OK(fi_enable(ep));
	FI_OK(fi_write(ep, own, 8, NULL, a.peer, r.base, r.key, NULL));
	FI_OK(fi_write(ep, own, LARGE, NULL, a.peer, r.base, r.key, NULL));
	FI_OK(fi_read(ep, own, 8, NULL, a.peer, r.base, r.key, NULL));
	FI_OK(fi_inject_write(ep, own, 8, a.peer, r.base, r.key));
	while (fi_cntr_read(cntr) < 4)
		(void)fi_cq_read(e.b.cq, NULL, 0);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
	FI_OK(fi_cntr_wait(cntr, 4, 0));
	CHECK_EQ(fi_cntr_wait(cntr, 5, 1), -FI_ETIMEDOUT);
	FI_OK(fi_close(&ep->fid));
	FI_OK(fi_close(&cntr->fid));
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

/* Closing an endpoint waits for what is under way: the buffers are the application's afterwards.
 * The peer's thread serves it, since its application does not poll. */
TEST(closed_with_operations_under_way)
{
	struct ends e;
	struct region r;

	ends_open(&e);
	r = end_region(&e.b, theirs, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE);
	fill(theirs, LARGE);
	FI_OK(fi_read(e.a.ep, own, LARGE, NULL, e.a.peer, r.base, r.key, NULL));
	FI_OK(fi_close(&e.a.ep->fid));
	CHECK(memcmp(own, theirs, LARGE) == 0);
	FI_OK(fi_endpoint(e.a.domain, e.a.info, &e.a.ep, NULL)); /* for ends_close() */
	FI_OK(fi_ep_bind(e.a.ep, &e.a.av->fid, 0));
	FI_OK(fi_close(&r.mr->fid));
	ends_close(&e);
}

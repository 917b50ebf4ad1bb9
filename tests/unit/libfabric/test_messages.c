/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_messages.c: tagged and untagged messages of all sizes, expected and
 * not, between two endpoints and to oneself.
 */
#include "ends.h"

#include <stdlib.h>
#include <string.h>

#define LARGE (3u << 20)

/* Sizes around the limits: none, short, of a frame, of several frames, long. */
static const size_t sizes[] = {0, 1, 8, 200, 232, 233, 1400, 1500, 9000, 65000, 66000, LARGE};

static char from[LARGE], to[LARGE];

static void fill(size_t len)
{
	for (size_t i = 0; i < len; i++)
		from[i] = (char)hk_rng_next(&hk_test_rng);
	memset(to, 0, len);
}

static void check_received(const struct fi_cq_tagged_entry *got, void *context, size_t len,
			   uint64_t tag)
{
	CHECK(got->op_context == context);
	CHECK_EQ(got->flags, FI_RECV | FI_TAGGED);
	CHECK_EQ(got->len, len);
	CHECK_EQ(got->tag, tag);
	CHECK(memcmp(from, to, len) == 0);
}

/* A send of at most this is complete before the message is received. */
#define EAGER_FLOOR 60000u

static void exchange(struct ends *e, size_t len, uint64_t tag, bool expected)
{
	struct fi_cq_tagged_entry got;
	int context;

	fill(len);
	if (expected)
		FI_OK(fi_trecv(e->b.ep, to, len, NULL, e->b.peer, tag, 0, &context));
	FI_OK(fi_tsend(e->a.ep, from, len, NULL, e->a.peer, tag, e));
	if (!expected) {
		if (len <= EAGER_FLOOR)
			CHECK(ends_wait(e, &e->a).op_context == e);
		ends_rest_of(e, &e->b);
		FI_OK(fi_trecv(e->b.ep, to, len, NULL, e->b.peer, tag, 0, &context));
	}
	got = ends_wait(e, &e->b);
	check_received(&got, &context, len, tag);
	if (expected || len > EAGER_FLOOR)
		CHECK(ends_wait(e, &e->a).op_context == e);
}

TEST(all_sizes_expected_and_not)
{
	struct ends e;

	ends_open(&e);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		exchange(&e, sizes[i], 2 * i, false);
		exchange(&e, sizes[i], 2 * i + 1, true);
	}
	ends_close(&e);
}

TEST(several_pieces)
{
	static const size_t lens[] = {100, 30000, LARGE};
	struct ends e;

	ends_open(&e);
	for (size_t i = 0; i < HK_ARRAY_LEN(lens); i++) {
		size_t len = lens[i], cut = len / 3, other = len / 5;
		struct iovec out[3] = {{from, cut}, {from + cut, 0}, {from + cut, len - cut}};
		struct iovec in[2] = {{to, other}, {to + other, len - other}};
		struct fi_cq_tagged_entry got;

		fill(len);
		FI_OK(fi_trecvv(e.b.ep, in, NULL, 2, FI_ADDR_UNSPEC, 5, 0, NULL));
		FI_OK(fi_tsendv(e.a.ep, out, NULL, 3, e.a.peer, 5, NULL));
		got = ends_wait(&e, &e.b);
		check_received(&got, NULL, len, 5);
		ends_wait(&e, &e.a);
	}
	ends_close(&e);
}

TEST(to_oneself)
{
	struct ends e;

	ends_open(&e);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		struct fi_cq_tagged_entry got;

		fill(sizes[i]);
		FI_OK(fi_tsend(e.a.ep, from, sizes[i], NULL, e.a.self, i, &e));
		CHECK(ends_wait(&e, &e.a).op_context == &e);
		FI_OK(fi_trecv(e.a.ep, to, sizes[i], NULL, e.a.self, i, 0, NULL));
		got = ends_wait(&e, &e.a);
		check_received(&got, NULL, sizes[i], i);
	}
	ends_close(&e);
}

TEST(untagged_with_data_from_whom)
{
	struct ends e;
	struct fi_cq_tagged_entry got;
	fi_addr_t source = 77;

	ends_open(&e);
	fill(10);
	FI_OK(fi_recv(e.b.ep, to, 10, NULL, FI_ADDR_UNSPEC, &source));
	FI_OK(fi_injectdata(e.a.ep, from, 10, 0x1234567890, e.a.peer));
	while (fi_cq_readfrom(e.b.cq, &got, 1, &source) == -FI_EAGAIN)
		(void)fi_cq_read(e.a.cq, NULL, 0);
	CHECK_EQ(got.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
	CHECK_EQ(got.data, 0x1234567890);
	CHECK_EQ(source, e.b.peer);
	CHECK(memcmp(from, to, 10) == 0);
	ends_rest(&e); /* what is injected has no completion */
	ends_close(&e);
}

TEST(a_receive_from_another_source_waits)
{
	struct ends e;

	ends_open(&e);
	fill(8);
	FI_OK(fi_trecv(e.b.ep, to, 8, NULL, e.b.self, 1, 0, &e.a));
	FI_OK(fi_trecv(e.b.ep, to, 8, NULL, e.b.peer, 1, 0, &e.b));
	FI_OK(fi_tinject(e.a.ep, from, 8, e.a.peer, 1));
	CHECK(ends_wait(&e, &e.b).op_context == &e.b);
	FI_OK(fi_tinject(e.b.ep, from, 8, e.b.self, 1));
	CHECK(ends_wait(&e, &e.b).op_context == &e.a);
	ends_close(&e);
}

/* Messages of 1000 bytes, and long ones, into a buffer that holds some of them. */
TEST(a_buffer_for_several_messages)
{
	struct ends e;
	size_t min = 500, len = 3 * 1000 + 100;
	struct iovec iov = {to, len};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};

	ends_open(&e);
	fill(1000);
	FI_OK(fi_setopt(&e.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	FI_OK(fi_inject(e.a.ep, from, 1000, e.a.peer)); /* one that waits */
	ends_rest(&e);
	FI_OK(fi_recvmsg(e.b.ep, &msg, FI_MULTI_RECV));
	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_tagged_entry got = ends_wait(&e, &e.b);

		CHECK(got.buf == to + 1000 * (size_t)i);
		CHECK_EQ(got.len, 1000);
		CHECK_EQ(got.flags, FI_RECV | FI_MSG | (i == 2 ? FI_MULTI_RECV : 0));
		CHECK(memcmp(got.buf, from, 1000) == 0);
		if (i < 2)
			FI_OK(fi_inject(e.a.ep, from, 1000, e.a.peer));
	}
	ends_close(&e);
}

TEST(long_ones_into_a_buffer_for_several)
{
	struct ends e;
	struct iovec iov = {to, LARGE};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
	unsigned given_back = 0;
	size_t len = LARGE / 4;

	ends_open(&e);
	fill(len);
	FI_OK(fi_recvmsg(e.b.ep, &msg, FI_MULTI_RECV));
	for (unsigned i = 0; i < 4; i++)
		FI_OK(fi_send(e.a.ep, from, len, NULL, e.a.peer, NULL));
	for (unsigned i = 0; i < 4; i++) {
		struct fi_cq_tagged_entry got = ends_wait(&e, &e.b);

		CHECK(memcmp(got.buf, from, len) == 0);
		given_back += (got.flags & FI_MULTI_RECV) != 0;
		CHECK(!given_back || i == 3);
	}
	CHECK_EQ(given_back, 1);
	for (unsigned i = 0; i < 4; i++)
		ends_wait(&e, &e.a);
	ends_close(&e);
}

static ssize_t look(struct end *at, uint64_t flags, void *context)
{
	struct iovec iov = {to, sizeof(to)};
	struct fi_msg_tagged msg = {.msg_iov = &iov,
				    .iov_count = flags & FI_PEEK ? 0 : 1,
				    .addr = FI_ADDR_UNSPEC,
				    .tag = 3,
				    .context = context};

	return fi_trecvmsg(at->ep, &msg, flags);
}

/* Looks until the message is there. */
static struct fi_cq_tagged_entry peek(struct ends *e, uint64_t flags, void *context)
{
	struct fi_cq_tagged_entry got;
	struct fi_cq_err_entry error = {0};

	for (;;) {
		ssize_t n;

		(void)fi_cq_read(e->a.cq, NULL, 0);
		FI_OK(look(&e->b, FI_PEEK | flags, context));
		n = fi_cq_read(e->b.cq, &got, 1);
		if (n == 1)
			return got;
		CHECK_EQ(n, -FI_EAVAIL);
		CHECK_EQ(fi_cq_readerr(e->b.cq, &error, 0), 1);
		CHECK_EQ(error.err, FI_ENOMSG);
		CHECK(error.op_context == context);
	}
}

TEST(looked_at_claimed_and_discarded)
{
	static const size_t lens[] = {100, LARGE};
	struct fi_cq_tagged_entry got;
	struct ends e;

	ends_open(&e);
	for (size_t i = 0; i < HK_ARRAY_LEN(lens); i++) {
		fill(lens[i]);
		FI_OK(fi_tsend(e.a.ep, from, lens[i], NULL, e.a.peer, 3, &e));
		CHECK_EQ(peek(&e, 0, &e.a).len, lens[i]);
		CHECK_EQ(peek(&e, FI_CLAIM, &e.b).len, lens[i]);
		FI_OK(look(&e.b, FI_PEEK, &e.a));
		CHECK_EQ(ends_wait_error(&e, &e.b).err, FI_ENOMSG);
		CHECK_EQ(look(&e.b, FI_CLAIM, &e.a), -FI_EINVAL); /* of another context */
		FI_OK(look(&e.b, FI_CLAIM, &e.b));
		got = ends_wait(&e, &e.b);
		check_received(&got, &e.b, lens[i], 3);
		ends_wait(&e, &e.a);

		FI_OK(fi_tsend(e.a.ep, from, lens[i], NULL, e.a.peer, 3, &e));
		CHECK_EQ(peek(&e, FI_DISCARD, &e.a).len, lens[i]);
		ends_wait(&e, &e.a);
		FI_OK(fi_tsend(e.a.ep, from, lens[i], NULL, e.a.peer, 3, &e));
		peek(&e, FI_CLAIM, &e.b);
		FI_OK(look(&e.b, FI_CLAIM | FI_DISCARD, &e.b));
		ends_wait(&e, &e.b);
		ends_wait(&e, &e.a);
		ends_rest(&e);
	}
	ends_close(&e);
}

/* With FI_DELIVERY_COMPLETE a send ends when its bytes are in the receiver's buffer. */
TEST(delivery_complete)
{
	struct ends e;

	ends_open_with(&e, 0, FI_DELIVERY_COMPLETE);
	fill(8);
	FI_OK(fi_tsend(e.a.ep, from, 8, NULL, e.a.peer, 1, &e));
	ends_rest(&e);
	FI_OK(fi_trecv(e.b.ep, to, 8, NULL, e.b.peer, 1, 0, NULL));
	ends_wait(&e, &e.b);
	CHECK(memcmp(from, to, 8) == 0);
	CHECK(ends_wait(&e, &e.a).op_context == &e);
	ends_close(&e);
}

/* More messages than there are buffers, and than a receiver stores in its ring. */
TEST(a_flood)
{
	enum { N = 30000 };
	struct ends e;
	unsigned sent = 0;

	ends_open(&e);
	while (sent < N) {
		ssize_t rc = fi_tinject(e.a.ep, &sent, sizeof(sent), e.a.peer, sent);

		CHECK(rc == 0 || rc == -FI_EAGAIN);
		sent += rc == 0;
		if (rc)
			(void)fi_cq_read(e.b.cq, NULL, 0);
	}
	for (unsigned i = 0; i < N; i++) {
		unsigned got = N;

		FI_OK(fi_trecv(e.b.ep, &got, sizeof(got), NULL, e.b.peer, i, 0, NULL));
		CHECK_EQ(ends_wait(&e, &e.b).tag, i);
		CHECK_EQ(got, i);
	}
	ends_close(&e);
}

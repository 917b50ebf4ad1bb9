/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_eager.c: the environment asks that messages of 64 bytes and more are
 * got from their buffer. An injected message has no buffer any more when its call returns.
 */
#include "ends.h"

#include <string.h>

static char from[1024], to[1024];

static void injected(struct ends *e, bool by_flag)
{
	struct iovec iov = {from, sizeof(from)};
	const struct fi_msg_tagged m = {
		.msg_iov = &iov, .iov_count = 1, .addr = e->a.peer, .tag = 1};

	memset(from, 1, sizeof(from));
	memset(to, 0, sizeof(to));
	if (by_flag)
		FI_OK(fi_tsendmsg(e->a.ep, &m, FI_INJECT));
	else
		FI_OK(fi_tinject(e->a.ep, from, sizeof(from), e->a.peer, 1));
	memset(from, 2, sizeof(from));
	FI_OK(fi_trecv(e->b.ep, to, sizeof(to), NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	CHECK_EQ(ends_wait(e, &e->b).len, sizeof(to));
	for (size_t i = 0; i < sizeof(to); i++)
		CHECK_EQ(to[i], 1);
	if (by_flag)
		ends_wait(e, &e->a);
	ends_rest(e);
}

TEST(an_injected_buffer_is_free_at_once)
{
	struct ends e;

	ends_open(&e);
	CHECK_EQ(e.a.info->tx_attr->inject_size, sizeof(from));
	injected(&e, false);
	injected(&e, true);
	ends_close(&e);
}

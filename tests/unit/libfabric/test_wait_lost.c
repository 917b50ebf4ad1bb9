/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_wait_lost.c: a sleeper on a network that loses everything. The
 * environment names such a port. No frame comes that would wake the sleeper. It must wake to
 * resend, since the progress thread leaves that to it.
 */
#include "ends.h"

#include <poll.h>

#define LIMIT_MS 20000

TEST(a_resend_wakes)
{
	struct ends e;
	struct fid *fid;

	ends_open(&e);
	struct pollfd p = {.fd = end_sleeps(&e.a, FI_WAIT_FD), .events = POLLIN};

	fid = &e.a.cq->fid;
	FI_OK(fi_tinject(e.a.ep, "message", 8, e.a.peer, 1));
	for (unsigned i = 0; i < 3; i++) {
		while (fi_trywait(e.a.fabric, &fid, 1) == -FI_EAGAIN)
			(void)fi_cq_read(e.a.cq, NULL, 0);
		CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);
		CHECK_EQ(fi_cq_read(e.a.cq, NULL, 0), -FI_EAGAIN);
	}
	ends_close(&e);
}

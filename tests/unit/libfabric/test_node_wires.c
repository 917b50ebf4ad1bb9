/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_node_wires.c: programs that sleep, beside wires to processes of their
 * node. The environment says that the node has two processes. Other tests send by the wires.
 */
#include "ends.h"

#include <string.h>

TEST(a_program_that_sleeps_has_no_wires)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	struct fid_cq *cq;
	struct end e;

	end_open(&e, 0, 0);
	FI_OK(fi_cq_open(e.domain, &attr, &cq, NULL));
	FI_OK(fi_close(&cq->fid));
	end_close(&e);
}

TEST(wires_that_are_in_use_wake_nobody)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	struct fi_cq_tagged_entry none;
	struct fid_cq *cq;
	struct ends e;

	ends_open(&e);
	CHECK_EQ(fi_cq_open(e.a.domain, &attr, &cq, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_UNSPEC; /* then it polls */
	FI_OK(fi_cq_open(e.a.domain, &attr, &cq, NULL));
	CHECK_EQ(fi_cq_sread(cq, &none, 1, NULL, 5), -FI_EAGAIN);
	FI_OK(fi_close(&cq->fid));
	ends_close(&e);
}

/* The peer gave its name away while it had wires, and has none when its turn comes. */
TEST(a_peer_that_drops_its_wires_is_reached_by_ports)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	struct fid_cq *cq;
	struct ends e;
	char to[8];
	ssize_t rc;

	end_open(&e.a, 0, 0);
	end_open(&e.b, 0, 0);
	end_meet(&e.a, &e.b);
	FI_OK(fi_cq_open(e.b.domain, &attr, &cq, NULL));
	FI_OK(fi_close(&cq->fid));
	end_meet(&e.b, &e.a);
	FI_OK(fi_trecv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	while ((rc = fi_tinject(e.a.ep, "message", 8, e.a.peer, 1)) == -FI_EAGAIN)
		(void)fi_cq_read(e.a.cq, NULL, 0);
	FI_OK(rc);
	CHECK_EQ(ends_wait(&e, &e.b).len, 8);
	CHECK(memcmp(to, "message", 8) == 0);
	ends_close(&e);
}

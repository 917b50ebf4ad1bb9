/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_node_wires.c: programs that sleep, beside wires to processes of their
 * node. The environment says that the node has two processes. Other tests send by the wires.
 */
#include "ends.h"

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

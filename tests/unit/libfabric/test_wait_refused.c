/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_wait_refused.c: a port that cannot wake a sleeper. The environment
 * names one of memif.
 */
#include "ends.h"

TEST(a_port_that_cannot_wake)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_tagged_entry none;
	struct end e;
	struct fid_cq *cq;
	struct fid_cntr *cntr;

	end_open(&e, 0, 0);
	CHECK_EQ(fi_cq_open(e.domain, &attr, &cq, NULL), -FI_ENOSYS);
	CHECK_EQ(fi_cntr_open(e.domain, &cntr_attr, &cntr, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_UNSPEC; /* then it polls */
	FI_OK(fi_cq_open(e.domain, &attr, &cq, NULL));
	CHECK_EQ(fi_cq_sread(cq, &none, 1, NULL, 5), -FI_EAGAIN);
	FI_OK(fi_close(&cq->fid));
	end_close(&e);
}

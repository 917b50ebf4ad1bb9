/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/ends.h: two endpoints of the provider in one process, each with a domain of
 * its own. So all that they say goes through their ports, which are UDP sockets. If the environment
 * asks for wires between processes of one node, it goes by these.
 */
#ifndef HK_TEST_ENDS_H
#define HK_TEST_ENDS_H

#include "libfabric/compat.h"
#include "tests/support/hk_test.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t self, peer; /* in its AV */
};

#define FI_OK(call) CHECK_EQ((long)(call), 0)

/* @caps: of the hints. */
void end_open(struct end *e, uint64_t caps, uint64_t op_flags);
void end_close(struct end *e);
/* Replaces the queue and the endpoint of @e by ones that sleep. Returns their descriptor. */
int end_sleeps(struct end *e, enum fi_wait_obj obj);

/* Inserts the names of both into the AV of @e. */
void end_meet(struct end *e, const struct end *other);

struct ends {
	struct end a, b;
};

void ends_open(struct ends *e);
void ends_open_with(struct ends *e, uint64_t caps, uint64_t op_flags);
void ends_close(struct ends *e);

/* How peers name memory: mr_mode of the hints of later endpoints. At first it is the number in
 * TEST_MR_MODE, or else 0. */
void ends_set_mr_mode(int mode);

/* Data progress of later endpoints. Automatic: they are opened for one thread, too. */
void ends_set_progress(enum fi_progress progress);

/* Memory that peers may access. */
struct region {
	struct fid_mr *mr;
	uint64_t key, base; /* its address is @base */
};
struct region end_region(struct end *e, void *at, size_t len, uint64_t access);

/* Polls both until @at has a completion, which it returns. An error is not one. */
struct fi_cq_tagged_entry ends_wait(struct ends *e, struct end *at);
/* The same, for an error. */
struct fi_cq_err_entry ends_wait_error(struct ends *e, struct end *at);
/* Polls both for a while: neither has a completion, or @at has none. */
void ends_rest(struct ends *e);
void ends_rest_of(struct ends *e, struct end *at);

#endif

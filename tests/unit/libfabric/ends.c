/* SPDX-License-Identifier: BSD-3-Clause */
#include "ends.h"

#include "base/clock.h"

#include <string.h>

#define LIMIT_MS 20000
#define RESTS    2000 /* polls */

static int mode = -1;
static enum fi_progress progress = FI_PROGRESS_MANUAL;

void ends_set_progress(enum fi_progress wanted)
{
	progress = wanted;
}

static int mr_mode(void)
{
	const char *given = getenv("TEST_MR_MODE");

	if (mode < 0)
		mode = given ? atoi(given) : 0;
	return mode;
}

void ends_set_mr_mode(int wanted)
{
	mode = wanted;
}

void end_open(struct end *e, uint64_t caps, uint64_t op_flags)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	CHECK(hints != NULL);
	hints->caps = caps;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = mr_mode();
	hints->domain_attr->data_progress = progress;
	if (progress == FI_PROGRESS_AUTO)
		hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->op_flags = op_flags;
	hints->fabric_attr->prov_name = strdup("hikyaku");
	FI_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &e->info));
	fi_freeinfo(hints);
	FI_OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	FI_OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	FI_OK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	FI_OK(fi_av_open(e->domain, &av, &e->av, NULL));
	FI_OK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	FI_OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	FI_OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	FI_OK(fi_enable(e->ep));
}

void end_close(struct end *e)
{
	FI_OK(fi_close(&e->ep->fid));
	FI_OK(fi_close(&e->av->fid));
	FI_OK(fi_close(&e->cq->fid));
	FI_OK(fi_close(&e->domain->fid));
	FI_OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}

int end_sleeps(struct end *e, enum fi_wait_obj obj)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = obj};
	enum fi_wait_obj is = FI_WAIT_NONE;
	int fd = -1;

	FI_OK(fi_close(&e->ep->fid));
	FI_OK(fi_close(&e->cq->fid));
	FI_OK(fi_cq_open(e->domain, &attr, &e->cq, NULL));
	FI_OK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	FI_OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	FI_OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	FI_OK(fi_enable(e->ep));
	FI_OK(fi_control(&e->cq->fid, FI_GETWAIT, &fd));
	FI_OK(fi_control(&e->cq->fid, FI_GETWAITOBJ, &is));
	CHECK_EQ(is, FI_WAIT_FD);
	CHECK(fd >= 0);
	return fd;
}

struct region end_region(struct end *e, void *at, size_t len, uint64_t access)
{
	static uint64_t next = 0xfedcba9876543210; /* a key that a program chooses */
	int is = e->info->domain_attr->mr_mode;
	struct region r = {.key = next++};

	FI_OK(fi_mr_reg(e->domain, at, len, access, 0, r.key, 0, &r.mr, NULL));
	if (is == HK_FI_MR_BASIC)
		r.key = fi_mr_key(r.mr);
	else
		CHECK_EQ(fi_mr_key(r.mr), r.key);
	r.base = is == HK_FI_MR_BASIC ? (uintptr_t)at : 0;
	return r;
}

void end_meet(struct end *e, const struct end *other)
{
	char name[2][64];
	size_t len = sizeof(name[0]);

	FI_OK(fi_getname(&e->ep->fid, name[0], &len));
	CHECK_EQ(len, 64);
	FI_OK(fi_getname(&other->ep->fid, name[1], &len));
	CHECK_EQ(fi_av_insert(e->av, name, 1, &e->self, 0, NULL), 1);
	CHECK_EQ(fi_av_insert(e->av, name[1], 1, &e->peer, 0, NULL), 1);
}

/* Waits for the wire from @from to @to: the first message, of no bytes, arrives. */
static void await_wire(struct ends *e, struct end *from, struct end *to)
{
	const uint64_t tag = 0x77697265;
	int64_t end = hk_clock_ms() + LIMIT_MS;
	ssize_t rc;

	FI_OK(fi_trecv(to->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, tag, 0, NULL));
	while ((rc = fi_tinject(from->ep, NULL, 0, from->peer, tag)) == -FI_EAGAIN) {
		(void)fi_cq_read(from->cq, NULL, 0);
		(void)fi_cq_read(to->cq, NULL, 0);
		CHECK(hk_clock_ms() < end);
	}
	FI_OK(rc);
	(void)ends_wait(e, to);
}

void ends_open_with(struct ends *e, uint64_t caps, uint64_t op_flags)
{
	end_open(&e->a, caps, op_flags);
	end_open(&e->b, caps, op_flags);
	end_meet(&e->a, &e->b);
	end_meet(&e->b, &e->a);
	if (getenv("FI_HIKYAKU_NODE_WIRES")) {
		await_wire(e, &e->a, &e->b);
		await_wire(e, &e->b, &e->a);
	}
}

void ends_open(struct ends *e)
{
	ends_open_with(e, 0, 0);
}

void ends_close(struct ends *e)
{
	end_close(&e->a);
	end_close(&e->b);
}

/* Lets the other end poll, without a completion of it. */
static void poll_other(struct ends *e, const struct end *at)
{
	(void)fi_cq_read(at == &e->a ? e->b.cq : e->a.cq, NULL, 0);
}

struct fi_cq_tagged_entry ends_wait(struct ends *e, struct end *at)
{
	int64_t end = hk_clock_ms() + LIMIT_MS;
	struct fi_cq_tagged_entry got;
	ssize_t n;

	while ((n = fi_cq_read(at->cq, &got, 1)) == -FI_EAGAIN) {
		poll_other(e, at);
		CHECK(hk_clock_ms() < end);
	}
	CHECK_EQ(n, 1);
	return got;
}

struct fi_cq_err_entry ends_wait_error(struct ends *e, struct end *at)
{
	int64_t end = hk_clock_ms() + LIMIT_MS;
	struct fi_cq_err_entry got = {0};
	struct fi_cq_tagged_entry none;
	ssize_t n;

	while ((n = fi_cq_read(at->cq, &none, 1)) == -FI_EAGAIN) {
		poll_other(e, at);
		CHECK(hk_clock_ms() < end);
	}
	CHECK_EQ(n, -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(at->cq, &got, 0), 1);
	return got;
}

void ends_rest_of(struct ends *e, struct end *at)
{
	struct fi_cq_tagged_entry none;

	for (unsigned i = 0; i < RESTS; i++) {
		CHECK_EQ(fi_cq_read(at->cq, &none, 1), -FI_EAGAIN);
		poll_other(e, at);
	}
}

void ends_rest(struct ends *e)
{
	ends_rest_of(e, &e->a);
	ends_rest_of(e, &e->b);
}

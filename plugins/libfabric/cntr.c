/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/cntr.c: counters of completed operations.
 */
#include "libfabric/provider.h"

#include "base/clock.h"

#include <sched.h>
#include <stdlib.h>

static int close_cntr(struct fid *fid)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid.fid);

	return c->users ? -FI_EBUSY : hk_fi_object_close(c->domain, c);
}

static struct hk_fi_cntr *cntr_of(struct fid_cntr *fid)
{
	return container_of(fid, struct hk_fi_cntr, fid);
}

static uint64_t read_value(struct hk_fi_cntr *c, const uint64_t *value)
{
	uint64_t now;

	hk_fi_lock(c->domain);
	hk_fi_progress(c->domain);
	now = *value;
	hk_fi_unlock(c->domain);
	hk_fi_yield(c->domain);
	return now;
}

static uint64_t read_cntr(struct fid_cntr *fid)
{
	return read_value(cntr_of(fid), &cntr_of(fid)->value);
}

static uint64_t readerr(struct fid_cntr *fid)
{
	return read_value(cntr_of(fid), &cntr_of(fid)->errors);
}

static int change(struct hk_fi_cntr *c, uint64_t *value, uint64_t keep, uint64_t more)
{
	hk_fi_lock(c->domain);
	*value = (*value & keep) + more;
	hk_fi_unlock(c->domain);
	return 0;
}

static int add(struct fid_cntr *fid, uint64_t more)
{
	return change(cntr_of(fid), &cntr_of(fid)->value, UINT64_MAX, more);
}

static int set(struct fid_cntr *fid, uint64_t value)
{
	return change(cntr_of(fid), &cntr_of(fid)->value, 0, value);
}

static int add_errors(struct fid_cntr *fid, uint64_t more)
{
	return change(cntr_of(fid), &cntr_of(fid)->errors, UINT64_MAX, more);
}

static int set_errors(struct fid_cntr *fid, uint64_t value)
{
	return change(cntr_of(fid), &cntr_of(fid)->errors, 0, value);
}

static int wait_for(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct hk_fi_cntr *c = cntr_of(fid);
	uint64_t errors = readerr(fid);
	uint64_t end = hk_clock_ns() + (uint64_t)HK_MAX(timeout, 0) * HK_MSEC;

	while (read_cntr(fid) < threshold) {
		if (read_value(c, &c->errors) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && hk_clock_ns() >= end)
			return -FI_ETIMEDOUT;
		sched_yield();
	}
	return 0;
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_cntr, hk_fi_no_bind, hk_fi_no_control);

static struct fi_ops_cntr ops = {
	.size = sizeof(ops),
	.read = read_cntr,
	.readerr = readerr,
	.add = add,
	.set = set,
	.wait = wait_for,
	.adderr = add_errors,
	.seterr = set_errors,
};

int hk_fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **fid,
		    void *context)
{
	struct hk_fi_domain *d = container_of(domain, struct hk_fi_domain, fid);
	struct hk_fi_cntr *c;

	if (attr->events != FI_CNTR_EVENTS_COMP)
		return -FI_ENOSYS;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
	    attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	c = hk_fi_object_open(d, sizeof(*c), FI_CLASS_CNTR, &fid_ops, context);
	if (!c)
		return -FI_ENOMEM;
	c->domain = d;
	c->fid.ops = &ops;
	*fid = &c->fid;
	return 0;
}

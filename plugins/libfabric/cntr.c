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

	if (c->users)
		return -FI_EBUSY;
	hk_fi_lock(c->domain);
	c->domain->objects--;
	hk_fi_unlock(c->domain);
	free(c);
	return 0;
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
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);

	return read_value(c, &c->value);
}

static uint64_t readerr(struct fid_cntr *fid)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);

	return read_value(c, &c->errors);
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
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);

	return change(c, &c->value, UINT64_MAX, more);
}

static int set(struct fid_cntr *fid, uint64_t value)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);

	return change(c, &c->value, 0, value);
}

static int add_errors(struct fid_cntr *fid, uint64_t more)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);

	return change(c, &c->errors, UINT64_MAX, more);
}

static int set_errors(struct fid_cntr *fid, uint64_t value)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);

	return change(c, &c->errors, 0, value);
}

static int wait_for(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid);
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

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = close_cntr,
	.bind = hk_fi_no_bind,
	.control = hk_fi_no_control,
	.ops_open = hk_fi_no_ops,
};

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
	c = calloc(1, sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	c->domain = d;
	c->fid.fid.fclass = FI_CLASS_CNTR;
	c->fid.fid.context = context;
	c->fid.fid.ops = &fid_ops;
	c->fid.ops = &ops;
	hk_fi_lock(d);
	d->objects++;
	hk_fi_unlock(d);
	*fid = &c->fid;
	return 0;
}

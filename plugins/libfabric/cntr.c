/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/cntr.c: counters of completed operations.
 */
#include "libfabric/provider.h"

static int close_cntr(struct fid *fid)
{
	struct hk_fi_cntr *c = container_of(fid, struct hk_fi_cntr, fid.fid);

	if (c->users)
		return -FI_EBUSY;
	hk_fi_wait_close(c->domain, &c->wait);
	return hk_fi_object_close(c->domain, c);
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
	hk_fi_wait_end(c->domain, &c->wait, false);
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
	hk_fi_changed(&c->wait);
	hk_fi_unlock(c->domain);
	return 0;
}

#define CHANGE(name, field, keep)                                                                  \
	static int name(struct fid_cntr *fid, uint64_t n)                                          \
	{                                                                                          \
		return change(cntr_of(fid), &cntr_of(fid)->field, keep, n);                        \
	}

CHANGE(add, value, UINT64_MAX)
CHANGE(set, value, 0)
CHANGE(add_errors, errors, UINT64_MAX)
CHANGE(set_errors, errors, 0)

/* -FI_EAGAIN: neither is @c at @threshold, nor has it more than @errors. */
static int look(struct hk_fi_cntr *c, uint64_t threshold, uint64_t errors)
{
	int rc;

	hk_fi_lock(c->domain);
	hk_fi_progress(c->domain);
	rc = c->value >= threshold ? 0 : c->errors != errors ? -FI_EAVAIL : -FI_EAGAIN;
	hk_fi_wait_end(c->domain, &c->wait, false);
	hk_fi_unlock(c->domain);
	return rc;
}

static int wait_for(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct hk_fi_cntr *c = cntr_of(fid);
	uint64_t errors = readerr(fid), end = hk_fi_wait_end_of(timeout);
	int rc;

	while ((rc = look(c, threshold, errors)) == -FI_EAGAIN)
		if (!hk_fi_wait_until(c->domain, &c->wait, end))
			return -FI_ETIMEDOUT;
	return rc;
}

static int control(struct fid *fid, int command, void *arg)
{
	return hk_fi_wait_control(&container_of(fid, struct hk_fi_cntr, fid.fid)->wait, command,
				  arg);
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_cntr, hk_fi_no_bind, control);

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
	int rc;

	if (attr->events != FI_CNTR_EVENTS_COMP)
		return -FI_ENOSYS;
	c = hk_fi_object_open(d, sizeof(*c), FI_CLASS_CNTR, &fid_ops, context);
	if (!c)
		return -FI_ENOMEM;
	c->domain = d;
	c->fid.ops = &ops;
	rc = hk_fi_wait_open(d, &c->wait, attr->wait_obj);
	if (rc) {
		(void)close_cntr(&c->fid.fid);
		return rc;
	}
	*fid = &c->fid;
	return 0;
}

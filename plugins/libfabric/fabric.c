/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/fabric.c: the fabric, of which there is one kind.
 */
#include "libfabric/provider.h"

#include <stdlib.h>

static int fabric_close(struct fid *fid)
{
	struct hk_fi_fabric *f = container_of(fid, struct hk_fi_fabric, fid.fid);

	if (f->domains)
		return -FI_EBUSY;
	free(f);
	return 0;
}

int hk_fi_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)other, (void)flags;
	return -FI_ENOSYS;
}

int hk_fi_no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int hk_fi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

static int no_passive(struct fid_fabric *f, struct fi_info *info, struct fid_pep **pep,
		      void *context)
{
	(void)f, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static int no_wait(struct fid_fabric *f, struct fi_wait_attr *attr, struct fid_wait **wait)
{
	(void)f, (void)attr, (void)wait;
	return -FI_ENOSYS;
}

/* There is nothing to wait for in a queue without a file descriptor. */
static int trywait(struct fid_fabric *f, struct fid **fids, int count)
{
	(void)f, (void)fids, (void)count;
	return -FI_ENOSYS;
}

static int no_eq(struct fid_fabric *f, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
	(void)f, (void)attr, (void)eq, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = fabric_close,
	.bind = hk_fi_no_bind,
	.control = hk_fi_no_control,
	.ops_open = hk_fi_no_ops,
};

static struct fi_ops_fabric ops = {
	.size = sizeof(ops),
	.domain = hk_fi_domain_open,
	.passive_ep = no_passive,
	.eq_open = no_eq,
	.wait_open = no_wait,
	.trywait = trywait,
};

int hk_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct hk_fi_fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return -FI_ENOMEM;
	f->fid.fid.fclass = FI_CLASS_FABRIC;
	f->fid.fid.context = context;
	f->fid.fid.ops = &fid_ops;
	f->fid.ops = &ops;
	f->fid.api_version = attr->api_version;
	*fabric = &f->fid;
	return 0;
}

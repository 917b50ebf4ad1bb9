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

static struct fi_ops fid_ops = HK_FI_FID_OPS(fabric_close, hk_fi_no_bind, hk_fi_no_control);

static struct fi_ops_fabric ops = {
	.size = sizeof(ops),
	.domain = hk_fi_domain_open,
	.passive_ep = hk_fi_no_passive,
	.eq_open = hk_fi_no_eq,
	.wait_open = hk_fi_no_wait_set,
	.trywait = hk_fi_trywait,
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

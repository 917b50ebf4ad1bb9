/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/mr.c: memory that peers may read and write.
 *
 * The key of a memory region is the number of the worker's region (hikyaku/rma.h), so the provider
 * chooses it (FI_MR_PROV_KEY). An address is an offset in the region. A worker checks each access
 * against the region's length and rights.
 */
#include "libfabric/provider.h"

#include <stdlib.h>

static int close_mr(struct fid *fid)
{
	struct hk_fi_mr *mr = container_of(fid, struct hk_fi_mr, fid.fid);
	struct hk_fi_domain *d = mr->domain;
	struct hk_fi_mr **at = &d->mr;

	hk_fi_lock(d);
	if (mr->region != HK_REGION_NONE)
		hk_worker_region_del(d->worker, mr->region);
	while (*at != mr)
		at = &(*at)->next;
	*at = mr->next;
	d->objects--;
	hk_fi_unlock(d);
	free(mr);
	return 0;
}

const struct hk_fi_mr *hk_fi_mr_find(const struct hk_fi_domain *d, uint64_t key)
{
	const struct hk_fi_mr *mr = d->mr;

	while (mr && mr->fid.key != key)
		mr = mr->next;
	return mr;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = close_mr,
	.bind = hk_fi_no_bind,
	.control = hk_fi_no_control,
	.ops_open = hk_fi_no_ops,
};

static unsigned rights_of(uint64_t access)
{
	return (access & FI_REMOTE_READ ? HK_REGION_READ : 0) |
	       (access & FI_REMOTE_WRITE ? HK_REGION_WRITE : 0);
}

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
	       uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct hk_fi_domain *d = container_of(fid, struct hk_fi_domain, fid.fid);
	unsigned rights = rights_of(access);
	struct hk_fi_mr *mr;

	(void)key; /* ours counts */
	if (fid->fclass != FI_CLASS_DOMAIN || offset || flags)
		return -FI_EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = d;
	mr->base = (char *)(uintptr_t)buf;
	mr->len = len;
	mr->rights = rights;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &fid_ops;
	hk_fi_lock(d);
	if (rights)
		mr->region = hk_worker_region_add(d->worker, mr->base, len, rights, HK_PEER_NONE);
	if (rights && mr->region == HK_REGION_NONE) {
		hk_fi_unlock(d);
		hk_fi_warn("no more memory regions: there are %u; fix: close some", HK_REGIONS_MAX);
		free(mr);
		return -FI_ENOSPC;
	}
	mr->fid.key = rights ? mr->region : FI_KEY_NOTAVAIL;
	mr->next = d->mr;
	d->mr = mr;
	d->objects++;
	hk_fi_unlock(d);
	*out = &mr->fid;
	return 0;
}

static int regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	if (count != 1)
		return -FI_EINVAL;
	return reg(fid, iov->iov_base, iov->iov_len, access, offset, key, flags, mr, context);
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		   struct fid_mr **mr)
{
	return regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset,
		    attr->requested_key, flags, mr, attr->context);
}

struct fi_ops_mr hk_fi_mr_ops = {
	.size = sizeof(hk_fi_mr_ops),
	.reg = reg,
	.regv = regv,
	.regattr = regattr,
};

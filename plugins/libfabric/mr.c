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

struct hk_fi_mr {
	struct fid_mr fid;
	struct hk_fi_domain *domain;
	hk_region region; /* HK_REGION_NONE: no peer may access it */
	char *base;
	size_t len;
	unsigned rights; /* HK_REGION_READ and HK_REGION_WRITE */
	struct hk_fi_mr *next;
};

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
	hk_fi_unlock(d);
	return hk_fi_object_close(d, mr);
}

char *hk_fi_mr_at(const struct hk_fi_domain *d, uint64_t key, uint64_t offset, size_t len,
		  unsigned rights)
{
	const struct hk_fi_mr *mr = d->mr;

	while (mr && mr->fid.key != key)
		mr = mr->next;
	if (!mr || (mr->rights & rights) != rights || offset > mr->len || len > mr->len - offset)
		return NULL;
	return mr->base + offset;
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_mr, hk_fi_no_bind, hk_fi_no_control);

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
	       uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct hk_fi_domain *d = container_of(fid, struct hk_fi_domain, fid.fid);
	struct hk_fi_mr *mr;

	(void)key; /* ours counts */
	if (fid->fclass != FI_CLASS_DOMAIN || offset || flags)
		return -FI_EINVAL;
	mr = hk_fi_object_open(d, sizeof(*mr), FI_CLASS_MR, &fid_ops, context);
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = d;
	mr->base = (char *)(uintptr_t)buf;
	mr->len = len;
	mr->rights = (access & FI_REMOTE_READ ? HK_REGION_READ : 0) |
		     (access & FI_REMOTE_WRITE ? HK_REGION_WRITE : 0);
	mr->fid.key = FI_KEY_NOTAVAIL;
	hk_fi_lock(d);
	mr->next = d->mr;
	d->mr = mr;
	if (mr->rights) {
		mr->region = hk_worker_region_add(d->worker, mr->base, len, mr->rights,
						  HK_PEER_NONE);
		mr->fid.key = mr->region;
	}
	hk_fi_unlock(d);
	if (mr->rights && mr->region == HK_REGION_NONE) {
		hk_fi_warn("no more memory regions: there are %u; fix: close some", HK_REGIONS_MAX);
		(void)close_mr(&mr->fid.fid);
		return -FI_ENOSPC;
	}
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

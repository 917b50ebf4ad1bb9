/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/mr.c: memory that peers may read and write.
 *
 * The key of a memory region is the number of the worker's region (hikyaku/rma.h), so the provider
 * chooses it (FI_MR_PROV_KEY). An address is an offset in the region. A worker checks each access
 * against the region's length and rights.
 */
#include "libfabric/provider.h"

#include "worker/private.h"

struct hk_fi_mr {
	struct fid_mr fid;
	struct hk_fi_domain *domain;
	hk_region region; /* HK_REGION_NONE: no peer may access it */
};

static int close_mr(struct fid *fid)
{
	struct hk_fi_mr *mr = container_of(fid, struct hk_fi_mr, fid.fid);
	struct hk_fi_domain *d = mr->domain;

	hk_fi_lock(d);
	if (mr->region != HK_REGION_NONE)
		hk_worker_region_del(d->worker, mr->region);
	hk_fi_unlock(d);
	return hk_fi_object_close(d, mr);
}

char *hk_fi_mr_at(const struct hk_fi_domain *d, uint64_t key, uint64_t offset, size_t len,
		  unsigned rights)
{
	return key > UINT32_MAX ? NULL
				: hk_worker_region_at(d->worker, HK_PEER_NONE, (hk_region)key,
						      rights, offset, len);
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_mr, hk_fi_no_bind, hk_fi_no_control);

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
	       uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct hk_fi_domain *d = container_of(fid, struct hk_fi_domain, fid.fid);
	unsigned rights = (access & FI_REMOTE_READ ? HK_REGION_READ : 0) |
			  (access & FI_REMOTE_WRITE ? HK_REGION_WRITE : 0);
	struct hk_fi_mr *mr;

	(void)key; /* ours counts */
	if (fid->fclass != FI_CLASS_DOMAIN || offset || flags)
		return -FI_EINVAL;
	mr = hk_fi_object_open(d, sizeof(*mr), FI_CLASS_MR, &fid_ops, context);
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = d;
	mr->fid.key = FI_KEY_NOTAVAIL;
	hk_fi_lock(d);
	if (rights) {
		mr->region = hk_worker_region_add(d->worker, (void *)(uintptr_t)buf, len, rights,
						  HK_PEER_NONE);
		mr->fid.key = mr->region;
	}
	hk_fi_unlock(d);
	if (rights && mr->region == HK_REGION_NONE) {
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/mr.c: memory that peers may read and write.
 *
 * A memory region is one of the worker's (hikyaku/rma.h), which checks each access against its
 * length and rights. The directory (keys.h) has its key, which the program chooses, and addresses
 * are offsets in it. With FI_MR_BASIC the key is the region's number, and peers say its addresses.
 */
#include "libfabric/provider.h"

#include "worker/private.h"

struct hk_fi_mr {
	struct fid_mr fid;
	struct hk_fi_domain *domain;
	hk_region region;           /* HK_REGION_NONE: no peer may access it */
	struct hk_fi_cntr *changes; /* by peers; or NULL */
	struct hk_fi_mr *next;      /* in domain->counted, if it has a counter */
};

static int close_mr(struct fid *fid)
{
	struct hk_fi_mr *mr = container_of(fid, struct hk_fi_mr, fid.fid);
	struct hk_fi_domain *d = mr->domain;

	hk_fi_lock(d);
	if (mr->changes) {
		struct hk_fi_mr **link = &d->counted;

		while (*link != mr)
			link = &(*link)->next;
		*link = mr->next;
		mr->changes->users--;
	}
	if (mr->region != HK_REGION_NONE) {
		hk_fi_key_del(d, mr->fid.key);
		hk_worker_region_del(d->worker, mr->region);
	}
	hk_fi_unlock(d);
	return hk_fi_object_close(d, mr);
}

static int bind_mr(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct hk_fi_mr *mr = container_of(fid, struct hk_fi_mr, fid.fid);
	struct hk_fi_cntr *c = container_of(other, struct hk_fi_cntr, fid.fid);
	struct hk_fi_domain *d = mr->domain;
	int rc = -FI_EINVAL;

	if (other->fclass != FI_CLASS_CNTR || flags != FI_REMOTE_WRITE || c->domain != d)
		return rc;
	hk_fi_lock(d);
	if (!mr->changes) {
		mr->changes = c;
		mr->next = d->counted;
		d->counted = mr;
		c->users++;
		rc = 0;
	}
	hk_fi_unlock(d);
	return rc;
}

void hk_fi_count(struct hk_fi_domain *d, uint8_t number, uint64_t key, bool reads, bool changes)
{
	const struct hk_fi_ep *ep = hk_fi_ep_at(d, number);

	if (!ep)
		return;
	(void)hk_fi_report(NULL, reads ? ep->remote_read_cntr : ep->remote_write_cntr, false, 0);
	for (const struct hk_fi_mr *mr = d->counted; changes && mr; mr = mr->next)
		if (mr->fid.key == key)
			(void)hk_fi_report(NULL, mr->changes, false, 0);
}

char *hk_fi_mr_at(const struct hk_fi_domain *d, uint64_t key, uint64_t addr, size_t len,
		  unsigned rights)
{
	const struct hk_fi_key *k = hk_fi_key_own(d, key);

	return k ? hk_worker_region_at(d->worker, HK_PEER_NONE, k->region, rights, addr - k->base,
				       len)
		 : NULL;
}

/* Gives the memory to peers. */
static int share(struct hk_fi_mr *mr, void *buf, size_t len, unsigned rights)
{
	struct hk_fi_domain *d = mr->domain;
	hk_region r = hk_worker_region_add(d->worker, buf, len, rights, HK_PEER_NONE);
	int rc;

	if (d->basic)
		mr->fid.key = r;
	rc = r == HK_REGION_NONE ? -FI_ENOSPC
				 : hk_fi_key_add(d, mr->fid.key, d->basic ? (uintptr_t)buf : 0, r);
	if (rc == 0)
		mr->region = r;
	else
		hk_worker_region_del(d->worker, r);
	return rc;
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_mr, bind_mr, hk_fi_no_control);

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
	       uint64_t key, uint64_t flags, struct fid_mr **out, void *context)
{
	struct hk_fi_domain *d = container_of(fid, struct hk_fi_domain, fid.fid);
	unsigned rights = (access & FI_REMOTE_READ ? HK_REGION_READ : 0) |
			  (access & FI_REMOTE_WRITE ? HK_REGION_WRITE : 0);
	struct hk_fi_mr *mr;
	int rc = 0;

	/* FI_RMA_EVENT announces a counter: a region of ours can get one at any time */
	if (fid->fclass != FI_CLASS_DOMAIN || offset || flags & ~FI_RMA_EVENT)
		return -FI_EINVAL;
	mr = hk_fi_object_open(d, sizeof(*mr), FI_CLASS_MR, &fid_ops, context);
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = d;
	mr->fid.key = d->basic ? FI_KEY_NOTAVAIL : key;
	hk_fi_lock(d);
	if (rights)
		rc = share(mr, (void *)(uintptr_t)buf, len, rights);
	hk_fi_unlock(d);
	if (rc == 0) {
		*out = &mr->fid;
		return 0;
	}
	if (rc == -FI_ENOSPC)
		hk_fi_warn("no more memory regions: there are %u; fix: close some", HK_FI_REGIONS);
	(void)close_mr(&mr->fid.fid);
	return rc;
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

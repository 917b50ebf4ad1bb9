/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/domain.c: domains, each with a worker; fabrics, of which there is one kind.
 */
#include "libfabric/atomic_ops.h"
#include "libfabric/operation.h"
#include "worker/private.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

struct hk_fi_fabric {
	struct fid_fabric fid;
	int objects; /* domains and event queues that are open */
};

#define IDLE_POLLS 100 /* some microseconds: a reply comes sooner where the peer has a core */
#define POLLS      64  /* between two readings of the clock */

void hk_fi_progress(struct hk_fi_domain *d)
{
	if (hk_worker_progress(d->worker)) {
		d->idle = 0;
		hk_idle_busy(&d->pause);
	} else if (++d->idle > IDLE_POLLS && HK_UNLIKELY(hk_fi_params.yield)) {
		d->sleep_ns = hk_worker_idle(d->worker, &d->pause);
	}
	if (HK_UNLIKELY(d->waiting))
		hk_fi_tell_waiting(d);
	if (HK_UNLIKELY(++d->polls % POLLS == 0) && d->calls)
		hk_fi_peers_step(d);
}

void hk_fi_yield(struct hk_fi_domain *d)
{
	struct timespec t = {.tv_nsec = (long)d->sleep_ns};

	if (HK_LIKELY(d->idle <= IDLE_POLLS) || !hk_fi_params.yield)
		return;
	if (t.tv_nsec)
		nanosleep(&t, NULL);
	else
		sched_yield();
}

static void destroy(struct hk_fi_domain *d)
{
	hk_fi_auto_stop(d);
	hk_fi_worker_close(d);
	hk_fi_pending_close(d);
	hk_fi_pool_close(&d->recvs);
	hk_fi_pool_close(&d->rmas);
	hk_fi_tell_close(d);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->auto_end);
	free(d);
}

static int domain_close(struct fid *fid)
{
	struct hk_fi_domain *d = container_of(fid, struct hk_fi_domain, fid.fid);

	if (d->objects)
		return -FI_EBUSY;
	hk_fi_fabric_count(&d->fabric->fid, -1);
	destroy(d);
	return 0;
}

void *hk_fi_object_open(struct hk_fi_domain *d, size_t size, size_t fclass,
			struct fi_ops *object_ops, void *context)
{
	struct fid *fid = calloc(1, size);

	if (!fid)
		return NULL;
	fid->fclass = fclass;
	fid->context = context;
	fid->ops = object_ops;
	hk_fi_lock(d);
	d->objects++;
	hk_fi_unlock(d);
	return fid;
}

int hk_fi_object_close(struct hk_fi_domain *d, void *object)
{
	hk_fi_lock(d);
	d->objects--;
	hk_fi_unlock(d);
	free(object);
	return 0;
}

static int query_atomic(struct fid_domain *fid, enum fi_datatype type, enum fi_op op,
			struct fi_atomic_attr *attr, uint64_t flags)
{
	const struct hk_fi_domain *d = container_of(fid, struct hk_fi_domain, fid);

	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return -FI_EOPNOTSUPP; /* as on tagged buffers */
	if (flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return -FI_EINVAL;
	attr->size = hk_fi_atomic_size(type);
	return hk_fi_atomic_query(d, flags, type, op, &attr->count);
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(domain_close, hk_fi_no_bind, hk_fi_no_control);

static struct fi_ops_domain ops = {
	.size = sizeof(ops),
	.av_open = hk_fi_av_open,
	.cq_open = hk_fi_cq_open,
	.endpoint = hk_fi_endpoint_open,
	.scalable_ep = hk_fi_no_scalable,
	.cntr_open = hk_fi_cntr_open,
	.poll_open = hk_fi_no_poll_set,
	.stx_ctx = hk_fi_no_stx,
	.srx_ctx = hk_fi_no_srx,
	.query_atomic = query_atomic,
};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	struct hk_fi_domain *d;
	struct hk_error err = {""};
	int rc = hk_fi_check(info);

	if (rc)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	d->fabric = container_of(fabric, struct hk_fi_fabric, fid);
	d->fid.fid.fclass = FI_CLASS_DOMAIN;
	d->fid.fid.context = context;
	d->fid.fid.ops = &fid_ops;
	d->fid.ops = &ops;
	d->fid.mr = &hk_fi_mr_ops;
	d->is_auto = info->domain_attr && info->domain_attr->data_progress == FI_PROGRESS_AUTO;
	d->safe = d->is_auto || !info->domain_attr ||
		  info->domain_attr->threading != FI_THREAD_DOMAIN;
	d->local = info->caps & FI_LOCAL_COMM;
	d->basic = info->domain_attr && info->domain_attr->mr_mode == HK_FI_MR_BASIC;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->auto_end, NULL);
	rc = hk_fi_params_check(&err);
	if (rc == 0)
		rc = hk_fi_worker_open(d, &err);
	if (rc == 0)
		rc = hk_fi_peers_open(d);
	if (rc == 0) {
		hk_fi_handlers(d);
		rc = d->is_auto ? hk_fi_auto_start(d, &err) : 0;
	}
	if (rc) {
		if (err.text[0])
			hk_fi_fail(err.text);
		destroy(d);
		return rc; /* FI_E… of these are the codes of errno */
	}
	hk_fi_fabric_count(&d->fabric->fid, 1);
	*domain = &d->fid;
	return 0;
}

/* ---- fabrics --------------------------------------------------------------------------------- */

void hk_fi_fabric_count(struct fid_fabric *fabric, int change)
{
	struct hk_fi_fabric *f = container_of(fabric, struct hk_fi_fabric, fid);

	__atomic_add_fetch(&f->objects, change, __ATOMIC_RELAXED);
}

static int fabric_close(struct fid *fid)
{
	struct hk_fi_fabric *f = container_of(fid, struct hk_fi_fabric, fid.fid);

	if (f->objects)
		return -FI_EBUSY;
	free(f);
	return 0;
}

static struct fi_ops fabric_fid_ops = HK_FI_FID_OPS(fabric_close, hk_fi_no_bind, hk_fi_no_control);

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops),
	.domain = domain_open,
	.passive_ep = hk_fi_no_passive,
	.eq_open = hk_fi_eq_open,
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
	f->fid.fid.ops = &fabric_fid_ops;
	f->fid.ops = &fabric_ops;
	f->fid.api_version = attr->api_version;
	*fabric = &f->fid;
	return 0;
}

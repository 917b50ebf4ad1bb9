/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/rma.c: memory registration and get.
 *
 * ob1 moves long contiguous messages by them. The sender registers its buffer and announces it, and
 * the receiver gets it. The data then moves without ob1: from the user's buffer to the wire, and
 * from the receive buffer into the user's buffer. It also moves while either application computes,
 * because the progress thread serves gets.
 */
#include "openmpi/btl/btl_hikyaku.h"

#include <errno.h>

/* A handle of ours, and a get under way. */
typedef struct hk_registration {
	opal_free_list_item_t super;
	struct mca_btl_base_registration_handle_t handle;
} hk_registration;
OBJ_CLASS_INSTANCE(hk_registration, opal_free_list_item_t, NULL, NULL);

typedef struct hk_get {
	opal_free_list_item_t super;
	struct hk_op op;
	hk_endpoint *ep;
	void *to;
	struct mca_btl_base_registration_handle_t *handle;
	mca_btl_base_rdma_completion_fn_t done;
	void *context, *data;
} hk_get;
OBJ_CLASS_INSTANCE(hk_get, opal_free_list_item_t, NULL, NULL);

void hk_btl_rma_init(void)
{
	hk_btl.super.btl_registration_handle_size = sizeof(
		struct mca_btl_base_registration_handle_t);
	OBJ_CONSTRUCT(&hk_btl.registrations, opal_free_list_t);
	OBJ_CONSTRUCT(&hk_btl.gets, opal_free_list_t);
	opal_free_list_init(&hk_btl.registrations, sizeof(hk_registration), 64,
			    OBJ_CLASS(hk_registration), 0, 64, 64, -1, 64, NULL, 0, NULL, NULL,
			    NULL);
	opal_free_list_init(&hk_btl.gets, sizeof(hk_get), 64, OBJ_CLASS(hk_get), 0, 64, 64, -1, 64,
			    NULL, 0, NULL, NULL, NULL);
}

void hk_btl_rma_fini(void)
{
	OBJ_DESTRUCT(&hk_btl.registrations);
	OBJ_DESTRUCT(&hk_btl.gets);
}

struct mca_btl_base_registration_handle_t *hk_btl_register_mem(struct mca_btl_base_module_t *btl,
							       hk_endpoint *ep, void *base,
							       size_t size, uint32_t flags)
{
	unsigned access = 0;
	hk_registration *r;

	(void)btl;
	access |= flags & MCA_BTL_REG_FLAG_REMOTE_READ ? HK_REGION_READ : 0;
	access |= flags & MCA_BTL_REG_FLAG_REMOTE_WRITE ? HK_REGION_WRITE : 0;
	access |= flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC ? HK_REGION_READ | HK_REGION_WRITE : 0;
	r = (hk_registration *)opal_free_list_get(&hk_btl.registrations);
	if (HK_UNLIKELY(!r))
		return NULL;
	hk_btl_lock();
	r->handle.region = hk_worker_region_add(hk_btl.worker, base, size, access,
						ep == MCA_BTL_ENDPOINT_ANY ? HK_PEER_NONE
									   : ep->peer);
	hk_btl_unlock();
	if (HK_UNLIKELY(r->handle.region == HK_REGION_NONE)) { /* ob1 sends by fragments */
		opal_free_list_return(&hk_btl.registrations, &r->super);
		return NULL;
	}
	if (ep == MCA_BTL_ENDPOINT_ANY)
		hk_same_node_add(r->handle.region, base, size);
	r->handle.base = (uintptr_t)base;
	r->handle.zero = 0;
	return &r->handle;
}

int hk_btl_deregister_mem(struct mca_btl_base_module_t *btl,
			  struct mca_btl_base_registration_handle_t *handle)
{
	hk_registration *r = (hk_registration *)((char *)handle -
						 offsetof(hk_registration, handle));

	(void)btl;
	hk_same_node_del(handle->region);
	hk_btl_lock();
	hk_worker_region_del(hk_btl.worker, handle->region);
	hk_btl_unlock();
	opal_free_list_return(&hk_btl.registrations, &r->super);
	return OPAL_SUCCESS;
}

static void on_got(void *arg, int status)
{
	hk_get *get = arg, g = *get;

	opal_free_list_return(&hk_btl.gets, &get->super);
	/* the disconnect of a lost peer, reported after this, ends the job: no second error from
	 * here */
	if (HK_UNLIKELY(status == -ENOTCONN))
		return;
	g.done(&hk_btl.super, g.ep, g.to, g.handle, g.context, g.data,
	       status ? OPAL_ERROR : OPAL_SUCCESS);
}

int hk_btl_get(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *to, uint64_t from,
	       struct mca_btl_base_registration_handle_t *local,
	       struct mca_btl_base_registration_handle_t *remote, size_t size, int flags, int order,
	       mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	int rc;

	(void)btl;
	(void)flags;
	(void)order;
	if (HK_UNLIKELY(hk_btl_is_here(ep, remote) ||
			size == 0)) { /* it is mapped here: see onesided.c */
		memcpy(to, (void *)(uintptr_t)from, size);
		done(&hk_btl.super, ep, to, local, context, data, OPAL_SUCCESS);
		return OPAL_SUCCESS;
	}
	if (ep->same_node)
		return hk_btl_get_same_node(ep, to, from, local, remote, size, done, context, data);
	hk_get *get = (hk_get *)opal_free_list_get(&hk_btl.gets);

	if (HK_UNLIKELY(!get))
		return OPAL_ERR_OUT_OF_RESOURCE;
	get->ep = ep;
	get->to = to;
	get->handle = local;
	get->done = done;
	get->context = context;
	get->data = data;
	hk_btl_lock();
	rc = hk_worker_get(hk_btl.worker, ep->peer, &get->op, to, size, remote->region,
			   from - remote->base, on_got, get);
	if (HK_UNLIKELY(rc != 0)) {
		opal_free_list_return(&hk_btl.gets, &get->super);
		rc = hk_btl_refused(rc);
	}
	hk_btl_unlock();
	return rc;
}

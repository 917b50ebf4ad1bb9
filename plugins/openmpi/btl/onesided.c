/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/onesided.c: put and the atomic operations, for Open MPI's osc/rdma.
 *
 * osc/rdma makes MPI's one-sided communication of them, of get (rma.c), and of memory that the
 * ranks of a node share. It takes an operation's callback to mean that the target has the data:
 * calls such as MPI_Win_flush then return. So each operation ends with the target's answer
 * (worker/atomic.h). Data that fits into one frame is one operation; a fence follows a longer put.
 *
 * The target's processor carries out our operations with its atomic instructions. So the target may
 * mix them with such instructions of its own. Memory of this process, or shared with it, needs no
 * message: osc/rdma gives no handle for it.
 */
#include "openmpi/btl/btl_hikyaku.h"

#include <errno.h>

/* An operation under way. */
typedef struct hk_onesided {
	opal_free_list_item_t super;
	struct hk_atomic_op atomic; /* the operation, or the fence behind … */
	struct hk_op put;           /* … this */
	struct hk_same_node_op node_op;
	hk_endpoint *ep;
	void *local; /* where the result goes, or the source of a put */
	struct mca_btl_base_registration_handle_t *handle;
	mca_btl_base_rdma_completion_fn_t done;
	void *context, *data;
	unsigned waits;   /* of the two, for how many answers */
	unsigned results; /* bytes of the result: 0, 4 or 8 */
	int status;
} hk_onesided;
OBJ_CLASS_INSTANCE(hk_onesided, opal_free_list_item_t, NULL, NULL);

void hk_btl_onesided_init(void)
{
	OBJ_CONSTRUCT(&hk_btl.onesided, opal_free_list_t);
	opal_free_list_init(&hk_btl.onesided, sizeof(hk_onesided), 64, OBJ_CLASS(hk_onesided), 0,
			    64, 64, -1, 64, NULL, 0, NULL, NULL, NULL);
}

void hk_btl_onesided_fini(void)
{
	OBJ_DESTRUCT(&hk_btl.onesided);
}

void hk_btl_onesided_failed(const hk_endpoint *ep, const char *what)
{
	char line[256];

	snprintf(line, sizeof(line), "hikyaku: rank %u %s", ep->proc->proc_name.vpid, what);
	if (hk_btl.error_cb)
		hk_btl.error_cb(&hk_btl.super, MCA_BTL_ERROR_FLAGS_FATAL, ep->proc, line);
	else
		hk_btl_error("%s", line);
}

static void on_done(void *arg, int status)
{
	hk_onesided *o = arg;

	o->status = status ? status : o->status;
	if (--o->waits)
		return;
	hk_onesided end = *o;

	memcpy(end.local, &end.atomic.old, end.results); /* little-endian hosts */
	opal_free_list_return(&hk_btl.onesided, &o->super);
	/* the disconnect of a lost peer, reported after this, ends the job: no second error from
	 * here */
	if (HK_UNLIKELY(end.status == -ENOTCONN)) {
		if (end.ep->same_node)
			hk_btl_onesided_failed(end.ep, HK_BTL_DIED);
		return;
	}
	if (HK_UNLIKELY(end.status != 0))
		hk_btl_onesided_failed(
			end.ep,
			"refused a one-sided operation: its window is gone there, or is too "
			"short");
	if (end.done)
		end.done(&hk_btl.super, end.ep, end.local, end.handle, end.context, end.data,
			 end.status ? OPAL_ERROR : OPAL_SUCCESS);
}

static hk_onesided *take(hk_endpoint *ep, void *local,
			 struct mca_btl_base_registration_handle_t *handle,
			 mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	hk_onesided *o = (hk_onesided *)opal_free_list_get(&hk_btl.onesided);

	if (HK_UNLIKELY(!o))
		return NULL;
	o->ep = ep;
	o->local = local;
	o->handle = handle;
	o->done = done;
	o->context = context;
	o->data = data;
	o->waits = 1;
	o->results = 0;
	o->status = 0;
	if (HK_UNLIKELY(hk_btl.tag) && !ep->same_node) /* which no frame leaves for */
		hk_worker_peer_function(hk_btl.worker, ep->peer, HK_TAG_RMA);
	return o;
}

static void same_node_done(void *arg, int status)
{
	hk_onesided *o = arg;

	o->atomic.old = o->node_op.old;
	on_done(o, status);
}

static int start_same_node(hk_onesided *o, const struct hk_wire_atomic *w, void *data, size_t len)
{
	o->node_op.to = o->ep->same_node_name;
	o->node_op.request = *w;
	o->node_op.base = data;
	o->node_op.len = len;
	o->node_op.done = same_node_done;
	o->node_op.arg = o;
	hk_btl_lock();
	hk_same_node_start(&o->node_op);
	hk_btl_unlock();
	return OPAL_SUCCESS;
}

/* Starts the operation @w. */
static int start(hk_onesided *o, const struct hk_wire_atomic *w, void *data)
{
	hk_btl_lock();
	int rc = hk_worker_atomic(hk_btl.worker, o->ep->peer, &o->atomic, w, data, on_done, o);

	if (HK_UNLIKELY(rc != 0)) {
		opal_free_list_return(&hk_btl.onesided, &o->super);
		rc = hk_btl_refused(rc);
	}
	hk_btl_unlock();
	return rc;
}

/* ---- put ------------------------------------------------------------------------------------- */

/* More than a frame: a put, and the fence behind it. */
static int put_long(hk_onesided *o, void *from, size_t size, hk_region region, uint64_t offset)
{
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};

	o->waits = 2;
	hk_btl_lock();
	int rc = hk_worker_put(hk_btl.worker, o->ep->peer, &o->put, from, size, region, offset,
			       on_done, o);

	/* if the peer went between the two, the put ends with -ENOTCONN */
	if (rc == 0 &&
	    hk_worker_atomic(hk_btl.worker, o->ep->peer, &o->atomic, &fence, NULL, on_done, o) != 0)
		o->waits = 1;
	if (HK_UNLIKELY(rc != 0)) {
		opal_free_list_return(&hk_btl.onesided, &o->super);
		rc = hk_btl_refused(rc);
	}
	hk_btl_unlock();
	return rc;
}

int hk_btl_put(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *from, uint64_t to,
	       struct mca_btl_base_registration_handle_t *local,
	       struct mca_btl_base_registration_handle_t *remote, size_t size, int flags, int order,
	       mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	(void)btl;
	(void)flags;
	(void)order;
	if (hk_btl_is_here(ep, remote) || size == 0) {
		memcpy((void *)(uintptr_t)to, from, size);
		if (done)
			done(&hk_btl.super, ep, from, local, context, data, OPAL_SUCCESS);
		return OPAL_SUCCESS;
	}
	hk_onesided *o = take(ep, from, local, done, context, data);

	if (HK_UNLIKELY(!o))
		return OPAL_ERR_OUT_OF_RESOURCE;
	const struct hk_wire_atomic w = {
		.op = HK_ATOMIC_WRITE,
		.region = remote->region,
		.offset = to - remote->base,
	};

	if (ep->same_node)
		return start_same_node(o, &w, from, size);
	if (size > hk_worker_atomic_max(hk_btl.worker))
		return put_long(o, from, size, remote->region, to - remote->base);
	struct hk_wire_atomic one = w;

	one.len = (uint32_t)size;
	return start(o, &one, from);
}

int hk_btl_get_same_node(hk_endpoint *ep, void *to, uint64_t from,
			 struct mca_btl_base_registration_handle_t *local,
			 struct mca_btl_base_registration_handle_t *remote, size_t size,
			 mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	const struct hk_wire_atomic w = {
		.op = HK_ATOMIC_READ,
		.region = remote->region,
		.offset = from - remote->base,
	};
	hk_onesided *o = take(ep, to, local, done, context, data);

	return HK_LIKELY(o) ? start_same_node(o, &w, to, size) : OPAL_ERR_OUT_OF_RESOURCE;
}

/* ---- atomic operations ----------------------------------------------------------------------- */

/* 0: not offered. Of MIN and MAX the caller does not say whether numbers are signed, so these are
 * not. */
static uint8_t kind_of(mca_btl_base_atomic_op_t op)
{
	switch (op) {
	case MCA_BTL_ATOMIC_ADD:
		return HK_ATOMIC_ADD;
	case MCA_BTL_ATOMIC_AND:
		return HK_ATOMIC_AND;
	case MCA_BTL_ATOMIC_OR:
		return HK_ATOMIC_OR;
	case MCA_BTL_ATOMIC_XOR:
		return HK_ATOMIC_XOR;
	case MCA_BTL_ATOMIC_SWAP:
		return HK_ATOMIC_SWAP;
	default:
		return 0;
	}
}

static int atomic(hk_endpoint *ep, void *local, uint64_t at,
		  struct mca_btl_base_registration_handle_t *handle,
		  struct mca_btl_base_registration_handle_t *remote, struct hk_wire_atomic *w,
		  int flags, mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	if (HK_UNLIKELY(!w->op || (flags & MCA_BTL_ATOMIC_FLAG_FLOAT)))
		return OPAL_ERR_NOT_SUPPORTED;
	w->size = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8;
	if (hk_btl_is_here(ep, remote)) {
		uint64_t old = hk_atomic_apply(w, (void *)(uintptr_t)at);

		if (local)
			memcpy(local, &old, w->size);
		if (done)
			done(&hk_btl.super, ep, local, handle, context, data, OPAL_SUCCESS);
		return OPAL_SUCCESS;
	}
	hk_onesided *o = take(ep, local, handle, done, context, data);

	if (HK_UNLIKELY(!o))
		return OPAL_ERR_OUT_OF_RESOURCE;
	o->results = local ? w->size : 0;
	w->region = remote->region;
	w->offset = at - remote->base;
	return ep->same_node ? start_same_node(o, w, NULL, w->size) : start(o, w, NULL);
}

int hk_btl_atomic_op(struct mca_btl_base_module_t *btl, hk_endpoint *ep, uint64_t at,
		     struct mca_btl_base_registration_handle_t *remote, mca_btl_base_atomic_op_t op,
		     uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t done,
		     void *context, void *data)
{
	struct hk_wire_atomic w = {.op = kind_of(op), .operand = operand};

	(void)btl;
	(void)order;
	return atomic(ep, NULL, at, NULL, remote, &w, flags, done, context, data);
}

int hk_btl_atomic_fop(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *local, uint64_t at,
		      struct mca_btl_base_registration_handle_t *handle,
		      struct mca_btl_base_registration_handle_t *remote,
		      mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
		      mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	struct hk_wire_atomic w = {.op = kind_of(op), .operand = operand};

	(void)btl;
	(void)order;
	return atomic(ep, local, at, handle, remote, &w, flags, done, context, data);
}

int hk_btl_atomic_cswap(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *local,
			uint64_t at, struct mca_btl_base_registration_handle_t *handle,
			struct mca_btl_base_registration_handle_t *remote, uint64_t compare,
			uint64_t value, int flags, int order,
			mca_btl_base_rdma_completion_fn_t done, void *context, void *data)
{
	struct hk_wire_atomic w = {.op = HK_ATOMIC_CAS, .operand = value, .compare = compare};

	(void)btl;
	(void)order;
	return atomic(ep, local, at, handle, remote, &w, flags, done, context, data);
}

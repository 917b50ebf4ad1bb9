/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/btl/rpc.c: procedures that ranks call of each other (rpc.h). */
#include "openmpi/btl/rpc.h"

#include "openmpi/btl/btl_hikyaku.h"

#include <errno.h>

static size_t max(void)
{
	return hk_worker_atomic_max(hk_btl.worker);
}

/* ---- ours, which others call ----------------------------------------------------------------- */

static enum hk_rpc_end called_from_far(void *arg, struct hk_rpc_caller *from, const void *args,
				       void *result)
{
	const struct hk_btl_procedure *p = arg;
	struct hk_btl_caller caller = {.call = &from->call, .far = from};

	return p->fn(p->arg, &caller, args, result);
}

static enum hk_rpc_end called_from_near(void *arg, struct hk_same_node_caller *from,
					const void *args, void *result)
{
	const struct hk_btl_procedure *p = arg;
	struct hk_btl_caller caller = {.call = &from->call, .near = from};

	return p->fn(p->arg, &caller, args, result);
}

static bool add(struct hk_btl_procedure *p)
{
	hk_btl_lock();
	p->id = hk_worker_procedure_add(hk_btl.worker, called_from_far, p);
	hk_btl_unlock();
	if (p->id != HK_REGION_NONE)
		hk_same_node_procedure_add(p->id, called_from_near, p);
	return p->id != HK_REGION_NONE;
}

static void del(struct hk_btl_procedure *p)
{
	if (!hk_btl.worker) /* MPI_Finalize was before */
		return;
	hk_same_node_del(p->id);
	hk_btl_lock();
	hk_worker_region_del(hk_btl.worker, p->id);
	hk_btl_unlock();
}

static bool is_of(const hk_endpoint *ep, const struct hk_btl_caller *c)
{
	return c->far ? !ep->same_node && ep->peer == c->far->peer : ep->same_node;
}

static int reply(const struct hk_btl_waiting *w, const void *result)
{
	if (w->is_near) {
		struct hk_same_node_caller near = w->near;

		near.call = w->call;
		return hk_same_node_reply(&near, result);
	}
	struct hk_rpc_caller far = w->far;

	far.call = w->call;
	return hk_worker_rpc_reply(hk_btl.worker, &far, result);
}

/* ---- calls of ours --------------------------------------------------------------------------- */

static void far_done(void *arg, int status)
{
	struct hk_btl_call *c = arg;

	c->old = c->far.old;
	c->result = c->far.result;
	if (HK_UNLIKELY(status == -ENOTCONN))
		(void)hk_btl_refused(status);
	c->done(c->arg, status);
}

static void near_done(void *arg, int status)
{
	struct hk_btl_call *c = arg;

	c->old = c->near.old;
	c->result = c->near.result;
	if (HK_UNLIKELY(status == -ENOTCONN))
		hk_btl_onesided_failed(c->ep, HK_BTL_DIED);
	c->done(c->arg, status);
}

static int call(hk_endpoint *ep, struct hk_btl_call *c, const struct hk_wire_atomic *ask,
		const struct hk_rpc_bytes *b, hk_done_fn done, void *arg)
{
	int rc = 0;

	c->ep = ep;
	c->done = done;
	c->arg = arg;
	hk_btl_lock();
	if (ep->same_node) {
		if (b->more_len)
			memcpy((char *)b->base + ask->len - b->more_len, b->more, b->more_len);
		c->near = (struct hk_same_node_op){
			.to = ep->same_node_name,
			.request = *ask,
			.base = b->base,
			.len = ask->len,
			.room = b->room,
			.done = near_done,
			.arg = c,
		};
		hk_same_node_start(&c->near);
	} else {
		rc = hk_worker_call(hk_btl.worker, ep->peer, &c->far, ask, b, far_done, c);
		if (HK_UNLIKELY(rc == -ENOTCONN))
			(void)hk_btl_refused(rc);
	}
	hk_btl_unlock();
	return rc;
}

const struct hk_btl_rpc hk_btl_rpc = {
	.btl = &hk_btl.super,
	.max = max,
	.add = add,
	.del = del,
	.call = call,
	.is_of = is_of,
	.reply = reply,
};

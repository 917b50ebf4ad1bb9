/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/service.c: the BTL's worker, for other libraries of this process (hikyaku/service.h).
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/btl/mcast.h"
#include "openmpi/btl/rpc.h"

#include "opal/runtime/opal_progress.h"

static bool identity(struct hk_identity *me)
{
	*me = (struct hk_identity){hk_btl.key, hk_btl.endpoint, hk_btl.epoch};
	return hk_btl.worker != NULL;
}

static hk_peer peer(const struct hk_identity *who)
{
	hk_peer p = HK_PEER_NONE;

	if (!hk_btl.worker || who->key != hk_btl.key)
		return p;
	hk_btl_lock();
	p = hk_engine_peer_find(hk_worker_engine(hk_btl.worker), who->endpoint);
	if (p != HK_PEER_NONE && (!hk_btl.by_peer[p] || hk_btl.by_peer[p] == HK_DELETED))
		p = HK_PEER_NONE;
	hk_btl_unlock();
	return p;
}

static bool alive(hk_peer p)
{
	enum hk_peer_state state;

	if (!hk_btl.worker)
		return false;
	hk_btl_lock();
	state = hk_engine_peer_state(hk_worker_engine(hk_btl.worker), p);
	hk_btl_unlock();
	return state == HK_PEER_ACTIVE || state == HK_PEER_PASSIVE;
}

static const char *name(hk_peer p)
{
	return hk_btl.worker ? hk_worker_peer_name(hk_btl.worker, p) : "";
}

static unsigned paths(hk_peer p)
{
	unsigned count = 0;

	if (!hk_btl.worker)
		return count;
	hk_btl_lock();
	count = hk_worker_peer_paths(hk_btl.worker, p);
	hk_btl_unlock();
	return count;
}

static hk_region notify_add(struct hk_notify_target *in, hk_peer p, const struct hk_layout *to,
			    void *staging, unsigned depth)
{
	hk_btl_lock();
	hk_region r = hk_worker_notify_add(hk_btl.worker, in, p, to, staging, depth);

	hk_btl_unlock();
	return r;
}

static void notify_del(struct hk_notify_target *in)
{
	if (!hk_btl.worker) /* MPI_Finalize was before */
		return;
	hk_btl_lock();
	hk_worker_notify_del(hk_btl.worker, in);
	hk_btl_unlock();
}

static void notify_open(struct hk_notify_target *in)
{
	hk_btl_lock();
	hk_worker_notify_open(hk_btl.worker, in);
	hk_btl_unlock();
}

static void notify_take(struct hk_notify_target *in)
{
	hk_btl_lock();
	hk_worker_notify_take(hk_btl.worker, in);
	hk_btl_unlock();
}

static int put(hk_peer p, struct hk_op *op, const struct hk_layout *from, hk_region remote,
	       uint32_t number, hk_done_fn done, void *arg)
{
	hk_btl_lock();
	int rc = hk_worker_put_notify(hk_btl.worker, p, op, from, remote, number, done, arg);

	hk_btl_unlock();
	return rc;
}

static void progress(bool all)
{
	if (all || opal_progress_yield_when_idle)
		opal_progress();
	else
		mca_btl_hikyaku_component.super.btl_progress();
}

const struct hk_service hk_btl_service = {
	.identity = identity,
	.peer = peer,
	.alive = alive,
	.name = name,
	.paths = paths,
	.notify_add = notify_add,
	.notify_del = notify_del,
	.notify_open = notify_open,
	.notify_take = notify_take,
	.put = put,
	.progress = progress,
	.mcast = &hk_btl_mcast,
	.rpc = &hk_btl_rpc,
};

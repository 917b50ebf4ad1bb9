/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/service.c: what others of this process may do with the BTL's fabric.
 */
#include "mpi/btl_hikyaku.h"
#include "mpi/service.h"

#include "opal/runtime/opal_progress.h"

static bool identity(struct hk_btl_identity *me)
{
	*me = (struct hk_btl_identity){hk_btl.key, hk_btl.endpoint, hk_btl.epoch};
	return hk_btl.fabric != NULL;
}

static hk_peer peer(const struct hk_btl_identity *who)
{
	hk_peer p = HK_PEER_NONE;

	if (!hk_btl.fabric || who->key != hk_btl.key)
		return p;
	hk_btl_lock();
	p = hk_engine_peer_find(hk_fabric_engine(hk_btl.fabric), who->endpoint);
	if (p != HK_PEER_NONE && (!hk_btl.by_peer[p] || hk_btl.by_peer[p] == HK_DELETED))
		p = HK_PEER_NONE;
	hk_btl_unlock();
	return p;
}

static bool alive(hk_peer p)
{
	enum hk_peer_state state;

	if (!hk_btl.fabric)
		return false;
	hk_btl_lock();
	state = hk_engine_peer_state(hk_fabric_engine(hk_btl.fabric), p);
	hk_btl_unlock();
	return state == HK_PEER_ACTIVE || state == HK_PEER_HEARD;
}

static const char *name(hk_peer p)
{
	return hk_btl.fabric ? hk_fabric_peer_name(hk_btl.fabric, p) : "";
}

static unsigned rails(hk_peer p)
{
	unsigned count = 0;

	if (!hk_btl.fabric)
		return count;
	hk_btl_lock();
	count = hk_fabric_peer_rails(hk_btl.fabric, p);
	hk_btl_unlock();
	return count;
}

static hk_region inbox_add(struct hk_inbox *in, hk_peer p, const struct hk_layout *to, void *early,
			   unsigned places)
{
	hk_btl_lock();
	hk_region r = hk_fabric_inbox_add(hk_btl.fabric, in, p, to, early, places);

	hk_btl_unlock();
	return r;
}

static void inbox_del(struct hk_inbox *in)
{
	if (!hk_btl.fabric) /* MPI_Finalize was before */
		return;
	hk_btl_lock();
	hk_fabric_inbox_del(hk_btl.fabric, in);
	hk_btl_unlock();
}

static void inbox_open(struct hk_inbox *in)
{
	hk_btl_lock();
	hk_fabric_inbox_open(hk_btl.fabric, in);
	hk_btl_unlock();
}

static void inbox_take(struct hk_inbox *in)
{
	hk_btl_lock();
	hk_fabric_inbox_take(hk_btl.fabric, in);
	hk_btl_unlock();
}

static int put(hk_peer p, struct hk_op *op, const struct hk_layout *from, hk_region remote,
	       uint32_t number, hk_done_fn done, void *arg)
{
	hk_btl_lock();
	int rc = hk_fabric_put_notify(hk_btl.fabric, p, op, from, remote, number, done, arg);

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

extern const struct hk_btl_service HK_BTL_SERVICE;
const struct hk_btl_service HK_BTL_SERVICE __attribute__((visibility("default"))) = {
	.op_size = sizeof(struct hk_op),
	.inbox_size = sizeof(struct hk_inbox),
	.identity = identity,
	.peer = peer,
	.alive = alive,
	.name = name,
	.rails = rails,
	.inbox_add = inbox_add,
	.inbox_del = inbox_del,
	.inbox_open = inbox_open,
	.inbox_take = inbox_take,
	.put = put,
	.progress = progress,
};

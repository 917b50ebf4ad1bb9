/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/mcast.c: the worker's multicasts, for Bcast (mcast.h).
 *
 * Only a rank that polls a port of its own takes part. hikyakud passes frames to the
 * endpoint that they name, and a multicast names none.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/btl/mcast.h"

#include "sdn/registrar/registrar.h"

static bool ready(void)
{
	return hk_btl.worker && hk_btl_known_job() != 0;
}

static bool peer(const struct opal_proc_t *proc, struct hk_btl_mcast_peer *who)
{
	opal_process_name_t me = opal_proc_local_get()->proc_name;
	size_t payload = hk_worker_frame_payload(hk_btl.worker);
	size_t beside = HK_WIRE_PUT_OVERHEAD + hk_wire_trailer_room(hk_btl.protection);
	struct hk_modex m;

	if (proc->proc_name.jobid != me.jobid)
		return false; /* of another MPI_COMM_WORLD: its rank is not one of our job's */
	if (!hk_btl_read_modex(proc, &m) || m.known_job != hk_btl_known_job() ||
	    m.path[0].frame_max <= beside)
		return false;
	*who = (struct hk_btl_mcast_peer){
		.endpoint = m.endpoint,
		.epoch = m.epoch,
		.rank = proc->proc_name.vpid,
		.payload = HK_MIN(payload, m.path[0].frame_max - beside),
	};
	return true;
}

static int group(const uint32_t *ranks, size_t n, uint32_t *number, struct hk_error *err)
{
	return hk_registrar_group(mca_btl_hikyaku_component.param.registrar, ranks, n, number, err);
}

static int drop(uint32_t number, struct hk_error *err)
{
	return hk_registrar_group_drop(mca_btl_hikyaku_component.param.registrar, number, err);
}

static void listen_open(struct hk_mcast *m)
{
	hk_btl_lock();
	hk_worker_mcast_open(hk_btl.worker, m);
	hk_btl_unlock();
}

static void listen_close(struct hk_mcast *m)
{
	hk_btl_lock();
	hk_worker_mcast_close(hk_btl.worker, m);
	hk_btl_unlock();
}

static uint32_t send_pieces(uint32_t to, const struct hk_mcast_to *transfer, uint32_t first,
			    const void *bytes, size_t len, size_t each)
{
	const struct hk_tag tag = {
		.job = (uint16_t)mca_btl_hikyaku_component.param.tag,
		.function = HK_TAG_BCAST,
		.group = true,
		.source = (uint16_t)opal_proc_local_get()->proc_name.vpid,
		.destination = (uint16_t)to,
	};
	struct hk_mcast_to where = *transfer;

	where.tag = hk_tag_pack(&tag);
	hk_btl_lock();
	uint32_t sent = hk_worker_mcast(hk_btl.worker, &where, first, bytes, len, each);

	hk_btl_unlock();
	return sent;
}

const struct hk_btl_mcast hk_btl_mcast = {
	.ready = ready,
	.peer = peer,
	.group = group,
	.drop = drop,
	.open = listen_open,
	.close = listen_close,
	.send = send_pieces,
};

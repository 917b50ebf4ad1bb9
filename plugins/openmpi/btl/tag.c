/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/tag.c: native tags (docs/tag.md): the destination address of our own frames names
 * job, MPI function and ranks.
 *
 * The function is read from ob1's own header, which starts each message: Open MPI's collectives use
 * negative tags, one for each function. The data after a message's announcement (its
 * fragments, or bytes that the receiver gets) counts for the same function.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "hikyaku/mcast.h"
#include "sdn/registrar/registrar.h"
#include "openmpi/btl/coll_tags.h"

#include "ompi/mca/coll/base/coll_tags.h"

#include <errno.h>
#include <time.h>

/* ob1's messages that begin with a match header, and the offset of its tag. The header has type,
 * flags, 16 bits of context, source and tag (pml_ob1_hdr.h, which Open MPI does not install). */
#define OB1_MATCH     (MCA_BTL_TAG_PML + 1)
#define OB1_RGET      (MCA_BTL_TAG_PML + 3)
#define OB1_MATCH_TAG 8

/* From MCA_COLL_BASE_TAG_ALLGATHER downwards. */
static const uint8_t collective[] = {
	HK_TAG_ALLGATHER,      HK_TAG_ALLGATHER,      HK_TAG_ALLREDUCE, HK_TAG_ALLTOALL,
	HK_TAG_ALLTOALL,       HK_TAG_ALLTOALL,       HK_TAG_BARRIER,   HK_TAG_BCAST,
	HK_TAG_SCAN,           HK_TAG_GATHER,         HK_TAG_GATHER,    HK_TAG_REDUCE,
	HK_TAG_REDUCE_SCATTER, HK_TAG_REDUCE_SCATTER, HK_TAG_SCAN,      HK_TAG_SCATTER,
	HK_TAG_SCATTER,
};
_Static_assert(sizeof(collective) == MCA_COLL_BASE_TAG_ALLGATHER - MCA_COLL_BASE_TAG_SCATTERV + 1,
	       "a function for each of the tags of this Open MPI's blocking collectives");

static unsigned function_of(int32_t tag)
{
	if (tag >= 0)
		return HK_TAG_P2P;
	if (tag <= MCA_COLL_BASE_TAG_ALLGATHER && tag >= MCA_COLL_BASE_TAG_SCATTERV)
		return collective[MCA_COLL_BASE_TAG_ALLGATHER - tag];
	if (tag <= MCA_COLL_BASE_TAG_NEIGHBOR_BASE && tag >= MCA_COLL_BASE_TAG_NEIGHBOR_END)
		return HK_TAG_NEIGHBOR;
	if (tag == HK_COLL_TAG_UP || tag == HK_COLL_TAG_DOWN)
		return HK_TAG_BCAST;
	return HK_TAG_OTHER; /* nonblocking collectives share one range */
}

void hk_btl_tag_note(hk_endpoint *ep, mca_btl_base_tag_t am, const void *header)
{
	int32_t tag;

	if (am < OB1_MATCH || am > OB1_RGET)
		return; /* it belongs to a message that was announced before */
	memcpy(&tag, (const char *)header + OB1_MATCH_TAG, sizeof(tag));
	hk_worker_peer_function(hk_btl.worker, ep->peer, function_of(tag));
}

int hk_btl_tag_init(const uint8_t mac[6], struct hk_error *err)
{
	unsigned job = mca_btl_hikyaku_component.param.tag;

	hk_btl.tag = false;
	if (job == 0)
		return 0;
	if (job >= HK_TAG_JOBS)
		return hk_error_set(
			err, -EINVAL,
			"btl_hikyaku_tag is %u; fix: give the job a number from 1 to %d, or "
			"0 for no tags",
			job, HK_TAG_JOBS - 1);
	if (hk_tag_is(hk_tag_from_mac(mac)))
		return hk_error_set(
			err, -EADDRINUSE,
			"the port has the address %02x:%02x:%02x:%02x:%02x:%02x, which would "
			"be taken for a tag; fix: give it another first octet",
			mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	hk_btl.tag = true;
	return 0;
}

void hk_btl_tag_peer(const hk_endpoint *ep, const struct hk_modex *m)
{
	opal_process_name_t me = opal_proc_local_get()->proc_name, it = ep->proc->proc_name;

	/* spawned ranks have another MPI_COMM_WORLD, in which numbers repeat */
	if (!hk_btl.tag || it.jobid != me.jobid || it.vpid >= HK_TAG_RANKS ||
	    me.vpid >= HK_TAG_RANKS)
		return;
	/* the first switch drops tags that the controller does not know */
	if (mca_btl_hikyaku_component.param.registrar &&
	    m->known_job != mca_btl_hikyaku_component.param.tag)
		return;
	struct hk_tag tag = {.job = (uint16_t)mca_btl_hikyaku_component.param.tag,
			     .source = (uint16_t)me.vpid,
			     .destination = (uint16_t)it.vpid};

	hk_worker_peer_tag(hk_btl.worker, ep->peer, hk_tag_pack(&tag));
}

/* How often the rank asks the registrar whether the network has located it, and the interval. */
#define LOCATED_TRIES 100
#define LOCATED_PAUSE (50 * HK_MSEC)

static int register_rank(uint32_t rank, const uint8_t mac[6], struct hk_error *err)
{
	const char *registrar = mca_btl_hikyaku_component.param.registrar;
	const struct timespec pause = {.tv_nsec = LOCATED_PAUSE};
	int rc = hk_registrar_register(registrar, &rank, 1, hk_tag_from_mac(mac), err);

	for (int i = 0; rc == 0 && i < LOCATED_TRIES; i++) {
		hk_worker_announce(hk_btl.worker);
		rc = hk_registrar_located(registrar, rank, err);
		if (rc != -EAGAIN)
			return rc;
		nanosleep(&pause, NULL);
		rc = i + 1 < LOCATED_TRIES ? 0 : -EAGAIN;
	}
	return rc == -EAGAIN ? hk_error_set(err, -ETIMEDOUT,
					    "no switch of the controller has located this port "
					    "within %d s; fix: connect it to one of these: "
					    "hikyaku sdn status",
					    (int)(LOCATED_TRIES * LOCATED_PAUSE / HK_SEC))
			     : rc;
}

/* Has the controller locate this rank before its first tag leaves, because the first switch drops
 * unknown tags. If that fails, frames leave with real addresses, which every network carries. The
 * other ranks send such frames to us, because we publish job number 0. @mac: NULL if we poll no
 * port of our own. */
void hk_btl_tag_register(const uint8_t *mac)
{
	uint32_t rank = opal_proc_local_get()->proc_name.vpid;
	struct hk_error err = {""};

	hk_btl.registered = false;
	if (!hk_btl.tag || !mca_btl_hikyaku_component.param.registrar || rank >= HK_TAG_RANKS)
		return;
	if (!mac) {
		const char *why = hk_btl.daemon        ? "hikyakud has this node's"
				  : hk_btl.shares_port ? "ranks of this node share one"
						       : "memif has wires";
		const char *fix = hk_btl.daemon        ? "btl_hikyaku_mode inline"
				  : hk_btl.shares_port ? "name one for each, by {local_rank}"
						       : "name a port of a switch";

		hk_error_set(&err, -ENOTSUP,
			     "a tag stands for a port that the rank polls itself, and %s; fix: %s",
			     why, fix);
	} else if (hk_btl.ports.count > 1) {
		hk_error_set(&err, -ENOTSUP,
			     "a tag stands for one port, and btl_hikyaku_port names several; fix: "
			     "name one");
	} else if (register_rank(rank, mac, &err) == 0) {
		hk_btl.registered = true;
		return;
	}
	hk_btl_error("rank %u sends without tags: %s", rank, err.text);
	hk_btl.tag = false;
}

/* The published job number, if the controller knows our address; otherwise 0. */
uint32_t hk_btl_known_job(void)
{
	return hk_btl.registered ? mca_btl_hikyaku_component.param.tag : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/tag.c: native tags (docs/tag.md): the destination address of our own frames tells job, MPI function
 * and ranks.
 *
 * The function is read from ob1's own header, which starts each message: Open MPI's collectives use
 * negative tags, one for each function. What follows a message's announcement (its fragments, or
 * bytes that the receiver gets) counts for the same function.
 */
#include "mpi/btl_hikyaku.h"
#include "fabric/mcast.h"
#include "host/registrar.h"
#include "mpi/coll/tags.h"

#include "ompi/mca/coll/base/coll_tags.h"

#include <errno.h>
#include <time.h>

/* ob1's messages that begin with a match header, and where its tag is (pml_ob1_hdr.h, which Open
 * MPI does not install): type, flags, 16 bits of context, source, tag. */
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
	hk_fabric_peer_function(hk_btl.fabric, ep->peer, function_of(tag));
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

	/* ranks that were spawned are of another MPI_COMM_WORLD, whose ranks have the same numbers */
	if (!hk_btl.tag || it.jobid != me.jobid || it.vpid >= HK_TAG_RANKS ||
	    me.vpid >= HK_TAG_RANKS)
		return;
	/* what the controller does not know is dropped by the first switch */
	if (mca_btl_hikyaku_component.param.registrar &&
	    m->known_job != mca_btl_hikyaku_component.param.tag)
		return;
	struct hk_tag tag = {.job = (uint16_t)mca_btl_hikyaku_component.param.tag,
			     .source = (uint16_t)me.vpid,
			     .destination = (uint16_t)it.vpid};

	hk_fabric_peer_tag(hk_btl.fabric, ep->peer, hk_tag_pack(&tag));
}

/* How often the registrar is asked whether the network has heard of us, and how long in between. */
#define HEARD_TRIES 100
#define HEARD_PAUSE (50 * HK_MSEC)

static int make_known(uint32_t rank, const uint8_t mac[6], struct hk_error *err)
{
	const char *registrar = mca_btl_hikyaku_component.param.registrar;
	const struct timespec pause = {.tv_nsec = HEARD_PAUSE};
	int rc = hk_registrar_tell(registrar, &rank, 1, hk_tag_from_mac(mac), err);

	for (int i = 0; rc == 0 && i < HEARD_TRIES; i++) {
		hk_fabric_announce(hk_btl.fabric);
		rc = hk_registrar_heard(registrar, rank, err);
		if (rc != -EAGAIN)
			return rc;
		nanosleep(&pause, NULL);
		rc = i + 1 < HEARD_TRIES ? 0 : -EAGAIN;
	}
	return rc == -EAGAIN ? hk_error_set(err, -ETIMEDOUT,
					    "no switch of the controller has heard of this port "
					    "within %d s; fix: hikyaku sdn status, is it "
					    "connected to one?",
					    (int)(HEARD_TRIES * HEARD_PAUSE / HK_SEC))
			     : rc;
}

/* Has the controller learn where this rank is, before its first tag leaves: unknown ones are dropped by
 * the first switch. Where that fails, frames leave with real addresses, which every network carries, and
 * the others send such ones to us: what we publish says so. @mac: NULL if we poll no port of our own. */
void hk_btl_tag_register(const uint8_t *mac)
{
	uint32_t rank = opal_proc_local_get()->proc_name.vpid;
	struct hk_error err = {""};

	hk_btl.registered = false;
	if (!hk_btl.tag || !mca_btl_hikyaku_component.param.registrar || rank >= HK_TAG_RANKS)
		return;
	if (!mac) {
		hk_error_set(&err, -ENOTSUP,
			     "a tag stands for a port that the rank polls itself, and %s; fix: %s",
			     hk_btl.host ? "hikyakud has this node's" : "memif has wires",
			     hk_btl.host ? "btl_hikyaku_host inline" : "name a port of a switch");
	} else if (hk_btl.rails > 1) {
		hk_error_set(&err, -ENOTSUP,
			     "a tag stands for one port, and btl_hikyaku_port names several; fix: "
			     "name one");
	} else if (make_known(rank, mac, &err) == 0) {
		hk_btl.registered = true;
		return;
	}
	hk_btl_say("rank %u sends without tags: %s", rank, err.text);
	hk_btl.tag = false;
}

/* What we publish: the job's number, if the controller knows where we are. 0: no. */
uint32_t hk_btl_known_job(void)
{
	return hk_btl.registered ? mca_btl_hikyaku_component.param.tag : 0;
}

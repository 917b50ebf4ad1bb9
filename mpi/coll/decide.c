/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/coll/decide.c: whether the Bcasts of a communicator are multicasts. All its ranks look at what each of them has
 * published, and so come to the same. Where a multicast reaches them all, each tells the first rank whether it has the
 * memory for transfers; that one asks for a group if all have, and tells them by the Bcast that was there before.
 */
#include "mpi/coll/coll_hikyaku.h"

#include <stdlib.h>

/* What the first rank tells the others. */
struct verdict {
	uint32_t state; /* HK_COLL_MULTICAST, or HK_COLL_NO_GROUP */
	uint32_t group, number, each;
};

void hk_coll_forget(hk_coll_module *m)
{
	free(m->peer);
	free(m->room);
	free(m->staging);
	m->peer = NULL;
	m->room = NULL;
	m->staging = NULL;
}

/* Everybody comes to the same, by what ranks have published. @each: bytes that a frame to any of them carries. */
static enum hk_coll_state look(hk_coll_module *m, struct ompi_communicator_t *comm, uint32_t *each)
{
	unsigned n = (unsigned)ompi_comm_size(comm);

	if (n < HK_COLL_PARAMS->min_ranks || n > HK_COLL_PARAMS->max_ranks) {
		hk_coll_say(
			m,
			"communicator %u has %u ranks, and %u to %u multicast "
			"(coll_hikyaku_min_ranks, coll_hikyaku_max_ranks): Open MPI's own Bcast",
			comm->c_contextid, n, HK_COLL_PARAMS->min_ranks, HK_COLL_PARAMS->max_ranks);
		return HK_COLL_RANKS;
	}
	m->peer = malloc(n * sizeof(*m->peer));
	for (unsigned i = 0; i < n; i++) {
		const ompi_proc_t *proc = ompi_comm_peer_lookup(comm, (int)i);
		struct hk_btl_mcast_peer who;

		if (!hk_coll_alike(proc)) {
			hk_coll_say(
				m,
				"rank %u of a communicator has no coll component hikyaku, or has "
				"it with another min_bytes, min_ranks or max_ranks: Open MPI's "
				"own Bcast; fix: set all ranks alike",
				i);
			return HK_COLL_UNREACHABLE;
		}
		if (!m->btl->peer(&proc->super, &who)) {
			hk_coll_say(m,
				    "no multicast reaches rank %u of a communicator: Open MPI's "
				    "own Bcast",
				    i);
			return HK_COLL_UNREACHABLE;
		}
		*each = (uint32_t)HK_MIN(*each, who.payload);
		if (m->peer)
			m->peer[i] = who;
	}
	return HK_COLL_MULTICAST;
}

/* ---- memory, of all ---------------------------------------------------------------------------- */

static int tell(struct ompi_communicator_t *comm, bool able)
{
	const struct hk_coll_head h = {.says = able ? HK_COLL_READY : HK_COLL_UNABLE};

	return MCA_PML_CALL(
		send(&h, sizeof(h), MPI_BYTE, 0, HK_COLL_TAG_UP, MCA_PML_BASE_SEND_STANDARD, comm));
}

/* At the first rank: what all others tell. */
static int hear(hk_coll_module *m, struct ompi_communicator_t *comm, bool *able)
{
	int rc = OMPI_SUCCESS;

	if (!*able)
		hk_coll_say(m, "Open MPI's own Bcast: rank 0 has no memory for another");
	for (int rank = 1; rank < ompi_comm_size(comm) && rc == OMPI_SUCCESS; rank++) {
		struct hk_coll_head h = {0};
		ompi_status_public_t status;

		rc = MCA_PML_CALL(
			recv(&h, sizeof(h), MPI_BYTE, rank, HK_COLL_TAG_UP, comm, &status));
		if (rc == OMPI_SUCCESS && (status._ucount != sizeof(h) || h.number != 0 ||
					   (h.says != HK_COLL_READY && h.says != HK_COLL_UNABLE)))
			rc = OMPI_ERR_BAD_PARAM;
		if (rc == OMPI_SUCCESS && h.says == HK_COLL_UNABLE) {
			*able = false;
			hk_coll_say(m, "Open MPI's own Bcast: rank %d has no memory for another",
				    rank);
		}
	}
	return rc;
}

/* ---- the decision ------------------------------------------------------------------------------ */

static struct verdict ask_for_group(hk_coll_module *m, struct ompi_communicator_t *comm,
				    uint32_t each)
{
	size_t n = (size_t)ompi_comm_size(comm);
	struct verdict v = {.state = HK_COLL_NO_GROUP, .each = each};
	uint32_t *ranks = malloc(n * sizeof(*ranks));
	struct hk_error err = {"no memory for a group"};

	for (size_t i = 0; ranks && i < n; i++)
		ranks[i] = m->peer[i].rank;
	if (ranks && m->btl->group(ranks, n, &v.group, &err) == 0) {
		v.state = HK_COLL_MULTICAST;
		m->group = v.group;
		m->group_ours = true;
		/* what an earlier communicator of the same context left under way is not taken */
		v.number = (uint32_t)(hk_coll_now() >> 10);
	} else {
		hk_coll_say(m, "Open MPI's own Bcast, since there is no group: %s", err.text);
	}
	free(ranks);
	return v;
}

static void multicast(hk_coll_module *m, struct ompi_communicator_t *comm, const struct verdict *v)
{
	m->state = HK_COLL_MULTICAST;
	m->group = v->group;
	m->number = v->number;
	m->each = v->each;
	m->burst = (uint32_t)(((size_t)HK_COLL_PARAMS->burst_kb << 10) / m->each);
	m->burst = HK_MAX(HK_MIN(m->burst, HK_COLL_BURST_MAX), HK_COLL_BURST_MIN);
	m->burst_max = m->burst;
	hk_coll_say(m, "communicator %u of %d ranks multicasts: group %u, pieces of %zu bytes",
		    comm->c_contextid, ompi_comm_size(comm), m->group, m->each);
}

int hk_coll_decide(hk_coll_module *m, struct ompi_communicator_t *comm)
{
	struct verdict v = {.state = HK_COLL_NO_GROUP};
	uint32_t each = UINT32_MAX;
	enum hk_coll_state found = look(m, comm, &each);
	bool able;
	int rc;

	if (found != HK_COLL_MULTICAST) {
		hk_coll_forget(m);
		m->state = found;
		return OMPI_SUCCESS;
	}
	m->room = malloc(hk_coll_room(ompi_comm_size(comm), each));
	m->staging = malloc((size_t)each * HK_COLL_TRANSFER);
	able = m->peer && m->room && m->staging;
	if (ompi_comm_rank(comm) == 0) {
		bool all = able;

		rc = hear(m, comm, &all);
		if (rc == OMPI_SUCCESS && all)
			v = ask_for_group(m, comm, each);
	} else {
		rc = tell(comm, able);
	}
	if (rc == OMPI_SUCCESS)
		rc = m->before(&v, (int)sizeof(v), MPI_BYTE, 0, comm, m->before_module);
	if (rc != OMPI_SUCCESS)
		return rc;
	if (v.state == HK_COLL_MULTICAST && able && v.each > 0 && v.each <= each) {
		multicast(m, comm, &v);
		return OMPI_SUCCESS;
	}
	hk_coll_forget(m);
	m->state = HK_COLL_NO_GROUP;
	return v.state == HK_COLL_NO_GROUP ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
}

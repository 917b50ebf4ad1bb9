/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/decide.c: whether the Bcasts of a communicator are multicasts.
 *
 * All its ranks read the published data of each of them, and so decide alike. If multicast reaches
 * all, each rank reports to the first rank whether it has the memory for transfers. If all have it,
 * the first rank requests a group, and announces it by the Bcast of the next lower component.
 */
#include "openmpi/coll/coll_hikyaku.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* The first rank's message to the others. */
struct decision {
	uint32_t state; /* HK_COLL_MULTICAST, or HK_COLL_NO_GROUP */
	uint32_t group, number, piece_size;
	uint8_t key[HK_KEY_LEN]; /* of multicast frames: messages between ranks have keys, too */
};

void hk_coll_forget(hk_coll_module *m)
{
	free(m->peer);
	free(m->scratch);
	free(m->staging);
	m->peer = NULL;
	m->scratch = NULL;
	m->staging = NULL;
}

/* Decides by the published data alone, so that all ranks decide alike. @piece_size: payload bytes
 * of a frame to any of them. */
static enum hk_coll_state check_reachability(hk_coll_module *m, struct ompi_communicator_t *comm,
					     uint32_t *piece_size)
{
	unsigned n = (unsigned)ompi_comm_size(comm);

	if (n < HK_COLL_PARAMS->min_ranks || n > HK_COLL_PARAMS->max_ranks) {
		hk_coll_log(
			m,
			"communicator %u has %u ranks, and %u to %u multicast "
			"(coll_hikyaku_min_ranks, coll_hikyaku_max_ranks): Open MPI's own Bcast",
			HK_CID(comm), n, HK_COLL_PARAMS->min_ranks, HK_COLL_PARAMS->max_ranks);
		return HK_COLL_RANKS;
	}
	m->peer = malloc(n * sizeof(*m->peer));
	for (unsigned i = 0; i < n; i++) {
		const ompi_proc_t *proc = ompi_comm_peer_lookup(comm, (int)i);
		struct hk_btl_mcast_peer who;

		if (!hk_coll_alike(proc)) {
			hk_coll_log(
				m,
				"rank %u of a communicator has no coll component hikyaku, or has "
				"it with another min_bytes, min_ranks or max_ranks: Open MPI's "
				"own Bcast; fix: set all ranks alike",
				i);
			return HK_COLL_UNREACHABLE;
		}
		if (!m->btl->peer(&proc->super, &who)) {
			hk_coll_log(m,
				    "no multicast reaches rank %u of a communicator: Open MPI's "
				    "own Bcast",
				    i);
			return HK_COLL_UNREACHABLE;
		}
		*piece_size = (uint32_t)HK_MIN(*piece_size, who.payload);
		if (m->peer)
			m->peer[i] = who;
	}
	return HK_COLL_MULTICAST;
}

/* ---- memory ----------------------------------------------------------------------------
 */

static int report(struct ompi_communicator_t *comm, bool able)
{
	const struct hk_coll_header h = {.type = able ? HK_COLL_READY : HK_COLL_NO_MEMORY};

	return MCA_PML_CALL(
		send(&h, sizeof(h), MPI_BYTE, 0, HK_COLL_TAG_UP, MCA_PML_BASE_SEND_STANDARD, comm));
}

/* At the first rank: receives the reports of all others. */
static int collect_reports(hk_coll_module *m, struct ompi_communicator_t *comm, bool *all_able)
{
	int rc = OMPI_SUCCESS;

	if (!*all_able)
		hk_coll_log(
			m,
			"Open MPI's own Bcast: rank 0 cannot allocate the memory for multicasts");
	for (int rank = 1; rank < ompi_comm_size(comm) && rc == OMPI_SUCCESS; rank++) {
		struct hk_coll_header h = {0};
		ompi_status_public_t status;

		rc = MCA_PML_CALL(
			recv(&h, sizeof(h), MPI_BYTE, rank, HK_COLL_TAG_UP, comm, &status));
		if (rc == OMPI_SUCCESS &&
		    (status._ucount != sizeof(h) || h.number != 0 ||
		     (h.type != HK_COLL_READY && h.type != HK_COLL_NO_MEMORY)))
			rc = OMPI_ERR_BAD_PARAM;
		if (rc == OMPI_SUCCESS && h.type == HK_COLL_NO_MEMORY) {
			*all_able = false;
			hk_coll_log(m,
				    "Open MPI's own Bcast: rank %d cannot allocate the memory for "
				    "multicasts",
				    rank);
		}
	}
	return rc;
}

/* ---- the decision ------------------------------------------------------------------------------
 */

static struct decision request_group(hk_coll_module *m, struct ompi_communicator_t *comm,
				     uint32_t piece_size)
{
	size_t n = (size_t)ompi_comm_size(comm);
	struct decision d = {.state = HK_COLL_NO_GROUP, .piece_size = piece_size};
	uint32_t *ranks = malloc(n * sizeof(*ranks));
	struct hk_error err = {"no memory for a group"};

	for (size_t i = 0; ranks && i < n; i++)
		ranks[i] = m->peer[i].rank;
	if (getrandom(d.key, sizeof(d.key), 0) != sizeof(d.key)) {
		hk_error_set(&err, -errno, "no random key: %s", strerror(errno));
	} else if (ranks && m->btl->group(ranks, n, &d.group, &err) == 0) {
		d.state = HK_COLL_MULTICAST;
		m->group = d.group;
		m->group_ours = true;
		/* late pieces of an earlier communicator of this context have other numbers */
		d.number = (uint32_t)(hk_clock_ns() >> 10);
	} else {
		hk_coll_log(m, "Open MPI's own Bcast, since there is no group: %s", err.text);
	}
	free(ranks);
	return d;
}

static void multicast(hk_coll_module *m, struct ompi_communicator_t *comm, const struct decision *d)
{
	m->state = HK_COLL_MULTICAST;
	m->group = d->group;
	m->number = d->number;
	memcpy(m->key, d->key, sizeof(m->key));
	m->piece_size = d->piece_size;
	m->burst = (uint32_t)(((size_t)HK_COLL_PARAMS->burst_kb << 10) / m->piece_size);
	m->burst = HK_MAX(HK_MIN(m->burst, HK_COLL_BURST_MAX), HK_COLL_BURST_MIN);
	m->burst_max = m->burst;
	hk_coll_log(m, "communicator %u of %d ranks multicasts: group %u, pieces of %zu bytes",
		    HK_CID(comm), ompi_comm_size(comm), m->group, m->piece_size);
}

int hk_coll_decide(hk_coll_module *m, struct ompi_communicator_t *comm)
{
	struct decision d = {.state = HK_COLL_NO_GROUP};
	uint32_t piece_size = UINT32_MAX;
	enum hk_coll_state reached = check_reachability(m, comm, &piece_size);
	bool able;
	int rc;

	if (reached != HK_COLL_MULTICAST) {
		hk_coll_forget(m);
		m->state = reached;
		return OMPI_SUCCESS;
	}
	m->scratch = malloc(hk_coll_scratch_size(ompi_comm_size(comm), piece_size));
	m->staging = malloc((size_t)piece_size * HK_COLL_TRANSFER);
	able = m->peer && m->scratch && m->staging;
	if (ompi_comm_rank(comm) == 0) {
		bool all = able;

		rc = collect_reports(m, comm, &all);
		if (rc == OMPI_SUCCESS && all)
			d = request_group(m, comm, piece_size);
	} else {
		rc = report(comm, able);
	}
	if (rc == OMPI_SUCCESS)
		rc = m->previous_bcast(&d, (int)sizeof(d), MPI_BYTE, 0, comm, m->previous_module);
	if (rc != OMPI_SUCCESS)
		return rc;
	if (d.state == HK_COLL_MULTICAST && able && d.piece_size > 0 &&
	    d.piece_size <= piece_size) {
		multicast(m, comm, &d);
		return OMPI_SUCCESS;
	}
	hk_coll_forget(m);
	m->state = HK_COLL_NO_GROUP;
	return d.state == HK_COLL_NO_GROUP ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
}

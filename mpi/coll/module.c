/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/coll/module.c: one communicator. Whether its Bcasts are multicasts is decided at the first one that is long
 * enough, by what all ranks know alike (sizes, what each rank has published), and then by its first rank, which
 * asks for a group and tells the others by the Bcast that was there before. So all decide the same.
 */
#include "mpi/coll/coll_hikyaku.h"

#include "ompi/proc/proc.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/util/proc.h"

#include <stdlib.h>

static void construct(hk_coll_module *m)
{
	m->btl = NULL;
	m->before = NULL;
	m->before_module = NULL;
	m->state = HK_COLL_UNDECIDED;
	m->group_ours = m->lossy = false;
	m->peer = NULL;
	m->staging = m->bits = m->answers = (struct hk_coll_scratch){NULL, 0};
}

static void destruct(hk_coll_module *m)
{
	struct hk_error err;

	/* at the end of the job its groups go with it */
	if (m->group_ours && ompi_mpi_state < OMPI_MPI_STATE_FINALIZE_STARTED &&
	    m->btl->drop(m->group, &err) != 0)
		hk_coll_say(m, "%s", err.text);
	if (m->before_module)
		OBJ_RELEASE(m->before_module);
	free(m->peer);
	free(m->staging.base);
	free(m->bits.base);
	free(m->answers.base);
}

OBJ_CLASS_INSTANCE(hk_coll_module, mca_coll_base_module_t, construct, destruct);

/* ---- the decision ---------------------------------------------------------------------------- */

/* What the first rank tells the others. */
struct verdict {
	uint32_t state; /* HK_COLL_MULTICAST, or HK_COLL_NO_GROUP */
	uint32_t group, number, each;
};

/* Everybody comes to the same, by what ranks have published. */
static enum hk_coll_state look(hk_coll_module *m, struct ompi_communicator_t *comm)
{
	unsigned n = (unsigned)ompi_comm_size(comm);

	if (n < HK_COLL_PARAMS->min_ranks || n > HK_COLL_PARAMS->max_ranks)
		return HK_COLL_RANKS;
	for (unsigned i = 0; i < n; i++) {
		const ompi_proc_t *proc = ompi_comm_peer_lookup(comm, (int)i);

		if (!m->btl->peer(&proc->super, &m->peer[i])) {
			hk_coll_say(m,
				    "no multicast reaches rank %u of a communicator: Open MPI's "
				    "own Bcast",
				    i);
			return HK_COLL_UNREACHABLE;
		}
	}
	return HK_COLL_MULTICAST;
}

static struct verdict ask_for_group(hk_coll_module *m, struct ompi_communicator_t *comm)
{
	size_t n = (size_t)ompi_comm_size(comm);
	struct verdict v = {.state = HK_COLL_NO_GROUP, .each = UINT32_MAX};
	uint32_t *ranks = malloc(n * sizeof(*ranks));
	struct hk_error err = {"no memory for a group"};

	for (size_t i = 0; ranks && i < n; i++) {
		ranks[i] = m->peer[i].rank;
		v.each = (uint32_t)HK_MIN(v.each, m->peer[i].payload);
	}
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

static int decide(hk_coll_module *m, struct ompi_communicator_t *comm)
{
	struct verdict v = {0};
	int rc;

	m->peer = malloc((size_t)ompi_comm_size(comm) * sizeof(*m->peer));
	if (!m->peer)
		return OMPI_ERR_OUT_OF_RESOURCE;
	m->state = look(m, comm);
	if (m->state != HK_COLL_MULTICAST)
		return OMPI_SUCCESS;
	if (ompi_comm_rank(comm) == 0)
		v = ask_for_group(m, comm);
	rc = m->before(&v, (int)sizeof(v), MPI_BYTE, 0, comm, m->before_module);
	if (rc != OMPI_SUCCESS)
		return rc;
	m->state = v.state;
	m->group = v.group;
	m->number = v.number;
	m->each = v.each;
	if (m->state == HK_COLL_MULTICAST) {
		m->burst = (uint32_t)(((size_t)HK_COLL_PARAMS->burst_kb << 10) / m->each);
		m->burst = HK_MAX(HK_MIN(m->burst, HK_COLL_BURST_MAX), HK_COLL_BURST_MIN);
		m->burst_max = m->burst;
		hk_coll_say(m,
			    "communicator %u of %d ranks multicasts: group %u, pieces of %zu bytes",
			    comm->c_contextid, ompi_comm_size(comm), m->group, m->each);
	}
	return OMPI_SUCCESS;
}

static void count_why(enum hk_coll_state why)
{
	struct hk_coll_counters *n = HK_COLL_COUNT;

	if (why == HK_COLL_RANKS)
		n->ranks++;
	else if (why == HK_COLL_UNREACHABLE)
		n->unreachable++;
	else if (why == HK_COLL_NO_GROUP)
		n->no_group++;
	else
		n->lossy++;
}

/* ---- one Bcast -------------------------------------------------------------------------------- */

/* To or from the user's buffer, where it is not one stretch. */
static int convert(const struct hk_coll_call *c, void *buff, int count,
		   struct ompi_datatype_t *dtype, bool pack)
{
	opal_convertor_t conv;
	struct iovec iov = {.iov_base = c->data, .iov_len = c->total};
	uint32_t pieces = 1;
	size_t done = c->total;

	OBJ_CONSTRUCT(&conv, opal_convertor_t);
	if (pack) {
		opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dtype->super,
							 (size_t)count, buff, 0, &conv);
		opal_convertor_pack(&conv, &iov, &pieces, &done);
	} else {
		opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &dtype->super,
							 (size_t)count, buff, 0, &conv);
		opal_convertor_unpack(&conv, &iov, &pieces, &done);
	}
	OBJ_DESTRUCT(&conv);
	return done == c->total ? OMPI_SUCCESS : OMPI_ERROR;
}

static int by_multicast(hk_coll_module *m, void *buff, int count, struct ompi_datatype_t *dtype,
			size_t total, int root, struct ompi_communicator_t *comm)
{
	struct hk_coll_call c = {
		.m = m,
		.comm = comm,
		.root = root,
		.me = ompi_comm_rank(comm),
		.ranks = ompi_comm_size(comm),
		.total = total,
		.pieces = (uint32_t)((total + m->each - 1) / m->each),
	};
	bool stretch = ompi_datatype_is_contiguous_memory_layout(dtype, count);
	bool lossy = false;
	ptrdiff_t gap = 0;
	int rc = OMPI_SUCCESS;

	if (stretch) {
		(void)opal_datatype_span(&dtype->super, count, &gap);
		c.data = (char *)buff + gap;
	} else {
		c.data = hk_coll_scratch(&m->staging, total);
		if (!c.data)
			return OMPI_ERR_OUT_OF_RESOURCE;
	}
	m->number += m->number + 1 == 0 ? 2 : 1;
	HK_COLL_COUNT->bcasts++;
	if (c.me == root) {
		if (!stretch)
			rc = convert(&c, buff, count, dtype, true);
		lossy = m->lossy;
		if (rc == OMPI_SUCCESS)
			rc = hk_coll_root(&c);
	} else {
		rc = hk_coll_receive(&c, &lossy);
		if (rc == OMPI_SUCCESS && !stretch)
			rc = convert(&c, buff, count, dtype, false);
	}
	if (lossy) {
		m->state = HK_COLL_LOSSY;
		hk_coll_say(m, "communicator %u does without multicast: most of it is lost",
			    comm->c_contextid);
	}
	return rc;
}

static int bcast(void *buff, int count, struct ompi_datatype_t *dtype, int root,
		 struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	hk_coll_module *m = (hk_coll_module *)module;
	size_t size, total;

	ompi_datatype_type_size(dtype, &size);
	total = size * (size_t)count;
	/* a piece's number has 32 bits, and the smallest piece is longer than one byte */
	if (total < HK_COLL_PARAMS->min_bytes || total == 0 || total > UINT32_MAX) {
		HK_COLL_COUNT->small++;
		return m->before(buff, count, dtype, root, comm, m->before_module);
	}
	if (HK_UNLIKELY(m->state == HK_COLL_UNDECIDED)) {
		int rc = decide(m, comm);

		if (rc != OMPI_SUCCESS)
			return rc;
	}
	if (m->state != HK_COLL_MULTICAST) {
		count_why(m->state);
		return m->before(buff, count, dtype, root, comm, m->before_module);
	}
	return by_multicast(m, buff, count, dtype, total, root, comm);
}

/* ---- modules ----------------------------------------------------------------------------------- */

static int enable(mca_coll_base_module_t *module, struct ompi_communicator_t *comm)
{
	hk_coll_module *m = (hk_coll_module *)module;

	m->before = comm->c_coll->coll_bcast;
	m->before_module = comm->c_coll->coll_bcast_module;
	if (!m->before || !m->before_module)
		return OMPI_ERR_NOT_FOUND;
	OBJ_RETAIN(m->before_module);
	return OMPI_SUCCESS;
}

mca_coll_base_module_t *hk_coll_query(struct ompi_communicator_t *comm, int *priority)
{
	const struct hk_btl_mcast *btl = hk_btl_mcast_find();
	hk_coll_module *m;

	if (!btl || !btl->ready() || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2)
		return NULL;
	m = OBJ_NEW(hk_coll_module);
	if (!m)
		return NULL;
	m->btl = btl;
	m->super.coll_module_enable = enable;
	m->super.coll_bcast = bcast;
	*priority = HK_COLL_PARAMS->priority;
	return &m->super;
}

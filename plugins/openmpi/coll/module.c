/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/module.c: the Bcast of one communicator, by multicast or by the next lower
 * component.
 *
 * A multicast Bcast is a series of transfers. Contiguous memory is sent and received in place. A
 * datatype with gaps is packed and unpacked. So is memory that Open MPI's convertor reports as a
 * GPU's, because only the convertor can copy it.
 */
#include "hikyaku/service.h"
#include "openmpi/coll/coll_hikyaku.h"

#include "ompi/runtime/mpiruntime.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"

static void construct(hk_coll_module *m)
{
	m->btl = NULL;
	m->previous_bcast = NULL;
	m->previous_module = NULL;
	m->state = HK_COLL_UNDECIDED;
	m->group_ours = m->lossy = false;
	m->peer = NULL;
	m->scratch = NULL;
	m->staging = NULL;
}

static void destruct(hk_coll_module *m)
{
	struct hk_error err;

	/* the controller drops a job's groups when the job ends */
	if (m->group_ours && ompi_mpi_state < OMPI_MPI_STATE_FINALIZE_STARTED &&
	    m->btl->drop(m->group, &err) != 0)
		hk_coll_log(m, "%s", err.text);
	if (m->previous_module)
		OBJ_RELEASE(m->previous_module);
	hk_coll_forget(m);
}

OBJ_CLASS_INSTANCE(hk_coll_module, mca_coll_base_module_t, construct, destruct);

static void count_why(enum hk_coll_state why)
{
	if (why == HK_COLL_RANKS)
		HK_COLL_COUNT(ranks, 1);
	else if (why == HK_COLL_UNREACHABLE)
		HK_COLL_COUNT(unreachable, 1);
	else if (why == HK_COLL_NO_GROUP)
		HK_COLL_COUNT(no_group, 1);
	else
		HK_COLL_COUNT(lossy, 1);
}

/* ---- a datatype with gaps, transfer by transfer ------------------------------------------------
 */

struct gaps {
	opal_convertor_t conv;
	/* The convertor packs whole numbers: of one that does not fit at the end of a transfer the
	 * rest is kept. */
	char rest[64];
	size_t rest_at, rest_len;
};

static void gaps_open(struct gaps *g, void *buff, int count, struct ompi_datatype_t *dtype,
		      bool pack)
{
	OBJ_CONSTRUCT(&g->conv, opal_convertor_t);
	g->rest_at = g->rest_len = 0;
	if (pack)
		opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dtype->super,
							 (size_t)count, buff, 0, &g->conv);
	else
		opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &dtype->super,
							 (size_t)count, buff, 0, &g->conv);
}

/* Packs up to @len bytes. Returns how many. */
static size_t pack_some(struct gaps *g, void *to, size_t len)
{
	struct iovec iov = {.iov_base = to, .iov_len = len};
	uint32_t stretches = 1;
	size_t done = len;

	opal_convertor_pack(&g->conv, &iov, &stretches, &done);
	return done;
}

static int pack(struct gaps *g, char *to, size_t len)
{
	while (len) {
		size_t n = HK_MIN(len, g->rest_len);

		if (n) {
			memcpy(to, g->rest + g->rest_at, n);
			g->rest_at += n;
			g->rest_len -= n;
		} else if ((n = pack_some(g, to, len)) == 0) {
			g->rest_at = 0;
			g->rest_len = pack_some(g, g->rest, sizeof(g->rest));
			if (g->rest_len == 0)
				return OMPI_ERROR;
		}
		to += n;
		len -= n;
	}
	return OMPI_SUCCESS;
}

static int unpack(struct gaps *g, char *from, size_t len)
{
	struct iovec iov = {.iov_base = from, .iov_len = len};
	uint32_t stretches = 1;
	size_t done = len;

	opal_convertor_unpack(&g->conv, &iov, &stretches, &done);
	return done == len ? OMPI_SUCCESS : OMPI_ERROR;
}

/* ---- one Bcast --------------------------------------------------------------------------------
 */

/* Prints why this rank cannot go on, and ends the job. */
static int give_up(struct ompi_communicator_t *comm, size_t total, int root, int rc)
{
	opal_output(0,
		    "hikyaku: %s: rank %d of %d cannot go on with a Bcast of %zu bytes from rank "
		    "%d of communicator %u (error %d); fix: call it with the same root and as many "
		    "bytes on all ranks",
		    opal_process_info.nodename, ompi_comm_rank(comm), ompi_comm_size(comm), total,
		    root, HK_CID(comm), rc);
	return ompi_mpi_abort(comm, MPI_ERR_OTHER);
}

/* @g: NULL if @c->data is the user's buffer. */
static int transfer(struct hk_coll_call *c, struct gaps *g, bool *lossy)
{
	hk_coll_module *m = c->m;
	int rc = OMPI_SUCCESS;

	m->number += m->number + 1 == 0 ? 2 : 1;
	if (c->me != c->root) {
		rc = hk_coll_receive(c, lossy);
		return rc == OMPI_SUCCESS && g ? unpack(g, c->data, c->total) : rc;
	}
	*lossy |= m->lossy;
	if (g)
		rc = pack(g, c->data, c->total);
	return rc == OMPI_SUCCESS ? hk_coll_root(c) : rc;
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
	};
	bool stretch, lossy = false;
	struct gaps g;
	ptrdiff_t gap = 0;
	int rc = OMPI_SUCCESS;

	HK_COLL_COUNT(bcasts, 1);
	gaps_open(&g, buff, count, dtype, c.me == root);
	stretch = ompi_datatype_is_contiguous_memory_layout(dtype, count) &&
		  !(g.conv.flags & HK_CONVERTOR_DEVICE);
	if (stretch)
		(void)opal_datatype_span(&dtype->super, count, &gap);
	for (size_t at = 0; at < total && rc == OMPI_SUCCESS; at += c.total) {
		c.total = HK_MIN(total - at, m->piece_size * HK_COLL_TRANSFER);
		c.pieces = (uint32_t)((c.total + m->piece_size - 1) / m->piece_size);
		c.data = stretch ? (char *)buff + gap + at : m->staging;
		rc = transfer(&c, stretch ? NULL : &g, &lossy);
	}
	OBJ_DESTRUCT(&g.conv);
	if (rc != OMPI_SUCCESS)
		return give_up(comm, total, root, rc);
	if (lossy) {
		m->state = HK_COLL_LOSSY;
		hk_coll_log(m, "communicator %u does without multicast: most of it is lost",
			    HK_CID(comm));
	}
	return OMPI_SUCCESS;
}

static int bcast(void *buff, int count, struct ompi_datatype_t *dtype, int root,
		 struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
	hk_coll_module *m = (hk_coll_module *)module;
	size_t size, total;

	ompi_datatype_type_size(dtype, &size);
	total = size * (size_t)count;
	if (total < HK_COLL_PARAMS->min_bytes || total == 0) {
		HK_COLL_COUNT(small, 1);
		return m->previous_bcast(buff, count, dtype, root, comm, m->previous_module);
	}
	if (HK_UNLIKELY(m->state == HK_COLL_UNDECIDED)) {
		int rc = hk_coll_decide(m, comm);

		if (rc != OMPI_SUCCESS)
			return give_up(comm, total, root, rc);
	}
	if (m->state != HK_COLL_MULTICAST) {
		count_why(m->state);
		return m->previous_bcast(buff, count, dtype, root, comm, m->previous_module);
	}
	return by_multicast(m, buff, count, dtype, total, root, comm);
}

/* ---- modules -----------------------------------------------------------------------------------
 */

static int enable(mca_coll_base_module_t *module, struct ompi_communicator_t *comm)
{
	hk_coll_module *m = (hk_coll_module *)module;

	m->previous_bcast = comm->c_coll->coll_bcast;
	m->previous_module = comm->c_coll->coll_bcast_module;
	if (!m->previous_bcast || !m->previous_module)
		return OMPI_ERR_NOT_FOUND;
	OBJ_RETAIN(m->previous_module);
	return OMPI_SUCCESS;
}

mca_coll_base_module_t *hk_coll_query(struct ompi_communicator_t *comm, int *priority)
{
	const struct hk_service *service = hk_service_find();
	const struct hk_btl_mcast *btl = service ? service->mcast : NULL;
	hk_coll_module *m;

	if (!btl || !btl->ready() || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2)
		return NULL;
	m = OBJ_NEW(hk_coll_module);
	if (!m) { /* the others have theirs, and would wait */
		opal_output(0, "hikyaku: %s: no memory for a communicator",
			    opal_process_info.nodename);
		ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
		return NULL;
	}
	m->btl = btl;
	m->super.coll_module_enable = enable;
	m->super.coll_bcast = bcast;
	*priority = HK_COLL_PARAMS->priority;
	return &m->super;
}

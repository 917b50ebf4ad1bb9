/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/window.c: windows begin and end. */
#include "openmpi/osc/osc_hikyaku.h"

#include "ompi/mca/bml/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "opal/runtime/opal_progress.h"

#include <stdlib.h>

/* Each rank tells the others this. A handle of the BTL follows. */
struct told {
	uint64_t base, size;
	uint32_t disp_unit;
	hk_region procedure;
	uint32_t has_memory; /* for puts and gets by the BTL */
	int32_t error;
	uint64_t cookie;                   /* of the segment */
	char segment[HK_OSC_SEGMENT_NAME]; /* for ranks of this node; "": none */
};

const ompi_osc_base_module_t hk_osc_functions = {
	.osc_win_shared_query = hk_osc_shared_query,
	.osc_win_attach = hk_osc_win_attach,
	.osc_win_detach = hk_osc_win_detach,
	.osc_free = hk_osc_win_free,
	.osc_put = hk_osc_put,
	.osc_get = hk_osc_get,
	.osc_accumulate = hk_osc_accumulate,
	.osc_compare_and_swap = hk_osc_compare_and_swap,
	.osc_fetch_and_op = hk_osc_fetch_and_op,
	.osc_get_accumulate = hk_osc_get_accumulate,
	.osc_rput = hk_osc_rput,
	.osc_rget = hk_osc_rget,
	.osc_raccumulate = hk_osc_raccumulate,
	.osc_rget_accumulate = hk_osc_rget_accumulate,
	.osc_fence = hk_osc_fence,
	.osc_start = hk_osc_start,
	.osc_complete = hk_osc_complete,
	.osc_post = hk_osc_post,
	.osc_wait = hk_osc_win_wait,
	.osc_test = hk_osc_test,
	.osc_lock = hk_osc_lock,
	.osc_unlock = hk_osc_unlock,
	.osc_lock_all = hk_osc_lock_all,
	.osc_unlock_all = hk_osc_unlock_all,
	.osc_sync = hk_osc_sync,
	.osc_flush = hk_osc_flush,
	.osc_flush_all = hk_osc_flush_all,
	.osc_flush_local = hk_osc_flush,
	.osc_flush_local_all = hk_osc_flush_all,
};

static struct mca_btl_base_endpoint_t *find(const mca_bml_base_btl_array_t *a,
					    const struct mca_btl_base_module_t *btl)
{
	for (size_t i = 0; i < a->arr_size; i++)
		if (a->bml_btls[i].btl == btl)
			return a->bml_btls[i].btl_endpoint;
	return NULL;
}

struct mca_btl_base_endpoint_t *hk_osc_endpoint(const struct hk_btl_rpc *rpc,
						ompi_communicator_t *comm, int rank)
{
	mca_bml_base_endpoint_t *b = mca_bml_base_get_endpoint(ompi_comm_peer_lookup(comm, rank));
	struct mca_btl_base_endpoint_t *ep = b ? find(&b->btl_rdma, rpc->btl) : NULL;

	return ep || !b ? ep : find(&b->btl_send, rpc->btl);
}

static void module_free(struct hk_osc_module *m)
{
	for (int i = 0; m->peer && i < m->size; i++)
		if (m->peer[i].here && i != m->rank) {
			hk_osc_target_close(m->peer[i].here);
			free(m->peer[i].here);
		}
	if (m->registered)
		m->rpc->btl->btl_deregister_mem(m->rpc->btl, m->registered);
	if (m->target.rpc)
		hk_osc_target_close(&m->target);
	if (m->comm)
		ompi_comm_free(&m->comm);
	free(m->handles);
	free(m->callers);
	free(m->peer);
	free(m);
}

static bool is_of_this_node(ompi_communicator_t *comm, int rank)
{
	const ompi_proc_t *p = ompi_comm_peer_lookup(comm, rank);

	return OPAL_PROC_ON_LOCAL_NODE(p->super.proc_flags);
}

/* The window of rank @rank, as it is mapped here; NULL: it is not. */
static struct hk_osc_target *mapped(const struct hk_osc_module *m, int rank, const struct told *t)
{
	bool memory = m->flavor == MPI_WIN_FLAVOR_ALLOCATE;
	struct hk_osc_target *here;

	if (!t->segment[0] || t->segment[HK_OSC_SEGMENT_NAME - 1] ||
	    !is_of_this_node(m->comm, rank) || !(here = malloc(sizeof(*here))))
		return NULL;
	if (hk_osc_target_map(here, m->rpc, t->segment, t->cookie, memory, memory ? t->size : 0,
			      (unsigned)m->size))
		return here;
	free(here);
	return NULL;
}

/* Tells the others of our memory, and learns of theirs. */
static int exchange(struct hk_osc_module *m, const struct told *ours)
{
	size_t handle_len = m->rpc->btl->btl_registration_handle_size;
	size_t one = sizeof(*ours) + handle_len;
	char *all = calloc((size_t)m->size, one), *own = calloc(1, one);
	int rc = OMPI_ERR_OUT_OF_RESOURCE;

	m->handles = calloc((size_t)m->size, handle_len);
	m->callers = calloc((size_t)m->size, sizeof(*m->callers));
	if (all && own && m->handles && m->callers) {
		memcpy(own, ours, sizeof(*ours));
		if (m->registered)
			memcpy(own + sizeof(*ours), m->registered, handle_len);
		rc = m->comm->c_coll->coll_allgather(own, (int)one, MPI_BYTE, all, (int)one,
						     MPI_BYTE, m->comm,
						     m->comm->c_coll->coll_allgather_module);
	}
	for (int i = 0; i < m->size && rc == OMPI_SUCCESS; i++) {
		struct hk_osc_peer *p = &m->peer[i];
		struct told t;

		memcpy(&t, all + (size_t)i * one, sizeof(t));
		memcpy(m->handles + (size_t)i * handle_len, all + (size_t)i * one + sizeof(t),
		       handle_len);
		p->base = t.base;
		p->size = t.size;
		p->disp_unit = t.disp_unit;
		p->procedure = t.procedure;
		if (t.has_memory)
			p->memory = (void *)(m->handles + (size_t)i * handle_len);
		p->ep = i == m->rank ? NULL : hk_osc_endpoint(m->rpc, m->comm, i);
		m->callers[i] = p->ep;
		p->here = i == m->rank ? &m->target : mapped(m, i, &t);
		if (t.error != OMPI_SUCCESS)
			rc = t.error; /* of whatever rank: all fail together */
		else if (i != m->rank && !p->ep)
			rc = OMPI_ERR_UNREACH;
	}
	free(all);
	free(own);
	return rc;
}

/* Is another rank of the group on this node? */
static bool has_neighbors(const struct hk_osc_module *m)
{
	for (int i = 0; i < m->size; i++)
		if (i != m->rank && is_of_this_node(m->comm, i))
			return true;
	return false;
}

/* Makes our side of the window. MPI_Win_allocate gets its memory in *@base. */
static int open_target(struct hk_osc_module *m, void **base, size_t size)
{
	bool dynamic = m->flavor == MPI_WIN_FLAVOR_DYNAMIC;
	bool allocates = m->flavor == MPI_WIN_FLAVOR_ALLOCATE;
	static char nothing; /* the base of a window that has none */
	char *own = dynamic || allocates ? NULL : *base ? *base : &nothing;
	int rc = hk_osc_target_open(&m->target, m->rpc, own, dynamic ? 0 : size, dynamic,
				    (unsigned)m->size, has_neighbors(m));

	if (rc != OMPI_SUCCESS)
		return rc;
	if (allocates)
		*base = m->target.base;
	if (!dynamic && size)
		m->registered = m->rpc->btl->btl_register_mem(
			m->rpc->btl, MCA_BTL_ENDPOINT_ANY, *base, size,
			MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE);
	return OMPI_SUCCESS;
}

int hk_osc_open(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
		struct ompi_communicator_t *comm, int flavor, const struct hk_btl_rpc *rpc)
{
	struct hk_osc_module *m = calloc(1, sizeof(*m));
	bool dynamic = flavor == MPI_WIN_FLAVOR_DYNAMIC;
	int rc;

	if (!m)
		return OMPI_ERR_OUT_OF_RESOURCE;
	m->super = hk_osc_functions;
	m->rpc = rpc;
	m->flavor = flavor;
	m->rank = ompi_comm_rank(comm);
	m->size = ompi_comm_size(comm);
	m->peer = calloc((size_t)m->size, sizeof(*m->peer));
	rc = m->peer ? hk_osc_calls_open(rpc) : OMPI_ERR_OUT_OF_RESOURCE;
	if (rc == OMPI_SUCCESS)
		rc = ompi_comm_dup(comm, &m->comm);
	if (rc != OMPI_SUCCESS) {
		m->comm = NULL;
		module_free(m);
		return rc;
	}
	rc = open_target(m, base, size);
	struct told ours = {
		.base = dynamic ? 0 : (uintptr_t)*base,
		.size = dynamic ? UINT64_MAX : size,
		.disp_unit = dynamic ? 1 : (uint32_t)disp_unit,
		.procedure = m->target.procedure.id,
		.has_memory = m->registered != NULL,
		.error = rc,
	};

	if (m->target.segment.state)
		ours.cookie = m->target.segment.state->cookie;
	memcpy(ours.segment, m->target.segment.name, sizeof(ours.segment));
	rc = exchange(m, &ours);
	atomic_store(&m->target.callers, m->callers); /* nobody calls before the barrier */
	/* all have mapped the segments, or have failed */
	m->comm->c_coll->coll_barrier(m->comm, m->comm->c_coll->coll_barrier_module);
	hk_osc_segment_unlink(&m->target.segment);
	if (rc != OMPI_SUCCESS) {
		module_free(m);
		return rc;
	}
	win->w_osc_module = &m->super;
	return OMPI_SUCCESS;
}

int hk_osc_win_free(struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	int rc = hk_osc_wait(m, -1);

	if (rc != OMPI_SUCCESS) /* of an operation; the window stays, and can be freed */
		return rc;
	/* nobody accesses our memory after this */
	m->comm->c_coll->coll_barrier(m->comm, m->comm->c_coll->coll_barrier_module);
	module_free(m);
	win->w_osc_module = NULL;
	return OMPI_SUCCESS;
}

int hk_osc_win_attach(struct ompi_win_t *win, void *base, size_t size)
{
	struct hk_osc_module *m = hk_osc_of(win);

	return m->target.dynamic ? hk_osc_attach(&m->target, base, size) : OMPI_ERR_RMA_ATTACH;
}

int hk_osc_win_detach(struct ompi_win_t *win, const void *base)
{
	struct hk_osc_module *m = hk_osc_of(win);

	return m->target.dynamic ? hk_osc_detach(&m->target, base) : OMPI_ERR_RMA_ATTACH;
}

/* As MPI 4.1 has it: memory that this process cannot reach has no bytes. */
int hk_osc_shared_query(struct ompi_win_t *win, int rank, size_t *size, int *disp_unit, void *base)
{
	const struct hk_osc_module *m = hk_osc_of(win);
	const struct hk_osc_target *here;
	int first = 0;

	/* none: the first that has memory */
	while (rank == MPI_PROC_NULL && first < m->size - 1 &&
	       !(m->peer[first].here && m->peer[first].here->size))
		first++;
	rank = rank == MPI_PROC_NULL ? first : rank;
	here = m->peer[rank].here;
	bool reached = here && here->base && here->size;

	*size = reached ? here->size : 0;
	*disp_unit = reached ? (int)m->peer[rank].disp_unit : 1;
	*(void **)base = reached ? here->base : NULL;
	return OMPI_SUCCESS;
}

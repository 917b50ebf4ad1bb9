/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/component.c: what Open MPI loads (`ompi_info --param osc hikyaku`). */
#include "openmpi/osc/osc_hikyaku.h"

#include "hikyaku/service.h"

#include "ompi/mca/coll/coll.h"
#include "opal/mca/base/mca_base_var.h"

static int component_register(void)
{
	mca_osc_hikyaku_component.priority = 120;
	(void)mca_base_component_var_register(
		&mca_osc_hikyaku_component.super.osc_version, "priority",
		"Priority of one-sided communication by Hikyaku; rdma has 101",
		MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
		&mca_osc_hikyaku_component.priority);
	mca_osc_hikyaku_component.lock_first = false;
	(void)mca_base_component_var_register(
		&mca_osc_hikyaku_component.super.osc_version, "lock_first",
		"MPI_Win_lock returns when the lock is held. Otherwise the first operation asks "
		"for it. For programs that use a lock without an operation",
		MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
		&mca_osc_hikyaku_component.lock_first);
	return OMPI_SUCCESS;
}

static int init(bool enable_progress_threads, bool enable_mpi_threads)
{
	(void)enable_progress_threads;
	(void)enable_mpi_threads;
	return OMPI_SUCCESS;
}

static int finalize(void)
{
	hk_osc_calls_close();
	return OMPI_SUCCESS;
}

static const struct hk_btl_rpc *rpc(void)
{
	const struct hk_service *s = hk_service_find();

	return s ? s->rpc : NULL;
}

/* Does the BTL reach all other ranks of @comm? */
static bool reaches_all(ompi_communicator_t *comm)
{
	const struct hk_btl_rpc *btl = rpc();

	for (int i = 0; btl && i < ompi_comm_size(comm); i++)
		if (i != ompi_comm_rank(comm) && !hk_osc_endpoint(btl, comm, i))
			return false;
	return btl != NULL;
}

/* Serves windows whose ranks all reach each other by the BTL. Open MPI lets each rank choose a
 * component alone, so they agree on this one here. */
static int query(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
		 struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
	int rc, reached;

	(void)win;
	(void)base;
	(void)size;
	(void)disp_unit;
	(void)info;
	if (flavor == MPI_WIN_FLAVOR_SHARED || OMPI_COMM_IS_INTER(comm))
		return -1;
	reached = reaches_all(comm);
	rc = comm->c_coll->coll_allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, comm,
					  comm->c_coll->coll_allreduce_module);
	return rc == OMPI_SUCCESS && reached ? mca_osc_hikyaku_component.priority : -1;
}

static int select_this(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
		       struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor,
		       int *model)
{
	(void)info;
	*model = MPI_WIN_UNIFIED;
	return hk_osc_open(win, base, size, disp_unit, comm, flavor, rpc());
}

struct hk_osc_component mca_osc_hikyaku_component __attribute__((visibility("default"))) = {
	.super =
		{
			.osc_version =
				{
					OMPI_OSC_BASE_VERSION_3_0_0,
					.mca_component_name = "hikyaku",
					MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION,
							      OMPI_MINOR_VERSION,
							      OMPI_RELEASE_VERSION),
					.mca_register_component_params = component_register,
				},
			.osc_data = {MCA_BASE_METADATA_PARAM_NONE},
			.osc_init = init,
			.osc_query = query,
			.osc_select = select_this,
			.osc_finalize = finalize,
		},
};

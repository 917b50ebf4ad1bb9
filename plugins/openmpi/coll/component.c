/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/component.c: what Open MPI loads: MCA parameters (`ompi_info --param coll hikyaku
 * --level 9`), MPI_T performance variables. docs/man/btl_hikyaku.7.md has both; keep it in step.
 */
#include "openmpi/coll/coll_hikyaku.h"

#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"

#include <mpi.h>
#include <stdarg.h>

void hk_coll_log(const struct hk_coll_module *m, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	(void)m;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	opal_output_verbose(1, mca_coll_hikyaku_component.output, "hikyaku: %s: %s",
			    opal_process_info.nodename, text);
}

static void reg_uint(const char *name, const char *help, mca_base_var_info_lvl_t level,
		     unsigned value, unsigned *var)
{
	*var = value;
	(void)mca_base_component_var_register(&mca_coll_hikyaku_component.super.collm_version, name,
					      help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0,
					      level, MCA_BASE_VAR_SCOPE_READONLY, var);
}

static void reg_int(const char *name, const char *help, mca_base_var_info_lvl_t level, int value,
		    int *var)
{
	*var = value;
	(void)mca_base_component_var_register(&mca_coll_hikyaku_component.super.collm_version, name,
					      help, MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, level,
					      MCA_BASE_VAR_SCOPE_READONLY, var);
}

static const struct pvar {
	const char *name, *help;
	size_t at;
} pvars[] = {
#define PVAR(field, help)                                                                          \
	{                                                                                          \
#field, help, offsetof(struct hk_coll_counters, field)                             \
	}
	PVAR(bcasts, "Bcasts by multicast"),
	PVAR(pieces, "Pieces of them sent by multicast, for the first time"),
	PVAR(again, "Pieces sent by multicast again, as several receivers missed them"),
	PVAR(repaired, "Pieces sent to one receiver that missed them"),
	PVAR(duplicates, "Pieces that had arrived before"),
	PVAR(small, "Bcasts done by Open MPI's own component: too short"),
	PVAR(ranks, "Bcasts done by Open MPI's own component: too few or too many ranks"),
	PVAR(unreachable,
	     "Bcasts done by Open MPI's own component: multicast does not reach a rank"),
	PVAR(no_group, "Bcasts done by Open MPI's own component: no group from the controller"),
	PVAR(lossy, "Bcasts done by Open MPI's own component: too many multicasts were lost"),
};

static int read_pvar(const struct mca_base_pvar_t *pvar, void *value, void *object)
{
	const struct pvar *v = pvar->ctx;
	const char *n = (const char *)&mca_coll_hikyaku_component.n;
	unsigned long long now = atomic_load_explicit(
		(const _Atomic unsigned long long *)(const void *)(n + v->at),
		memory_order_relaxed);

	(void)object;
	memcpy(value, &now, sizeof(now));
	return OPAL_SUCCESS;
}

static int component_register(void)
{
	struct hk_coll_params *p = HK_COLL_PARAMS;

	reg_int("priority",
		"Priority of Bcast by multicast; the next lower component does the other Bcasts",
		OPAL_INFO_LVL_6, 60, &p->priority);
	reg_uint("min_bytes", "Shortest Bcast that is sent by multicast", OPAL_INFO_LVL_5,
		 32u << 10, &p->min_bytes);
	reg_uint("min_ranks", "Fewest ranks of a communicator that multicasts", OPAL_INFO_LVL_5, 3,
		 &p->min_ranks);
	reg_uint("max_ranks",
		 "Most ranks of a communicator that multicasts: each of them answers its root",
		 OPAL_INFO_LVL_5, 64, &p->max_ranks);
	reg_uint("burst_kb",
		 "KiB that a root sends before it asks what arrived; fewer when much is lost",
		 OPAL_INFO_LVL_6, 64, &p->burst_kb);
	reg_uint("grace_us",
		 "How long a receiver, once asked, waits for a piece that later ones have "
		 "overtaken, "
		 "before it declares the piece lost",
		 OPAL_INFO_LVL_6, 1000, &p->grace_us);
	reg_uint("tail_us",
		 "How long a receiver, once asked, waits for the end of a burst without any piece, "
		 "before it declares that end lost",
		 OPAL_INFO_LVL_6, 20000, &p->tail_us);
	reg_int("verbose", "1 prints for each communicator whether it uses multicast, and why not",
		OPAL_INFO_LVL_5, 0, &p->verbose);
	for (size_t i = 0; i < HK_ARRAY_LEN(pvars); i++)
		(void)mca_base_component_pvar_register(
			&mca_coll_hikyaku_component.super.collm_version, pvars[i].name,
			pvars[i].help, OPAL_INFO_LVL_5, MPI_T_PVAR_CLASS_COUNTER,
			MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MPI_T_BIND_NO_OBJECT,
			MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_pvar,
			NULL, NULL, (void *)(uintptr_t)&pvars[i]);
	return OMPI_SUCCESS;
}

static int component_open(void)
{
	mca_coll_hikyaku_component.output = opal_output_open(NULL);
	opal_output_set_verbosity(mca_coll_hikyaku_component.output, HK_COLL_PARAMS->verbose);
	hk_coll_publish();
	return OMPI_SUCCESS;
}

static int component_close(void)
{
	opal_output_close(mca_coll_hikyaku_component.output);
	return OMPI_SUCCESS;
}

static int init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
	(void)enable_progress_threads;
	(void)enable_mpi_threads;
	return OMPI_SUCCESS;
}

struct hk_coll_component mca_coll_hikyaku_component __attribute__((visibility("default"))) = {
	.super =
		{
			.collm_version =
				{
					HK_COLL_BASE_VERSION,
					.mca_component_name = "hikyaku",
					MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION,
							      OMPI_MINOR_VERSION,
							      OMPI_RELEASE_VERSION),
					.mca_open_component = component_open,
					.mca_close_component = component_close,
					.mca_register_component_params = component_register,
				},
			.collm_data = {MCA_BASE_METADATA_PARAM_NONE},
			.collm_init_query = init_query,
			.collm_comm_query = hk_coll_query,
		},
};

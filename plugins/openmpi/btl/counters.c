/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/counters.c: the counters of hikyaku/counters.h as MPI_T performance variables.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "worker/counter_table.h"

#include <mpi.h>

#include <string.h>

/* Where a variable's value lies: in the engine's counters or in the worker's. */
struct pvar {
	char name[32];
	bool engine;
	size_t offset; /* of the uint64_t in its struct */
};

#define ONE(name, help) +1
enum {
	MOST = 0 HK_ENGINE_COUNTERS(ONE) HK_WORKER_COUNTERS(ONE) +
	       HK_PATHS_MAX * (0 HK_PATH_COUNTERS(ONE))
};
#undef ONE

static struct pvar pvars[MOST];
static size_t count;

static unsigned long long value_of(const struct pvar *v)
{
	uint64_t value = 0;

	if (hk_btl.worker) {
		const void *base = v->engine ? (const void *)hk_engine_counters(
						       hk_worker_engine(hk_btl.worker))
					     : (const void *)hk_worker_counters(hk_btl.worker);

		memcpy(&value, (const char *)base + v->offset, sizeof(value));
	}
	return value;
}

static int read_pvar(const struct mca_base_pvar_t *pvar, void *value, void *object)
{
	unsigned long long n = value_of(pvar->ctx);

	(void)object;
	memcpy(value, &n, sizeof(n));
	return OPAL_SUCCESS;
}

static void add(const char *name, const char *help, bool engine, size_t offset)
{
	struct pvar *v = &pvars[count++];

	snprintf(v->name, sizeof(v->name), "%s", name);
	v->engine = engine;
	v->offset = offset;
	(void)mca_base_component_pvar_register(
		&mca_btl_hikyaku_component.super.btl_version, v->name, help, OPAL_INFO_LVL_5,
		MPI_T_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
		MPI_T_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
		read_pvar, NULL, NULL, v);
}

void hk_btl_counters_register(void)
{
	count = 0;
	for (size_t i = 0; i < hk_engine_counter_count; i++)
		add(hk_engine_counter_table[i].name, hk_engine_counter_table[i].help, true,
		    hk_engine_counter_table[i].offset);
	for (size_t i = 0; i < hk_worker_counter_count; i++)
		add(hk_worker_counter_table[i].name, hk_worker_counter_table[i].help, false,
		    hk_worker_counter_table[i].offset);
	for (unsigned path = 0; path < HK_PATHS_MAX; path++)
		for (size_t i = 0; i < hk_path_counter_count; i++) {
			const struct hk_counter *c = &hk_path_counter_table[i];
			char name[32];

			snprintf(name, sizeof(name), "path%u_%s", path, c->name);
			add(name, c->help, false,
			    offsetof(struct hk_worker_counters, path[path]) + c->offset);
		}
}

void hk_btl_print_counters(void)
{
	for (size_t i = 0; i < count; i++) {
		unsigned long long n = value_of(&pvars[i]);

		if (n)
			opal_output(mca_btl_hikyaku_component.output, "hikyaku: %s %llu",
				    pvars[i].name, n);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/launcher.c: finds the variables of launchers.
 */
#include "base/launcher.h"

#include "base/common.h"

#include <stdlib.h>

static const char *first_set(const char *const *name, size_t n)
{
	const char *value = NULL;

	for (size_t i = 0; !value && i < n; i++)
		value = getenv(name[i]);
	return value;
}

const char *hk_launcher_rank(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
					    "SLURM_PROCID"};

	return first_set(names, HK_ARRAY_LEN(names));
}

const char *hk_launcher_local_rank(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
					    "PMIX_LOCAL_RANK", "SLURM_LOCALID"};

	return first_set(names, HK_ARRAY_LEN(names));
}

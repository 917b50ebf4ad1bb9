/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/launcher.c: finds the variables of launchers, and their processes.
 */
#include "base/launcher.h"

#include "base/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *hk_launcher_local_size(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
					    "SLURM_NTASKS_PER_NODE"};

	return first_set(names, HK_ARRAY_LEN(names));
}

pid_t hk_launcher_process(void)
{
	static const char *const names[] = {"orted\n",   "prted\n",   "mpirun\n",
					    "orterun\n", "prterun\n", "hydra_pmi_proxy\n"};
	char path[40], name[20] = "";
	pid_t parent = getppid();

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)parent);
	FILE *f = fopen(path, "re");
	bool known = f && fgets(name, sizeof(name), f);

	if (f)
		fclose(f);
	for (size_t i = 0; known && i < HK_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return parent;
	return 0;
}

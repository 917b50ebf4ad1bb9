/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/several.c: several programs of this directory in one job, one after the other.
 *
 *     mpi_several MODULE [OPTION VALUE]... [+ MODULE [OPTION VALUE]...]...
 *
 * A start of MPI takes longer than most programs. MODULE is a program as a shared library, which
 * exports main(). It runs as it would in a job of its own, but finds MPI up, and leaves it up if
 * another program follows. A program that fails ends the job, so the last line of PASS tells which
 * programs did not run.
 */
#include "common.h"

#include <dlfcn.h>

typedef int program_main(int argc, char **argv);

/* Runs the program of @argv[0]. Its library stays loaded, since MPI may know its memory. */
static int run(int argc, char **argv)
{
	void *library = dlopen(argv[0], RTLD_NOW | RTLD_LOCAL);
	program_main *start = NULL;

	if (library)
		*(void **)&start = dlsym(library, "main");
	if (!start)
		hkt_fail("%s", dlerror());
	return start(argc, argv);
}

int main(int argc, char **argv)
{
	int first = 1, status = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: mpi_several MODULE [OPTION VALUE]... [+ MODULE ...]...\n");
		return 2;
	}
	while (first < argc && status == 0) {
		int end = first;
		while (end < argc && strcmp(argv[end], "+") != 0)
			end++;
		hkt_more = end < argc;
		argv[end] = NULL;
		status = run(end - first, argv + first);
		first = end + 1;
	}
	if (hkt_more) /* the last one that ran was skipped */
		MPI_Finalize();
	return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/exchange_halo.c: the same exchange with the halo library.
 */
#include "problem.h"
#include "hikyaku/halo.h"

#include <stdio.h>
#include <stdlib.h>

struct exchange {
	hk_halo_csr_plan plan;
	hk_halo halo;
};

static void check(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "spmv: %s\n", hk_halo_error());
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *plan(MPI_Comm comm, int rows, int entries, const long long *column, int *local,
		  int *ghosts)
{
	struct exchange *e = calloc(1, sizeof(*e));

	if (!e)
		MPI_Abort(comm, 1);
	check(hk_halo_csr(comm, rows, entries, column, local, ghosts, &e->plan));
	return e;
}

static void connect_halo(void *arg, double *x)
{
	struct exchange *e = arg;
	void *vector = x;

	check(hk_halo_csr_setup(e->plan, 1, &vector, MPI_DOUBLE, &e->halo));
}

static void start(void *arg)
{
	check(hk_halo_put(((struct exchange *)arg)->halo));
}

static void finish(void *arg)
{
	check(hk_halo_wait(((struct exchange *)arg)->halo));
}

static void close_halo(void *arg)
{
	struct exchange *e = arg;

	check(hk_halo_free(&e->halo));
	hk_halo_csr_free(&e->plan);
	free(e);
}

const struct exchange_kind exchange_halo = {"halo", plan, connect_halo, start, finish, close_halo};

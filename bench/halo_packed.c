/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_packed.c: the exchange of an MPI program, whose packed buffers the halo library moves.
 */
#include "bench/halo_packed.h"

#include "examples/spmv/exchange_mpi.h"
#include "hikyaku/halo.h"

#include <stdio.h>
#include <stdlib.h>

struct packed {
	struct exchange *mpi;
	hk_halo halo;
};

static void check(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "halo_bench: %s\n", hk_halo_error());
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *plan(MPI_Comm comm, int rows, int entries, const long long *column, int *local,
		  int *ghosts)
{
	struct packed *p = calloc(1, sizeof(*p));

	if (!p)
		MPI_Abort(comm, 1);
	p->mpi = exchange_mpi.plan(comm, rows, entries, column, local, ghosts);
	return p;
}

static void connect_packed(void *arg, double *x)
{
	struct packed *p = arg;
	const struct exchange *e = p->mpi;
	struct hk_halo_edge *edge = calloc((size_t)e->size, sizeof(*edge));
	double *in = x + e->rows, *out = e->packed;
	int n = 0;

	if (!edge)
		MPI_Abort(e->comm, 1);
	exchange_mpi.connect(p->mpi, x);
	for (int r = 0; r < e->size; in += e->from[r], out += e->to[r], r++)
		if (e->from[r] || e->to[r])
			edge[n++] = (struct hk_halo_edge){r,          1,  out,        e->to[r],
							  MPI_DOUBLE, in, e->from[r], MPI_DOUBLE};
	check(hk_halo_setup(e->comm, n, edge, &p->halo));
	free(edge);
}

static void start(void *arg)
{
	struct packed *p = arg;

	exchange_mpi_pack(p->mpi);
	check(hk_halo_put(p->halo));
}

static void finish(void *arg)
{
	check(hk_halo_wait(((struct packed *)arg)->halo));
}

static void close_packed(void *arg)
{
	struct packed *p = arg;

	check(hk_halo_free(&p->halo));
	exchange_mpi.close(p->mpi);
	free(p);
}

const struct exchange_kind exchange_packed = {"packed", plan,   connect_packed,
					      start,    finish, close_packed};

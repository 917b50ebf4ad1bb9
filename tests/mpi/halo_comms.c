/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_comms.c: many exchanges on one communicator, and one that outlives it.
 *
 * MPI_Comm_dup() is counted: a communicator is copied once, however many exchanges it has.
 */
#include "common.h"
#include "hikyaku/halo.h"

#define HANDLES 12
#define STEPS   50

static int copies;

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
	copies++;
	return PMPI_Comm_dup(comm, copy);
}

struct one {
	long out, in;
	hk_halo halo;
};

static void open_one(struct one *x, MPI_Comm comm)
{
	int right = (hkt_rank + 1) % hkt_size, left = (hkt_rank + hkt_size - 1) % hkt_size;
	struct hk_halo_edge e[2] = {{right, 0, &x->out, 1, MPI_LONG, NULL, 0, MPI_LONG},
				    {left, 0, NULL, 0, MPI_LONG, &x->in, 1, MPI_LONG}};

	HKT_CHECK(hk_halo_setup(comm, 2, e, &x->halo) == 0, "%s", hk_halo_error());
}

static long value(int rank, int handle, int step)
{
	return 1000000L * rank + 1000L * handle + step;
}

/* Each rank starts its exchanges in another order. None may receive another's message. */
static void exchange_all(struct one *x, int n, int step)
{
	int left = (hkt_rank + hkt_size - 1) % hkt_size;

	for (int k = 0; k < n; k++) {
		int h = (hkt_rank % 2 ? n - 1 - k : k + step) % n;

		x[h].out = value(hkt_rank, h, step);
		HKT_CHECK(hk_halo_put(x[h].halo) == 0, "%s", hk_halo_error());
	}
	for (int h = 0; h < n; h++) {
		HKT_CHECK(hk_halo_wait(x[h].halo) == 0, "%s", hk_halo_error());
		HKT_CHECK(x[h].in == value(left, h, step), "step %d, exchange %d: %ld", step, h,
			  x[h].in);
	}
}

/* A plan of a sparse matrix and its exchanges share the communicator too. Each row needs the first
 * element of the next rank. */
static void with_a_plan(MPI_Comm comm)
{
	long long column = (hkt_rank + 1) % hkt_size;
	double x[2][2] = {{hkt_rank, -1}, {hkt_rank, -1}};
	hk_halo_csr_plan plan;
	hk_halo halo[2];
	int local, ghosts;

	HKT_CHECK(hk_halo_csr(comm, 1, 1, &column, &local, &ghosts, &plan) == 0, "%s",
		  hk_halo_error());
	for (int h = 0; h < 2; h++) {
		void *vector = x[h];

		HKT_CHECK(hk_halo_csr_setup(plan, 1, &vector, MPI_DOUBLE, &halo[h]) == 0, "%s",
			  hk_halo_error());
	}
	hk_halo_csr_free(&plan);
	for (int h = 0; h < 2; h++) {
		HKT_CHECK(hk_halo_put(halo[h]) == 0 && hk_halo_wait(halo[h]) == 0, "%s",
			  hk_halo_error());
		HKT_CHECK(x[h][local] == (double)column, "row %lld, exchange %d: %g", column, h,
			  x[h][local]);
		HKT_CHECK(hk_halo_free(&halo[h]) == 0, "%s", hk_halo_error());
	}
}

int main(int argc, char **argv)
{
	static struct one x[HANDLES], last;
	MPI_Comm comm;

	hkt_init(&argc, &argv, "halo_comms", MPI_THREAD_SINGLE);
	PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int h = 0; h < HANDLES; h++)
		open_one(&x[h], comm);
	HKT_CHECK(copies == 1, "%d copies of one communicator", copies);
	for (int step = 0; step < STEPS; step++)
		exchange_all(x, HANDLES, step);
	for (int h = 0; h < HANDLES; h++)
		HKT_CHECK(hk_halo_free(&x[h].halo) == 0, "%s", hk_halo_error());
	with_a_plan(comm);
	open_one(&last, comm);
	HKT_CHECK(copies == 1, "%d copies of one communicator", copies);
	MPI_Comm_free(&comm);
	for (int step = 0; step < STEPS; step++)
		exchange_all(&last, 1, step);
	HKT_CHECK(hk_halo_free(&last.halo) == 0, "%s", hk_halo_error());
	open_one(&last, MPI_COMM_WORLD); /* not freed: MPI_Finalize() takes it back */
	exchange_all(&last, 1, 0);
	HKT_CHECK(copies == 2, "%d copies of two communicators", copies);
	HKT_CHECK(hk_halo_free(&last.halo) == 0, "%s", hk_halo_error());
	return hkt_finish();
}
